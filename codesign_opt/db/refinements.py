"""Candidates scored again by the simulator."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from codesign_opt.db.documents import decode, encode, require_text
from codesign_opt.db.records import RefinementRecord
from codesign_opt.db.studies import identifier
from codesign_opt.db.tables import candidates, evaluations, refinements
from codesign_opt.db.urls import describe
from codesign_opt.errors import StorageError

_COLUMNS = [column for column in refinements.c if column is not refinements.c.id]


def write(connection: Connection, records: Iterable[RefinementRecord]) -> None:
    """Inserts the refinements; what the same simulator version said of the same candidate before is kept.

    Raises:
        StorageError: A candidate does not exist, or not any more.
        ValueError: A record holds what cannot be stored.
    """
    rows = [
        {
            "candidate_id": record.candidate_id,
            "simulator_version": require_text(record.simulator_version, "simulator version"),
            "metrics": encode(record.metrics, f"refinement of candidate {record.candidate_id}: metrics"),
            "notes": encode(record.notes, f"refinement of candidate {record.candidate_id}: notes"),
            "created": record.created,
        }
        for record in records
    ]
    if not rows:
        return
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    keep = insert(refinements).on_conflict_do_nothing(index_elements=["candidate_id", "simulator_version"])
    try:
        connection.execute(keep, rows)
    except IntegrityError:
        raise StorageError(
            f"a refined candidate is not in {describe(connection.engine.url)}",
            "its study was deleted meanwhile; nothing was written",
        ) from None


def read(connection: Connection, study_name: str) -> list[RefinementRecord]:
    """The refinements of a study in order of trial, rank and time."""
    query = (
        select(*_COLUMNS)
        .join(candidates, refinements.c.candidate_id == candidates.c.id)
        .join(evaluations, candidates.c.evaluation_id == evaluations.c.id)
        .where(candidates.c.study_id == identifier(connection, study_name))
        .order_by(evaluations.c.number, candidates.c.rank, refinements.c.created, refinements.c.id)
    )
    return [
        RefinementRecord(
            candidate_id=row.candidate_id,
            simulator_version=row.simulator_version,
            metrics=decode(row.metrics),
            notes=decode(row.notes),
            created=row.created,
        )
        for row in connection.execute(query)
    ]
