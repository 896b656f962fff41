"""Runs a study: proposes, evaluates and stores batch after batch until its budget is spent."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import takewhile
from typing import Literal

import numpy as np

from codesign_opt import __version__
from codesign_opt.db import (
    BatchRecord,
    CandidateRecord,
    Database,
    EvaluationRecord,
    StudyRecord,
)
from codesign_opt.errors import StorageError
from codesign_opt.objectives import pareto_front
from codesign_opt.studies.budget import Budget
from codesign_opt.studies.canonical import (
    difference,
    specification_from_dict,
    specification_hash,
    specification_to_dict,
)
from codesign_opt.studies.evaluator import Evaluate, evaluator
from codesign_opt.studies.flat import strategy_dimensions
from codesign_opt.studies.lease import LEASE_SECONDS, lease
from codesign_opt.studies.outcome import Outcome
from codesign_opt.studies.points import (
    Dimension,
    Point,
    hardware_dimensions,
    number_of_points,
    point_key,
)
from codesign_opt.studies.proposals import Proposer, Trial, proposer
from codesign_opt.studies.specification import StudySpecification

ENUMERATED_POINTS = 1000
"""`auto` enumerates hardware with at most so many points."""

REPEATED_BATCHES = 20
"""So many batches in a row without a new point end a study."""

Finished = Literal["budget", "exhausted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a study has come: new points evaluated and seconds spent, each with its budget if it has one; how many
    of the points are feasible, and how many rows the front has.
    """

    trials: int
    budget_trials: int | None
    seconds: float
    budget_seconds: float | None
    feasible: int
    front: int


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
    begin_study(specification, database)
    with (
        lease(database, specification.name) as owner,
        evaluator(specification, search_method(specification), workers) as evaluate,
    ):
        run = _Run.restored(specification, database, owner, proposing)
        while (finished := run.finished()) is None:
            run.one_batch(evaluate)
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


