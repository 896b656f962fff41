"""The migrations lead to the tables, keep the rows, and happen whole or not at all."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import inspect

from codesign_opt.db import (
    BatchRecord,
    CandidateRecord,
    EvaluationRecord,
    RefinementRecord,
    StudyRecord,
    check,
    migration,
    open_database,
    upgrade,
)
from codesign_opt.db.engine import writing
from codesign_opt.db.schema import REVISION, VERSION_TABLE
from codesign_opt.db.tables import metadata
from codesign_opt.errors import StorageError

DATA = Path(__file__).parent.parent / "data"

NEXT_REVISION = """
import sqlalchemy as sa
from alembic import op

revision = "9001"
down_revision = "{previous}"


def upgrade():
    with op.batch_alter_table("codesign_studies", recreate="{recreate}") as table:
        table.add_column(sa.Column("notes", sa.Text(), nullable=False, server_default="none"))
    {last}
"""


def test_migrated_tables_equal_the_declared_ones(url: str) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    options = {"version_table": VERSION_TABLE, "compare_type": True, "compare_server_default": True}
    with open_database(url) as database, database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
        # What the comparison leaves out.
        inspector = inspect(connection)
        for table in metadata.sorted_tables:
            keys = inspector.get_foreign_keys(table.name)
            assert {key["name"] for key in keys} == {key.name for key in table.foreign_key_constraints}
            assert all(key["options"]["ondelete"] == "CASCADE" for key in keys)
        checks = inspector.get_check_constraints("codesign_evaluations")
        assert [found["name"] for found in checks] == ["ck_codesign_evaluations_state"]


def test_every_reference_has_an_index_that_starts_with_it(url: str) -> None:
    with open_database(url) as database, database.engine.connect() as connection:
        inspector = inspect(connection)
        for table in metadata.sorted_tables:
            indexed = {index["column_names"][0] for index in inspector.get_indexes(table.name)}
            indexed |= {unique["column_names"][0] for unique in inspector.get_unique_constraints(table.name)}
            for key in inspector.get_foreign_keys(table.name):
                assert key["constrained_columns"][0] in indexed, (table.name, key["name"])


def test_the_revision_named_in_the_code_is_the_newest_migration() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(migration.SCRIPTS))
    assert ScriptDirectory.from_config(config).get_heads() == [REVISION]


def test_nothing_to_upgrade(url: str) -> None:
    open_database(url).close()
    assert upgrade(url) == (REVISION, REVISION)


def test_upgrade_does_not_create_tables(url: str) -> None:
    with pytest.raises(StorageError, match=r"no database at|holds no study tables"):
        upgrade(url)


def test_tables_from_before_the_first_revision(url: str) -> None:
    with open_database(url) as database, writing(database.engine) as connection:
        metadata.drop_all(connection)
        connection.exec_driver_sql(f"DELETE FROM {VERSION_TABLE}")
    with pytest.raises(StorageError, match="older schema None; this version needs") as caught:
        open_database(url)
    assert "codesign-opt db upgrade" in caught.value.hint
    assert upgrade(url) == (None, REVISION)
    assert check(url).ok


def test_upgrade_keeps_every_row(
    held_study: str,
    batch: Callable[..., tuple[BatchRecord, list[EvaluationRecord]]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    with open_database(held_study) as database:
        database.write_batch("s", *batch(), owner="host-1:4711")
    rows = check(held_study).rows
    # To rebuild the table that all others refer to is the most dangerous thing a migration does in SQLite.
    recreate = "always" if held_study.startswith("sqlite") else "auto"
    _add_revision(monkeypatch, tmp_path / "100 % new", recreate=recreate, last="pass")
    with pytest.raises(StorageError, match=f"older schema {REVISION}; this version needs 9001"):
        open_database(held_study)
    assert upgrade(held_study) == (REVISION, "9001")
    assert upgrade(held_study) == ("9001", "9001")
    with open_database(held_study) as database:
        found = database.find_study("s")
        assert found is not None
        assert (found.batches, found.trials) == (1, 3)
        with database.engine.connect() as connection:
            assert connection.exec_driver_sql("SELECT notes FROM codesign_studies").scalar() == "none"
            counts = {name: connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar() for name in rows}
        assert counts == rows
        assert database.delete_study("s")
        assert database.list_studies() == []


def test_a_migration_that_fails_leaves_everything_as_it_was(
    held_study: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patched:
        _add_revision(patched, tmp_path / "new", recreate="auto", last='op.execute("INSERT INTO nowhere VALUES (1)")')
        with pytest.raises(StorageError, match="nowhere"):
            upgrade(held_study)
    assert check(held_study).ok
    with open_database(held_study) as database, database.engine.connect() as connection:
        columns = {column["name"] for column in inspect(connection).get_columns("codesign_studies")}
    assert "notes" not in columns


def test_upgrade_refuses_rows_without_the_rows_they_refer_to(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    open_database(str(path)).close()
    _insert_orphan(path)
    with pytest.raises(StorageError, match="refer to missing ones"):
        upgrade(str(path))


def test_check_finds_orphans_and_wrong_counters(
    tmp_path: Path, study: Callable[..., StudyRecord], batch: Callable[..., tuple[BatchRecord, list[EvaluationRecord]]]
) -> None:
    path = tmp_path / "studies.db"
    with open_database(str(path)) as database:
        for name in ("good", "bad"):
            database.create_study(study(name))
            database.acquire_lease(name, "me", 60)
            database.write_batch(name, *batch(), owner="me")
        with writing(database.engine) as connection:
            connection.exec_driver_sql("UPDATE codesign_studies SET trials = 7, batches = 2 WHERE name = 'bad'")
    _insert_orphan(path)
    report = check(str(path))
    assert not report.ok
    assert report.damage == ("row 3 of codesign_batches refers to a missing row of codesign_studies",)
    assert [(found.study, found.counter, found.counted, found.found) for found in report.mismatches] == [
        ("bad", "batches", 2, 1),
        ("bad", "trials", 7, 3),
    ]


def test_check_finds_a_damaged_page(tmp_path: Path, study: Callable[..., StudyRecord]) -> None:
    path = tmp_path / "studies.db"
    with open_database(str(path)) as database:
        for number in range(200):
            database.create_study(study(f"study {number}"))
    content = bytearray(path.read_bytes())
    content[-4096:] = b"\x7f" * 4096
    path.write_bytes(content)
    try:
        damaged = check(str(path)).damage != ()
    except StorageError as error:
        damaged = "is damaged" in error.message
    assert damaged


def test_a_database_of_the_first_revision_can_still_be_read(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    connection = sqlite3.connect(path)
    connection.executescript((DATA / "database_revision_0001.sql").read_text())
    connection.close()
    assert upgrade(str(path)) == ("0001", REVISION)
    assert check(str(path)).ok
    created = datetime(2026, 3, 29, 1, 30, 0, 250_000, tzinfo=UTC)
    with open_database(str(path), create=False) as database:
        assert database.list_studies() == [
            StudyRecord(
                name="llama3-70b",
                specification='{"processors": 512}',
                specification_hash="9f2c",
                versions={"codesign_opt": "0.1.0"},
                seed=7,
                created=created,
                batches=1,
                trials=2,
                seconds=0.5,
                parent="llama3-8b",
                lease_owner="host-1:4711",
                lease_expires=datetime(2026, 3, 29, 2, 30, tzinfo=UTC),
            )
        ]
        assert database.read_batches("llama3-70b") == [
            BatchRecord(number=0, first_trial=0, trials=2, sampler="nsga2", seconds=0.5, finished=created)
        ]
        assert database.read_evaluations("llama3-70b") == [
            EvaluationRecord(
                number=0,
                key="memory_tier1.capacity=8e10",
                point={"memory_tier1.capacity": 8e10},
                state="complete",
                values={"step_time": 1.5, "price": None},
                constraints={"memory_tier1_used <= 70 GiB": -1.0},
            ),
            EvaluationRecord(
                number=1,
                key="memory_tier1.capacity=8e10",
                point={"memory_tier1.capacity": 8e10},
                state="infeasible",
                reason="needs 12 GiB more",
                repeat_of=0,
            ),
        ]
        assert database.read_candidates("llama3-70b") == [
            CandidateRecord(rank=0, on_front=True, strategy={"tp": 8, "recompute": "full"}, metrics={"step_time": 1.5})
        ]
        assert database.read_refinements("llama3-70b") == [
            RefinementRecord(
                candidate_id=1, simulator_version="1", metrics={"step_time": 1.625}, notes={}, created=created
            )
        ]


def _add_revision(monkeypatch: pytest.MonkeyPatch, scripts: Path, *, recreate: str, last: str) -> None:
    shutil.copytree(migration.SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    source = NEXT_REVISION.format(previous=REVISION, recreate=recreate, last=last)
    (scripts / "versions" / "revision_9001.py").write_text(source)
    monkeypatch.setattr(migration, "SCRIPTS", scripts)
    monkeypatch.setattr(migration, "REVISION", "9001")


def _insert_orphan(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute(
        "INSERT INTO codesign_batches (study_id, number, first_trial, trials, sampler, seconds, finished)"
        " VALUES (99, 0, 0, 1, 'x', 0, '2026-03-29T01:30:00.000000+00:00')"
    )
    connection.commit()
    connection.close()
