"""The exact solver: the best strategies of a whole space, by evaluating all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.errata import NONE, Erratum, parse_errata
from codesign_opt.analytical.estimate import Estimate, estimate
from codesign_opt.analytical.grid import GridPart, grid_parts
from codesign_opt.objectives import METRICS, Constraint, Objective, pareto_front
from codesign_opt.strategies import Datatype, StrategyTable
from codesign_opt.strategies.grid import StrategyGrid
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.studies.picks import Picks, picked
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactQuestion:
    """What is asked: the best strategies of a space on one system.

    Attributes:
        workload, system, processors, batch, datatype: What runs where; `batch` is the largest global batch.
        space: Which strategies may run.
        objectives: What "best" means. Strategies are ranked by the first one that depends on the strategy.
        constraints: What every answer satisfies, besides memory capacities.
        top: How many strategies to return.
        reproduce: Errata of the published tool to reproduce.
    """

    workload: Workload
    system: System
    processors: int
    batch: int
    datatype: Datatype = Datatype.FLOAT16
    space: StrategySpace = field(default_factory=StrategySpace)
    objectives: tuple[Objective, ...] = (Objective("step_time", "minimize"),)
    constraints: tuple[Constraint, ...] = ()
    top: int = 1
    reproduce: frozenset[Erratum] = NONE


@dataclass(frozen=True, slots=True)
class NearestMiss:
    """The strategy that comes nearest to satisfying what excluded it.

    Attributes:
        reason: Text of the constraint, or the reason code of a memory tier.
        missing: How much is missing, in the unit of what is bounded.
        share: The same as a share of the bound.
        strategies: A table of the one strategy.
    """

    reason: str
    missing: float
    share: float
    strategies: StrategyTable


@dataclass(frozen=True, slots=True)
class ExactAnswer:
    """The best strategies, and what became of all the others.

    Attributes:
        considered: Strategies covered, counted as the published search counts them.
        legal: Those that the legality rules allow, wherever they are placed.
        feasible: Those that satisfy everything.
        excluded: Reason to number of strategies, each counted once, under the first reason that applies.
        strategies: The best `top` strategies, best first, then those that are on the front only. Ties are broken by
            the smaller need of memory tier 1, then by the order of the space.
        on_front: Which of them are on the Pareto front of the objectives that depend on the strategy.
        estimate: Their estimate; None where nothing is feasible.
        nearest: Where nothing is feasible: the strategy that misses least, as a share of what bounds it.
    """

    considered: int
    legal: int
    feasible: int
    excluded: Mapping[str, int]
    strategies: StrategyTable
    on_front: Array
    estimate: Estimate | None
    nearest: NearestMiss | None


def question_of(
    specification: StudySpecification, system: System, processors: int, constraints: tuple[Constraint, ...]
) -> ExactQuestion:
    """What a study asks on one of its systems, with these of its constraints."""
    return ExactQuestion(
        workload=specification.workload,
        system=system,
        processors=processors,
        batch=specification.batch,
        datatype=specification.datatype,
        space=specification.strategies,
        objectives=specification.objectives,
        constraints=constraints,
        top=specification.top_k,
        reproduce=parse_errata(specification.reproduce),
    )


def solve(question: ExactQuestion) -> ExactAnswer:
    """The exact answer, by evaluating every strategy of the space.

    Raises:
        InfeasibleError: When the space is empty. A space of which nothing is feasible is an answer.
    """
    grids = question.space.grids(
        question.workload,
        question.system,
        processors=question.processors,
        batch=question.batch,
        datatype=question.datatype,
    )
    tally = _Tally()
    best = _Best(question.top)
    front = _Front() if len(_ranked(question)) > 1 else None
    for number, grid in enumerate(grids):
        for part in grid_parts(question.workload, question.system, grid, question.reproduce):
            judged = _judge(question, part, tally)
            if judged is None:
                continue
            values, feasible = judged
            best.add(number, part, values[0], feasible)
            if front is not None:
                front.add(number, part, values, feasible)
    return _answer(question, grids, tally, best, front)


def _ranked(question: ExactQuestion) -> list[Objective]:
    """The objectives that depend on the strategy; the step time where there is none."""
    ranked = [objective for objective in question.objectives if METRICS[objective.metric].scope == "strategy"]
    return ranked or [Objective("step_time", "minimize")]


def _judge(question: ExactQuestion, part: GridPart, tally: _Tally) -> tuple[list[Array], Array] | None:
    """Objective values, to be minimised, and which strategies of the part are feasible; None if none is."""
    shape = part.grid.shape
    feasible = part.grid.network_allows(question.system)
    tally.exclude("network", feasible, np.array(True), shape)
    for reason, need, capacity in _memory_tests(question.system, part):
        fits = need <= capacity
        tally.exclude(reason, fits, feasible, shape)
        if not tally.feasible and not fits.all():
            tally.miss(reason, need - capacity, capacity, feasible, part)
        feasible = feasible & fits
    if not feasible.any():
        return None
    estimated = part.estimate()
    for constraint in question.constraints:
        violation = constraint.violation(METRICS[constraint.metric].evaluate(estimated))
        satisfied = violation <= 0
        tally.exclude(str(constraint), satisfied, feasible, shape)
        if not tally.feasible and not satisfied.all():
            tally.miss(str(constraint), violation, abs(constraint.bound), feasible, part)
        feasible = feasible & satisfied
    feasible = np.broadcast_to(feasible, shape)
    count = int(np.count_nonzero(feasible))
    if not count:
        return None
    tally.feasible += count
    return [
        np.broadcast_to(objective.minimized(METRICS[objective.metric].evaluate(estimated)), shape)
        for objective in _ranked(question)
    ], feasible


def _memory_tests(system: System, part: GridPart) -> Iterator[tuple[str, Array, float]]:
    yield "memory_tier1", part.memory.tier1, system.memory_tier1.capacity
    yield "memory_tier2", part.memory.tier2, system.memory_tier2.capacity


class _Tally:
    """Counts of excluded and feasible strategies, and the nearest miss of each reason."""

    def __init__(self) -> None:
        self.feasible = 0
        self.excluded: dict[str, int] = {}
        self.misses: dict[str, NearestMiss] = {}

    def exclude(self, reason: str, allowed: Array, remaining: Array, shape: tuple[int, ...]) -> None:
        """Count the strategies that remained until now and are not allowed."""
        dropped = remaining & ~allowed
        count = int(np.count_nonzero(dropped)) * (int(np.prod(shape)) // max(dropped.size, 1))
        if count:
            self.excluded[reason] = self.excluded.get(reason, 0) + count

    def miss(self, reason: str, missing: Array, bound: float, remaining: Array, part: GridPart) -> None:
        """Note the strategy that misses least among those that remained until now."""
        values = np.where(remaining & (missing > 0), missing, np.inf)
        at = np.unravel_index(int(np.argmin(values)), values.shape)
        least = float(values[at])
        known = self.misses.get(reason)
        if np.isfinite(least) and (known is None or least < known.missing):
            shape = part.grid.shape
            padded = (0,) * (len(shape) - values.ndim) + tuple(int(i) for i in at)
            flat = np.ravel_multi_index(padded, shape)
            share = least / bound if bound else np.inf
            self.misses[reason] = NearestMiss(reason, least, share, part.grid.table(np.array([flat])))


class _Best:
    """The best strategies so far, in a total order."""

    def __init__(self, top: int) -> None:
        self.top = top
        self.picks = Picks.none(1)

    def add(self, number: int, part: GridPart, values: Array, feasible: Array) -> None:
        """Consider the feasible strategies of a part."""
        ranked = np.where(feasible, values, np.inf).ravel()
        full = len(self.picks.memory) == self.top
        limit = self.picks.values[-1, 0] if full else np.inf
        chosen = np.flatnonzero((ranked <= limit) & (ranked < np.inf))
        if len(chosen) > self.top:
            last = np.partition(ranked[chosen], self.top - 1)[self.top - 1]
            chosen = chosen[ranked[chosen] <= last]
        if len(chosen):
            merged = self.picks.joined(picked(number, part, chosen, [values]))
            self.picks = merged.take(merged.ranking()[: self.top])


class _Front:
    """The Pareto front so far; of strategies with equal values the one that ranks first."""

    def __init__(self) -> None:
        self.picks = Picks.none(0)

    def add(self, number: int, part: GridPart, values: Sequence[Array], feasible: Array) -> None:
        """Consider the feasible strategies of a part."""
        flat = np.flatnonzero(feasible)
        rows = np.stack([column.ravel()[flat] for column in values], axis=1)
        # A few members of the front rule out most rows before the front proper is computed.
        for member in self.picks.values[:: max(1, len(self.picks.memory) // 16)]:
            undominated = ~(rows >= member).all(axis=1)
            flat, rows = flat[undominated], rows[undominated]
        flat = flat[pareto_front(rows)]
        if len(flat):
            found = picked(number, part, flat, values)
            merged = self.picks.joined(found) if len(self.picks.memory) else found
            merged = merged.take(merged.ranking())
            merged = merged.take(pareto_front(merged.values))
            _, first = np.unique(merged.values, axis=0, return_index=True)
            self.picks = merged.take(np.sort(first))


def _answer(
    question: ExactQuestion, grids: Sequence[StrategyGrid], tally: _Tally, best: _Best, front: _Front | None
) -> ExactAnswer:
    picks, on_front = best.picks, np.arange(len(best.picks.memory)) == 0
    if front is not None:
        also = front.picks.without(picks)
        on_front = np.concatenate([picks.among(front.picks), np.ones(len(also.memory), dtype=np.bool_)])
        strategies = picks.strategies.concatenated(also.strategies)
    else:
        strategies = picks.strategies
    misses = sorted(tally.misses.values(), key=lambda miss: miss.share)
    return ExactAnswer(
        considered=sum(grid.considered for grid in grids),
        legal=sum(grid.size for grid in grids) - tally.excluded.get("network", 0),
        feasible=tally.feasible,
        excluded=tally.excluded,
        strategies=strategies,
        on_front=on_front,
        estimate=(
            estimate(question.workload, question.system, strategies, reproduce=question.reproduce)
            if strategies.rows
            else None
        ),
        nearest=misses[0] if misses and not tally.feasible else None,
    )