@dataclass
class _Run:
    """A study as it runs: what is stored, and what the next batch needs to know of it."""

    specification: StudySpecification
    database: Database
    owner: str
    proposer: Proposer
    points: float
    batches: int = 0
    trials: int = 0
    seconds: float = 0.0
    repeated_batches: int = 0
    known: dict[str, tuple[int, Outcome]] = field(default_factory=dict)
    values: list[list[float]] = field(default_factory=list)

    @classmethod
    def restored(cls, specification: StudySpecification, database: Database, owner: str, proposing: Proposer) -> _Run:
        """The run after everything that is stored."""
        run = cls(
            specification=specification,
            database=database,
            owner=owner,
            proposer=proposing,
            points=number_of_points(_dimensions(specification)),
        )
        evaluations = database.read_evaluations(specification.name)
        batches = database.read_batches(specification.name)
        stored = [
            [_stored_trial(evaluation) for evaluation in evaluations[b.first_trial : b.first_trial + b.trials]]
            for b in batches
        ]
        run.proposer.restore(stored)
        for batch, trials in zip(batches, stored, strict=True):
            run._note(trials, batch.seconds)
        on_front = database.read_candidates(specification.name, on_front=True)
        run.values = [run._minimized(candidate.metrics) for candidate in on_front]
        return run

    def finished(self) -> Finished | None:
        """Why there is no next batch, if so."""
        trials = self.specification.budget.trials
        if (trials is not None and len(self.known) >= trials) or self._is_over(self.seconds):
            return "budget"
        if len(self.known) >= self.points or self.repeated_batches >= REPEATED_BATCHES:
            return "exhausted"
        return None

    def one_batch(self, evaluate: Evaluate) -> None:
        """Propose, evaluate and store one batch; nothing of it is stored if that fails."""
        start = time.perf_counter()
        self.database.renew_lease(self.specification.name, self.owner, LEASE_SECONDS)
        sampler = self.proposer.name
        points = self.proposer.propose(_batch_size(self.proposer, self.specification.budget, len(self.known)))
        trials = self._trials(points, evaluate, start)
        self.proposer.record(trials)
        records = self._records(trials)
        seconds = time.perf_counter() - start
        batch = BatchRecord(
            number=self.batches,
            first_trial=self.trials,
            trials=len(trials),
            sampler=sampler,
            seconds=seconds,
            finished=datetime.now(UTC),
        )
        self.database.write_batch(self.specification.name, batch, records, owner=self.owner)
        self._note(trials, seconds)

    def progress(self) -> Progress:
        """How far it is."""
        budget = self.specification.budget
        feasible = sum(outcome.state == "complete" for _, outcome in self.known.values())
        return Progress(
            trials=len(self.known),
            budget_trials=budget.trials,
            seconds=self.seconds,
            budget_seconds=budget.seconds,
            feasible=feasible,
            front=len(pareto_front(np.unique(np.array(self.values), axis=0))) if self.values else 0,
        )

    def _trials(self, points: Sequence[Point], evaluate: Evaluate, start: float) -> list[Trial]:
        """What became of the points; of the first ones only where the time of the study runs out."""
        keys = [point_key(point) for point in points]
        new = {key: point for key, point in zip(keys, points, strict=True) if key not in self.known}
        outcomes = {key: self.known[key][1] for key in keys if key in self.known}
        for key, outcome in zip(new, evaluate(list(new.values())), strict=True):
            outcomes[key] = outcome
            if self._is_over(self.seconds + time.perf_counter() - start):
                break
        decided = takewhile(lambda pair: pair[0] in outcomes, zip(keys, points, strict=True))
        return [Trial(key=key, point=point, outcome=outcomes[key]) for key, point in decided]

    def _is_over(self, seconds: float) -> bool:
        limit = self.specification.budget.seconds
        return limit is not None and seconds >= limit

    def _records(self, trials: Sequence[Trial]) -> list[EvaluationRecord]:
        first: dict[str, int] = {}
        records = []
        for number, trial in enumerate(trials, start=self.trials):
            known = self.known[trial.key][0] if trial.key in self.known else first.get(trial.key)
            records.append(_record(number, trial, known))
            first.setdefault(trial.key, number)
        return records

    def _note(self, trials: Sequence[Trial], seconds: float) -> None:
        known = len(self.known)
        for number, trial in enumerate(trials, start=self.trials):
            if trial.key not in self.known:
                self.known[trial.key] = (number, trial.outcome)
                on_front = [candidate for candidate in trial.outcome.candidates if candidate.on_front]
                self.values.extend(self._minimized(candidate.metrics) for candidate in on_front)
        self.repeated_batches = self.repeated_batches + 1 if len(self.known) == known else 0
        self.batches += 1
        self.trials += len(trials)
        self.seconds += seconds

    def _minimized(self, metrics: Mapping[str, float]) -> list[float]:
        objectives = self.specification.objectives
        return [float(objective.minimized(np.array(metrics[objective.metric]))) for objective in objectives]


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


def _stored_trial(evaluation: EvaluationRecord) -> Trial:
    values: Mapping[str, float] = {k: v for k, v in evaluation.values.items() if v is not None}
    return Trial(
        key=evaluation.key,
        point=evaluation.point,
        outcome=Outcome(
            state=evaluation.state, reason=evaluation.reason, values=values, constraints=evaluation.constraints
        ),
    )


def _record(number: int, trial: Trial, repeat_of: int | None) -> EvaluationRecord:
    outcome = trial.outcome
    return EvaluationRecord(
        number=number,
        key=trial.key,
        point=trial.point,
        state=outcome.state,
        reason=outcome.reason,
        values=outcome.values,
        constraints=outcome.constraints,
        repeat_of=repeat_of,
        candidates=()
        if repeat_of is not None
        else tuple(
            CandidateRecord(
                rank=rank, on_front=candidate.on_front, strategy=candidate.strategy, metrics=candidate.metrics
            )
            for rank, candidate in enumerate(outcome.candidates)
        ),
    )
