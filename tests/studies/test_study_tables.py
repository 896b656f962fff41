"""A stored study as tables of trials, candidates and the front."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from codesign_opt.db import CandidateRecord, EvaluationRecord, StudyRecord
from codesign_opt.errors import InputError
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.studies.study import Study

MEMORY, NETWORK = "memory_tier1.bandwidth", "network_tiers.0.bandwidth"
RECORD = StudyRecord(
    name="tiny", specification="{}", specification_hash="9f", versions={}, seed=1, created=datetime.now(UTC)
)


def trial(number: int, state: Any = "complete", **fields: Any) -> EvaluationRecord:
    point = {NETWORK: 1e10 * (number + 1), MEMORY: 1e12}
    return EvaluationRecord(number=number, key=str(number), point=point, state=state, **fields)


def candidate(number: int, rank: int, rate: float, price: float, **fields: Any) -> CandidateRecord:
    metrics = {"step_time": 8 / rate, "system_price": price, "sample_rate": rate, "mfu": 0.5}
    fields = {"on_front": rank == 0, "strategy": {"tp": 2, "recompute": "none"}} | fields
    return CandidateRecord(trial=number, rank=rank, metrics=metrics, **fields)


@pytest.fixture
def make(tiny: Callable[..., StudySpecification]) -> Callable[..., Study]:
    def study(trials: list[EvaluationRecord], candidates: list[CandidateRecord], **changes: Any) -> Study:
        return Study(RECORD, tiny(**changes), trials, candidates)

    return study


def test_trials(make: Callable[..., Study]) -> None:
    table = make(
        [
            trial(0, values={"sample_rate": 10.0, "system_price": 5.0}),
            trial(1, "infeasible", reason="memory_tier1", values={"sample_rate": 12.0, "system_price": 4.0}),
            trial(2, "failed", reason="NaN"),
            trial(3, values={"sample_rate": 10.0, "system_price": None}, repeat_of=0),
        ],
        [],
    ).trials
    assert list(table) == ["trial", "state", "reason", "repeat_of", MEMORY, NETWORK, "sample_rate", "system_price"]
    assert table["trial"].tolist() == [0, 1, 2, 3]
    assert table["state"].tolist() == ["complete", "infeasible", "failed", "complete"]
    assert table["reason"].tolist() == ["", "memory_tier1", "NaN", ""]
    assert table["repeat_of"].tolist() == [-1, -1, -1, 0]
    assert table[NETWORK].tolist() == [1e10, 2e10, 3e10, 4e10]
    np.testing.assert_array_equal(table["sample_rate"], [10.0, 12.0, np.nan, 10.0])
    np.testing.assert_array_equal(table["system_price"], [5.0, 4.0, np.nan, np.nan])
    assert (table.units[MEMORY], table.units["system_price"], table.units["trial"]) == ("B/s", "$", "")


def test_candidates_have_the_point_then_objectives_then_the_rest(make: Callable[..., Study]) -> None:
    table = make([trial(0), trial(1)], [candidate(1, 0, 10.0, 5.0), candidate(1, 1, 9.0, 5.0)]).candidates
    assert list(table) == [
        "trial", "rank", "on_front", MEMORY, NETWORK, "sample_rate", "system_price", "step_time", "mfu", "tp",
        "recompute",
    ]  # fmt: skip
    assert table["trial"].tolist() == [1, 1]
    assert table["on_front"].tolist() == [True, False]
    assert table[NETWORK].tolist() == [2e10, 2e10]
    assert table["step_time"].tolist() == [0.8, 8 / 9]


def test_the_front_is_not_dominated_and_the_best_first(make: Callable[..., Study]) -> None:
    candidates = [
        candidate(0, 0, 10.0, 5.0),
        candidate(1, 0, 12.0, 9.0),
        candidate(2, 0, 11.0, 9.5),
        candidate(3, 0, 8.0, 1.0),
        candidate(3, 1, 99.0, 0.1),
    ]
    table = make([trial(number) for number in range(4)], candidates).front
    # The last one would be the best of all, but is not on the front of its own trial.
    assert table["trial"].tolist() == [1, 0, 3]
    assert table["sample_rate"].tolist() == [12.0, 10.0, 8.0]
    assert table["ties"].tolist() == [0, 0, 0]
    assert list(table)[:6] == ["trial", "ties", MEMORY, NETWORK, "sample_rate", "system_price"]
    assert not {"rank", "on_front"} & set(table)


def test_equal_points_stand_in_one_row_the_earliest(make: Callable[..., Study]) -> None:
    candidates = [
        candidate(0, 0, 8.0, 1.0, strategy={"tp": 4}),
        candidate(1, 0, 10.0, 5.0, strategy={"tp": 1}),
        candidate(2, 0, 10.0, 5.0, strategy={"tp": 2}),
        candidate(2, 1, 10.0, 5.0, strategy={"tp": 8}, on_front=True),
    ]
    table = make([trial(number) for number in range(3)], candidates).front
    assert table["trial"].tolist() == [1, 0]
    assert table["ties"].tolist() == [2, 0]
    assert table["tp"].tolist() == [1, 4]


def test_one_objective_has_a_front_of_one_row(make: Callable[..., Study]) -> None:
    candidates = [candidate(0, 0, 8.0, 1.0), candidate(1, 0, 10.0, 5.0), candidate(2, 0, 10.0, 4.0)]
    table = make([trial(number) for number in range(3)], candidates, objectives="step_time").front
    assert table.rows == 1
    assert (table["trial"][0], table["ties"][0]) == (1, 1)


@pytest.mark.parametrize("trials", [[], [trial(0, "infeasible", reason="too large")]])
def test_an_empty_front_has_the_same_first_columns(make: Callable[..., Study], trials: list[EvaluationRecord]) -> None:
    study = make(trials, [])
    free = [MEMORY, NETWORK] if trials else []
    assert list(study.front) == ["trial", "ties", *free, "sample_rate", "system_price"]
    assert (study.front.rows, study.candidates.rows, study.trials.rows) == (0, 0, len(trials))


def test_the_best_of_each_machine(make: Callable[..., Study]) -> None:
    candidates = [
        candidate(0, 0, 8.0, 1.0, strategy={"tp": 4}),
        candidate(0, 1, 7.0, 1.0, strategy={"tp": 2}),
        candidate(1, 0, 6.0, 1.0, strategy={"tp": 2}),
        candidate(1, 1, 10.0, 5.0, strategy={"tp": 4}),
    ]
    study = make([trial(0), trial(1)], candidates)
    table = study.best_by(["tp"])
    assert list(table)[:2] == ["tp", "trial"]
    assert table["tp"].tolist() == [2, 4]
    assert table["sample_rate"].tolist() == [7.0, 10.0]
    table = study.best_by([NETWORK, "tp"])
    assert table["sample_rate"].tolist() == [7.0, 8.0, 6.0, 10.0]
    with pytest.raises(InputError, match="no column 'ttp'"):
        study.best_by(["ttp"])


def test_coordinates_of_a_strategy_stand_after_hardware_and_processors(make: Callable[..., Study]) -> None:
    point = {"strategy.tp": 0.5, "processors": 8, NETWORK: 1e10, MEMORY: 1e12}
    study = make([EvaluationRecord(number=0, key="0", point=point, state="failed")], [])
    assert list(study.trials)[4:8] == [MEMORY, NETWORK, "processors", "strategy.tp"]
