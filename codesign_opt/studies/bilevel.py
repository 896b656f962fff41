"""One trial of a bilevel study: a machine, and the exact solver's best strategies on it."""

from __future__ import annotations

import numpy as np

from codesign_opt.errors import InfeasibleError
from codesign_opt.objectives import METRICS
from codesign_opt.studies.exact import ExactAnswer, ExactQuestion, question_of, solve
from codesign_opt.studies.outcome import Outcome, candidates, objective_values, violations
from codesign_opt.studies.points import Point, fitted_capacities, machine
from codesign_opt.studies.specification import StudySpecification


def evaluate_machine(specification: StudySpecification, point: Point) -> Outcome:
    """The best strategies on the machine of a point.

    With several objectives that depend on the strategy, the trial's own values are those of the middle of its front.
    """
    system, processors = machine(specification, point)
    if processors < 1:
        return Outcome(state="failed", reason="the budget buys no processors", values={}, constraints={})
    fitted = fitted_capacities(specification)
    # What the system alone decides is judged here, so that the solver need not exclude every strategy for it.
    inner = tuple(c for c in specification.constraints if fitted or METRICS[c.metric].scope == "strategy")
    question = question_of(specification, system, processors, inner, fitted)
    try:
        answer = solve(question)
    except InfeasibleError as error:
        return Outcome(state="failed", reason=str(error), values={}, constraints={})
    if answer.estimate is None:
        return _nothing_feasible(specification, question, answer)
    chosen = _middle_of_front(specification, answer)
    shares = violations(answer.estimate, specification.constraints, chosen)
    values = objective_values(answer.estimate, specification.objectives, chosen)
    broken = [name for name, share in shares.items() if share > 0]
    if broken:
        return Outcome(state="infeasible", reason=f"{broken[0]} is not kept", values=values, constraints=shares)
    return Outcome(
        state="complete",
        values=values,
        constraints=shares,
        candidates=candidates(answer.strategies, answer.on_front, answer.estimate),
    )


def _nothing_feasible(specification: StudySpecification, question: ExactQuestion, answer: ExactAnswer) -> Outcome:
    if answer.nearest is None:
        return Outcome(state="failed", reason="the network allows none of the layouts", values={}, constraints={})
    miss = answer.nearest
    estimated = question.estimate(miss.strategies)
    return Outcome(
        state="infeasible",
        reason=f"{miss.reason}: the nearest strategy misses it by {miss.share:.2%}",
        values=objective_values(estimated, specification.objectives, 0),
        constraints=violations(estimated, specification.constraints, 0),
    )


def _middle_of_front(specification: StudySpecification, answer: ExactAnswer) -> int:
    """The row of the front with the smallest sum of objectives, each as a share of its range on the front."""
    members = np.flatnonzero(answer.on_front)
    if len(members) == 1 or answer.estimate is None:
        return int(members[0])
    total = np.zeros(len(members))
    for objective in specification.objectives:
        values = METRICS[objective.metric].evaluate(answer.estimate)
        column = objective.minimized(np.broadcast_to(values, answer.on_front.shape)[members])
        extent = float(np.ptp(column))
        total += (column - column.min()) / extent if extent else 0.0
    return int(members[int(np.argmin(total))])
