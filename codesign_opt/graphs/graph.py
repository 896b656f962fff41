"""A program graph: columns over instructions and subroutines, loops as counters (spec graph-simulation section 1).

Instructions stand in the order of the file: each is followed by those of its inner subroutines, then by the next one of
its own subroutine. They are named by their position, an index from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs.opcodes import OPCODES

Array = NDArray[Any]
Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Ragged:
    """Lists of integers of different lengths, one after the other: list i is `values[offsets[i]:offsets[i + 1]]`."""

    offsets: Array
    values: Array

    @staticmethod
    def from_lists(lists: Sequence[Sequence[int]]) -> Ragged:
        """The same lists, stored flat."""
        offsets = np.zeros(len(lists) + 1, dtype=np.int64)
        np.cumsum([len(entries) for entries in lists], out=offsets[1:])
        values = np.fromiter((entry for entries in lists for entry in entries), dtype=np.int64, count=int(offsets[-1]))
        return Ragged(offsets, values)

    @staticmethod
    def grouped(keys: Array, count: int) -> Ragged:
        """The positions of each key from 0 to `count` - 1, in order; negative keys belong to no list."""
        order = np.argsort(keys, kind="stable")
        bounds = np.searchsorted(keys[order], np.arange(count + 1))
        return Ragged(bounds - bounds[0], order[bounds[0] : bounds[-1]])

    def take(self, lists: Array) -> Ragged:
        """Some of the lists, in the order in which they are named."""
        lengths = np.diff(self.offsets)[lists]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        places = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - self.offsets[lists], lengths)
        return Ragged(offsets, self.values[places])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Array:
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[Array]:
        return (self[index] for index in range(len(self)))


@dataclass(frozen=True, kw_only=True)
class Graph:
    """What one processor runs, or all of them. Columns of one length; build one with `GraphBuilder`.

    Attributes:
        name: Of the program.
        processor: Whose program it is; None for one graph of all processors (composite).
        names: Of the instructions.
        opcode: Index into `opcodes.OPCODES`.
        identifier: The file's number of an instruction, positive and unique.
        subroutine: Index of the subroutine that an instruction stands in.
        ops, transcendentals: Arithmetic operations; exponentials, square roots and the like, counted apart.
        bytes_in, bytes_out: Bytes read and written, or on the wire; the whole vector of a collective is its bytes_out.
        seconds: Time on the processor.
        bonded: Identifier of the other half of a `-start` and `-done`; 0 for none.
        tag: Number of a message between two processors; 0 for none.
        operands: Instructions of the same subroutine that must have finished before.
        groups: Processors that take part in a communication.
        subroutine_names: Of the subroutines; number 0 is the entry.
        root: Instruction that stands for the result of a subroutine.
        caller: Instruction that a subroutine belongs to; -1 for the entry.
        probability: Weight of a branch; 1 elsewhere.
        count: Iterations of a loop's body or condition; 1 elsewhere.
    """

    name: str
    processor: int | None
    names: tuple[str, ...]
    opcode: Array
    identifier: Array
    subroutine: Array
    ops: Array
    transcendentals: Array
    bytes_in: Array
    bytes_out: Array
    seconds: Array
    bonded: Array
    tag: Array
    operands: Ragged
    groups: tuple[Groups, ...]
    subroutine_names: tuple[str, ...]
    root: Array
    caller: Array
    probability: Array
    count: Array

    def __len__(self) -> int:
        """Number of instructions."""
        return len(self.names)

    def opcode_name(self, instruction: int) -> str:
        """The opcode in words."""
        return OPCODES[int(self.opcode[instruction])]

    @cached_property
    def members(self) -> Ragged:
        """For each subroutine its instructions, in order."""
        return Ragged.grouped(self.subroutine, len(self.root))

    @cached_property
    def inner(self) -> Ragged:
        """For each instruction its inner subroutines, in order."""
        return Ragged.grouped(self.caller, len(self.names))

    @cached_property
    def users(self) -> Ragged:
        """For each instruction those that have it as an operand, in the order of the file."""
        lengths = np.diff(self.operands.offsets)
        user = np.repeat(np.arange(len(self.names)), lengths)
        lists = Ragged.grouped(self.operands.values, len(self.names))
        return Ragged(lists.offsets, user[lists.values])
