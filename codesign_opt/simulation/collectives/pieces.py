"""Parts of a vector: which intervals of it a message carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codesign_opt.graphs.graph import Array, Ragged


@dataclass(frozen=True, slots=True)
class Pieces:
    """Blocks of a vector; block i is the intervals from `offsets[i]` to `offsets[i + 1]` of the columns.

    Attributes:
        offsets: Where the intervals of each block begin; one more than there are blocks.
        start, length: Of each interval, as fractions of the vector.
    """

    offsets: Array
    start: Array
    length: Array

    @staticmethod
    def none() -> Pieces:
        """No blocks."""
        return Pieces(np.zeros(1, dtype=np.int64), np.zeros(0), np.zeros(0))

    @staticmethod
    def intervals(start: Array, length: Array) -> Pieces:
        """Blocks of one interval each."""
        return Pieces(np.arange(len(start) + 1), start, length)

    @staticmethod
    def equal(count: int) -> Pieces:
        """The vector cut into blocks of equal length."""
        return Pieces.intervals(np.arange(count) / count, np.ones(count) / count)

    @staticmethod
    def concatenated(parts: Sequence[Pieces]) -> Pieces:
        """The blocks of several, one after the other."""
        counts = [np.diff(part.offsets) for part in parts]
        offsets = np.concatenate(([0], np.cumsum(np.concatenate(counts)))) if counts else np.zeros(1, dtype=np.int64)
        columns = [np.concatenate([getattr(part, name) for part in parts]) for name in ("start", "length")]
        return Pieces(offsets, *columns)

    def __len__(self) -> int:
        """Number of blocks."""
        return len(self.offsets) - 1

    def __getitem__(self, block: int) -> tuple[Array, Array]:
        """Starts and lengths of the intervals of a block."""
        chosen = slice(self.offsets[block], self.offsets[block + 1])
        return self.start[chosen], self.length[chosen]

    def unions(self, sets: Ragged) -> Pieces:
        """Blocks that consist of several of these; each list of `sets` gives one."""
        pieces = Ragged(self.offsets, np.arange(len(self.start))).take(sets.values)
        return Pieces(pieces.offsets[sets.offsets], self.start[pieces.values], self.length[pieces.values])

    def slices(self, count: int) -> Pieces:
        """Every block cut into `count` equal ones, which follow each other; each takes a part of every interval."""
        pieces = np.diff(self.offsets)
        repeated = self.unions(Ragged(np.arange(len(self) * count + 1), np.repeat(np.arange(len(self)), count)))
        slice_of_block = np.tile(np.arange(count), len(self))
        length = repeated.length / count
        return Pieces(
            repeated.offsets, repeated.start + np.repeat(slice_of_block, np.repeat(pieces, count)) * length, length
        )
