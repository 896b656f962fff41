"""The exact solver: the best strategies of a whole space.

Every strategy is covered. Memory decides before any time is computed; then parts of the space are estimated in the
order of a lower bound on their step time, until no bound of the rest reaches the best found. Without `reduced`, all
that is legal is estimated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block import BlockTable
from codesign_opt.analytical.estimate import Estimate
from codesign_opt.analytical.grid import GridMemory, GridTimes
from codesign_opt.objectives import METRICS
from codesign_opt.studies.exact.bounds import (
    block_bound,
    bound_applies,
    compute_bound,
    memory_objectives,
    pace,
)
from codesign_opt.studies.exact.collect import Best, Front
from codesign_opt.studies.exact.question import ExactAnswer, ExactQuestion, NearestMiss, with_fitted
from codesign_opt.studies.exact.survey import (
    Fit,
    Space,
    Survey,
    least_of,
    nearest_memory_miss,
    row_at,
    space_of,
    survey,
)

Array = NDArray[Any]

PART_STRATEGIES = 1 << 17
"""Strategies estimated at once, so that a column of them stays in the processor's cache."""

PROMISING = 1.25
"""Layouts whose bound is within this factor of the smallest are estimated first."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some layouts of grid `number`, which are estimated together; `least` is the smallest that each of their objective
    values may be, empty where that is not asked.
    """

    number: int
    layouts: Array
    least: tuple[float, ...]


def solve(question: ExactQuestion, *, reduced: bool = True) -> ExactAnswer:
    """The exact answer.

    Args:
        question: What is asked.
        reduced: Whether to leave out what cannot change the answer; the answer is the same.

    Raises:
        InfeasibleError: When the space is empty. A space of which nothing is feasible is an answer.
    """
    space = space_of(question)
    found = survey(question, space)
    run = _Run(question, space, found)
    bounded = reduced and bound_applies(question)
    for parts in _stages(question, space, found, bounded=bounded, fitting_only=reduced):
        remaining = [part for part in parts if run.may_improve(part)]
        if remaining:
            run.estimate(remaining, bounded=bounded)
    return run.answer()


