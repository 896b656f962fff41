"""Batches of evaluations: written whole in one transaction, or not at all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, insert, select, update

from codesign_opt.db import leases
from codesign_opt.db.documents import decode, encode, require_text
from codesign_opt.db.records import BatchRecord, CandidateRecord, EvaluationRecord
from codesign_opt.db.studies import identifier
from codesign_opt.db.tables import batches, candidates, evaluations, studies
from codesign_opt.errors import StorageError

# Below the number of bound values that SQLite and PostgreSQL allow in a statement.
_TRIALS_PER_QUERY = 10_000

_BATCH_COLUMNS = [batches.c[name] for name in ("number", "first_trial", "trials", "sampler", "seconds", "finished")]


def write(
    connection: Connection, study_name: str, batch: BatchRecord, records: Sequence[EvaluationRecord], *, owner: str
) -> None:
    """Inserts the batch, its evaluations and their candidates, and advances the study's counters.

    Raises:
        StorageError: `owner` does not hold the lease, or another batch of that number was written before.
        ValueError: The records contradict each other or hold what cannot be stored.
    """
    _require_consistent(batch, records)
    study_id = identifier(connection, study_name)
    _advance(connection, study_name, batch, owner)
    batch_id = _insert_batch(connection, study_id, batch)
    connection.execute(insert(evaluations), [_evaluation_row(study_id, batch_id, record) for record in records])
    query = select(evaluations.c.number, evaluations.c.id).where(evaluations.c.batch_id == batch_id)
    ids = {row.number: row.id for row in connection.execute(query)}
    rows = [row for record in records for row in _candidate_rows(study_id, ids[record.number], record)]
    if rows:
        connection.execute(insert(candidates), rows)


def read_batches(connection: Connection, study_name: str) -> list[BatchRecord]:
    """The batches of a study in order."""
    query = (
        select(*_BATCH_COLUMNS)
        .where(batches.c.study_id == identifier(connection, study_name))
        .order_by(batches.c.number)
    )
    return [BatchRecord(**row._mapping) for row in connection.execute(query)]


def read_evaluations(connection: Connection, study_name: str) -> list[EvaluationRecord]:
    """The evaluations of a study in order of trial, without their candidates."""
    query = (
        select(evaluations)
        .where(evaluations.c.study_id == identifier(connection, study_name))
        .order_by(evaluations.c.number)
    )
    return [
        EvaluationRecord(
            number=row.number,
            key=row.key,
            point=decode(row.point),
            state=row.state,
            reason=row.reason,
            values=decode(row._mapping["values"]),
            constraints=decode(row.constraints),
            repeat_of=row.repeat_of,
        )
        for row in connection.execute(query)
    ]


def read_candidates(
    connection: Connection, study_name: str, *, trials: Iterable[int] | None, on_front: bool | None
) -> list[CandidateRecord]:
    """The candidates of a study in order of trial and rank, of the given trials and front membership only."""
    query = (
        select(
            candidates.c.id,
            evaluations.c.number,
            candidates.c.rank,
            candidates.c.on_front,
            candidates.c.strategy,
            candidates.c.metrics,
        )
        .join(evaluations, candidates.c.evaluation_id == evaluations.c.id)
        .where(candidates.c.study_id == identifier(connection, study_name))
        .order_by(evaluations.c.number, candidates.c.rank)
    )
    if on_front is not None:
        query = query.where(candidates.c.on_front == on_front)
    if trials is None:
        queries = [query]
    else:
        queries = [query.where(evaluations.c.number.in_(part)) for part in _parts(sorted(set(trials)))]
    return [
        CandidateRecord(
            rank=rank, on_front=on, strategy=decode(strategy), metrics=decode(metrics), trial=trial, id=candidate_id
        )
        for part in queries
        for candidate_id, trial, rank, on, strategy, metrics in connection.execute(part)
    ]


def _require_consistent(batch: BatchRecord, records: Sequence[EvaluationRecord]) -> None:
    numbers = [record.number for record in records]
    if not numbers or numbers != list(range(batch.first_trial, batch.first_trial + batch.trials)):
        raise ValueError(
            f"batch {batch.number} says {batch.trials} trials from {batch.first_trial} on; "
            f"it was given {len(numbers)} evaluations" + (f" from {numbers[0]} to {numbers[-1]}" if numbers else "")
        )
    if not (math.isfinite(batch.seconds) and batch.seconds >= 0):
        raise ValueError(f"batch {batch.number} took {batch.seconds} seconds")
    require_text(batch.sampler, f"sampler of batch {batch.number}")


def _advance(connection: Connection, study_name: str, batch: BatchRecord, owner: str) -> None:
    # Compare and set: whoever comes second finds the counters moved and changes nothing.
    advanced = connection.execute(
        update(studies)
        .where(
            studies.c.name == study_name,
            studies.c.lease_owner == owner,
            studies.c.batches == batch.number,
            studies.c.trials == batch.first_trial,
        )
        .values(
            batches=studies.c.batches + 1,
            trials=studies.c.trials + batch.trials,
            seconds=studies.c.seconds + batch.seconds,
        )
    )
    if advanced.rowcount:
        return
    study = connection.execute(select(studies).where(studies.c.name == study_name)).one()
    if study.lease_owner != owner:
        raise leases.refusal(connection, study_name)
    raise StorageError(
        f"batch {batch.number} of study '{study_name}', from trial {batch.first_trial} on, is not the next one: "
        f"the study holds {study.batches} batches and {study.trials} trials",
        "another process wrote to the study; resume it to continue from what is stored",
    )


def _insert_batch(connection: Connection, study_id: int, batch: BatchRecord) -> int:
    row = {column.name: getattr(batch, column.name) for column in _BATCH_COLUMNS}
    connection.execute(insert(batches).values(study_id=study_id, **row))
    query = select(batches.c.id).where(batches.c.study_id == study_id, batches.c.number == batch.number)
    batch_id: int = connection.execute(query).scalar_one()
    return batch_id


def _evaluation_row(study_id: int, batch_id: int, record: EvaluationRecord) -> dict[str, Any]:
    where = f"trial {record.number}: "
    return {
        "study_id": study_id,
        "batch_id": batch_id,
        "number": record.number,
        "key": require_text(record.key, where + "key"),
        "point": encode(record.point, where + "point"),
        "state": record.state,
        "reason": require_text(record.reason, where + "reason"),
        "values": encode(record.values, where + "values"),
        "constraints": encode(record.constraints, where + "constraints"),
        "repeat_of": record.repeat_of,
    }


def _candidate_rows(study_id: int, evaluation_id: int, record: EvaluationRecord) -> Iterator[dict[str, Any]]:
    for candidate in record.candidates:
        where = f"trial {record.number}, candidate {candidate.rank}: "
        yield {
            "study_id": study_id,
            "evaluation_id": evaluation_id,
            "rank": candidate.rank,
            "on_front": candidate.on_front,
            "strategy": encode(candidate.strategy, where + "strategy"),
            "metrics": encode(candidate.metrics, where + "metrics"),
        }


def _parts(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), _TRIALS_PER_QUERY):
        yield numbers[start : start + _TRIALS_PER_QUERY]
