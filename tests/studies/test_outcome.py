"""What is kept of an estimate: values, violations and candidates."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from codesign_opt.analytical.estimate import Estimate, estimate
from codesign_opt.objectives import METRICS, parse_constraints, parse_objectives
from codesign_opt.strategies import StrategyTable
from codesign_opt.studies.outcome import candidates, objective_values, violations
from codesign_opt.studies.specification import StudySpecification


@pytest.fixture
def both(tiny: Callable[..., StudySpecification]) -> tuple[StrategyTable, Estimate]:
    """Two strategies, the second with twice the microbatch of the first."""
    study = tiny(strategies={"tp": 2, "pp": 2, "microbatch": [1, 2], "recompute": "none"})
    (grid, *_) = study.strategies.grids(
        study.workload, processors=8, batch=8, datatype=study.datatype, tier_sizes=[8, 64], offload=True
    )
    first, second = (int(np.ravel_multi_index((0,) * 7 + (layout,), grid.shape)) for layout in range(2))
    table = grid.table(np.array([first, second]))
    return table, estimate(study.workload, study.system, table)


def test_values_are_in_the_metrics_own_units_and_direction(both: tuple[StrategyTable, Estimate]) -> None:
    table, estimated = both
    objectives = parse_objectives(["sample_rate", "min step_time"], where="test")
    for row in range(2):
        values = objective_values(estimated, objectives, row)
        assert values["step_time"] == estimated.times.total[row]
        assert values["sample_rate"] == pytest.approx(table["batch"][row] / estimated.times.total[row])
    assert objective_values(estimated, objectives, 0) != objective_values(estimated, objectives, 1)


def test_violations_are_shares_of_the_bound(both: tuple[StrategyTable, Estimate]) -> None:
    _, estimated = both
    need = float(estimated.memory.tier1[1])
    constraints = parse_constraints([f"memory_tier1_used <= {need / 2!r} B", "mfu >= 0.0001"], where="test")
    shares = violations(estimated, constraints, 1)
    assert list(shares) == ["memory_tier1", "memory_tier2", *map(str, constraints)]
    assert shares["memory_tier1"] == pytest.approx(need / estimated.system.memory_tier1.capacity - 1)
    assert shares["memory_tier2"] == -1.0
    assert shares[str(constraints[0])] == pytest.approx(1.0)
    assert shares[str(constraints[1])] < 0


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_only_finite_numbers_leave(
    both: tuple[StrategyTable, Estimate], monkeypatch: pytest.MonkeyPatch, number: float
) -> None:
    broken = SimpleNamespace(evaluate=lambda _: np.array(number))
    monkeypatch.setattr("codesign_opt.studies.outcome.METRICS", {**METRICS, "step_time": broken})
    with pytest.raises(ValueError, match="step_time is "):
        objective_values(both[1], parse_objectives(["step_time"], where="test"), 0)
    with pytest.raises(ValueError, match="step_time <= 1 s is missed by "):
        violations(both[1], parse_constraints(["step_time <= 1 s"], where="test"), 0)


def test_candidates_hold_words_and_plain_numbers(both: tuple[StrategyTable, Estimate]) -> None:
    table, estimated = both
    found = candidates(table, np.array([True, False]), estimated)
    assert [candidate.on_front for candidate in found] == [True, False]
    assert [candidate.strategy["microbatch"] for candidate in found] == [1, 2]
    for row, candidate in enumerate(found):
        assert candidate.strategy["recompute"] == "none"
        assert {type(value) for value in candidate.strategy.values()} == {int, bool, str}
        assert {type(value) for value in candidate.metrics.values()} <= {int, float}
        assert candidate.metrics["step_time"] == estimated.times.total[row]
