"""What may be said about an SQLite file before it is opened for writing."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from codesign_opt.db.schema import VERSION_TABLE
from codesign_opt.errors import StorageError

FileIdentity = tuple[int, int]


def require_usable(path: Path, *, create: bool) -> None:
    """Refuses, without changing anything, a path that cannot hold the study database.

    Raises:
        StorageError: A directory, a missing file or parent directory, missing permissions, or a file that
            belongs to another program.
        sqlite3.Error: The file is not a database, or is damaged.
        OSError: The system does not say what is at the path.
    """
    if path.is_dir():
        raise StorageError(
            f"{path} is a directory, not a database file", f"name a file in it, such as {path / 'studies.db'}"
        )
    if not path.parent.is_dir():
        raise StorageError(f"cannot open {path}: the directory {path.parent} does not exist", f"mkdir -p {path.parent}")
    if not path.exists():
        if not create:
            raise StorageError(f"no database at {path}", "check the path, or run a search, which creates it")
        _require_permission(path.parent, os.W_OK | os.X_OK, "create files in", path)
        return
    if not path.is_file():
        raise StorageError(f"{path} is not a regular file", "name a file")
    _require_permission(path, os.R_OK, "read", path)
    _require_permission(path, os.W_OK, "write", path)
    # SQLite keeps its write-ahead log in a file next to the database.
    _require_permission(path.parent, os.W_OK | os.X_OK, "create files in", path)
    _require_not_foreign(path)


def identity(path: Path) -> FileIdentity | None:
    """What tells this file from another at the same path; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _require_permission(target: Path, mode: int, verb: str, database: Path) -> None:
    # A process with changed user (sudo, setuid) is judged as who it is now, where the system can tell.
    if not os.access(target, mode, effective_ids=os.access in os.supports_effective_ids):
        raise StorageError(
            f"cannot open {database}: no permission to {verb} {target}",
            "change the permissions, or copy the database to where you may write",
        )


def _require_not_foreign(path: Path) -> None:
    try:
        tables = _tables(path, "ro")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
            raise
        # A killed process left a transaction half written; SQLite takes it back as soon as it may write.
        tables = _tables(path, "rw")
    if tables and VERSION_TABLE not in tables:
        shown = ", ".join(sorted(tables)[:3]) + (", …" if len(tables) > 3 else "")
        raise StorageError(
            f"{path} is a database of another program (its tables: {shown}); left untouched",
            "name another file for the studies",
        )


def _tables(path: Path, mode: str) -> set[str]:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True)
    try:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    finally:
        connection.close()
