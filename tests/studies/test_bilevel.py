"""Bilevel trials: a machine, and all that the exact solver says of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from codesign_opt.analytical.estimate import estimate
from codesign_opt.objectives import METRICS
from codesign_opt.strategies import StrategyTable
from codesign_opt.studies.bilevel import evaluate_machine
from codesign_opt.studies.specification import StudySpecification

Tiny = Callable[..., StudySpecification]

POINT = {"memory_tier1.bandwidth": 1e12, "network_tiers.0.bandwidth": 1e11}
SPACE: dict[str, Any] = {
    "pp": [1, 2], "tp_overlap": "none", "weight_offload": False, "activation_offload": False,
    "optimizer_offload": False, "tp_tier": 0, "pp_tier": 0, "dp_tier": 0,
}  # fmt: skip
TWO = ["step_time", "memory_tier1_used"]


def every_strategy(study: StudySpecification) -> StrategyTable:
    """The whole space, strategy by strategy."""
    table = StrategyTable.empty()
    for grid in study.strategies.grids(
        study.workload, processors=8, batch=8, datatype=study.datatype, tier_sizes=[8, 8], offload=True
    ):
        allowed = np.broadcast_to(grid.network_allows(study.system), grid.shape)
        table = table.concatenated(grid.table(np.flatnonzero(allowed)))
    return table


def dominated(row: Any, rows: Any) -> bool:
    return any((other <= row).all() and (other < row).any() for other in rows)


def test_two_objectives_of_the_strategy_give_a_front(tiny: Tiny) -> None:
    study = tiny(system="h100-price-study", strategies=SPACE, objectives=TWO, top_k=3)
    outcome = evaluate_machine(study, {})
    judged = estimate(study.workload, study.system, every_strategy(study))
    values = np.stack([np.broadcast_to(METRICS[name].evaluate(judged), judged.times.total.shape) for name in TWO], 1)
    front = {tuple(row) for row in values if not dominated(row, values)}
    found = [tuple(candidate.metrics[name] for name in TWO) for candidate in outcome.candidates if candidate.on_front]
    assert len(front) > 3
    assert len(found) == len(set(found))
    assert sorted(found) == [pytest.approx(row) for row in sorted(front)]


def test_its_own_values_are_those_of_the_middle_of_the_front(tiny: Tiny) -> None:
    outcome = evaluate_machine(tiny(system="h100-price-study", strategies=SPACE, objectives=TWO), {})
    front = [tuple(candidate.metrics[name] for name in TWO) for candidate in outcome.candidates if candidate.on_front]
    low, high = np.min(front, axis=0), np.max(front, axis=0)
    sums = [float(((np.array(row) - low) / (high - low)).sum()) for row in front]
    assert tuple(outcome.values[name] for name in TWO) == front[int(np.argmin(sums))]
    assert min(sums) < 1


def test_the_best_strategies_come_best_first_with_every_metric(tiny: Tiny) -> None:
    study = tiny(strategies=SPACE, objectives="step_time", top_k=4)
    outcome = evaluate_machine(study, POINT)
    assert outcome.state == "complete"
    times = [candidate.metrics["step_time"] for candidate in outcome.candidates]
    assert len(times) == 4
    assert times == sorted(times)
    assert outcome.values == {"step_time": times[0]}
    assert [candidate.on_front for candidate in outcome.candidates] == [True, False, False, False]
    for candidate in outcome.candidates:
        assert {"mfu", "memory_tier1_used", "system_price"} <= candidate.metrics.keys()
    assert max(outcome.constraints.values()) <= 0


def test_a_broken_constraint_on_the_system_is_infeasible(tiny: Tiny) -> None:
    # Eight processors of 32,250 to 40,000 $ each.
    outcome = evaluate_machine(tiny(constraints="system_price <= 100000 $"), POINT)
    price = outcome.values["system_price"]
    assert price > 200_000
    assert outcome.state == "infeasible"
    assert outcome.candidates == ()
    (name,) = (name for name in outcome.constraints if name.startswith("system_price"))
    assert outcome.constraints[name] == pytest.approx(price / 100_000 - 1)
    assert name in outcome.reason


def test_where_nothing_fits_the_nearest_miss_is_told(tiny: Tiny) -> None:
    system = {"base": "h100-price-study", "set": {"memory_tier1.capacity": "1 MiB"}}
    outcome = evaluate_machine(tiny(system=system, strategies=SPACE), {})
    assert outcome.state == "infeasible"
    assert outcome.reason.startswith("memory_tier1: the nearest strategy misses it by ")
    study = tiny(system=system, strategies=SPACE)
    needs = estimate(study.workload, study.system, every_strategy(study)).memory.tier1
    missing = float(needs.min()) / 2**20 - 1
    assert outcome.constraints["memory_tier1"] == pytest.approx(missing)
    assert f"{missing:.2%}" in outcome.reason
    assert all(np.isfinite(value) for value in outcome.values.values())
    assert outcome.values["sample_rate"] > 0


@pytest.mark.parametrize("metric", ["step_time", "memory_tier1_used"])
def test_where_a_constraint_excludes_everything_it_is_named(tiny: Tiny, metric: str) -> None:
    bound = {"step_time": "1 ns", "memory_tier1_used": "1 KiB"}[metric]
    outcome = evaluate_machine(tiny(constraints=f"{metric} <= {bound}"), POINT)
    assert outcome.state == "infeasible"
    assert outcome.reason.startswith(f"{metric} <= {bound}: the nearest strategy misses it by")
    assert outcome.constraints[f"{metric} <= {bound}"] > 1


def test_a_budget_that_buys_nothing_is_a_failed_trial(tiny: Tiny) -> None:
    outcome = evaluate_machine(tiny(processors={"budget": "10000 $"}), POINT)
    assert (outcome.state, outcome.reason) == ("failed", "the budget buys no processors")


def test_an_empty_space_is_a_failed_trial(tiny: Tiny) -> None:
    outcome = evaluate_machine(tiny(strategies={"tp": 3}), POINT)
    assert outcome.state == "failed"
    assert "no legal strategy" in outcome.reason
    assert outcome.constraints == {}
