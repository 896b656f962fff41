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

from codesign_opt.analytical.estimate import Estimate, estimate
from codesign_opt.analytical.grid import GridMemory, GridTimes
from codesign_opt.objectives import METRICS
from codesign_opt.studies.exact.bounds import block_bound, bound_applies, compute_bound, pace
from codesign_opt.studies.exact.collect import Best, Front
from codesign_opt.studies.exact.question import ExactAnswer, ExactQuestion, NearestMiss
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
    """Some layouts of grid `number`, which are estimated together; `bound` is the smallest value they may have."""

    number: int
    layouts: Array
    bound: float


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
        remaining = [part for part in parts if part.bound <= run.best.limit]
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
        values = np.full(memory.grid.shape[-1], -np.inf)
        if bounded:
            values = pace(question, memory.grid.layouts["batch"], compute_bound(question, memory))
            layouts = layouts[np.argsort(values[layouts], kind="stable")]
        step = max(1, PART_STRATEGIES * memory.grid.shape[-1] // memory.grid.size)
        for first in range(0, len(layouts), step):
            members = layouts[first : first + step]
            parts.append(Part(number, members, float(values[members].min())))
    parts.sort(key=lambda part: part.bound)
    if not bounded or not parts:
        yield parts
        return
    smallest = parts[0].bound
    edge = smallest * PROMISING if smallest > 0 else smallest / PROMISING
    yield [part for part in parts if part.bound <= edge]
    yield [part for part in parts if part.bound > edge]


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
        pairs = np.concatenate([memories[part.number].keys.pair[part.layouts] for part in parts])
        times = GridTimes(question.workload, question.system, self.space.keys, pairs, question.reproduce)
        for part in parts:
            if part.bound > self.best.limit:
                continue
            all_options = np.arange(memories[part.number].grid.shape[-2])
            memory = memories[part.number].take(part.layouts, all_options)
            fit = fits[part.number].take(part.layouts, all_options)
            blocks = times.blocks(memory)
            if bounded:
                time = block_bound(memory, blocks)
                value = pace(question, memory.grid.columns()["batch"], time)
                reachable: Array = np.any(value <= self.best.limit, axis=(0, 1, 2, 3, 4, 5))
                options, layouts = np.flatnonzero(reachable.any(axis=1)), np.flatnonzero(reachable.any(axis=0))
                if not len(layouts):
                    continue
                if len(options) < reachable.shape[0] or len(layouts) < reachable.shape[1]:
                    memory, fit = memory.take(layouts, options), fit.take(layouts, options)
                    blocks = times.blocks(memory)
            self._judge(part.number, memory, fit, times.estimate(memory, blocks))

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
            estimate=(
                estimate(question.workload, question.system, strategies, reproduce=question.reproduce)
                if strategies.rows
                else None
            ),
            nearest=nearest,
        )
