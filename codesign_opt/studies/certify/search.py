"""Certify a study: best-first branch and bound over boxes of machines."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from codesign_opt.errors import InfeasibleError, InputError
from codesign_opt.objectives import Objective
from codesign_opt.studies.certify.bound import Bounded, OpenBox, bound_boxes
from codesign_opt.studies.certify.box import root_boxes
from codesign_opt.studies.certify.rules import check_certifiable, check_gap
from codesign_opt.studies.evaluator import evaluate_point
from codesign_opt.studies.outcome import Candidate
from codesign_opt.studies.points import Point, hardware_dimensions
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.studies.workers import Map, mapping

BOXES_AT_ONCE = 128
"""Boxes that are looked at together; the same whatever the number of workers, so that results are too."""

BOXES_PER_TASK = 16
"""Boxes that one worker looks at in one go."""

Reason = Literal["gap", "seconds", "evaluations", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifyProgress:
    """How far a certificate has come; `best`, `bound` and `gap` as in `Certificate`."""

    seconds: float
    evaluations: int
    searches: int
    boxes: int
    open_boxes: int
    best: float | None
    bound: float
    gap: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The best machine found, and how much better any other could be at most.

    Attributes:
        objective: What is better.
        best: Its value on the best machine, in the metric's unit; None where none was feasible when the limit came.
        point: The best machine: dimension to value, SI.
        candidate: The best strategy on it, with all metrics.
        bound: No machine of the study has a better value than this.
        gap: Distance from `best` to `bound`, as a share of `best`; infinite without a best one.
        evaluations: Machines on which strategies were timed: those that may be the best in a box of machines.
        searches: Those of them on which all strategies were covered; each is the work of a trial.
        boxes: Boxes of machines bounded.
        seconds: Wall time.
        closed: Whether the gap that was asked for is proven.
        reason: What ended it: the gap, a limit on seconds or evaluations, or Ctrl-C.
    """

    objective: Objective
    best: float | None
    point: Point
    candidate: Candidate | None
    bound: float
    gap: float
    evaluations: int
    searches: int
    boxes: int
    seconds: float
    closed: bool
    reason: Reason


