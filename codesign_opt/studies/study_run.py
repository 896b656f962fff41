"""A study as it runs: what is stored of it, and batches added to that."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import takewhile

import numpy as np

from codesign_opt.db import BatchRecord, CandidateRecord, Database, EvaluationRecord
from codesign_opt.objectives import pareto_front
from codesign_opt.studies.evaluator import Evaluate
from codesign_opt.studies.lease import LEASE_SECONDS
from codesign_opt.studies.outcome import Outcome
from codesign_opt.studies.points import Point, point_key
from codesign_opt.studies.proposals import Trial
from codesign_opt.studies.specification import StudySpecification

POLISH = "polish"
"""What the database records as the proposer of a batch of `polish.polish_study`."""


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


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch of the database: what proposed it, and its trials."""

    sampler: str
    trials: Sequence[Trial]


@dataclass
class StudyRun:
    """What is stored of a study, as far as the next batch needs it.

    Attributes:
        owner: Who holds the study's lease.
        batches, trials, seconds: Totals of what is stored.
        repeated_batches: Batches since the last one with a new point.
        known: Key of each point evaluated to the number of its first trial, and what became of it.
    """

    specification: StudySpecification
    database: Database
    owner: str
    batches: int = 0
    trials: int = 0
    seconds: float = 0.0
    repeated_batches: int = 0
    known: dict[str, tuple[int, Outcome]] = field(default_factory=dict)
    _front_values: list[list[float]] = field(default_factory=list)

    @classmethod
    def restored(
        cls, specification: StudySpecification, database: Database, owner: str
    ) -> tuple[StudyRun, list[StoredBatch]]:
        """The run after everything that is stored, and the batches that are."""
        run = cls(specification, database, owner)
        evaluations = database.read_evaluations(specification.name)
        stored = []
        for batch in database.read_batches(specification.name):
            rows = evaluations[batch.first_trial : batch.first_trial + batch.trials]
            stored.append(StoredBatch(batch.sampler, [_stored_trial(row) for row in rows]))
            run._note(stored[-1].trials, batch.seconds)
        on_front = database.read_candidates(specification.name, on_front=True)
        run._front_values = [run._minimized(candidate.metrics) for candidate in on_front]
        return run, stored

    @property
    def time_is_up(self) -> bool:
        """Whether the study has spent its budget of time, if it has one."""
        return self._is_over(self.seconds)

    def add_batch(self, points: Sequence[Point], evaluate: Evaluate, *, sampler: str, start: float) -> list[Trial]:
        """Evaluate points and store what became of them in one batch; nothing is stored if that fails.

        Args:
            points: In the order proposed; the last ones are left out where the time of the study runs out.
            evaluate: Evaluates those that are new.
            sampler: What proposed them.
            start: When the work on the batch began, by `time.perf_counter`.
        """
        self.database.renew_lease(self.specification.name, self.owner, LEASE_SECONDS)
        trials = self._trials(points, evaluate, start)
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
        return trials

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
            front=len(pareto_front(np.unique(np.array(self._front_values), axis=0))) if self._front_values else 0,
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
                self._front_values.extend(self._minimized(candidate.metrics) for candidate in on_front)
        self.repeated_batches = self.repeated_batches + 1 if len(self.known) == known else 0
        self.batches += 1
        self.trials += len(trials)
        self.seconds += seconds

    def _minimized(self, metrics: Mapping[str, float]) -> list[float]:
        objectives = self.specification.objectives
        return [float(objective.minimized(np.array(metrics[objective.metric]))) for objective in objectives]


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
