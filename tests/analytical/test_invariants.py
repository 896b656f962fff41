"""What must hold for the corrected model whatever the workload, system and strategy; the errata broke most of it."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

import numpy as np
import pytest
from analytical_cases import Cases, outcomes, random_cases, random_curve, random_system
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from codesign_opt.analytical import NONE
from codesign_opt.analytical.hardware import hardware_columns
from codesign_opt.strategies import Datatype, Recompute, TpOverlap
from codesign_opt.strategies.table import OPTION_CODES
from codesign_opt.systems import NetworkTier, System

examples = settings(max_examples=20)
"""Of up to fifty cases each."""

RING, PIPE, NO_OVERLAP = (OPTION_CODES[word] for word in (TpOverlap.RING, TpOverlap.PIPE, TpOverlap.NONE))

SPEEDS = (
    "matrix",
    "vector",
    "memory_tier1",
    "memory_tier2",
    "latency",
    "processor_usage",
    "tier 0",
    "tier 1",
    "tier 2",
)
"""What can be faster: an engine, a memory tier, all latencies, all processor usages, one network tier."""


def assert_never_larger(smaller: NDArray[Any], larger: NDArray[Any]) -> None:
    """Every entry of the first is at most that of the second, rounding aside."""
    worse = smaller > larger * (1 + 1e-9)
    assert not worse.any(), f"{smaller[worse]} > {larger[worse]}"


def faster(system: System, speed: str, factor: float) -> System:
    """The system with one of `SPEEDS` better by a factor."""
    if speed in ("matrix", "vector"):
        engines = getattr(system, speed).items()
        return dataclasses.replace(
            system,
            **{speed: {word: dataclasses.replace(engine, peak=engine.peak * factor) for word, engine in engines}},
        )
    if speed.startswith("memory"):
        memory = getattr(system, speed)
        return dataclasses.replace(system, **{speed: dataclasses.replace(memory, bandwidth=memory.bandwidth * factor)})
    tiers = [
        faster_tier(tier, speed, factor) if speed in ("latency", "processor_usage", f"tier {index}") else tier
        for index, tier in enumerate(system.network_tiers)
    ]
    return dataclasses.replace(system, network_tiers=tuple(tiers))


def faster_tier(tier: NetworkTier, speed: str, factor: float) -> NetworkTier:
    """The network tier with latency, processor usage or bandwidth better by a factor."""
    if speed in ("latency", "processor_usage"):
        return dataclasses.replace(tier, **{speed: getattr(tier, speed) / factor})
    return dataclasses.replace(tier, bandwidth=tier.bandwidth * factor)


def with_free_tiles(system: System) -> System:
    """The system without latency and without processor usage of transfers."""
    free = [dataclasses.replace(tier, latency=0.0, processor_usage=0.0) for tier in system.network_tiers]
    return dataclasses.replace(system, network_tiers=tuple(free))


def can_offload(cases: Cases) -> NDArray[Any]:
    """Rows with at least three blocks a stage."""
    return np.ceil([shape.blocks for shape in cases.workloads] / cases.table["pp"]) > 2


@pytest.mark.parametrize("speed", SPEEDS)
@examples
@given(cases=random_cases(), factor=st.floats(1.01, 10))
def test_a_faster_part_never_makes_a_step_slower(speed: str, cases: Cases, factor: float) -> None:
    improved, original = outcomes(cases.on(lambda system: faster(system, speed, factor)), cases)
    assert_never_larger(improved.total, original.total)


@examples
@given(cases=random_cases(training=True, least_dp=2))
def test_overlapped_gradient_exchange_is_never_slower(cases: Cases) -> None:
    overlapped, serial = outcomes(cases.having(dp_overlap=True), cases.having(dp_overlap=False))
    assert_never_larger(overlapped.total, serial.total)
    assert_never_larger(overlapped.times["dp_communication"], serial.times["dp_communication"])


@examples
@given(cases=random_cases(least_tp=2))
def test_ring_is_never_slower_than_pipe(cases: Cases) -> None:
    ring, pipe = outcomes(cases.having(tp_overlap=RING), cases.having(tp_overlap=PIPE))
    assert_never_larger(ring.total, pipe.total)


@examples
@given(cases=random_cases(least_tp=2))
def test_ring_is_never_slower_than_no_overlap_where_tiles_are_free(cases: Cases) -> None:
    # A tile costs its latency and its share of compute.
    cases = cases.on(with_free_tiles)
    ring, none = outcomes(cases.having(tp_overlap=RING), cases.having(tp_overlap=NO_OVERLAP))
    assert_never_larger(ring.total, none.total)


@examples
@given(seed=st.integers(0, 2**32 - 1), sizes=st.lists(st.floats(1, 1e14), min_size=2, max_size=6))
def test_a_larger_operation_is_never_faster(seed: int, sizes: list[float]) -> None:
    random = Random(seed)
    system, curve = random_system(random), random_curve(random, rising=False)
    engines = {"float16": dataclasses.replace(system.matrix["float16"], efficiency=curve)}
    memory = dataclasses.replace(system.memory_tier1, efficiency=curve)
    system = dataclasses.replace(system, matrix=engines, vector=engines, memory_tier1=memory, memory_tier2=memory)
    datatype = np.array([OPTION_CODES[Datatype.FLOAT16]])
    hardware = hardware_columns([system], np.array([0]), datatype, NONE)
    rising = np.sort(np.array([*sizes, *curve.thresholds]))
    for time in (hardware.matrix_time, hardware.vector_time, hardware.memory_time, hardware.offload_time):
        assert_never_larger(time(rising)[:-1], time(rising)[1:])


@examples
@given(cases=random_cases(training=True, least_dp=2))
def test_optimizer_sharding_never_needs_more_memory(cases: Cases) -> None:
    sharded, replicated = outcomes(cases.having(optimizer_sharding=True), cases.having(optimizer_sharding=False))
    assert_never_larger(sharded.tier1, replicated.tier1)


@pytest.mark.parametrize("what", ["weight_offload", "activation_offload", "optimizer_offload"])
@examples
@given(cases=random_cases(training=True))
def test_offload_in_training_needs_no_more_memory_and_saves_no_time(what: str, cases: Cases) -> None:
    on, off = outcomes(cases.having(**{what: can_offload(cases)}), cases.having(**{what: False}))
    assert_never_larger(on.tier1, off.tier1)
    assert_never_larger(off.total, on.total)


@examples
@given(cases=random_cases(training=True, offload=False))
def test_recompute_is_never_faster(cases: Cases) -> None:
    none, selective, full = outcomes(
        *(
            cases.having(recompute=OPTION_CODES[mode], gather_redo=False)
            for mode in (Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL)
        )
    )
    assert_never_larger(none.total, selective.total)
    assert_never_larger(selective.total, full.total)


@examples
@given(cases=random_cases(least_tp=2))
def test_overlap_does_not_change_memory(cases: Cases) -> None:
    ring, pipe, none = outcomes(*(cases.having(tp_overlap=overlap) for overlap in (RING, PIPE, NO_OVERLAP)))
    np.testing.assert_allclose(ring.tier1, none.tier1, rtol=1e-12)
    np.testing.assert_allclose(pipe.tier1, none.tier1, rtol=1e-12)


@examples
@given(cases=random_cases())
def test_no_part_of_a_step_is_negative_and_together_they_make_the_total(cases: Cases) -> None:
    [found] = outcomes(cases)
    parts = [values for name, values in found.times.items() if name != "total"]
    assert all((part >= 0).all() for part in parts)
    np.testing.assert_allclose(np.sum(parts, axis=0), found.total, rtol=1e-12)


@examples
@given(cases=random_cases(least_pp=2, full_rounds=True))
def test_interleaving_never_enlarges_the_bubble_of_full_rounds(cases: Cases) -> None:
    interleaved, plain = outcomes(cases, cases.having(vpp=1))
    assert_never_larger(interleaved.times["bubble"], plain.times["bubble"])


@examples
@given(cases=random_cases(), seed=st.integers(0, 2**32 - 1))
def test_permuted_strategies_have_permuted_results(cases: Cases, seed: int) -> None:
    order = Random(seed).sample(range(cases.table.rows), cases.table.rows)
    [original] = outcomes(cases)
    [permuted] = outcomes(cases.take(order))
    for name, values in original.times.items():
        np.testing.assert_array_equal(permuted.times[name], values[order])
    np.testing.assert_array_equal(permuted.tier1, original.tier1[order])
