"""Queries on the table of studies."""

from __future__ import annotations

import unicodedata

from sqlalchemy import Connection, Row, delete, insert, select
from sqlalchemy.exc import IntegrityError

from codesign_opt.db.documents import decode, encode, require_text
from codesign_opt.db.records import StudyRecord
from codesign_opt.db.tables import NAME_LENGTH, studies
from codesign_opt.db.urls import describe
from codesign_opt.errors import StorageError, nearest

_COLUMNS = [column for column in studies.c if column is not studies.c.id]


def create(connection: Connection, record: StudyRecord) -> None:
    """Inserts a study that has no batches yet."""
    _require_name(record.name)
    if (record.batches, record.trials, record.seconds) != (0, 0, 0.0):
        raise ValueError(f"a new study has no batches, trials or seconds: {record!r}")
    if not 0 <= record.seed < 2**63:
        raise ValueError(f"seed is {record.seed}, not in 0 … 2**63 - 1")
    row = {column.name: getattr(record, column.name) for column in _COLUMNS}
    row["versions"] = encode(record.versions, "versions")
    for name in ("specification", "specification_hash", "parent", "lease_owner"):
        require_text(row[name] or "", name)
    try:
        connection.execute(insert(studies).values(row))
    except IntegrityError:
        raise StorageError(
            f"study '{record.name}' exists already in {describe(connection.engine.url)}",
            "choose another name, resume the study, or delete it first",
        ) from None


def find(connection: Connection, name: str) -> StudyRecord | None:
    """The study of that name, or None."""
    row = connection.execute(select(*_COLUMNS).where(studies.c.name == name)).first()
    return None if row is None else _record(row)


def list_all(connection: Connection) -> list[StudyRecord]:
    """All studies, oldest first."""
    return [_record(row) for row in connection.execute(select(*_COLUMNS).order_by(studies.c.created, studies.c.id))]


def remove(connection: Connection, name: str) -> bool:
    """Deletes the study; the database deletes all that refers to it. Whether there was one."""
    return connection.execute(delete(studies).where(studies.c.name == name)).rowcount > 0


def identifier(connection: Connection, name: str) -> int:
    """The key of the study of that name.

    Raises:
        StorageError: There is none; the hint names similar ones.
    """
    key: int | None = connection.scalar(select(studies.c.id).where(studies.c.name == name))
    if key is None:
        raise missing(connection, name)
    return key


def missing(connection: Connection, name: str) -> StorageError:
    """The error for a study that does not exist."""
    names = connection.scalars(select(studies.c.name).order_by(studies.c.name)).all()
    hint = nearest(name, names) if names else "it holds no studies yet"
    return StorageError(f"no study '{name}' in {describe(connection.engine.url)}", hint)


def _record(row: Row[tuple[object, ...]]) -> StudyRecord:
    fields = dict(row._mapping)
    fields["versions"] = decode(fields["versions"])
    return StudyRecord(**fields)


def _require_name(name: str) -> None:
    if not name.strip():
        raise StorageError("a study needs a name that is not blank", "for example 'llama3-70b on 512 processors'")
    if len(name) > NAME_LENGTH:
        raise StorageError(
            f"study name of {len(name)} characters: '{name[:40]}…'", f"at most {NAME_LENGTH} characters are allowed"
        )
    # Control characters, halves of surrogate pairs, and code points that are no characters.
    unprintable = [character for character in name if unicodedata.category(character) in ("Cc", "Cs", "Cn")]
    if unprintable:
        raise StorageError(f"study name {name!r} holds the character {unprintable[0]!r}", "use printable characters")
