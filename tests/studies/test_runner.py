"""Running a study: budgets, repeats, states, progress, and what one batch costs the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import event

from codesign_opt.db import Database, open_database
from codesign_opt.errors import StorageError
from codesign_opt.studies.outcome import Outcome
from codesign_opt.studies.runner import REPEATED_BATCHES, begin_study, run_study
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.studies.study import load_study
from codesign_opt.studies.study_run import Progress

Tiny = Callable[..., StudySpecification]

FEW = {
    "base": "h100-price-study",
    "free": {
        "memory_tier1.bandwidth": {"choices": ["100 GB/s", "1 TB/s", "2 TB/s"]},
        "network_tiers.0.bandwidth": {"choices": ["10 GB/s", "100 GB/s"]},
    },
}
"""Six machines."""


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with open_database(url) as opened:
        yield opened


@pytest.mark.usefixtures("without_model")
@pytest.mark.parametrize("sampler", ["auto", "random", "tpe", "nsga2"])
def test_a_budget_of_trials_is_met_exactly(tiny: Tiny, database: Database, sampler: str) -> None:
    assert run_study(tiny(sampler=sampler, budget=37), database) == "budget"
    study = load_study(database, "tiny")
    assert study.record.trials == len(study.evaluations) == 37
    assert [evaluation.number for evaluation in study.evaluations] == list(range(37))


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by one second whenever a point is evaluated, and never else."""
    from codesign_opt.studies import evaluator

    now = [0.0]
    evaluate = evaluator.evaluate_point

    def evaluate_in_a_second(*arguments: Any) -> Outcome:
        now[0] += 1
        return evaluate(*arguments)

    monkeypatch.setattr(evaluator, "evaluate_point", evaluate_in_a_second)
    clock = SimpleNamespace(perf_counter=lambda: now[0])
    monkeypatch.setattr("codesign_opt.studies.runner.time", clock)
    monkeypatch.setattr("codesign_opt.studies.study_run.time", clock)


@pytest.mark.usefixtures("without_model", "seconds")
@pytest.mark.parametrize("sampler", ["auto", "qmc", "tpe", "nsga2"])
def test_a_budget_of_time_ends_within_a_batch(tiny: Tiny, database: Database, sampler: str) -> None:
    assert run_study(tiny(sampler=sampler, budget="21s"), database) == "budget"
    study = load_study(database, "tiny")
    assert (study.record.trials, study.record.seconds) == (21, 21.0)
    first = list(study.evaluations)
    assert run_study(tiny(sampler=sampler, budget="21s"), database) == "budget"
    assert load_study(database, "tiny").record.trials == 21
    assert run_study(tiny(sampler=sampler, budget="35s"), database) == "budget"
    study = load_study(database, "tiny")
    assert (study.record.trials, study.record.seconds) == (35, 35.0)
    assert study.evaluations[:21] == first


@pytest.mark.usefixtures("without_model", "seconds")
def test_a_budget_of_time_allows_one_trial_at_least(tiny: Tiny, database: Database) -> None:
    run_study(tiny(budget="1 ms"), database)
    assert load_study(database, "tiny").record.trials == 1


@pytest.mark.usefixtures("without_model")
@pytest.mark.parametrize("method", ["auto", "exact", "bilevel"])
@pytest.mark.parametrize("sampler", ["auto", "random", "tpe", "nsga2"])
def test_a_finite_space_is_exhausted(tiny: Tiny, database: Database, method: str, sampler: str) -> None:
    assert run_study(tiny(system=FEW, method=method, sampler=sampler, budget=30), database) == "exhausted"
    study = load_study(database, "tiny")
    first = [evaluation for evaluation in study.evaluations if evaluation.repeat_of is None]
    assert len({evaluation.key for evaluation in first}) == len(first) == 6
    if method != "bilevel":
        assert len(study.evaluations) == 6


@pytest.mark.usefixtures("without_model")
def test_repeats_cost_nothing_and_say_what_they_repeat(tiny: Tiny, database: Database) -> None:
    evaluated: list[int] = []
    run_study(
        tiny(system=FEW, method="bilevel", sampler="random", budget=5),
        database,
        progress=lambda progress: evaluated.append(progress.trials),
    )
    assert evaluated[-1] == 5
    study = load_study(database, "tiny")
    assert study.record.trials > 5
    by_number = {evaluation.number: evaluation for evaluation in study.evaluations}
    seen: dict[str, int] = {}
    for number, evaluation in by_number.items():
        assert evaluation.repeat_of == seen.get(evaluation.key)
        seen.setdefault(evaluation.key, number)
        if evaluation.repeat_of is not None:
            first = by_number[evaluation.repeat_of]
            assert (evaluation.state, evaluation.reason) == (first.state, first.reason)
            assert (evaluation.values, evaluation.constraints) == (first.values, first.constraints)
    assert {candidate.trial for candidate in study.stored_candidates} <= set(seen.values())


