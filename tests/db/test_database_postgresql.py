"""What only a server can do wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pytest

from codesign_opt.db import StudyRecord, check, open_database
from codesign_opt.errors import StorageError


class Server(Protocol):
    port: int

    def url(self, database: str, *, password: str = ...) -> str: ...

    def execute(self, statement: str, database: str = ...) -> None: ...


def refused(url: str) -> StorageError:
    with pytest.raises(StorageError) as caught:
        open_database(url)
    assert "secret" not in str(caught.value)
    return caught.value


def test_missing_database(postgresql: Server) -> None:
    error = refused(postgresql.url("missing"))
    assert error.message == (
        f"cannot connect to postgresql://codesign:***@127.0.0.1:{postgresql.port}/missing: "
        'database "missing" does not exist'
    )
    assert error.hint == "create the database first: createdb NAME"


def test_wrong_password(postgresql: Server) -> None:
    error = refused(postgresql.url("postgres", password="wrong-secret"))
    assert "password authentication failed" in error.message
    assert error.hint == "check user and password"


@pytest.mark.parametrize(
    ("address", "reason", "hint"),
    [
        ("127.0.0.1:1", "Connection refused", "check host and port"),
        ("no-such-host.invalid", "resolve host", "check the host name"),
    ],
)
def test_unreachable_server(address: str, reason: str, hint: str) -> None:
    pytest.importorskip("psycopg")
    error = refused(f"postgresql://me:secret@{address}/studies")
    assert error.message.startswith(f"cannot connect to postgresql://me:***@{address}/studies: ")
    assert reason in error.message
    assert hint in error.hint


def test_unknown_connection_option() -> None:
    pytest.importorskip("psycopg")
    error = refused("postgresql://me:secret@127.0.0.1:1/studies?bogus=1")
    assert 'invalid connection option "bogus"' in error.message


def test_server_that_goes_away_and_comes_back(
    postgresql: Server, postgresql_url: str, study: Callable[..., StudyRecord]
) -> None:
    with open_database(postgresql_url) as database:
        database.create_study(study())
        postgresql.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE datname = '{postgresql_url.rpartition('/')[2]}' AND pid <> pg_backend_pid()"
        )
        assert database.find_study("s") == study()


def test_locked_table(postgresql_url: str, study: Callable[..., StudyRecord]) -> None:
    with open_database(postgresql_url) as holder, open_database(postgresql_url, timeout_seconds=0.05) as database:
        with holder.engine.begin() as connection:
            connection.exec_driver_sql("LOCK TABLE codesign_studies IN EXCLUSIVE MODE")
            assert database.list_studies() == []
            with pytest.raises(StorageError, match="is locked by another process"):
                database.create_study(study())
        database.create_study(study())


def test_user_without_rights(postgresql: Server, postgresql_url: str) -> None:
    name = postgresql_url.rpartition("/")[2]
    postgresql.execute(f"CREATE USER guest_{name} PASSWORD 'secret'")
    try:
        error = refused(f"postgresql://guest_{name}:secret@127.0.0.1:{postgresql.port}/{name}")
        assert "does not permit this" in error.message
        assert "grant" in error.hint
    finally:
        postgresql.execute(f"DROP USER guest_{name}")


def test_tables_of_others_in_the_same_database_stay(
    postgresql: Server, postgresql_url: str, study: Callable[..., StudyRecord]
) -> None:
    postgresql.execute("CREATE TABLE studies (id int)", postgresql_url.rpartition("/")[2])
    with open_database(postgresql_url) as database:
        database.create_study(study())
        with database.engine.connect() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM studies").scalar() == 0
    assert check(postgresql_url).ok


def test_database_without_an_encoding(postgresql: Server, study: Callable[..., StudyRecord]) -> None:
    postgresql.execute("CREATE DATABASE plain ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    try:
        with open_database(postgresql.url("plain")) as database:
            database.create_study(study("データ"))
            assert database.find_study("データ") == study("データ")
    finally:
        postgresql.execute("DROP DATABASE plain WITH (FORCE)")
