"""Runs a study: proposes, evaluates and stores batch after batch until its budget is spent."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Literal

from codesign_opt import __version__
from codesign_opt.db import Database, StudyRecord
from codesign_opt.errors import StorageError
from codesign_opt.studies.budget import Budget
from codesign_opt.studies.canonical import (
    difference,
    specification_from_dict,
    specification_hash,
    specification_to_dict,
)
from codesign_opt.studies.evaluator import Evaluate, evaluator
from codesign_opt.studies.flat import strategy_dimensions
from codesign_opt.studies.lease import lease
from codesign_opt.studies.points import Dimension, hardware_dimensions, number_of_points
from codesign_opt.studies.proposals import Proposer, proposer
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.studies.study_run import POLISH, Progress, StudyRun

ENUMERATED_POINTS = 1000
"""`auto` enumerates hardware with at most so many points."""

REPEATED_BATCHES = 20
"""So many batches in a row without a new point end a study."""

Finished = Literal["budget", "exhausted"]


def run_study(
    specification: StudySpecification,
    database: Database,
    *,
    workers: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> Finished:
    """Begin or continue the study of that name, and run it to its budget.

    Args:
        specification: The study; its budget is the total over all runs.
        database: Where it is stored.
        workers: Processes that evaluate; results do not depend on their number.
        progress: Called after every batch.

    Returns:
        Why it ended.

    Raises:
        StorageError: Where another specification is stored under the name, or another process writes the study.
        MissingExtraError: For a sampler whose optional package is not installed; nothing is stored.
    """
    proposing = _proposer(specification)
    points = number_of_points(_dimensions(specification))
    begin_study(specification, database)
    with (
        lease(database, specification.name) as owner,
        evaluator(specification, search_method(specification), workers) as evaluate,
    ):
        run, stored = StudyRun.restored(specification, database, owner)
        # What polishing tried is no part of the sampler's sequence, so a polished study goes on as any other.
        proposing.restore([batch.trials for batch in stored if batch.sampler != POLISH])
        while (finished := _finished(run, points)) is None:
            _one_batch(run, proposing, evaluate)
            if progress is not None:
                progress(run.progress())
        return finished


def begin_study(specification: StudySpecification, database: Database) -> StudyRecord:
    """The stored record of a study, created where there is none.

    Raises:
        StorageError: Where another specification is stored under the name; the hint lists what differs.
    """
    known = database.find_study(specification.name)
    if known is None:
        record = _new_record(specification)
        try:
            database.create_study(record)
            return record
        except StorageError:
            # Another process may have created it in between; the lease decides which of the two writes.
            known = database.find_study(specification.name)
            if known is None:
                raise
    _require_same(specification, known)
    return known


def search_method(specification: StudySpecification) -> str:
    """The method of a study, with `auto` decided: `exact` for few machines, else `bilevel`."""
    if specification.method != "auto":
        return specification.method
    points = number_of_points(hardware_dimensions(specification))
    return "exact" if points <= ENUMERATED_POINTS else "bilevel"


def _finished(run: StudyRun, points: float) -> Finished | None:
    """Why there is no next batch, if so; `points` is how many there are to try."""
    trials = run.specification.budget.trials
    if (trials is not None and len(run.known) >= trials) or run.time_is_up:
        return "budget"
    if len(run.known) >= points or run.repeated_batches >= REPEATED_BATCHES:
        return "exhausted"
    return None


def _one_batch(run: StudyRun, proposer: Proposer, evaluate: Evaluate) -> None:
    start = time.perf_counter()
    sampler = proposer.name
    points = proposer.propose(_batch_size(proposer, run.specification.budget, len(run.known)))
    proposer.record(run.add_batch(points, evaluate, sampler=sampler, start=start))


def _proposer(specification: StudySpecification) -> Proposer:
    return proposer(
        "exact" if search_method(specification) == "exact" else specification.sampler,
        _dimensions(specification),
        specification.objectives,
        specification.seed,
    )


def _dimensions(specification: StudySpecification) -> tuple[Dimension, ...]:
    hardware = hardware_dimensions(specification)
    return (*hardware, *strategy_dimensions()) if search_method(specification) == "flat" else hardware


def _batch_size(proposer: Proposer, budget: Budget, evaluated: int) -> int:
    if budget.trials is None:
        return proposer.batch
    return min(proposer.batch, budget.trials - evaluated)


def _new_record(specification: StudySpecification) -> StudyRecord:
    return StudyRecord(
        name=specification.name,
        specification=json.dumps(specification_to_dict(specification)),
        specification_hash=specification_hash(specification),
        versions={
            "python": platform.python_version(),
            "codesign-opt": __version__,
            **{name: version(name) for name in ("numpy", "optuna", "scipy")},
        },
        seed=specification.seed,
        created=datetime.now(UTC),
    )


def _require_same(specification: StudySpecification, known: StudyRecord) -> None:
    if known.specification_hash == specification_hash(specification):
        return
    stored = specification_from_dict(json.loads(known.specification), where=f"study '{known.name}'")
    changes = difference(stored, specification)
    raise StorageError(
        f"a study named '{known.name}' with another specification is stored already:\n  " + "\n  ".join(changes),
        "give the new study another name, or delete the stored one",
    )
