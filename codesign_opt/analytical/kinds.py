"""Workloads whose blocks are of several kinds: which share of a stage each kind has.

Most workloads have blocks of one kind. Otherwise a strategy's block is the mean of the kinds over the blocks of its
fullest stage: kinds that are spread evenly count by their share; blocks that lead the stack stand on the first stages,
so that the fullest stage of the rest has as few of them as there may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.workloads import Workload
from codesign_opt.workloads.kinds import block_kinds

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of blocks of some workloads.

    Attributes:
        workloads: One for each kind of each workload.
        of: (workload, number) indices of each workload's kinds; its last one where it has fewer than another.
        blocks: (workload, number) blocks of each kind; 0 where there is none.
        leading: Whether they lead the stack.
    """

    workloads: tuple[Workload, ...]
    of: Array
    blocks: Array
    leading: Array

    @classmethod
    def all_of(cls, workloads: Sequence[Workload]) -> Kinds:
        """The kinds of every workload."""
        kinds = [block_kinds(workload) for workload in workloads]
        shape = (len(kinds), max(map(len, kinds)))
        of, blocks, leading = np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape, dtype=np.bool_)
        flat: list[Workload] = []
        for row, members in enumerate(kinds):
            for number, member in enumerate(members):
                of[row, number:] = len(flat)
                blocks[row, number], leading[row, number] = member.blocks, member.leading
                flat.append(member.workload)
        return cls(tuple(flat), of, blocks, leading)

    def shares(self, workload: Array, stage_blocks: Array) -> list[Array]:
        """For each kind its share of the fullest stage's blocks, for rows that name their workload."""
        if self.blocks.shape[1] == 1:
            return [np.array(1.0)]
        later = np.where(self.leading, 0.0, self.blocks)
        of_later = later.sum(axis=1)[workload]
        led = np.asarray(self.leading.any(axis=1))[workload]
        filled = np.where(led, np.minimum(of_later, stage_blocks) / stage_blocks, 0.0)
        shares = []
        for number in range(self.blocks.shape[1]):
            spread = self.blocks[workload, number] / self.blocks.sum(axis=1)[workload]
            of_rest = filled * later[workload, number] / np.maximum(of_later, 1)
            first = self.blocks[workload, number] / np.maximum((self.blocks - later).sum(axis=1)[workload], 1)
            in_order = np.where(self.leading[workload, number], (1 - filled) * first, of_rest)
            shares.append(np.where(led, in_order, spread))
        return shares