def _stages(
    question: ExactQuestion, space: Space, found: Survey, *, bounded: bool, fitting_only: bool
) -> Iterator[list[Part]]:
    """Parts of the space, smallest bound first; those that promise little come in a second list."""
    parts = []
    for number, (memory, fit) in enumerate(zip(space.memories, found.fits, strict=True)):
        layouts = np.flatnonzero(fit.layouts) if fitting_only else np.arange(memory.grid.shape[-1])
        values: list[Array] = []
        if bounded:
            others = memory_objectives(question, memory)
            values = [pace(question, memory.grid.layouts["batch"], compute_bound(question, memory))]
            values += [_least_of_layouts(other, memory.grid.shape) for other in others]
            layouts = layouts[np.argsort(values[0][layouts], kind="stable")]
        step = max(1, PART_STRATEGIES * memory.grid.shape[-1] // memory.grid.size)
        for first in range(0, len(layouts), step):
            members = layouts[first : first + step]
            parts.append(Part(number, members, tuple(float(value[members].min()) for value in values)))
    if not bounded or not parts:
        yield parts
        return
    parts.sort(key=lambda part: part.least[0])
    smallest = parts[0].least[0]
    edge = smallest * PROMISING if smallest > 0 else smallest / PROMISING
    yield [part for part in parts if part.least[0] <= edge]
    yield [part for part in parts if part.least[0] > edge]


def _least_of_layouts(values: Array, shape: tuple[int, ...]) -> Array:
    """For each layout the smallest of some values over the grid's other axes."""
    aligned = values.reshape((1,) * (len(shape) - values.ndim) + values.shape)
    least: Array = np.min(aligned, axis=tuple(range(len(shape) - 1)))
    return np.broadcast_to(least, shape[-1:])


class _Run:
    """One question as it is answered."""

    def __init__(self, question: ExactQuestion, space: Space, found: Survey) -> None:
        self.question, self.space, self.found = question, space, found
        self.best = Best(question.top)
        self.front = Front(len(question.ranked)) if len(question.ranked) > 1 else None
        self.excluded: dict[str, int] = {}
        self.misses: list[NearestMiss] = []

    def estimate(self, parts: Sequence[Part], *, bounded: bool) -> None:
        """Estimate parts in order, each unless its bound rules it out by then."""
        question = self.question
        memories, fits = self.space.memories, self.found.fits
        splits = np.concatenate([memories[part.number].keys.split[part.layouts] for part in parts])
        times = GridTimes(question.workload, question.system, self.space.keys, splits, question.reproduce)
        for part in parts:
            if not self.may_improve(part):
                continue
            all_options = np.arange(memories[part.number].grid.shape[-2])
            memory = memories[part.number].take(part.layouts, all_options)
            fit = fits[part.number].take(part.layouts, all_options)
            blocks = times.blocks(memory)
            if bounded:
                options, layouts = self._reachable(memory, blocks)
                if not len(layouts):
                    continue
                if len(options) < memory.grid.shape[-2] or len(layouts) < memory.grid.shape[-1]:
                    memory, fit = memory.take(layouts, options), fit.take(layouts, options)
                    blocks = times.blocks(memory)
            estimated = with_fitted(times.estimate(memory, blocks), question.fitted)
            self._judge(part.number, memory, fit, estimated)

    def may_improve(self, part: Part) -> bool:
        """Whether any strategy of a part may be among the best, or on the front."""
        return not part.least or bool(np.any(self._may_improve([np.array(value) for value in part.least])))

    def _may_improve(self, least: Sequence[Array]) -> Array:
        """The same for bounds on the first objective and values of the others, which broadcast."""
        among_best = least[0] <= self.best.limit
        if self.front is None:
            return np.asarray(among_best)
        dominated: Array = np.zeros((1,) * least[0].ndim, dtype=np.bool_)
        for member in self.front.picks.values:
            worse = least[0] > member[0]
            for value, other in zip(least[1:], member[1:], strict=True):
                worse = worse & (value >= other)
            dominated = dominated | worse
        return np.asarray(among_best | ~dominated)

    def _reachable(self, memory: GridMemory, blocks: BlockTable) -> tuple[Array, Array]:
        """Options and layouts of a part with any strategy that its block times do not rule out."""
        value = pace(self.question, memory.grid.columns()["batch"], block_bound(memory, blocks))
        reachable = self._may_improve([value, *memory_objectives(self.question, memory)])
        reachable = np.broadcast_to(reachable, (*reachable.shape[:-2], *memory.grid.shape[-2:]))
        either: Array = np.any(reachable, axis=tuple(range(reachable.ndim - 2)))
        return np.flatnonzero(either.any(axis=1)), np.flatnonzero(either.any(axis=0))

    def _judge(self, number: int, memory: GridMemory, fit: Fit, estimated: Estimate) -> None:
        shape = memory.grid.shape
        feasible = fit.placed & fit.held
        for constraint in self.question.constraints:
            violation = constraint.violation(METRICS[constraint.metric].evaluate(estimated))
            dropped = np.broadcast_to(feasible & (violation > 0), shape)
            count = int(np.count_nonzero(dropped))
            if count:
                name = str(constraint)
                self.excluded[name] = self.excluded.get(name, 0) + count
                self._note_miss(name, violation, abs(constraint.bound), dropped, memory)
                feasible = feasible & (violation <= 0)
        values = [
            objective.minimized(METRICS[objective.metric].evaluate(estimated)) for objective in self.question.ranked
        ]
        feasible = np.broadcast_to(feasible, shape)
        self.best.add(number, memory, np.broadcast_to(values[0], shape), feasible)
        if self.front is not None:
            self.front.add(number, memory, values, feasible)

    def _note_miss(self, reason: str, missing: Array, bound: float, among: Array, memory: GridMemory) -> None:
        if len(self.best.picks):
            return
        at, least = least_of(missing, among, memory.grid)
        if at is not None:
            share = least / bound if bound else least
            self.misses.append(NearestMiss(reason, least, share, row_at(memory.grid, at)))

    def answer(self) -> ExactAnswer:
        """The answer, after everything was estimated."""
        question, found = self.question, self.found
        picks = self.best.picks
        on_front = np.arange(len(picks)) == 0
        strategies = picks.strategies
        if self.front is not None:
            also = self.front.picks.without(picks)
            on_front = np.concatenate([picks.among(self.front.picks), np.ones(len(also), dtype=np.bool_)])
            strategies = strategies.concatenated(also.strategies)
        nearest = None
        if not len(picks):
            memory_miss = None if found.fitting else nearest_memory_miss(question, self.space, found)
            misses = [*self.misses, *([memory_miss] if memory_miss is not None else [])]
            nearest = min(misses, key=lambda miss: miss.share, default=None)
        return ExactAnswer(
            considered=self.space.considered,
            legal=found.legal,
            feasible=found.fitting - sum(self.excluded.values()),
            excluded={**found.excluded, **self.excluded},
            strategies=strategies,
            on_front=on_front,
            estimate=question.estimate(strategies) if strategies.rows else None,
            nearest=nearest,
        )
