"""Whatever goes wrong, a batch is there whole or not at all, and its counters agree with it."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from codesign_opt.db import BatchRecord, EvaluationRecord, StudyRecord, check, open_database
from codesign_opt.errors import StorageError

MakeStudy = Callable[..., StudyRecord]
MakeBatch = Callable[..., tuple[BatchRecord, list[EvaluationRecord]]]

OWNER = "host-1:4711"

WRITE_FOR_EVER = """
import sys
from datetime import UTC, datetime
from codesign_opt.db import BatchRecord, CandidateRecord, EvaluationRecord, open_database

with open_database(sys.argv[1]) as database:
    batch = database.find_study("s").batches
    while True:
        database.write_batch(
            "s",
            BatchRecord(
                number=batch, first_trial=batch * 50, trials=50, sampler="x", seconds=0.0, finished=datetime.now(UTC)
            ),
            [
                EvaluationRecord(
                    number=batch * 50 + trial,
                    key="k",
                    point={"x": trial},
                    state="complete",
                    candidates=(
                        CandidateRecord(rank=0, on_front=True, strategy={"tp": 8}, metrics={"step_time": 1.0}),
                    ),
                )
                for trial in range(50)
            ],
            owner=sys.argv[2],
        )
        batch += 1
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
def test_a_killed_writer_leaves_whole_batches(held_study: str, batch: MakeBatch) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    written = 0
    for _ in range(2):
        child = subprocess.Popen([sys.executable, "-c", WRITE_FOR_EVER, held_study, OWNER], env=environment)
        try:
            written = _wait_for_batches(held_study, written + 3, child)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        report = check(held_study)
        assert report.ok, report
        assert report.rows["codesign_batches"] >= written
        assert report.rows["codesign_evaluations"] == 50 * report.rows["codesign_batches"]
        assert report.rows["codesign_candidates"] == report.rows["codesign_evaluations"]
        written = report.rows["codesign_batches"]
    with open_database(held_study) as database:
        database.write_batch("s", *batch(written, 50 * written, 1), owner=OWNER)


def test_of_two_writers_of_the_same_batch_the_second_changes_nothing(held_study: str, batch: MakeBatch) -> None:
    with open_database(held_study) as one, open_database(held_study) as other:
        one.write_batch("s", *batch(0, 0, 3), owner=OWNER)
        with pytest.raises(StorageError, match="is not the next one: the study holds 1 batches and 3 trials"):
            other.write_batch("s", *batch(0, 0, 2), owner=OWNER)
        with pytest.raises(StorageError, match="is not the next one"):
            other.write_batch("s", *batch(1, 2, 2), owner=OWNER)
        assert len(other.read_evaluations("s")) == 3
    assert check(held_study).ok


def test_of_many_simultaneous_writers_one_wins(held_study: str, batch: MakeBatch) -> None:
    outcomes: list[str] = []
    barrier = threading.Barrier(6)

    def write() -> None:
        with open_database(held_study) as database:
            barrier.wait()
            try:
                database.write_batch("s", *batch(), owner=OWNER)
                outcomes.append("written")
            except StorageError as error:
                outcomes.append("refused" if "is not the next one" in error.message else error.message)

    threads = [threading.Thread(target=write) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 5 + ["written"]
    assert check(held_study).rows["codesign_evaluations"] == 3


def test_a_row_that_the_database_refuses_takes_the_batch_with_it(held_study: str, batch: MakeBatch) -> None:
    record, evaluations = batch()
    best = evaluations[2].candidates[0]
    evaluations[2] = replace(evaluations[2], candidates=(best, best))
    with open_database(held_study) as database:
        with pytest.raises(StorageError, match=r"(?i)unique"):
            database.write_batch("s", record, evaluations, owner=OWNER)
        found = database.find_study("s")
        assert found is not None
        assert (found.batches, found.trials, found.seconds) == (0, 0, 0.0)
    report = check(held_study)
    assert report.ok
    assert set(report.rows.values()) == {0, 1}


def test_a_value_that_is_not_finite_takes_the_batch_with_it(held_study: str, batch: MakeBatch) -> None:
    record, evaluations = batch()
    metrics = {"step_time": 1.0, "price": float("inf")}
    bad = replace(evaluations[2].candidates[1], metrics=metrics)
    evaluations[2] = replace(evaluations[2], candidates=(evaluations[2].candidates[0], bad))
    with open_database(held_study) as database:
        with pytest.raises(ValueError, match=r"trial 2, candidate 1: metrics\['price'\] is inf; only finite"):
            database.write_batch("s", record, evaluations, owner=OWNER)
        assert database.read_evaluations("s") == []
    assert check(held_study).ok


def test_a_batch_and_its_evaluations_must_agree(held_study: str, batch: MakeBatch) -> None:
    record, evaluations = batch()
    with open_database(held_study) as database:
        for wrong_record, wrong_evaluations in (
            (record, evaluations[:2]),
            (record, [*evaluations[:2], evaluations[1]]),
            (replace(record, first_trial=1), evaluations),
            (replace(record, trials=0), []),
            (replace(record, seconds=float("nan")), evaluations),
            (replace(record, sampler="\0"), evaluations),
            (record, [*evaluations[:2], replace(evaluations[2], reason="\0")]),
            (record, [*evaluations[:2], replace(evaluations[2], key="\udcff")]),
        ):
            with pytest.raises(ValueError, match=r"batch 0|trial 2"):
                database.write_batch("s", wrong_record, wrong_evaluations, owner=OWNER)
        database.write_batch("s", record, evaluations, owner=OWNER)


def test_a_full_disk(tmp_path: Path, study: MakeStudy, batch: MakeBatch) -> None:
    path = str(tmp_path / "studies.db")
    with open_database(path) as database:
        database.create_study(study())
        database.acquire_lease("s", OWNER, 60)
        with database.engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StorageError, match="the disk is full") as caught:
            database.write_batch("s", *batch(0, 0, 1000), owner=OWNER)
        assert path in caught.value.message
        assert "free some space" in caught.value.hint
        with database.engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {10**6}")
        assert database.read_evaluations("s") == []
        database.write_batch("s", *batch(0, 0, 1000), owner=OWNER)
    assert check(path).ok


