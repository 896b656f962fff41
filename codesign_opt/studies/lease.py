"""Who writes a study: one process at a time, and nobody after it died."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from codesign_opt.db import Database
from codesign_opt.errors import StorageError

LEASE_SECONDS = 300.0
"""How long a lease lasts unless it is renewed; far longer than a batch."""


@contextmanager
def lease(database: Database, study: str) -> Iterator[str]:
    """Hold the study's lease and yield its owner's name.

    The lease of a process of this machine that is gone is taken over at once.

    Raises:
        StorageError: When another process writes the study.
    """
    owner = _owner(os.getpid())
    record = database.find_study(study)
    if record is not None and record.lease_owner is not None and _is_gone(record.lease_owner):
        database.release_lease(study, record.lease_owner)
    database.acquire_lease(study, owner, LEASE_SECONDS)
    try:
        yield owner
    finally:
        # Whatever ended the run is the error to report; an unreleased lease expires.
        with suppress(StorageError):
            database.release_lease(study, owner)


def _owner(pid: int) -> str:
    return f"{socket.gethostname()}:{pid}:{_started(pid)}"


def _is_gone(owner: str) -> bool:
    host, _, process = owner.partition(":")
    pid = process.partition(":")[0]
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    return not _exists(int(pid)) or _owner(int(pid)) != owner


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _status(pid)[:1] != ["Z"]


def _started(pid: int) -> str:
    """When the process began, in ticks since boot where the system tells: process numbers are used again."""
    return (_status(pid)[19:20] or ["0"])[0]


def _status(pid: int) -> list[str]:
    """State, parent and so on of a process, as Linux tells them; empty elsewhere."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
