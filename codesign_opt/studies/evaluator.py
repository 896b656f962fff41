"""Evaluates the points of a study, in this process or in several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from codesign_opt.errors import CodesignError
from codesign_opt.studies.bilevel import evaluate_machine
from codesign_opt.studies.flat import evaluate_strategy
from codesign_opt.studies.outcome import Outcome
from codesign_opt.studies.points import Point
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.studies.workers import mapping

Evaluate = Callable[[Sequence[Point]], Iterator[Outcome]]
"""Outcomes of points, in order, as they come."""


@contextmanager
def evaluator(specification: StudySpecification, method: str, workers: int) -> Iterator[Evaluate]:
    """Evaluates the points of a study, in as many processes as there are workers.

    Raises:
        CodesignError: When a worker process dies.
    """
    with mapping(workers) as map_points:
        yield partial(map_points, partial(evaluate_point, specification, method))


def evaluate_point(specification: StudySpecification, method: str, point: Point) -> Outcome:
    """What becomes of a point; a failed outcome with the reason where it cannot be evaluated."""
    try:
        if method == "flat":
            return evaluate_strategy(specification, point)
        return evaluate_machine(specification, point)
    except (ArithmeticError, CodesignError, ValueError) as error:
        return Outcome(state="failed", reason=str(error), values={}, constraints={})
