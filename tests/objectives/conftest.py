"""A machine and an estimate with numbers that can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from codesign_opt.strategies import Datatype, ProductPrecision
from codesign_opt.strategies.table import OPTION_CODES
from codesign_opt.systems import EfficiencyCurve, Engine, MemoryTier, Power, Price, PriceCurve, System
from codesign_opt.workloads import Workload

FULL = EfficiencyCurve((0.0,), (1.0,))

WORKLOAD = Workload(
    name="small", hidden=8, feedforward=32, sequence_length=100, attention_heads=2, head_size=4, blocks=3
)

PRICE = Price(
    processor=20_000.0,
    memory_tier1=PriceCurve((0.0, 100.0), (0.0, 10_000.0)),
    memory_tier2=PriceCurve((0.0, 1000.0), (0.0, 2_000.0)),
)
"""With 80 B of tier 1 and 500 B of tier 2: 20,000 + 8,000 + 1,000 = 29,000 $."""

POWER = Power(busy=700.0, idle=100.0)

TIMES = {
    "forward": 1.0,
    "backward": 2.0,
    "optimizer": 0.5,
    "recompute": 0.25,
    "recompute_communication": 0.125,
    "tp_communication": 0.375,
    "cp_communication": 0.0,
    "ep_communication": 0.0,
    "pp_communication": 0.25,
    "dp_communication": 0.5,
    "forward_offload": 0.75,
    "backward_offload": 1.25,
    "bubble": 1.0,
}
"""Seconds; they add up to 8."""


@pytest.fixture
def make_system() -> Callable[..., System]:
    """A system of two engines; without price, power or second memory tier where asked."""
    return _system


@pytest.fixture
def make_estimate() -> Callable[..., Any]:
    """Four processors, sixteen sequences in eight seconds, unless `times` or columns say otherwise."""
    return _estimate


def _system(*, price: Price | None = PRICE, power: Power | None = POWER, tier2_capacity: float = 500.0) -> System:
    engines = {"float16": Engine(peak=1e6, efficiency=FULL), "float32": Engine(peak=2.5e5, efficiency=FULL)}
    return System(
        name="desk",
        matrix=engines,
        vector=engines,
        memory_tier1=MemoryTier(capacity=80.0, bandwidth=1e3, efficiency=FULL),
        memory_tier2=MemoryTier(capacity=tier2_capacity, bandwidth=1e2, efficiency=FULL),
        roofline=True,
        network_tiers=(),
        price=price,
        power=power,
    )


def _estimate(*, machine: System | None = None, times: dict[str, Any] | None = None, **columns: Any) -> Any:
    seconds = {name: np.asarray(value, dtype=float) for name, value in {**TIMES, **(times or {})}.items()}
    seconds.setdefault("total", np.asarray(sum(seconds.values())))
    strategies = {
        "processors": 4,
        "batch": 16,
        "datatype": OPTION_CODES[Datatype.FLOAT16],
        "training": True,
        "tp": 1,
        "cp": 1,
        "pp": 1,
        "product_precision": OPTION_CODES[ProductPrecision.SAME],
        **columns,
    }
    memory = {
        "tier1": 64.0,
        "tier2": 125.0,
        "weight": 10.0,
        "activation": 20.0,
        "weight_gradient": 11.0,
        "activation_gradient": 3.0,
        "optimizer": 20.0,
        "overhead": 0.0,
    }
    return SimpleNamespace(
        workload=WORKLOAD,
        system=machine or _system(),
        strategies={name: np.asarray(value) for name, value in strategies.items()},
        times=SimpleNamespace(**seconds),
        memory_capacity=np.asarray((machine or _system()).memory_tier1.capacity),
        offload_capacity=np.asarray((machine or _system()).memory_tier2.capacity),
        memory=SimpleNamespace(**{name: np.asarray(value) for name, value in memory.items()}),
    )
