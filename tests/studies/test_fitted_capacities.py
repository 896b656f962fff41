"""Capacities that fit each strategy give the front that trying every capacity gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from codesign_opt import api
from codesign_opt.studies.points import fitted_paths, hardware_dimensions
from codesign_opt.studies.specification import StudySpecification

Tiny = Callable[..., StudySpecification]

TIER1, TIER2 = "memory_tier1.capacity", "memory_tier2.capacity"
CAPACITIES = {
    TIER1: {"choices": ["4 MiB", "5 MiB", "6 MiB", "8 MiB", "10 MiB", "16 MiB", "32 MiB"]},
    TIER2: {"choices": ["0 MiB", "2 MiB", "4 MiB", "8 MiB"]},
}
SYSTEM = {
    "base": "h100-price-study",
    "free": CAPACITIES,
    "price": {
        "processor": "20000 $",
        "memory_tier1": [["4 MiB", "1000 $"], ["8 MiB", "2500 $"], ["32 MiB", "9000 $"]],
        "memory_tier2": [["0 MiB", "0 $"], ["8 MiB", "700 $"]],
    },
}
SPACE = {"tp": [1, 2], "recompute": ["none", "full"], "tp_communication": "all_reduce", "tp_overlap": "none"}
SPACE |= {"tp_tier": 0, "pp_tier": 0, "dp_tier": 0, "dp_overlap": False}


def front(study: StudySpecification, url: str) -> list[tuple[float, ...]]:
    table = api.search(study, db=url, name=f"{study.method} {study.objectives} {study.constraints}"[:200]).front
    return sorted(zip(*(table[objective.metric].tolist() for objective in study.objectives), strict=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"objectives": ["sample_rate", "system_price"]},
        {"objectives": ["sample_rate", "system_price"], "constraints": "system_price <= 180 k$"},
        {"objectives": ["sample_rate", "system_price"], "constraints": "memory_tier2_used <= 1 MiB"},
        {"objectives": "price_performance"},
        {"objectives": ["step_time", "memory_tier1_used"]},
    ],
)
def test_the_front_is_that_of_every_capacity(tiny: Tiny, url: str, changes: dict[str, Any]) -> None:
    every = tiny(system=SYSTEM, strategies=SPACE, method="exact", budget=28, **changes)
    fitted = tiny(system=SYSTEM, strategies=SPACE, method="auto", budget=28, **changes)
    assert [dimension.name for dimension in hardware_dimensions(every)] == [TIER1, TIER2]
    assert hardware_dimensions(fitted) == ()
    expected = front(every, url)
    assert len(expected) > len(every.objectives) - 1
    assert [pytest.approx(row, rel=1e-12) for row in expected] == front(fitted, url)


@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ({}, (TIER1, TIER2)),
        ({"method": "bilevel"}, (TIER1, TIER2)),
        ({"method": "exact"}, ()),
        ({"method": "flat"}, ()),
        ({"processors": {"budget": "1 M$"}}, ()),
        ({"objectives": ["step_time", "maximize memory_tier1_free"]}, ()),
        ({"constraints": "memory_tier1_share <= 0.9"}, ()),
    ],
)
def test_when_capacities_are_fitted(tiny: Tiny, changes: dict[str, Any], paths: tuple[str, ...]) -> None:
    assert fitted_paths(tiny(system=SYSTEM, **changes)) == paths


def test_a_price_that_falls_is_searched(tiny: Tiny) -> None:
    price = {**SYSTEM["price"], "memory_tier1": [["4 MiB", "3000 $"], ["32 MiB", "1000 $"]]}
    assert fitted_paths(tiny(system={**SYSTEM, "price": price})) == (TIER2,)
