"""A small machine and a small workload whose numbers can be worked out by hand."""

from __future__ import annotations

import pytest

from codesign_opt.systems import CollectiveCost, EfficiencyCurve, Engine, MemoryTier, NetworkTier, System
from codesign_opt.workloads import Workload

ALWAYS = EfficiencyCurve((0.0,), (1.0,))
DATATYPES = ("float8", "float16", "bfloat16")


def network(size: int, *, must_be_filled: bool) -> NetworkTier:
    ring = CollectiveCost(scalar=1.0, offset=-1.0)
    return NetworkTier(
        bandwidth=1e9, efficiency=1.0, size=size, must_be_filled=must_be_filled, latency=1e-5, processor_usage=0.1,
        p2p=CollectiveCost(scalar=1.0, offset=0.0), reduce_scatter=ring, all_gather=ring,
        all_reduce=CollectiveCost(scalar=2.0, offset=-1.0),
    )  # fmt: skip


@pytest.fixture(scope="session")
def system() -> System:
    """Eight processors on a tier that must be filled, 1,000 on the next; no float32."""
    engines = {word: Engine(peak=1e12, efficiency=ALWAYS) for word in DATATYPES}
    return System(
        name="box",
        matrix=engines,
        vector=engines,
        memory_tier1=MemoryTier(capacity=1e9, bandwidth=1e12, efficiency=ALWAYS),
        memory_tier2=MemoryTier(capacity=1e10, bandwidth=1e10, efficiency=ALWAYS),
        roofline=False,
        network_tiers=(network(8, must_be_filled=True), network(1000, must_be_filled=False)),
    )


@pytest.fixture(scope="session")
def workload() -> Workload:
    """Twelve blocks of width 24 with twelve heads."""
    return Workload(
        name="twelve", hidden=24, feedforward=96, sequence_length=10, attention_heads=12, head_size=2, blocks=12
    )
