"""The best strategies and the Pareto front, collected part by part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.grid import GridMemory
from codesign_opt.objectives import pareto_front
from codesign_opt.studies.exact.picks import Picks, picked

Array = NDArray[Any]

SCREENING_MEMBERS = 16
"""So many members of the front rule out most strategies before the front proper is computed."""


class Best:
    """The best strategies so far, in a total order."""

    def __init__(self, top: int) -> None:
        self._top = top
        self.picks = Picks.none(1)

    @property
    def limit(self) -> float:
        """The value beyond which no strategy counts any more."""
        return float(self.picks.values[-1, 0]) if len(self.picks) == self._top else np.inf

    def add(self, number: int, part: GridMemory, values: Array, feasible: Array) -> None:
        """Consider the feasible strategies of a part of grid `number`."""
        ranked = np.where(feasible, values, np.inf).ravel()
        chosen = np.flatnonzero((ranked <= self.limit) & (ranked < np.inf))
        if len(chosen) > self._top:
            last = np.partition(ranked[chosen], self._top - 1)[self._top - 1]
            chosen = chosen[ranked[chosen] <= last]
        if len(chosen):
            merged = self.picks.joined(picked(number, part, chosen, [values]))
            self.picks = merged.take(merged.ranking()[: self._top])


class Front:
    """The Pareto front so far; of strategies with equal values the one that ranks first."""

    def __init__(self, objectives: int) -> None:
        self.picks = Picks.none(objectives)

    def add(self, number: int, part: GridMemory, values: Sequence[Array], feasible: Array) -> None:
        """Consider the feasible strategies of a part of grid `number`."""
        shape = part.grid.shape
        flat = np.flatnonzero(np.broadcast_to(feasible, shape))
        columns = [np.broadcast_to(column, shape).ravel()[flat] for column in values]
        for member in self.picks.values[:: max(1, len(self.picks) // SCREENING_MEMBERS)]:
            undominated = _not_dominated(columns, member)
            flat, columns = flat[undominated], [column[undominated] for column in columns]
        flat = flat[pareto_front(np.stack(columns, axis=1))]
        if len(flat):
            merged = self.picks.joined(picked(number, part, flat, values))
            merged = merged.take(merged.ranking())
            merged = merged.take(pareto_front(merged.values))
            _, first = np.unique(merged.values, axis=0, return_index=True)
            self.picks = merged.take(np.sort(first))


def _not_dominated(columns: Sequence[Array], member: Array) -> Array:
    """Which rows are better somewhere than a member of the front, or equal to it: those may rank before it."""
    better: Array = np.zeros(len(columns[0]), dtype=np.bool_)
    equal = ~better
    for column, value in zip(columns, member, strict=True):
        better |= column < value
        equal &= column == value
    return better | equal
