"""Who may write a study: one process, and another one at once when that is gone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from codesign_opt.db import Database, open_database
from codesign_opt.errors import StorageError
from codesign_opt.studies.lease import LEASE_SECONDS, lease
from codesign_opt.studies.runner import begin_study
from codesign_opt.studies.specification import StudySpecification

HOST = socket.gethostname()


@pytest.fixture
def database(tiny: Callable[..., StudySpecification], url: str) -> Iterator[Database]:
    with open_database(url) as opened:
        begin_study(tiny(), opened)
        yield opened


def owner_of(database: Database) -> str | None:
    record = database.find_study("tiny")
    assert record is not None
    return record.lease_owner


def dead_process() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_a_lease_is_held_and_given_back(database: Database) -> None:
    with lease(database, "tiny") as owner:
        assert owner_of(database) == owner
        assert owner.startswith(f"{HOST}:{os.getpid()}:")
        record = database.find_study("tiny")
        assert record is not None
        assert record.lease_expires is not None
        assert 0 < (record.lease_expires - datetime.now(UTC)).total_seconds() <= LEASE_SECONDS
    assert owner_of(database) is None


def test_it_is_given_back_after_an_error(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), lease(database, "tiny"):
        raise ZeroDivisionError
    assert owner_of(database) is None


def test_the_error_that_ended_a_run_is_the_one_reported(database: Database) -> None:
    def fail_without_the_study() -> None:
        with lease(database, "tiny"):
            database.delete_study("tiny")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_without_the_study()


def test_a_living_process_is_not_disturbed(database: Database) -> None:
    with lease(database, "tiny") as owner:
        # The parent of the tests lives as well, and started at another moment than this process.
        other = f"{HOST}:{os.getppid()}:{owner_start(os.getppid())}"
        database.release_lease("tiny", owner)
        database.acquire_lease("tiny", other, 60)
        refusal = pytest.raises(StorageError, match=f"'tiny' is being written by {other}")
        with refusal as caught, lease(database, "tiny"):
            pass
        assert caught.value.hint.startswith("wait for the other run to end")
        assert owner_of(database) == other


def test_the_lease_of_a_dead_process_is_taken_over(database: Database) -> None:
    database.acquire_lease("tiny", f"{HOST}:{dead_process()}:1", 3600)
    with lease(database, "tiny") as owner:
        assert owner_of(database) == owner


def test_so_is_that_of_one_that_nobody_has_buried(database: Database) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    try:
        database.acquire_lease("tiny", f"{HOST}:{process.pid}:{owner_start(process.pid)}", 3600)
        with lease(database, "tiny") as owner:
            assert owner_of(database) == owner
    finally:
        process.wait()


def test_a_process_number_that_was_used_again_is_no_living_owner(database: Database) -> None:
    database.acquire_lease("tiny", f"{HOST}:{os.getppid()}:1", 3600)
    with lease(database, "tiny") as owner:
        assert owner_of(database) == owner


@pytest.mark.parametrize("owner", ["elsewhere:1:1", f"{HOST}:not-a-number:1", "written by hand"])
def test_nothing_is_known_of_other_owners(database: Database, owner: str) -> None:
    database.acquire_lease("tiny", owner, 3600)
    with pytest.raises(StorageError, match="is being written by"), lease(database, "tiny"):
        pass
    assert owner_of(database) == owner


def test_an_expired_lease_is_free(database: Database) -> None:
    database.acquire_lease("tiny", "elsewhere:1:1", -1)
    with lease(database, "tiny") as owner:
        assert owner_of(database) == owner


def owner_start(pid: int) -> str:
    """When a process started, as its lease says."""
    status = Path(f"/proc/{pid}/stat")
    return status.read_text().rpartition(")")[2].split()[19] if status.exists() else "0"
