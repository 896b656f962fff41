"""The one place where failures of the database libraries become a StorageError."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from codesign_opt.db.urls import describe
from codesign_opt.errors import StorageError

_LOCKED = (
    "is locked by another process",
    "wait until the other command has ended, then try again; nothing was written",
)
_FULL = ("cannot grow: the disk is full", "free some space, then try again; nothing of this write was kept")
_READ_ONLY = ("is read-only", "change the permissions, or copy the database to where you may write")

_SQLITE = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_NOTADB: ("is not an SQLite database", "name another file; this one was left untouched"),
    sqlite3.SQLITE_CORRUPT: ("is damaged", "restore a backup; `codesign-opt db check` lists the damage"),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", "check that the file and its directory exist and may be written"),
    sqlite3.SQLITE_IOERR: ("cannot be read or written", "check the disk; SQLite does not work on network file systems"),
}

_POSTGRESQL = {
    "53100": _FULL,
    "55P03": _LOCKED,
    "25006": _READ_ONLY,
    "42501": ("does not permit this", "grant the user the right to create and change tables in its schema"),
}

_POSTGRESQL_CONNECT = {
    "password authentication failed": "check user and password",
    "no password supplied": "put the password in the URL, in PGPASSWORD or in ~/.pgpass",
    'role "': "check the user name",
    'database "': "create the database first: createdb NAME",
    "resolve host": "check the host name",
    "translate host": "check the host name",
    "refused": "check host and port, and that the server runs",
    "timeout expired": "check host and port, and that no firewall is in between",
}


@contextmanager
def storage_errors(url: URL) -> Iterator[None]:
    """Turns what SQLAlchemy, sqlite3, psycopg or the system raises into a StorageError that names the database."""
    try:
        yield
    except DBAPIError as error:
        raise _explained(error.orig, url, connecting=error.statement is None) from error
    except sqlite3.Error as error:
        raise _explained(error, url, connecting=False) from error
    except OSError as error:
        raise StorageError(f"database {describe(url)}: {error.strerror}", "check the path") from error
    except UnicodeError as error:
        raise StorageError(f"database {describe(url)}: text that cannot be encoded: {error}") from error
    except SQLAlchemyError as error:
        raise StorageError(f"database {describe(url)}: {error}") from error


def _explained(error: BaseException | None, url: URL, *, connecting: bool) -> StorageError:
    code = getattr(error, "sqlite_errorcode", None)
    # The low byte is the kind of error, the rest its variety.
    known = _SQLITE.get(code & 0xFF) if code is not None else _POSTGRESQL.get(getattr(error, "sqlstate", None) or "")
    if known:
        what, hint = known
        return StorageError(f"database {describe(url)} {what}", hint)
    if connecting and url.drivername != "sqlite":
        reason = _connection_reason(error)
        return StorageError(f"cannot connect to {describe(url)}: {reason}", _connection_hint(reason))
    first_line = str(error).partition("\n")[0]
    return StorageError(f"database {describe(url)}: {first_line}")


def _connection_reason(error: BaseException | None) -> str:
    """What went wrong at last, without advice, which is indented, and without the address."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line[0].isspace()]
    return lines[-1].rpartition(" failed: ")[2].removeprefix("FATAL:").strip() if lines else type(error).__name__


def _connection_hint(reason: str) -> str:
    # A refused connection carries no code, only the words of the client library or the server.
    hints = (hint for words, hint in _POSTGRESQL_CONNECT.items() if words in reason)
    return next(hints, "check user, password, host, port and database name, and that the server runs")
