"""Studies, evaluations, candidates and refinements, the same on every database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import event

from codesign_opt.db import (
    BatchRecord,
    CandidateRecord,
    Database,
    EvaluationRecord,
    RefinementRecord,
    StudyRecord,
    check,
    open_database,
)
from codesign_opt.errors import StorageError

MakeStudy = Callable[..., StudyRecord]
MakeBatch = Callable[..., tuple[BatchRecord, list[EvaluationRecord]]]

OWNER = "host-1:4711"
NOON = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)


def test_study_round_trip(url: str, study: MakeStudy) -> None:
    record = study(
        specification='{"b": 1,  "a": "spaces and order are kept"}',
        versions={"optuna": "5.0.0", "nested": {"π": [1, 2.5, None, True]}},
        seed=2**63 - 1,
        parent="its parent",
        lease_owner="me",
        lease_expires=NOON,
    )
    with open_database(url) as database:
        database.create_study(record)
        assert database.find_study("s") == record
        assert database.find_study("S") is None


def test_moments_come_back_in_utc_whatever_zone_they_went_in(url: str, study: MakeStudy) -> None:
    there = datetime(2026, 7, 1, 8, 30, 0, 1, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    with open_database(url) as database:
        database.create_study(study(created=there))
        found = database.find_study("s")
    assert found is not None
    assert found.created == there
    assert found.created.isoformat() == "2026-07-01T02:45:00.000001+00:00"


def test_studies_are_listed_oldest_first(url: str, study: MakeStudy) -> None:
    with open_database(url) as database:
        for name, hour in (("b", 2), ("a", 3), ("c", 1)):
            database.create_study(study(name, created=NOON + timedelta(hours=hour)))
        assert [record.name for record in database.list_studies()] == ["c", "b", "a"]


@pytest.mark.parametrize(
    "name",
    [
        'it\'s "quoted" `name`; DROP TABLE codesign_studies; --',
        "データ/семь/🦙",
        "../../etc/passwd",
        "100 % \\ _ [x] {y} :z ?1 $2 %s %(name)s",
        " spaces around ",
        "x" * 255,
        "🦙" * 255,
    ],
)
def test_odd_names(url: str, study: MakeStudy, batch: MakeBatch, name: str) -> None:
    with open_database(url) as database:
        database.create_study(study(name))
        database.create_study(study("other"))
        database.acquire_lease(name, OWNER, 60)
        database.write_batch(name, *batch(), owner=OWNER)
        assert len(database.read_evaluations(name)) == 3
        assert database.read_evaluations("other") == []
        assert database.delete_study(name)
        assert [record.name for record in database.list_studies()] == ["other"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "not blank"),
        (" \t ", "not blank"),
        ("x" * 256, "name of 256 characters"),
        ("a\nb", "holds the character '\\n'"),
        ("a\0b", "holds the character '\\x00'"),
        ("a\ud800b", "holds the character '\\ud800'"),
    ],
)
def test_names_that_are_refused(url: str, study: MakeStudy, name: str, message: str) -> None:
    with open_database(url) as database:
        with pytest.raises(StorageError, match=message.replace("\\", "\\\\")):
            database.create_study(study(name))
        assert database.list_studies() == []


def test_text_that_is_not_unicode_is_an_error_of_storage(url: str) -> None:
    with open_database(url) as database, pytest.raises(StorageError, match="text that cannot be encoded"):
        database.find_study("a\ud800b")


def test_names_are_unique(url: str, study: MakeStudy) -> None:
    with open_database(url) as database:
        database.create_study(study(seed=1))
        with pytest.raises(StorageError, match="study 's' exists already"):
            database.create_study(study(seed=2))
        assert [record.seed for record in database.list_studies()] == [1]


@pytest.mark.parametrize(
    "fields",
    [
        {"batches": 1},
        {"trials": 1},
        {"seconds": 1.0},
        {"seed": -1},
        {"seed": 2**63},
        {"versions": {"x": float("nan")}},
        {"specification": "\0"},
        {"parent": "\ud800"},
    ],
)
def test_study_that_cannot_be_new(url: str, study: MakeStudy, fields: dict[str, Any]) -> None:
    with open_database(url) as database:
        with pytest.raises(ValueError, match=next(iter(fields))):
            database.create_study(study(**fields))
        assert database.list_studies() == []


def test_a_study_that_is_missing_is_named_with_those_near_it(url: str, study: MakeStudy, batch: MakeBatch) -> None:
    with open_database(url) as database:
        uses: list[Callable[[], object]] = [
            lambda: database.read_batches("llama-70b"),
            lambda: database.read_evaluations("llama-70b"),
            lambda: database.read_candidates("llama-70b"),
            lambda: database.read_refinements("llama-70b"),
            lambda: database.acquire_lease("llama-70b", OWNER, 60),
            lambda: database.renew_lease("llama-70b", OWNER, 60),
            lambda: database.write_batch("llama-70b", *batch(), owner=OWNER),
        ]
        for hint in ("it holds no studies yet", "did you mean 'llama3-70b'?"):
            for use in uses:
                with pytest.raises(StorageError, match="no study 'llama-70b' in ") as caught:
                    use()
                assert caught.value.hint == hint
            if hint.startswith("it holds"):
                database.create_study(study("llama3-70b"))
        assert database.release_lease("llama-70b", OWNER) is False
        assert database.delete_study("llama-70b") is False


def test_batches_advance_the_counters_and_read_back(held_study: str, batch: MakeBatch) -> None:
    first, second = batch(0, 0, 3), batch(1, 3, 2)
    with open_database(held_study) as database:
        database.write_batch("s", *first, owner=OWNER)
        database.write_batch("s", *second, owner=OWNER)
    with open_database(held_study) as database:
        found = database.find_study("s")
        assert found is not None
        assert (found.batches, found.trials, found.seconds) == (2, 5, 1.0)
        assert database.read_batches("s") == [first[0], second[0]]
        written = first[1] + second[1]
        assert database.read_evaluations("s") == [replace(record, candidates=()) for record in written]
        candidates = database.read_candidates("s")
        assert candidates == [candidate for record in written for candidate in record.candidates]
        assert [(candidate.trial, candidate.rank) for candidate in candidates] == [
            (trial, rank) for trial in range(5) for rank in range(2)
        ]


def test_infeasible_failed_and_repeated_trials(held_study: str, batch: MakeBatch) -> None:
    record, (first, second, third) = batch()
    evaluations = [
        replace(first, state="infeasible", reason="needs 12 GiB more", values={}, candidates=()),
        replace(second, state="failed", reason="ValueError: 'x'\nline two", values={"step_time": None}, candidates=()),
        replace(third, key=first.key, repeat_of=0, candidates=()),
    ]
    with open_database(held_study) as database:
        database.write_batch("s", record, evaluations, owner=OWNER)
        assert database.read_evaluations("s") == evaluations
        assert database.read_candidates("s") == []


def test_candidates_by_trial_and_by_front(held_study: str, batch: MakeBatch) -> None:
    def places(found: list[CandidateRecord]) -> list[tuple[int | None, int]]:
        return [(candidate.trial, candidate.rank) for candidate in found]

    with open_database(held_study) as database:
        database.write_batch("s", *batch(0, 0, 4), owner=OWNER)
        assert places(database.read_candidates("s", on_front=True)) == [(0, 0), (1, 0), (2, 0), (3, 0)]
        assert places(database.read_candidates("s", trials=[3, 1, 3], on_front=False)) == [(1, 1), (3, 1)]
        assert places(database.read_candidates("s", trials=range(2, 20_002))) == [(2, 0), (2, 1), (3, 0), (3, 1)]
        assert places(database.read_candidates("s", trials=[])) == []


def test_refinements_keep_the_first_result_of_a_version(held_study: str, batch: MakeBatch) -> None:
    with open_database(held_study) as database:
        database.write_batch("s", *batch(), owner=OWNER)
        best, other = (candidate.id for candidate in database.read_candidates("s", trials=[1]))
        assert best is not None
        assert other is not None
        first = RefinementRecord(
            candidate_id=best, simulator_version="1", metrics={"step_time": 1.6}, notes={"flows": [1, 2]}, created=NOON
        )
        again = replace(first, metrics={"step_time": 99.0}, created=NOON + timedelta(hours=1))
        newer = replace(first, simulator_version="2", metrics={"step_time": 1.7}, created=NOON + timedelta(hours=2))
        second = replace(first, candidate_id=other)
        database.write_refinements([second, first])
        database.write_refinements([again, newer, newer])
        database.write_refinements([])
        assert database.read_refinements("s") == [first, newer, second]
        with pytest.raises(StorageError, match="a refined candidate is not in"):
            database.write_refinements([replace(first, simulator_version="3"), replace(first, candidate_id=10**9)])
        assert database.read_refinements("s") == [first, newer, second]


def test_the_number_of_a_deleted_candidate_is_not_given_again(url: str, study: MakeStudy, batch: MakeBatch) -> None:
    def candidate_ids(database: Database) -> set[int | None]:
        database.create_study(study())
        database.acquire_lease("s", OWNER, 60)
        database.write_batch("s", *batch(), owner=OWNER)
        return {candidate.id for candidate in database.read_candidates("s")}

    with open_database(url) as database:
        before = candidate_ids(database)
        database.delete_study("s")
        assert not before & candidate_ids(database)


def test_deleting_ten_thousand_trials_is_one_statement(held_study: str, study: MakeStudy, batch: MakeBatch) -> None:
    with open_database(held_study) as database:
        for number in range(3):
            database.write_batch("s", *batch(number, number * 3000, 3000, candidates=()), owner=OWNER)
        database.write_batch("s", *batch(3, 9000, 1000), owner=OWNER)
        candidate = database.read_candidates("s", trials=[9999])[0].id
        assert candidate is not None
        database.write_refinements(
            [RefinementRecord(candidate_id=candidate, simulator_version="1", metrics={}, notes={}, created=NOON)]
        )
        database.create_study(study("kept"))
        statements: list[str] = []
        event.listen(
            database.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2].split()[0])
        )
        assert database.delete_study("s") is True
        assert [statement for statement in statements if statement != "BEGIN"] == ["DELETE"]
    report = check(held_study)
    assert report.ok
    assert report.rows == {
        "codesign_studies": 1,
        "codesign_batches": 0,
        "codesign_evaluations": 0,
        "codesign_candidates": 0,
        "codesign_refinements": 0,
    }
