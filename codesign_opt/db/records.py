"""The records that go into the database and come out of it, one class a table.

Documents (`Mapping` fields) hold what JSON can: text keys, finite numbers, text, booleans, None, lists and
further documents. Moments are aware datetimes, and kept in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args

Document = Mapping[str, Any]
EvaluationState = Literal["complete", "infeasible", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRecord:
    """A study and how far it has come.

    Attributes:
        name: Unique in the database, 1 to 255 printable characters.
        specification: The whole specification, as JSON text; kept to the letter.
        specification_hash: Digest of the specification, compared on resume.
        versions: Versions of the tool, Python and the libraries that shaped the study.
        seed: Seed of the study, 0 to 2**63 - 1.
        created: When the study was created.
        batches: Batches written so far, which is the number of the next batch.
        trials: Trials written so far, which is the number of the next trial; counted against the budget.
        seconds: Time spent so far.
        parent: Name of the study this one was forked from.
        lease_owner: Who may write, or None.
        lease_expires: When somebody else may take over, or None.
    """

    name: str
    specification: str
    specification_hash: str
    versions: Document
    seed: int
    created: datetime
    batches: int = 0
    trials: int = 0
    seconds: float = 0.0
    parent: str | None = None
    lease_owner: str | None = None
    lease_expires: datetime | None = None

    def __post_init__(self) -> None:
        _keep_in_utc(self, "created")
        _keep_in_utc(self, "lease_expires")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """Trials that were proposed, evaluated and written together.

    Attributes:
        number: Position in the study, from 0.
        first_trial: Number of the first trial.
        trials: How many trials, repeats included; they are numbered without holes.
        sampler: Name of what proposed them.
        seconds: Time from proposal to result.
        finished: When the last result was there.
    """

    number: int
    first_trial: int
    trials: int
    sampler: str
    seconds: float
    finished: datetime

    def __post_init__(self) -> None:
        _keep_in_utc(self, "finished")


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRecord:
    """One of the best strategies of an evaluation.

    Attributes:
        rank: Position within the evaluation, 0 is best.
        on_front: Whether it is on the evaluation's own Pareto front.
        strategy: Option name to value.
        metrics: Metric name to value, SI units.
        trial: Number of the trial it belongs to; set when read, and not compared.
        id: Key by which refinements refer to it; set when read, and not compared.
    """

    rank: int
    on_front: bool
    strategy: Document
    metrics: Mapping[str, float]
    trial: int | None = field(default=None, compare=False)
    id: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRecord:
    """The result of one trial.

    Attributes:
        number: Trial number, from 0.
        key: Canonical text of the point; equal keys are equal points.
        point: Parameter path to value.
        state: "complete", "infeasible" or "failed".
        reason: Why it is infeasible or failed; "" otherwise.
        values: Objective metric to value, SI units; None where there is none.
        constraints: Constraint text to violation, at most 0 where satisfied.
        repeat_of: Number of the trial whose result this one repeats.
        candidates: Its best strategies. Written with the evaluation, but read apart: empty in what is read.
    """

    number: int
    key: str
    point: Document
    state: EvaluationState
    reason: str = ""
    values: Mapping[str, float | None] = field(default_factory=dict)
    constraints: Mapping[str, float] = field(default_factory=dict)
    repeat_of: int | None = None
    candidates: tuple[CandidateRecord, ...] = ()

    def __post_init__(self) -> None:
        if self.state not in get_args(EvaluationState):
            raise ValueError(f"state of trial {self.number} is {self.state!r}, not one of {get_args(EvaluationState)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinementRecord:
    """A candidate scored again by the simulator.

    Attributes:
        candidate_id: `CandidateRecord.id` of the candidate.
        simulator_version: A candidate is refined once by each version.
        metrics: Metric name to simulated value, SI units.
        notes: Whatever else the simulation has to say.
        created: When the simulation ended.
    """

    candidate_id: int
    simulator_version: str
    metrics: Mapping[str, float]
    notes: Document
    created: datetime

    def __post_init__(self) -> None:
        _keep_in_utc(self, "created")


def _keep_in_utc(record: object, name: str) -> None:
    moment: datetime | None = getattr(record, name)
    if moment is None:
        return
    if moment.utcoffset() is None:
        raise ValueError(f"{name} has no time zone: {moment!r}")
    object.__setattr__(record, name, moment.astimezone(UTC))
