"""Leases: at most one writer a study.

A writer that dies leaves its lease behind; it can be taken over once expired. Moments are those of the database
server's clock, so that writers on machines whose clocks differ agree.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, func, or_, select, update

from codesign_opt.db import studies
from codesign_opt.db.documents import require_text
from codesign_opt.db.tables import Moment
from codesign_opt.db.tables import studies as table
from codesign_opt.errors import StorageError


def acquire(connection: Connection, name: str, owner: str, seconds: float) -> datetime:
    """Makes `owner` the writer for `seconds`; returns when that ends.

    Raises:
        StorageError: Another owner's lease has not expired.
    """
    now = _now(connection)
    expires = now + timedelta(seconds=seconds)
    free = or_(
        table.c.lease_owner.is_(None),
        table.c.lease_owner == require_text(owner, "lease owner"),
        table.c.lease_expires <= now,
    )
    taken = connection.execute(
        update(table).where(table.c.name == name, free).values(lease_owner=owner, lease_expires=expires)
    )
    if taken.rowcount == 0:
        raise refusal(connection, name)
    return expires


def renew(connection: Connection, name: str, owner: str, seconds: float) -> datetime:
    """Prolongs the lease to `seconds` from now, even if expired, as long as nobody took it over; returns its end.

    Raises:
        StorageError: `owner` does not hold the lease any more.
    """
    expires = _now(connection) + timedelta(seconds=seconds)
    held = connection.execute(
        update(table).where(table.c.name == name, table.c.lease_owner == owner).values(lease_expires=expires)
    )
    if held.rowcount == 0:
        raise refusal(connection, name)
    return expires


def release(connection: Connection, name: str, owner: str) -> bool:
    """Gives the lease back; whether `owner` still held it."""
    held = connection.execute(
        update(table)
        .where(table.c.name == name, table.c.lease_owner == owner)
        .values(lease_owner=None, lease_expires=None)
    )
    return held.rowcount > 0


def refusal(connection: Connection, name: str) -> StorageError:
    """The error for a writer without the lease: names who holds it and until when."""
    study = studies.find(connection, name)
    if study is None:
        return studies.missing(connection, name)
    if study.lease_owner is None or study.lease_expires is None:
        return StorageError(f"the lease on study '{name}' is not held", "acquire it before writing")
    return StorageError(
        f"study '{name}' is being written by {study.lease_owner}, whose lease ends at "
        f"{study.lease_expires.isoformat(timespec='seconds')}",
        "wait for the other run to end; if it was killed, its lease is free after that moment",
    )


def _now(connection: Connection) -> datetime:
    if connection.dialect.name == "sqlite":
        return datetime.now(UTC)
    moment: datetime = connection.scalar(select(func.clock_timestamp(type_=Moment)))  # type: ignore[assignment]
    return moment