def certify(
    specification: StudySpecification,
    *,
    gap: float = 0.01,
    seconds: float | None = None,
    evaluations: int | None = None,
    start: Point | None = None,
    workers: int = 1,
    progress: Callable[[CertifyProgress], None] | None = None,
) -> Certificate:
    """Search all machines of a study until none can be better than the best one found by more than a gap.

    Ctrl-C ends the search with the certificate of what is proven by then.

    Args:
        specification: A study with one objective. Its method, sampler and budget do not matter, but free capacities
            are fitted to each strategy or searched as in a study of that method.
        gap: Share of the best value that may stay unproven; 0 for the optimum itself, where all dimensions are choices.
        seconds: Limit of wall time.
        evaluations: Limit of machines evaluated.
        start: The best point known, such as that of a trial; a good one leaves less to do.
        workers: Processes; without a limit of time the certificate does not depend on their number.
        progress: Called after every batch of boxes.

    Raises:
        InputError: For a study without bounds (`rules.check_certifiable`), a gap that is negative or too small to be
            proven, and a start that is no point of the study.
        InfeasibleError: Where it is proven that no machine has a feasible strategy.
    """
    check_certifiable(specification)
    check_gap(specification, gap)
    run = _Run(specification, gap, Limits(seconds=seconds, evaluations=evaluations))
    if start is not None:
        _check_start(specification, start)
        run.try_point(start)
    with mapping(workers) as of_all:
        reason: Reason | None = None
        try:
            while (reason := run.ended()) is None:
                run.one_batch(of_all)
                if progress is not None:
                    progress(run.progress())
        except KeyboardInterrupt:
            # What was proven until now holds.
            reason = "interrupted"
    return run.certificate(reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to stop without a proof; None for no limit."""

    seconds: float | None
    evaluations: int | None


@dataclass
class _Run:
    """A certificate as it grows. Values are to be minimised.

    Attributes:
        queue: Open boxes by bound, and by age among equal ones.
        settled: The lowest bound of the boxes that need no further look: within the gap of the best value then.
        met: Machines met, each better than the one before.
    """

    specification: StudySpecification
    gap: float
    limits: Limits
    queue: list[tuple[float, int, OpenBox]] = field(default_factory=list)
    settled: float = np.inf
    met: list[tuple[float, Point]] = field(default_factory=list)
    evaluations: int = 0
    searches: int = 0
    boxes: int = 0
    queued: int = 0
    began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        for box in root_boxes(self.specification):
            self._keep(OpenBox(box=box))

    @property
    def best(self) -> float:
        return self.met[-1][0] if self.met else np.inf

    @property
    def cutoff(self) -> float:
        """A box whose bound is not below this is closed."""
        return self.best - self.gap * abs(self.best) if self.met else np.inf

    @property
    def bound(self) -> float:
        return min(self.best, self.settled, self.queue[0][0] if self.queue else np.inf)

    def ended(self) -> Reason | None:
        if not self.queue or self.queue[0][0] >= self.cutoff:
            return "gap"
        return self._limit_reached()

    def one_batch(self, of_all: Map) -> None:
        """Halve some of the boxes with the lowest bounds, and look at the halves."""
        boxes: list[OpenBox] = []
        while self.queue and len(boxes) < BOXES_AT_ONCE and self.queue[0][0] < self.cutoff:
            _, _, lowest = heapq.heappop(self.queue)
            boxes += [part for part in lowest.parts() if self._is_open(part)]
        tasks = [boxes[first : first + BOXES_PER_TASK] for first in range(0, len(boxes), BOXES_PER_TASK)]
        looked_at = 0
        look = partial(bound_boxes, self.specification, self.cutoff)
        try:
            for task, results in zip(tasks, of_all(look, tasks), strict=True):
                for bounded in results:
                    self._note(bounded)
                looked_at += len(task)
                if self._limit_reached() is not None:
                    break
        finally:
            for open_box in boxes[looked_at:]:
                self._keep(open_box)

    def try_point(self, point: Point) -> None:
        """Search all strategies of one machine."""
        outcome = evaluate_point(self.specification, "bilevel", point)
        self.evaluations += 1
        self.searches += 1
        if outcome.state == "complete":
            self._note_value(self._minimized(outcome.values[self._objective.metric]), point)

    def certificate(self, reason: Reason) -> Certificate:
        """What is proven by now."""
        best, point, candidate = self._confirmed()
        if best is None and reason == "gap":
            raise self._infeasible()
        value = np.inf if best is None else self._minimized(best)
        # The best one's value may differ from that of the search by rounding, which is no gap.
        bound = min(self.bound, value) if self.bound < self.best else value
        gap = _gap(value, bound)
        return Certificate(
            objective=self._objective,
            best=best,
            point=point,
            candidate=candidate,
            bound=self._minimized(bound),
            gap=gap,
            evaluations=self.evaluations,
            searches=self.searches,
            boxes=self.boxes,
            seconds=self._seconds,
            closed=gap <= self.gap,
            reason=reason,
        )

    def progress(self) -> CertifyProgress:
        """How far it is."""
        return CertifyProgress(
            seconds=self._seconds,
            evaluations=self.evaluations,
            searches=self.searches,
            boxes=self.boxes,
            open_boxes=len(self.queue),
            best=self._minimized(self.best) if self.met else None,
            bound=self._minimized(self.bound),
            gap=_gap(self.best, self.bound),
        )

    @property
    def _objective(self) -> Objective:
        return self.specification.objectives[0]

    @property
    def _seconds(self) -> float:
        return time.perf_counter() - self.began

    def _minimized(self, value: float) -> float:
        return float(self._objective.minimized(np.asarray(value)))

    def _limit_reached(self) -> Reason | None:
        if self.limits.seconds is not None and self._seconds >= self.limits.seconds:
            return "seconds"
        if self.limits.evaluations is not None and self.evaluations >= self.limits.evaluations:
            return "evaluations"
        return None

    def _note(self, bounded: Bounded) -> None:
        self.boxes += 1
        self.evaluations += bounded.evaluations
        self.searches += bounded.searches
        self._note_value(bounded.value, bounded.point)
        if self._is_open(bounded.box):
            self._keep(bounded.box)

    def _is_open(self, open_box: OpenBox) -> bool:
        """Whether a box must be looked into further; if not, its bound is settled."""
        if open_box.bound < self.cutoff and not open_box.done:
            return True
        self.settled = min(self.settled, open_box.bound)
        return False

    def _keep(self, open_box: OpenBox) -> None:
        heapq.heappush(self.queue, (open_box.bound, self.queued, open_box))
        self.queued += 1

    def _note_value(self, value: float, point: Point) -> None:
        if value < self.best:
            self.met.append((value, point))

    def _confirmed(self) -> tuple[float | None, Point, Candidate | None]:
        """The best machine, and the best strategy on it."""
        while self.met:
            point = self.met[-1][1]
            outcome = evaluate_point(self.specification, "bilevel", point)
            if outcome.state == "complete":
                return outcome.values[self._objective.metric], point, outcome.candidates[0]
            # A strategy that kept a constraint by less than rounding.
            self.met.pop()
        return None, {}, None

    def _infeasible(self) -> InfeasibleError:
        name = self.specification.name
        outcome = evaluate_point(self.specification, "bilevel", root_boxes(self.specification)[-1].best_end)
        return InfeasibleError(
            f"study '{name}': no machine has a feasible strategy", f"on the fastest one: {outcome.reason}"
        )


def _gap(best: float, bound: float) -> float:
    if best == bound:
        return 0.0
    return (best - bound) / abs(best) if best and np.isfinite(best) else np.inf


def _check_start(specification: StudySpecification, start: Point) -> None:
    names = [dimension.name for dimension in hardware_dimensions(specification)]
    missing = [name for name in names if name not in start]
    if missing:
        raise InputError(f"the start has no '{missing[0]}'", "a point of the study has " + ", ".join(names))
    if not any(box.contains(start) for box in root_boxes(specification)):
        raise InputError("the start is not among the machines of the study", "take a point of one of its trials")
