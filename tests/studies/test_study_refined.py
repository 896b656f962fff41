"""What a stored study says of simulated candidates: beside the estimates, and ranked again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from codesign_opt.db import CandidateRecord, EvaluationRecord, RefinementRecord, StudyRecord
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.studies.study import Study

NETWORK = "network_tiers.0.bandwidth"
RECORD = StudyRecord(
    name="tiny", specification="{}", specification_hash="9f", versions={}, seed=1, created=datetime.now(UTC)
)

Make = Callable[..., Study]


def trial(number: int, rate: float | None, state: Any = "complete") -> EvaluationRecord:
    point = {NETWORK: 1e10 * (number + 1), "memory_tier1.bandwidth": 1e12}
    return EvaluationRecord(number=number, key=str(number), point=point, state=state, values={"sample_rate": rate})


def candidate(number: int, rank: int, rate: float, price: float, **fields: Any) -> CandidateRecord:
    metrics = {"step_time": 8 / rate, "system_price": price, "sample_rate": rate, "mfu": 0.5}
    fields = {"on_front": True, "strategy": {"tp": 2}, "id": 10 * number + rank + 1} | fields
    return CandidateRecord(trial=number, rank=rank, metrics=metrics, **fields)


def refinement(of: CandidateRecord, rate: float, because: str = "") -> RefinementRecord:
    assert of.id is not None
    metrics = {**of.metrics, "sample_rate": rate, "step_time": 8 / rate}
    return RefinementRecord(
        candidate_id=of.id,
        simulator_version="1",
        metrics=metrics,
        notes={"because": because},
        created=datetime.now(UTC),
    )


@pytest.fixture
def make(tiny: Callable[..., StudySpecification]) -> Make:
    """Makes a study of candidates; `simulated` maps the position of a candidate to its simulated sample rate."""

    def study(candidates: list[CandidateRecord], simulated: Mapping[int, float], **changes: Any) -> Study:
        records = [refinement(candidates[place], rate, f"number {place}") for place, rate in simulated.items()]
        numbers = sorted({of.trial or 0 for of in candidates})
        return Study(
            RECORD,
            tiny(**changes),
            [trial(number, 1.0) for number in numbers],
            candidates,
            {record.candidate_id: record for record in records},
        )

    return study


FOUR = [candidate(0, 0, 10.0, 5.0), candidate(0, 1, 9.0, 4.0), candidate(1, 0, 12.0, 6.0), candidate(2, 0, 9.0, 4.0)]


def test_the_best_by_simulation_comes_first_with_its_place_by_the_estimates(make: Make) -> None:
    table = make(FOUR, {0: 10.5, 1: 9.5, 2: 9.0, 3: 9.9}).refined
    assert list(zip(table["trial"].tolist(), table["rank"].tolist(), strict=True)) == [(0, 0), (2, 0), (0, 1), (1, 0)]
    # 12, 10, and 9 twice: equal estimates share a place.
    assert table["estimated_place"].tolist() == [2, 3, 3, 1]
    assert table["sample_rate"].tolist() == [10.0, 9.0, 9.0, 12.0]
    assert table["sample_rate_simulated"].tolist() == [10.5, 9.9, 9.5, 9.0]
    np.testing.assert_allclose(table["sample_rate_change"], [0.05, 0.1, 0.5 / 9, -0.25])
    np.testing.assert_allclose(table["step_time_simulated"], [8 / 10.5, 8 / 9.9, 8 / 9.5, 8 / 9.0])
    assert table["system_price_change"].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert table["because"].tolist() == ["number 0", "number 3", "number 1", "number 2"]
    assert table[NETWORK].tolist() == [1e10, 3e10, 1e10, 2e10]
    assert table["tp"].tolist() == [2, 2, 2, 2]


def test_columns_and_units(make: Make) -> None:
    table = make(FOUR, {0: 10.5}).refined
    assert list(table)[:3] == ["trial", "rank", "estimated_place"]
    assert [name for name in table if name.startswith("step_time")] == [
        "step_time", "step_time_simulated", "step_time_change",
    ]  # fmt: skip
    assert "mfu" not in table
    assert table.units["sample_rate_simulated"] == table.units["sample_rate"] == "samples/s"
    assert table.units["system_price_simulated"] == "$"
    assert table.units["sample_rate_change"] == ""


def test_what_is_minimised_is_ranked_upwards(make: Make) -> None:
    table = make(FOUR, {0: 10.5, 1: 9.5, 2: 9.0}, objectives="step_time").refined
    assert table["step_time_simulated"].tolist() == sorted(table["step_time_simulated"].tolist())
    assert table["trial"].tolist() == [0, 0, 1]
    assert table["estimated_place"].tolist() == [2, 3, 1]


def test_without_simulations_there_are_no_rows_and_no_simulated_columns_elsewhere(make: Make) -> None:
    study = make(FOUR, {})
    assert study.refined.rows == 0
    simulated = make(FOUR, {0: 1.0}).refined
    assert set(study.refined) == set(simulated) - {"tp"}
    assert study.refined.units["step_time_simulated"] == "s"
    assert "sample_rate_simulated" not in study.candidates
    assert "sample_rate_simulated" not in study.front


def test_simulated_values_stand_beside_the_estimates_and_gaps_are_gaps(make: Make) -> None:
    study = make(FOUR, {0: 10.5, 2: 9.0})
    table = study.candidates
    assert list(table).index("sample_rate_simulated") == list(table).index("sample_rate") + 1
    np.testing.assert_array_equal(table["sample_rate_simulated"], [10.5, np.nan, 9.0, np.nan])
    # Trial 0 twice and trial 1 are on the front; trial 2 ties with the second of trial 0.
    front = study.front
    assert front["trial"].tolist() == [1, 0, 0]
    assert front["ties"].tolist() == [0, 0, 1]
    np.testing.assert_array_equal(front["sample_rate_simulated"], [9.0, 10.5, np.nan])
    np.testing.assert_array_equal(front["system_price_simulated"], [6.0, 5.0, np.nan])


def test_the_candidates_of_the_front_are_its_rows(make: Make) -> None:
    study = make([*FOUR, candidate(3, 0, 20.0, 1.0, on_front=False), candidate(4, 0, 8.0, 9.0)], {})
    places = [(of.trial, of.rank) for of in study.front_candidates]
    assert places == [(1, 0), (0, 0), (0, 1)]
    assert [place[0] for place in places] == study.front["trial"].tolist()
    assert [of.metrics["sample_rate"] for of in study.front_candidates] == study.front["sample_rate"].tolist()
    assert make([], {}).front_candidates == []


def test_a_change_from_nothing(make: Make) -> None:
    nothing = [candidate(0, 0, 10.0, 0.0), candidate(1, 0, 9.0, 0.0)]
    study = make(nothing, {0: 10.0, 1: 9.0})
    moved = study.refinements[11]
    changed = RefinementRecord(
        candidate_id=11, simulator_version="1", metrics={**moved.metrics, "system_price": 2.0}, notes=moved.notes,
        created=moved.created,
    )  # fmt: skip
    again = Study(RECORD, study.specification, study.evaluations, nothing, {**study.refinements, 11: changed})
    assert again.refined["system_price_change"].tolist() == [0.0, np.inf]


def test_the_best_point_is_that_of_the_best_feasible_trial(tiny: Callable[..., StudySpecification]) -> None:
    trials = [trial(0, 5.0), trial(1, 9.0, "infeasible"), trial(2, 7.0), trial(3, None), trial(4, 7.0)]
    assert Study(RECORD, tiny(), trials, []).best_point == trials[2].point
    assert Study(RECORD, tiny(), trials[1:2], []).best_point is None
    assert Study(RECORD, tiny(), [], []).best_point is None


def test_the_best_point_of_what_is_minimised(tiny: Callable[..., StudySpecification]) -> None:
    values = {"step_time": 2.0}, {"step_time": 1.0}
    trials = [
        EvaluationRecord(number=number, key=str(number), point={NETWORK: number}, state="complete", values=of)
        for number, of in enumerate(values)
    ]
    assert Study(RECORD, tiny(objectives="step_time"), trials, []).best_point == {NETWORK: 1}
