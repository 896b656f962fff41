"""Who takes part in a phase of a collective, and which part of the vector is whose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from codesign_opt.errors import InputError
from codesign_opt.graphs.graph import Array, Ragged
from codesign_opt.simulation.collectives.pieces import Pieces


@dataclass(frozen=True, kw_only=True)
class Team:
    """Groups of members that do the same collective side by side.

    Attributes:
        processors: The member of each rank, over the whole collective.
        groups: Ranks, in the order in which the algorithm takes them; shape (groups, members).
        blocks: Part of the vector that is a member's own: before an all-gather, after a reduce-scatter. Block
            `group * members + position`.
        size: Bytes of the vector of one group.
        share: Share of the cost of reducing the whole vector that reducing the vector of one group takes.
    """

    processors: Array
    groups: Array
    blocks: Pieces
    size: float
    share: float

    @staticmethod
    def whole(processors: Sequence[int], size: float) -> Team:
        """All members in one group, with equal parts of the vector.

        Raises:
            InputError: No members, a member twice, or a size that is no number of bytes.
        """
        count = len(processors)
        if not count:
            raise InputError("a communication group with no members", "at least one processor")
        if len(set(processors)) < count:
            twice = next(processor for processor in processors if list(processors).count(processor) > 1)
            raise InputError(f"a communication group with processor {twice} twice", "every member once")
        if not 0 <= size < inf:
            raise InputError(f"a collective of {size:g} bytes", "at least 0 bytes")
        return Team(
            processors=np.array(processors, dtype=np.int64),
            groups=np.arange(count)[np.newaxis],
            blocks=Pieces.equal(count),
            size=float(size),
            share=1.0,
        )

    @property
    def members(self) -> int:
        """Members of a group."""
        return int(self.groups.shape[1])

    @property
    def first_block(self) -> Array:
        """Block of the first member of each group; shape (groups, 1)."""
        return np.arange(len(self.groups))[:, np.newaxis] * self.members

    def ordered(self, positions: Array) -> Team:
        """The same members of each group in another order: at first the one from `positions[0]`."""
        order = (self.first_block + positions).ravel()
        return replace(self, groups=self.groups[:, positions], blocks=self._chosen(self.blocks, order))

    def reversed(self) -> Team:
        """The same members, the last one first."""
        return self.ordered(np.arange(self.members)[::-1])

    def part(self, index: int, count: int) -> Team:
        """The same members with one of `count` equal parts of the vector."""
        blocks = self.blocks.slices(count)
        return replace(
            self,
            blocks=self._chosen(blocks, np.arange(len(self.blocks)) * count + index),
            size=self.size / count,
            share=self.share / count,
        )

    def vectors(self) -> Pieces:
        """The vector of each group as one block."""
        groups = len(self.groups)
        return self.blocks.unions(Ragged(np.arange(groups + 1) * self.members, np.arange(groups * self.members)))

    def lines(self, grid: Array, axes: Sequence[int], *, free: Sequence[int] = ()) -> Team:
        """Groups along some axes of a grid of the members, in the order of their ranks.

        Args:
            grid: Ranks, every one once, each with the block of its own; any number of dimensions.
            axes: Along which a group goes; its members differ in these alone.
            free: Axes, others than these, along which all members' blocks belong to a member's block as well.
        """
        kept = [axis for axis in range(grid.ndim) if axis not in axes]
        groups = np.sort(grid.transpose(*kept, *axes).reshape(-1, _cells(grid, axes)), axis=1)
        bound = [axis for axis in range(grid.ndim) if axis not in free]
        fibres = grid.transpose(*bound, *free).reshape(-1, _cells(grid, free))
        length = fibres.shape[1]
        together = np.empty((grid.size, length), dtype=np.int64)
        together[fibres.ravel()] = np.repeat(fibres, length, axis=0)
        sets = Ragged(np.arange(grid.size + 1) * length, together[groups.ravel()].ravel())
        held = groups.shape[1] * length
        return replace(
            self,
            groups=groups,
            blocks=self.blocks.unions(sets),
            size=self.size * held / grid.size,
            share=self.share * held / grid.size,
        )

    @staticmethod
    def _chosen(blocks: Pieces, order: Array) -> Pieces:
        return blocks.unions(Ragged(np.arange(len(order) + 1), order))


def _cells(grid: Array, axes: Sequence[int]) -> int:
    return int(np.prod([grid.shape[axis] for axis in axes], dtype=np.int64))
