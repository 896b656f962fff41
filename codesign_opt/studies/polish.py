"""Local polish of a study: the simplex method over its continuous parameters, from the best trial on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from codesign_opt.db import Database
from codesign_opt.errors import InputError
from codesign_opt.studies.evaluator import evaluator
from codesign_opt.studies.lease import lease
from codesign_opt.studies.outcome import Outcome
from codesign_opt.studies.points import Dimension, Point, hardware_dimensions, point_key
from codesign_opt.studies.proposals import Trial
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.studies.study_run import POLISH, Progress, StoredBatch, StudyRun

FIRST_STEP = 0.05
"""Edge of the first simplex, as a share of each range."""

TOLERANCE = 1e-4
"""Polishing ends where the simplex is this small, as a share of each range."""


def check_polishable(specification: StudySpecification) -> None:
    """Nothing, where there is one objective and a range to polish.

    Raises:
        InputError: Otherwise.
    """
    name = f"study '{specification.name}'"
    if len(specification.objectives) != 1:
        metrics = ", ".join(objective.metric for objective in specification.objectives)
        raise InputError(
            f"{name}: polishing improves one objective, not {metrics}",
            "keep one of them, and bound the others by constraints",
        )
    if not _ranges(specification):
        raise InputError(
            f"{name} has nothing to polish", "free a parameter with low and high; choices stay as they are"
        )


def polish_study(
    specification: StudySpecification,
    database: Database,
    *,
    evaluations: int,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Try points around the best trial of a stored study, with Nelder and Mead's method in the ranges of the study.

    What has choices stays as the best trial has it. Every point is stored as a trial at once. Polishing is repeatable:
    called again it goes through the points that are stored, at no cost, and on from there.

    Args:
        specification: The study, which has been run.
        database: Where it is stored.
        evaluations: Points to try at most, over all runs.
        progress: Called after every point.

    Raises:
        InputError: For several objectives, and where nothing is continuous.
        StorageError: Where another process writes the study.
    """
    from scipy.optimize import minimize

    check_polishable(specification)
    ranges = _ranges(specification)
    with (
        lease(database, specification.name) as owner,
        evaluator(specification, "bilevel", 1) as evaluate,
    ):
        run, stored = StudyRun.restored(specification, database, owner)
        best = _best_trial(specification, stored)
        if best is None:
            return

        def value(shares: NDArray[np.float64]) -> float:
            # There and back a share may be rounded, which would make the best trial another point.
            if np.array_equal(shares, start):
                return _minimized(specification, best.outcome)
            moved = {
                dimension.name: dimension.at(float(share)) for dimension, share in zip(ranges, shares, strict=True)
            }
            point: Point = {**best.point, **moved}
            outcome = _known_outcome(run, point)
            if outcome is None:
                outcome = run.add_batch([point], evaluate, sampler=POLISH, start=time.perf_counter())[0].outcome
                if progress is not None:
                    progress(run.progress())
            return _minimized(specification, outcome)

        start = np.array([dimension.share(float(best.point[dimension.name])) for dimension in ranges])
        minimize(
            value,
            start,
            method="Nelder-Mead",
            bounds=[(0.0, 1.0)] * len(ranges),
            options={
                "initial_simplex": _first_simplex(start),
                "maxfev": 1 + evaluations,
                "xatol": TOLERANCE,
                "fatol": 0.0,
            },
        )


def _ranges(specification: StudySpecification) -> list[Dimension]:
    return [dimension for dimension in hardware_dimensions(specification) if not dimension.choices]


def _best_trial(specification: StudySpecification, stored: Sequence[StoredBatch]) -> Trial | None:
    """The best trial but for those of polishing, from which an interrupted one began as well."""
    trials = [trial for batch in stored if batch.sampler != POLISH for trial in batch.trials]
    feasible = [trial for trial in trials if trial.outcome.state == "complete"]
    return min(feasible, key=lambda trial: _minimized(specification, trial.outcome), default=None)


def _known_outcome(run: StudyRun, point: Point) -> Outcome | None:
    known = run.known.get(point_key(point))
    return None if known is None else known[1]


def _minimized(specification: StudySpecification, outcome: Outcome) -> float:
    """What the simplex compares: a point where nothing is feasible is worse than any other."""
    objective = specification.objectives[0]
    if outcome.state != "complete":
        return np.inf
    return float(objective.minimized(np.array(outcome.values[objective.metric])))


def _first_simplex(start: NDArray[np.float64]) -> NDArray[np.float64]:
    """The start, and for each range one corner beside it, inside."""
    steps = np.where(start + FIRST_STEP <= 1.0, FIRST_STEP, -FIRST_STEP)
    return np.vstack([start, start + np.diag(steps)])
