"""One writer a study."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from codesign_opt.db import BatchRecord, EvaluationRecord, open_database
from codesign_opt.errors import StorageError

OWNER, RIVAL = "host-1:4711", "host-2:99"


def test_a_lease_keeps_others_out_until_released(held_study: str) -> None:
    with open_database(held_study) as database:
        before = datetime.now(UTC)
        expires = database.acquire_lease("s", OWNER, 60)
        assert timedelta(seconds=59) < expires - before < timedelta(seconds=90)
        found = database.find_study("s")
        assert found is not None
        assert (found.lease_owner, found.lease_expires) == (OWNER, expires)
        for use in (database.acquire_lease, database.renew_lease):
            with pytest.raises(StorageError) as caught:
                use("s", RIVAL, 60)
            assert OWNER in caught.value.message
            assert expires.isoformat(timespec="seconds") in caught.value.message
        assert database.release_lease("s", RIVAL) is False
        assert database.release_lease("s", OWNER) is True
        found = database.find_study("s")
        assert found is not None
        assert (found.lease_owner, found.lease_expires) == (None, None)
        database.acquire_lease("s", RIVAL, 60)


def test_renewal_moves_the_end(held_study: str) -> None:
    with open_database(held_study) as database:
        short = database.acquire_lease("s", OWNER, 10)
        longer = database.renew_lease("s", OWNER, 1000)
        assert longer - short > timedelta(seconds=900)
        database.release_lease("s", OWNER)
        with pytest.raises(StorageError, match="is not held"):
            database.renew_lease("s", OWNER, 10)


def test_an_expired_lease_is_taken_over_and_its_owner_can_write_no_more(
    held_study: str, batch: Callable[..., tuple[BatchRecord, list[EvaluationRecord]]]
) -> None:
    with open_database(held_study) as database, open_database(held_study) as rival:
        database.acquire_lease("s", OWNER, 0.01)
        time.sleep(0.02)
        database.write_batch("s", *batch(), owner=OWNER)  # nobody took it over yet
        expires = rival.acquire_lease("s", RIVAL, 60)
        for use in (
            lambda: database.write_batch("s", *batch(1, 3, 1), owner=OWNER),
            lambda: database.renew_lease("s", OWNER, 60),
            lambda: database.acquire_lease("s", OWNER, 60),
        ):
            with pytest.raises(StorageError, match=f"being written by {RIVAL}") as caught:
                use()
            assert expires.isoformat(timespec="seconds") in caught.value.message
        assert database.release_lease("s", OWNER) is False
        rival.write_batch("s", *batch(1, 3, 1), owner=RIVAL)
        assert len(database.read_evaluations("s")) == 4


def test_writing_needs_a_lease(
    held_study: str, batch: Callable[..., tuple[BatchRecord, list[EvaluationRecord]]]
) -> None:
    with open_database(held_study) as database:
        database.release_lease("s", OWNER)
        with pytest.raises(StorageError, match="is not held"):
            database.write_batch("s", *batch(), owner=OWNER)
        assert database.read_evaluations("s") == []