@pytest.mark.usefixtures("without_model")
def test_a_sampler_that_only_repeats_itself_is_stopped(
    tiny: Tiny, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = {"memory_tier1.bandwidth": 1e12, "network_tiers.0.bandwidth": 1e11}
    monkeypatch.setattr("codesign_opt.studies.proposals.Uniform.propose", lambda self, count: [same] * count)
    assert run_study(tiny(sampler="random"), database) == "exhausted"
    record = load_study(database, "tiny").record
    assert record.batches == 1 + REPEATED_BATCHES


@pytest.mark.usefixtures("without_model")
def test_progress_counts_points_and_the_rows_of_the_front(tiny: Tiny, database: Database) -> None:
    seen: list[Progress] = []
    run_study(tiny(budget=40), database, progress=seen.append)
    assert [progress.trials for progress in seen] == [16, 24, 32, 40]
    assert {(progress.budget_trials, progress.budget_seconds) for progress in seen} == {(40, None)}
    study = load_study(database, "tiny")
    states = Counter(evaluation.state for evaluation in study.evaluations)
    assert seen[-1].feasible == states["complete"]
    assert seen[-1].front == study.front.rows > 1
    assert seen[-1].seconds == pytest.approx(study.record.seconds)


def test_progress_counts_the_front_inside_a_trial_too_also_after_a_resume(tiny: Tiny, database: Database) -> None:
    changes: dict[str, Any] = {
        "objectives": ["step_time", "memory_tier1_used"],
        "strategies": {"pp": [1, 2], "tp_overlap": "none", "dp_tier": 0, "tp_tier": 0, "weight_offload": False},
    }
    run_study(tiny(budget=1, **changes), database)
    seen: list[Progress] = []
    run_study(tiny(budget=2, **changes), database, progress=seen.append)
    assert seen[-1].front == load_study(database, "tiny").front.rows > 2


@pytest.mark.usefixtures("without_model")
def test_a_batch_is_two_transactions(tiny: Tiny, database: Database) -> None:
    begun = Counter[str]()

    @event.listens_for(database.engine, "before_cursor_execute")
    def count(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        begun[statement.split()[0]] += 1

    per_batch: list[Counter[str]] = []

    def note(_: Progress) -> None:
        per_batch.append(begun.copy())
        begun.clear()

    run_study(tiny(sampler="random", budget=80), database, progress=note)
    # The first batch is counted together with what a run begins with.
    for batch in per_batch[1:]:
        assert batch["BEGIN"] == 2
        # Batch, trials and candidates are one statement each, however many rows they have.
        assert batch["INSERT"] == 3
        assert batch.total() <= 12


@pytest.fixture
def overtaken(database: Database, monkeypatch: pytest.MonkeyPatch) -> Callable[[StudySpecification], None]:
    """Stores a study just after another process has looked for it."""

    def overtake(specification: StudySpecification) -> None:
        begin_study(specification, database)
        answers = iter([None, database.find_study(specification.name)])
        monkeypatch.setattr(database, "find_study", lambda name: next(answers))

    return overtake


def test_two_processes_may_begin_the_same_study(
    tiny: Tiny, database: Database, overtaken: Callable[[StudySpecification], None]
) -> None:
    overtaken(tiny())
    assert begin_study(tiny(), database).name == "tiny"


def test_but_not_two_different_ones(
    tiny: Tiny, database: Database, overtaken: Callable[[StudySpecification], None]
) -> None:
    overtaken(tiny(seed=9))
    with pytest.raises(StorageError, match="seed: 9 → 3"):
        begin_study(tiny(), database)


def test_what_cannot_be_stored_is_reported(tiny: Tiny, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(record: Any) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(database, "create_study", full)
    with pytest.raises(StorageError, match="the disk is full"):
        begin_study(tiny(), database)


@pytest.mark.usefixtures("without_model")
def test_the_record_names_what_shaped_the_study(tiny: Tiny, database: Database) -> None:
    run_study(tiny(budget=16), database)
    record = load_study(database, "tiny").record
    assert set(record.versions) == {"python", "codesign-opt", "numpy", "optuna", "scipy"}
    assert (record.seed, record.batches, record.trials) == (3, 1, 16)
    (batch,) = database.read_batches("tiny")
    assert (batch.number, batch.first_trial, batch.trials, batch.sampler) == (0, 0, 16, "qmc")