def test_a_locked_file_can_be_read_but_not_written(tmp_path: Path, study: MakeStudy) -> None:
    path = str(tmp_path / "studies.db")
    with open_database(path) as database:
        database.create_study(study())
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with open_database(path, timeout_seconds=0.05) as database:
            assert database.find_study("s") == study()
            with pytest.raises(StorageError, match="is locked by another process") as caught:
                database.create_study(study("t"))
            assert path in caught.value.message
            holder.execute("ROLLBACK")
            database.create_study(study("t"))
    finally:
        holder.close()


def test_a_writer_waits_for_another(tmp_path: Path, study: MakeStudy) -> None:
    path = str(tmp_path / "studies.db")
    open_database(path).close()
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, holder.execute, ["COMMIT"])
    timer.start()
    with open_database(path) as database:
        database.create_study(study())
    timer.join()
    holder.close()


def test_a_new_file_that_another_process_is_filling(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    path.touch()
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match="is locked by another process"):
        open_database(str(path), timeout_seconds=0.05)
    timer = threading.Timer(0.2, holder.execute, ["COMMIT"])
    timer.start()
    open_database(str(path)).close()
    timer.join()
    holder.close()
    assert check(str(path)).ok


def test_a_transaction_that_a_killed_process_left_half_written(tmp_path: Path) -> None:
    """Before it has a write-ahead log, a database is journalled: its first transactions are taken back from that."""
    path, killed = tmp_path / "studies.db", tmp_path / "killed.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE codesign_alembic_version (version_num VARCHAR(32))")
    connection.execute("DROP TABLE codesign_alembic_version")
    # With next to no cache the transaction is in the file before it is committed.
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    for number in range(50):
        connection.execute(f"CREATE TABLE half_written_{number} (a)")
    for suffix in ("", "-journal"):
        shutil.copy(f"{path}{suffix}", f"{killed}{suffix}")
    connection.execute("ROLLBACK")
    connection.close()
    with open_database(str(killed)) as database:
        assert database.list_studies() == []
    assert check(str(killed)).ok


def test_a_read_only_connection(tmp_path: Path, study: MakeStudy) -> None:
    with open_database(str(tmp_path / "studies.db")) as database:
        with database.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA query_only = ON")
        with pytest.raises(StorageError, match="is read-only"):
            database.create_study(study())


@pytest.mark.parametrize("fate", ["deleted", "replaced"])
def test_a_file_that_vanishes_while_open(tmp_path: Path, study: MakeStudy, fate: str) -> None:
    path = tmp_path / "studies.db"
    with open_database(str(path)) as database:
        database.create_study(study())
        path.rename(tmp_path / "elsewhere.db")
        if fate == "replaced":
            path.touch()
        for use in (database.list_studies, lambda: database.create_study(study("t"))):
            with pytest.raises(StorageError, match="was deleted or replaced while in use") as caught:
                use()
            assert str(path) in caught.value.message


def _wait_for_batches(url: str, batches: int, child: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + 60
    with open_database(url) as database:
        while time.monotonic() < deadline and child.poll() is None:
            study = database.find_study("s")
            if study is not None and study.batches >= batches:
                return study.batches
            time.sleep(0.005)
    raise AssertionError("the writer did not get going")
