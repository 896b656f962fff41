"""Evaluates the points of a study, in this process or in several."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from codesign_opt.errors import CodesignError, InfeasibleError
from codesign_opt.studies.bilevel import evaluate_machine
from codesign_opt.studies.flat import evaluate_strategy
from codesign_opt.studies.outcome import Outcome
from codesign_opt.studies.points import Point, hardware_dimensions, machine
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.studies.workers import mapping

TRIAL_SECONDS, STRATEGY_SECONDS = 0.04, 3e-8
"""What a trial takes, about: so much, and so much more for each strategy covered (docs/performance.md)."""

WORTH_STARTING_SECONDS = 10.0
"""Studies that take longer are worth starting processes for."""

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


def automatic_workers(specification: StudySpecification) -> int:
    """As many processes as there are processors, where the study's budget takes longer than it takes to start them."""
    budget = specification.budget
    if budget.trials is None:
        return os.cpu_count() or 1
    middle = {dimension.name: dimension.at(0.5) for dimension in hardware_dimensions(specification)}
    system, processors = machine(specification, middle)
    try:
        grids = specification.strategies.grids(
            specification.workload,
            processors=max(processors, 1),
            batch=specification.batch,
            datatype=specification.datatype,
            tier_sizes=[tier.size for tier in system.network_tiers],
            offload=system.memory_tier2.capacity > 0,
        )
    except InfeasibleError:
        return 1
    trial = TRIAL_SECONDS + sum(grid.considered for grid in grids) * STRATEGY_SECONDS
    return (os.cpu_count() or 1) if trial * budget.trials > WORTH_STARTING_SECONDS else 1


def evaluate_point(specification: StudySpecification, method: str, point: Point) -> Outcome:
    """What becomes of a point; a failed outcome with the reason where it cannot be evaluated."""
    try:
        if method == "flat":
            return evaluate_strategy(specification, point)
        return evaluate_machine(specification, point)
    except (ArithmeticError, CodesignError, ValueError) as error:
        return Outcome(state="failed", reason=str(error), values={}, constraints={})
