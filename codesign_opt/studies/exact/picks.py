"""Strategies picked from the grids of a space, with what ranks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.grid import GridMemory
from codesign_opt.strategies import StrategyTable

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picks:
    """Columns over picked strategies.

    Attributes:
        values: Objective values, to be minimised, (pick, objective).
        memory: Need of memory tier 1, bytes.
        place: Where the strategy stands in the order of the space: grid, layout, position, (pick, 3).
        strategies: The strategies.
    """

    values: Array
    memory: Array
    place: Array
    strategies: StrategyTable

    @classmethod
    def none(cls, objectives: int) -> Picks:
        """No picks."""
        return cls(
            values=np.empty((0, objectives)),
            memory=np.empty(0),
            place=np.empty((0, 3), dtype=np.int64),
            strategies=StrategyTable.empty(),
        )

    def __len__(self) -> int:
        return len(self.memory)

    def joined(self, other: Picks) -> Picks:
        """These picks, then the others."""
        return Picks(
            values=np.concatenate([self.values, other.values]),
            memory=np.concatenate([self.memory, other.memory]),
            place=np.concatenate([self.place, other.place]),
            strategies=self.strategies.concatenated(other.strategies),
        )

    def take(self, index: Array) -> Picks:
        """The picks at `index`, in that order."""
        return Picks(
            values=self.values[index],
            memory=self.memory[index],
            place=self.place[index],
            strategies=self.strategies.take(index),
        )

    def ranking(self) -> Array:
        """Indices best first: by the first objective, then the need of memory tier 1, then the order of the space."""
        grid, layout, position = self.place.T
        return np.lexsort((position, layout, grid, self.memory, self.values[:, 0]))

    def among(self, others: Picks) -> Array:
        """Which of these are among the others."""
        known = set(map(tuple, others.place.tolist()))
        return np.array([tuple(place) in known for place in self.place.tolist()], dtype=np.bool_)

    def without(self, others: Picks) -> Picks:
        """Those that are not among the others."""
        return self.take(np.flatnonzero(~self.among(others)))


def picked(number: int, part: GridMemory, flat: Array, values: Sequence[Array]) -> Picks:
    """The strategies at flat indices into a part of grid `number`; `values` broadcast to the part's shape."""
    shape = part.grid.shape
    at = np.unravel_index(flat, shape)
    return Picks(
        values=np.stack([np.broadcast_to(column, shape)[at] for column in values], axis=1),
        memory=np.broadcast_to(part.needs.tier1, shape)[at],
        place=np.stack([np.full(len(flat), number), part.layouts[at[-1]], part.grid.order(flat)], axis=1),
        strategies=part.grid.table(flat),
    )
