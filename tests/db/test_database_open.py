"""Opening files: what is created, what is refused, and that what is refused stays as it was."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from codesign_opt.db import StudyRecord, check, open_database, upgrade
from codesign_opt.db.engine import writing
from codesign_opt.errors import MissingExtraError, StorageError

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

Unprivileged = Callable[[], AbstractContextManager[None]]


def refused(path: Path | str, *, create: bool = True) -> StorageError:
    with pytest.raises(StorageError) as caught:
        open_database(str(path), create=create)
    assert str(path) in caught.value.message
    return caught.value


def test_a_new_file_is_a_database_with_a_write_ahead_log(tmp_path: Path, study: Callable[..., StudyRecord]) -> None:
    path = tmp_path / "studies.db"
    with open_database(str(path)) as database:
        database.create_study(study())
        with database.engine.connect() as connection:
            settings = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            }
    assert settings == {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1, "busy_timeout": 5000}
    assert list(tmp_path.iterdir()) == [path]
    with open_database(f"sqlite:///{path}", create=False) as database:
        assert database.find_study("s") == study()
        assert repr(database) == f"Database('{path}')"


def test_a_database_in_memory_lives_until_closed(study: Callable[..., StudyRecord]) -> None:
    with open_database("sqlite:///:memory:") as database:
        database.create_study(study())
        assert [found.name for found in database.list_studies()] == ["s"]
    with open_database("sqlite:///:memory:") as database:
        assert database.list_studies() == []


def test_an_empty_file_is_filled(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    path.touch()
    open_database(str(path)).close()
    assert check(str(path)).ok


def test_processes_that_create_the_same_database_at_once_all_succeed(url: str, tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; import alembic.command\n"
        "from codesign_opt.db import open_database\n"
        "print('ready', flush=True)\n"
        "while not Path(sys.argv[2]).exists(): time.sleep(0.001)\n"
        "open_database(sys.argv[1]).close()"
    )
    start = tmp_path / "start"
    command = [sys.executable, "-c", script, url, str(start)]
    children = [subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE) for _ in range(4)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == b"ready"
    start.touch()
    for child in children:
        child.communicate(timeout=60)
    assert [child.returncode for child in children] == [0, 0, 0, 0]
    assert check(url).ok


def test_opening_an_existing_database_needs_no_alembic(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    open_database(str(path)).close()
    script = (
        "import sys; from codesign_opt.db import open_database; open_database(sys.argv[1]).close();"
        "print(sorted({'alembic', 'numpy', 'optuna', 'psycopg', 'typer'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_missing_file_is_not_created_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    assert "no database at" in refused(path, create=False).message
    for use in (check, upgrade):
        with pytest.raises(StorageError, match="no database at"):
            use(str(path))
    assert list(tmp_path.iterdir()) == []


def test_empty_file_holds_no_studies_unless_asked_to_create(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    path.touch()
    assert "holds no study tables" in refused(path, create=False).message
    with pytest.raises(StorageError, match="holds no study tables"):
        upgrade(str(path))


def test_directory(tmp_path: Path) -> None:
    error = refused(tmp_path)
    assert "is a directory" in error.message
    assert str(tmp_path / "studies.db") in error.hint


def test_missing_parent_directory(tmp_path: Path) -> None:
    error = refused(tmp_path / "no" / "studies.db")
    assert f"the directory {tmp_path / 'no'} does not exist" in error.message
    assert error.hint == f"mkdir -p {tmp_path / 'no'}"


def test_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "does not exist" in refused(tmp_path / "file" / "studies.db").message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refused(tmp_path / "pipe").message


def test_name_too_long_for_the_file_system(tmp_path: Path) -> None:
    assert "File name too long" in refused(tmp_path / ("x" * 300 + ".db")).message


@pytest.mark.parametrize(
    ("mode", "directory_mode", "what"),
    [
        (0o000, 0o755, "permission to read"),
        (0o444, 0o755, "permission to write"),
        (0o666, 0o555, "permission to create files in"),
    ],
)
def test_permissions(
    open_directory: Path, unprivileged: Unprivileged, mode: int, directory_mode: int, what: str
) -> None:
    path = open_directory / "studies.db"
    open_database(str(path)).close()
    before = path.read_bytes()
    path.chmod(mode)
    open_directory.chmod(directory_mode)
    with unprivileged():
        error = refused(path)
    assert what in error.message
    assert "copy the database" in error.hint
    open_directory.chmod(0o755)
    assert (path.read_bytes(), list(open_directory.iterdir())) == (before, [path])


def test_new_file_in_a_read_only_directory(open_directory: Path, unprivileged: Unprivileged) -> None:
    open_directory.chmod(0o555)
    with unprivileged():
        assert "permission to create files in" in refused(open_directory / "studies.db").message


def test_bytes_that_are_no_database(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    content = bytes(range(256)) * 64
    path.write_bytes(content)
    error = refused(path)
    assert "is not an SQLite database" in error.message
    assert path.read_bytes() == content
    with pytest.raises(StorageError, match="is not an SQLite database"):
        check(str(path))


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_database_of_another_program_is_left_untouched(tmp_path: Path, journal: str) -> None:
    path = tmp_path / "theirs.db"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.executescript("CREATE TABLE albums (id INTEGER); INSERT INTO albums VALUES (1)")
    connection.close()
    before = path.read_bytes()
    error = refused(path)
    assert "another program" in error.message
    assert "albums" in error.message
    for use in (check, upgrade):
        with pytest.raises(StorageError, match="another program"):
            use(str(path))
    assert path.read_bytes() == before


def test_database_shared_with_optuna(tmp_path: Path, study: Callable[..., StudyRecord]) -> None:
    optuna = pytest.importorskip("optuna")
    url = f"sqlite:///{tmp_path / 'studies.db'}"
    with open_database(url) as database:
        database.create_study(study())
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    optuna.create_study(storage=url, study_name="theirs")
    with open_database(url) as database:
        assert [found.name for found in database.list_studies()] == ["s"]
        assert database.delete_study("s")
    assert check(url).ok
    assert optuna.get_all_study_names(url) == ["theirs"]


def test_newer_schema(url: str) -> None:
    with open_database(url) as database, writing(database.engine) as connection:
        connection.exec_driver_sql("UPDATE codesign_alembic_version SET version_num = '9999'")
    for use in (open_database, upgrade):
        with pytest.raises(StorageError, match="schema 9999, newer than") as caught:
            use(url)
        assert caught.value.hint == "install a newer codesign-opt"
    report = check(url)
    assert (report.revision, report.ok, report.rows) == ("9999", False, {})


def test_address_with_a_scheme_that_needs_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError) as caught:
        open_database("postgresql://me:secret@localhost/studies")
    assert caught.value.hint == "pip install 'codesign-opt[postgres]'"
