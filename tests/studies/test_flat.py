"""Flat studies: every proposed point is a legal strategy, and every legal strategy can be proposed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign_opt.catalog import resolve_system
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.grid import StrategyGrid
from codesign_opt.strategies.legality import RULES, first_broken
from codesign_opt.studies.flat import COORDINATES, _strategy, evaluate_strategy, strategy_dimensions
from codesign_opt.studies.specification import StudySpecification, study_from_dict
from codesign_opt.systems import System
from codesign_opt.systems.parameters import with_parameters

NETWORK_RULES = ("network_size", "network_fill")
EIGHT_A_BOX = resolve_system("a100-80g")
WITHOUT_TIER2 = with_parameters(EIGHT_A_BOX, {"memory_tier2.capacity": 0.0})

shares = st.floats(0, 1)
points = st.fixed_dictionaries(dict.fromkeys(COORDINATES, shares))


def specification(**strategies: Any) -> StudySpecification:
    """A workload of six blocks on 24 processors: degrees of 2 and 3, of which 3 divides no box of eight."""
    workload = {
        "name": "six", "hidden": 192, "feedforward": 768, "sequence_length": 48, "attention_heads": 12,
        "head_size": 16, "blocks": 6,
    }  # fmt: skip
    data = {"workload": workload, "system": "a100-80g", "processors": 24, "batch": 48, "strategies": strategies}
    return study_from_dict({**data, "method": "flat"}, where="six.toml")


def grids(study: StudySpecification, system: System) -> list[StrategyGrid]:
    return study.strategies.grids(
        study.workload,
        processors=24,
        batch=study.batch,
        datatype=study.datatype,
        tier_sizes=[tier.size for tier in system.network_tiers],
        offload=system.memory_tier2.capacity > 0,
    )


EVERYTHING = specification(uneven_stages=True, all_divisors=True, fused_activation=[True, False])
USUAL = specification()
CASES = [
    (study, system, grids(study, system)) for study in (EVERYTHING, USUAL) for system in (EIGHT_A_BOX, WITHOUT_TIER2)
]


@pytest.mark.parametrize("case", range(len(CASES)))
@given(point=points)
def test_every_point_is_a_legal_strategy(case: int, point: dict[str, float]) -> None:
    study, system, spaces = CASES[case]
    table, placed = _strategy(spaces, system, point)
    assert table.rows == 1
    broken = int(first_broken(Facts(table, [study.workload], [system]))[0])
    if placed:
        assert broken == -1
    else:
        assert RULES[broken].code in NETWORK_RULES


def test_every_layout_and_option_is_reached() -> None:
    limits = {"tp": [1, 2], "pp": [2, 3], "microbatch": [1, 2], "recompute": ["none", "full"]}
    study = specification(**limits, tp_communication="all_reduce", tp_overlap="none")
    spaces = grids(study, EIGHT_A_BOX)
    numbers = np.random.default_rng(5)
    seen = set()
    for _ in range(400):
        point = dict(zip(COORDINATES, numbers.random(len(COORDINATES)).tolist(), strict=True))
        strategy = _strategy(spaces, EIGHT_A_BOX, point)[0].strategy(0)
        seen.add((strategy.tp, strategy.pp, strategy.vpp, strategy.microbatch, strategy.recompute))
    everything = {
        (int(tp), int(pp), int(vpp), int(microbatch), int(recompute))
        for grid in spaces
        for tp, pp, vpp, microbatch in zip(
            *(grid.layouts[name] for name in ("tp", "pp", "vpp", "microbatch")), strict=True
        )
        for recompute in grid.options["recompute"]
    }
    # tp 2, pp 2 and a chunk of 1 or 3 blocks, or pp 3 and 1 or 2, microbatch 2, recompute 2.
    assert len(seen) == len(everything) == 2 * (2 + 2) * 2 * 2


def test_the_ends_of_every_coordinate_count() -> None:
    study, system, spaces = CASES[1]
    lowest = _strategy(spaces, system, dict.fromkeys(COORDINATES, 0.0))[0].strategy(0)
    highest = _strategy(spaces, system, dict.fromkeys(COORDINATES, 1.0))[0].strategy(0)
    assert (lowest.tp, lowest.pp, lowest.dp) == (1, 1, 24)
    assert highest.tp == 12
    assert study.workload.attention_heads == 12
    dimensions = strategy_dimensions()
    assert [dimension.name for dimension in dimensions] == list(COORDINATES)
    assert {(dimension.low, dimension.high) for dimension in dimensions} == {(0.0, 1.0)}


def point_of(**coordinates: float) -> dict[str, float]:
    return {name: coordinates.get(name.removeprefix("strategy."), 0.0) for name in COORDINATES}


def test_a_strategy_that_the_network_refuses_is_infeasible_with_finite_values() -> None:
    # dp 24 on the box of eight.
    outcome = evaluate_strategy(USUAL, point_of())
    assert outcome.state == "infeasible"
    assert outcome.reason.startswith("network is not kept")
    assert outcome.constraints["network"] == 1.0
    assert outcome.values["step_time"] > 0
    assert outcome.candidates == ()


def test_a_feasible_strategy_is_its_only_candidate() -> None:
    outcome = evaluate_strategy(USUAL, point_of(dp_tier=1.0))
    assert (outcome.state, outcome.reason) == ("complete", "")
    assert outcome.constraints["network"] == 0.0
    assert max(outcome.constraints.values()) <= 0
    (candidate,) = outcome.candidates
    assert candidate.on_front
    assert (candidate.strategy["dp"], candidate.strategy["dp_tier"]) == (24, 1)
    assert candidate.metrics["step_time"] == outcome.values["step_time"]


def test_a_constraint_is_judged_as_a_share_of_its_bound(tiny: Callable[..., StudySpecification]) -> None:
    free = {"memory_tier1.bandwidth": 1e12, "network_tiers.0.bandwidth": 1e11}
    whole = evaluate_strategy(tiny(method="flat"), {**free, **point_of()})
    assert whole.state == "complete"
    rate = whole.values["sample_rate"]
    outcome = evaluate_strategy(
        tiny(method="flat", constraints=f"sample_rate >= {2 * rate!r} samples/s"), {**free, **point_of()}
    )
    assert outcome.state == "infeasible"
    (name,) = (name for name in outcome.constraints if name.startswith("sample_rate"))
    assert outcome.constraints[name] == pytest.approx(0.5)
    assert outcome.reason == f"{name} is not kept, by 50.00%"


def test_an_empty_space_is_a_failed_trial(tiny: Callable[..., StudySpecification]) -> None:
    free = {"memory_tier1.bandwidth": 1e12, "network_tiers.0.bandwidth": 1e11}
    outcome = evaluate_strategy(tiny(method="flat", strategies={"tp": 3}), {**free, **point_of()})
    assert outcome.state == "failed"
    assert "no legal strategy" in outcome.reason
