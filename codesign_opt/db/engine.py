"""Engines and transactions."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy
from sqlalchemy import URL, Connection, Engine, StaticPool, event

from codesign_opt.db.urls import file_path
from codesign_opt.errors import MissingExtraError

TIMEOUT_SECONDS = 5.0

_CONNECT_SECONDS = 10
_RETRY_SECONDS = 0.01
_WRITING = "codesign_writing"


def make_engine(url: URL, *, timeout_seconds: float, foreign_keys: bool = True) -> Engine:
    """An engine whose transactions are those of this module; nothing is opened yet.

    Args:
        url: From `urls.parse_url`.
        timeout_seconds: How long to wait for another writer.
        foreign_keys: Whether SQLite enforces foreign keys; only migrations, which rebuild tables, do without.

    Raises:
        MissingExtraError: A PostgreSQL URL without psycopg.
    """
    if url.drivername == "sqlite":
        return _sqlite_engine(url, timeout_seconds, foreign_keys)
    return _postgresql_engine(url, timeout_seconds)


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection in a transaction that sees one state of the database throughout."""
    with engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A connection in a transaction that is committed at the end, or rolled back by any exception."""
    with engine.connect().execution_options(**{_WRITING: True}) as connection, connection.begin():
        yield connection


def _sqlite_engine(url: URL, timeout_seconds: float, foreign_keys: bool) -> Engine:
    # isolation_level None keeps the driver from beginning transactions on its own.
    arguments: dict[str, Any] = {"timeout": timeout_seconds, "isolation_level": None}
    if file_path(url) is None:
        # A database in memory lives as long as its one connection.
        engine = sqlalchemy.create_engine(url, poolclass=StaticPool, connect_args=arguments)
    else:
        engine = sqlalchemy.create_engine(url, connect_args=arguments)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        _use_write_ahead_log(connection, timeout_seconds)
        # With a write-ahead log NORMAL survives a killed process whole; a power cut may cost the last commits,
        # never part of one.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads first and writes later fails at once when another writer came between; taking
        # the write lock at the start waits for it instead.
        immediate = connection.get_execution_options().get(_WRITING, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def _use_write_ahead_log(connection: sqlite3.Connection, timeout_seconds: float) -> None:
    # Processes that create one file together would fail here, as SQLite itself does not wait to change the mode.
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)


def _postgresql_engine(url: URL, timeout_seconds: float) -> Engine:
    # Text from a database without an encoding of its own would otherwise come as bytes.
    arguments: dict[str, Any] = {"client_encoding": "utf8"}
    if "connect_timeout" not in url.query:
        arguments["connect_timeout"] = _CONNECT_SECONDS
    try:
        engine = sqlalchemy.create_engine(url, pool_pre_ping=True, connect_args=arguments)
    except ImportError:
        raise MissingExtraError(
            "a PostgreSQL database needs the package psycopg", "pip install 'codesign-opt[postgres]'"
        ) from None

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {max(1, round(timeout_seconds * 1000))}")
        connection.commit()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if not connection.get_execution_options().get(_WRITING, False):
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

    return engine
