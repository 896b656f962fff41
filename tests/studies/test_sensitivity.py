"""Sensitivity against changed machines evaluated one by one, and against what scaling laws demand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from priced_machines import CAPACITY, MEMORY, NETWORK, PEAK, RANGES, study

from codesign_opt import api
from codesign_opt.analytical import estimate
from codesign_opt.errors import InputError
from codesign_opt.objectives import METRICS, parse_constraints
from codesign_opt.strategies import Strategy, StrategyTable
from codesign_opt.studies.bilevel import evaluate_machine
from codesign_opt.studies.outcome import Candidate
from codesign_opt.studies.points import machine
from codesign_opt.studies.sensitivity import binding_resource, front_binding, front_sensitivity, sensitivity
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.systems import System
from codesign_opt.systems.parameters import parameter, with_parameters
from codesign_opt.tables import Table

POINT = {MEMORY: 1e8, NETWORK: 1e7, PEAK: 2e8}
BOTH = ["step_time", "system_price"]
FEW: dict[str, Any] = {
    "tp": 2, "pp": 1, "vpp": 1, "microbatch": 1, "recompute": "none", "tp_communication": "all_reduce",
    "tp_overlap": "none", "gather_redo": False, "optimizer_sharding": False, "dp_overlap": True, "tp_tier": 0,
    "dp_tier": 1, "pp_tier": 1,
}  # fmt: skip
TWO = {**FEW, "recompute": ["none", "full"]}
SOME = {**TWO, "microbatch": [1, 2, 4]}
EFFICIENCY, USAGE = "network_tiers.0.efficiency", "network_tiers.1.processor_usage"


def best(specification: StudySpecification, point: Any) -> Candidate:
    """The best candidate on the machine of a point."""
    return evaluate_machine(specification, point).candidates[0]


def on(specification: StudySpecification, system: System) -> StudySpecification:
    """The study on one system."""
    return replace(specification, system=system, free=())


def rows_of(table: Table, path: str) -> list[dict[str, Any]]:
    return [row for row in table.to_dicts() if row["parameter"] == path]


@pytest.fixture(scope="module")
def specification() -> StudySpecification:
    return study(objectives=BOTH)


@pytest.fixture(scope="module")
def table(specification: StudySpecification) -> Table:
    return sensitivity(specification, POINT, best(specification, POINT).strategy)


class TestRows:
    """Every parameter, a step down and a step up."""

    def test_what_is_varied(self, table: Table) -> None:
        """Everything that has a speed, a delay or a size, but not memory tier 2, of which there is none."""
        tiers = [f"network_tiers.{tier}" for tier in (0, 1)]
        paths = [PEAK, "vector.float16.peak", CAPACITY, MEMORY]
        paths += [f"{t}.{n}" for t in tiers for n in ("bandwidth", "efficiency", "latency", "processor_usage")]
        assert sorted(table["parameter"]) == sorted(paths * 2)
        assert not table["clipped"].any()
        np.testing.assert_allclose(np.abs(table["change"]), 0.1)

    def test_values_and_units(self, specification: StudySpecification, table: Table) -> None:
        system, _ = machine(specification, POINT)
        for row in table.to_dicts():
            assert row["value"] == pytest.approx(parameter(system, row["parameter"]) * (1 + row["change"]))
        assert {row["unit"] for row in table.to_dicts()} == {"flop/s", "B", "B/s", "s", ""}
        assert (table.units["step_time_best"], table.units["system_price_fixed"]) == ("s", "$")

    def test_fixed_strategy(self, specification: StudySpecification, table: Table) -> None:
        system, _ = machine(specification, POINT)
        strategy = StrategyTable.from_strategies([Strategy(**best(specification, POINT).strategy)])
        base = estimate(specification.workload, system, strategy)
        for row in table.to_dicts():
            changed = estimate(
                specification.workload, with_parameters(system, {row["parameter"]: row["value"]}), strategy
            )
            for name in BOTH:
                value, before = (float(METRICS[name].evaluate(e).max()) for e in (changed, base))
                assert row[f"{name}_fixed"] == pytest.approx(value, rel=1e-12)
                assert row[f"{name}_fixed_change"] == pytest.approx(value / before - 1, abs=1e-12)

    def test_best_strategy(self, specification: StudySpecification, table: Table) -> None:
        system, _ = machine(specification, POINT)
        for row in table.to_dicts()[::4]:
            changed = on(specification, with_parameters(system, {row["parameter"]: row["value"]}))
            outcome = evaluate_machine(changed, {})
            for name in BOTH:
                assert row[f"{name}_best"] == pytest.approx(outcome.values[name], rel=1e-12)
            assert row["step_time_best"] <= row["step_time_fixed"]
            another = outcome.candidates[0].strategy != best(specification, POINT).strategy
            assert row["other_strategy"] == another

    def test_largest_effect_first(self, table: Table) -> None:
        changes = np.abs([table[f"{name}_{which}_change"] for name in BOTH for which in ("fixed", "best")])
        effect = changes.max(axis=0)
        pairs = effect.reshape(-1, 2).max(axis=1)
        assert (table["parameter"][::2] == table["parameter"][1::2]).all()
        assert (np.diff(pairs) <= 0).all()
        assert pairs[0] > 0.02


def test_elasticities_add_up_to_one() -> None:
    """All speeds twice as high and all delays half as long make every step twice as fast."""
    one = study(objectives="step_time", strategies={**FEW, "recompute": "full", "optimizer_sharding": True})
    table = sensitivity(one, POINT, best(one, POINT).strategy, step=1e-4)
    slopes = table["step_time_fixed_change"] / table["change"]
    total = sum(
        abs(slope) / 2
        for path, slope in zip(table["parameter"], slopes, strict=True)
        if path.endswith(("peak", "bandwidth", "latency"))
    )
    assert total == pytest.approx(1.0, abs=1e-3)


def test_where_a_parameter_may_not_go() -> None:
    specification = study(objectives="step_time", strategies=FEW)
    system = with_parameters(specification.system, {EFFICIENCY: 0.95, "network_tiers.1.efficiency": 1.0, USAGE: 0.95})
    system = with_parameters(system, {"network_tiers.1.latency": 0.0})
    fast = on(specification, system)
    table = sensitivity(fast, {}, best(fast, {}).strategy)
    assert [(row["value"], row["clipped"]) for row in rows_of(table, EFFICIENCY)] == [(0.855, False), (1.0, True)]
    assert rows_of(table, EFFICIENCY)[1]["change"] == pytest.approx(1 / 0.95 - 1)
    assert [row["change"] < 0 for row in rows_of(table, "network_tiers.1.efficiency")] == [True]
    assert [row["clipped"] for row in rows_of(table, USAGE)] == [False, True]
    assert 0.95 < rows_of(table, USAGE)[1]["value"] < 1
    assert rows_of(table, "network_tiers.1.latency") == []


class TestMemory:
    """Where the capacity just holds the strategy."""

    def test_the_strategy_does_not_fit_into_less_than_the_fitted_capacity(self) -> None:
        fitted = study({CAPACITY: {"low": "100 kB", "high": "1 MB"}}, objectives="step_time", strategies=SOME)
        chosen = best(fitted, {})
        need = chosen.metrics["memory_tier1_used"]
        table = sensitivity(fitted, {}, chosen.strategy)
        down, up = table.row(0), table.row(1)
        assert [row["value"] for row in rows_of(table, CAPACITY)] == pytest.approx([0.9 * need, 1.1 * need])
        assert (down["parameter"], down["fixed"], down["change"]) == (CAPACITY, "memory_tier1", pytest.approx(-0.1))
        assert np.isnan([down["step_time_fixed"], down["step_time_fixed_change"]]).all()
        assert (down["best"], down["other_strategy"]) == ("", True)
        assert down["step_time_best_change"] > 0
        assert up["fixed"] == up["best"] == ""
        assert binding_resource(fitted, {}, chosen.strategy).memory_tier1_binds

    def test_no_strategy_fits(self) -> None:
        specification = study({}, objectives="step_time", strategies=FEW)
        only = best(specification, {})
        tight = on(specification, with_parameters(specification.system, {CAPACITY: only.metrics["memory_tier1_used"]}))
        down = sensitivity(tight, {}, only.strategy).row(0)
        assert (down["fixed"], down["best"], down["other_strategy"]) == ("memory_tier1", "memory_tier1", False)
        assert np.isnan(down["step_time_best_change"])


def test_a_constraint_on_the_system_is_broken_by_a_dearer_part() -> None:
    specification = study(objectives=BOTH, strategies=FEW)
    price = best(specification, POINT).metrics["system_price"]
    (limit,) = parse_constraints([f"system_price <= {price} $"], where="test")
    limited = replace(specification, constraints=(limit,))
    table = sensitivity(limited, POINT, best(limited, POINT).strategy)
    broken = [row for row in table.to_dicts() if row["fixed"]]
    assert {(row["parameter"], row["change"] > 0) for row in broken} == {(MEMORY, True), (NETWORK, True), (PEAK, True)}
    assert {row["fixed"] for row in broken} == {row["best"] for row in broken} == {str(limit)}


def test_the_best_strategy_is_no_worse_in_other_objectives() -> None:
    both = study(objectives=["step_time", "memory_tier1_used"], strategies=TWO)
    fastest, leanest = (f(evaluate_machine(both, POINT).candidates, key=_memory) for f in (max, min))
    assert _memory(leanest) < _memory(fastest)
    table = sensitivity(both, POINT, leanest.strategy)
    assert (table["memory_tier1_used_best"] <= _memory(leanest)).all()
    assert (table["step_time_best"] > fastest.metrics["step_time"] * 0.9).all()


def _memory(candidate: Candidate) -> float:
    return candidate.metrics["memory_tier1_used"]


class TestBindingResource:
    """The parameter with the largest elasticity."""

    @pytest.mark.parametrize(
        ("slow", "path", "part"),
        [
            ({PEAK: 1e6}, PEAK, "backward"),
            ({MEMORY: 1e5}, MEMORY, "backward"),
            ({"network_tiers.0.bandwidth": 1e3, NETWORK: 1e3}, NETWORK, ""),
        ],
    )
    def test_one_slow_part(
        self, specification: StudySpecification, slow: dict[str, float], path: str, part: str
    ) -> None:
        machine_with_it = on(specification, with_parameters(specification.system, slow))
        binding = binding_resource(machine_with_it, {}, best(machine_with_it, {}).strategy)
        assert binding.parameter == path
        assert -1.0 <= binding.elasticity < -0.9
        assert binding.largest_part == part or part == ""
        assert 0 < binding.share < 1
        assert not binding.memory_tier1_binds

    def test_share_of_the_largest_part(self, specification: StudySpecification) -> None:
        chosen = best(specification, POINT)
        binding = binding_resource(specification, POINT, chosen.strategy)
        longest = chosen.metrics[f"{binding.largest_part}_time"]
        assert binding.share == pytest.approx(longest / chosen.metrics["step_time"])
        assert longest == max(
            chosen.metrics[f"{name}_time"] for name in ("forward", "backward", "optimizer", "recompute", "bubble")
        )


class TestStudy:
    """Of a stored study: the first members of its front."""

    def test_front(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        stored = api.search(study(RANGES, objectives=BOTH, budget=3), db=f"sqlite:///{tmp_path / 'studies.db'}")
        asked = []

        def one_row(specification: StudySpecification, point: Any, words: Any, *, step: float) -> Table:
            asked.append((point, words, step))
            return Table({"parameter": [MEMORY], "step_time_best": [1.0]})

        monkeypatch.setattr("codesign_opt.studies.sensitivity.sensitivity", one_row)
        table = front_sensitivity(stored, top=2, step=0.2)
        binding = front_binding(stored, top=2)
        trials = stored.front["trial"][:2].tolist()
        assert table["trial"].tolist() == binding["trial"].tolist() == trials
        assert table.units["step_time_best"] == "s"
        assert table["place"].tolist() == [0, 1]
        for place, trial in enumerate(trials):
            (point, words, step), row = asked[place], binding.to_dicts()[place]
            candidate = next(c for c in stored.stored_candidates if c.trial == trial)
            assert (point, words, step) == (stored.evaluations[trial].point, candidate.strategy, 0.2)
            expected = binding_resource(stored.specification, point, candidate.strategy)
            assert row == {
                "place": place,
                "trial": trial,
                **{name: getattr(expected, name) for name in expected.__slots__},
            }

    def test_without_a_feasible_trial(self, tmp_path: Path) -> None:
        nothing = study(objectives=BOTH, budget=1, constraints=["step_time <= 1 us"])
        stored = api.search(nothing, db=f"sqlite:///{tmp_path / 'studies.db'}")
        with pytest.raises(InputError, match="no feasible trial"):
            front_sensitivity(stored)


class TestRefused:
    """What cannot be varied is refused in words."""

    @pytest.mark.parametrize("step", [0.0, 1.0, -0.1])
    def test_steps(self, specification: StudySpecification, step: float) -> None:
        with pytest.raises(InputError, match="between 0 and 1"):
            sensitivity(specification, POINT, best(specification, POINT).strategy, step=step)

    def test_a_strategy_of_another_machine(self, specification: StudySpecification) -> None:
        smaller = study(processors=2, objectives=BOTH)
        with pytest.raises(InputError, match="is for 2 processors, the machine of the point has 4"):
            sensitivity(specification, POINT, best(smaller, POINT).strategy)

    def test_a_strategy_that_does_not_fit(self, specification: StudySpecification) -> None:
        small = on(specification, with_parameters(specification.system, {CAPACITY: 1e3}))
        with pytest.raises(InputError, match="does not run on the machine of the point: memory_tier1"):
            binding_resource(small, {}, best(specification, POINT).strategy)
