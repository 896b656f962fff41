"""The messages of a collective: what every member of a group sends, receives and reduces, and in what order.

A `Schedule` is one table of rows for all members at once. Each row is a piece of work of one member:

    opcode      to    source   bytes_out   bytes_in   scale
    SENDRECV    yes   yes      sent        received   0        sends and receives at the same time
    SEND        yes   -        sent        0          0
    RECV        -     yes      0           received   0
    REDUCE      -     -        0           0          > 0      computes; `scale` of what reducing the whole vector costs

Members are named by rank, their position in the group from 0; `processors` says who they are. A row starts when its
`operands`, earlier rows of the same member, have finished; a row that receives also needs the message that the row
`sender` sends. What holds for every schedule:

* Operands come before their row, and on a lower level. A row's `sender` is never on a higher level. So the levels can
  be worked through in turn, each as a whole: first all starts, then all arrivals, then all ends (`by_level`).
* Every message that is sent is received, with the same bytes: `bytes_in == bytes_out[sender]`,
  `source == rank[sender]`, `to[sender] == rank`. Between two members, messages are received in the order of the rows
  that send them, so that numbering them on both sides matches them as well.
* The vector that is worked on is the interval from 0 to 1; `blocks` says which part of it a message carries. What
  arrives is written over what the receiver has, or, where `adds` is true, waits for the REDUCE row that has the
  receiving row as its operand, and is added there.

What a collective starts and ends with, for n members, member i having piece i = [i/n, (i+1)/n):

    all-gather, gather       piece i at member i            the vector at all, at member 0
    all-reduce, reduce       a vector each                  its sum at all, at member 0
    reduce-scatter           a vector each                  piece i of the sum at member i
    broadcast, scatter       the vector at member 0         the vector at all, piece i at member i
    all-to-all               a vector each; member i's      piece j of member i's vector at member j, for all i
                             is the interval [i, i + 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from codesign_opt.graphs.graph import Array, Ragged
from codesign_opt.simulation.collectives.pieces import Pieces

SENDRECV: Final = 0
SEND: Final = 1
RECV: Final = 2
REDUCE: Final = 3

ROW_OPCODES: Final = ("sendrecv", "send", "recv", "reduce")
"""Opcodes of rows in words; a schedule stores the index."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A collective that is a part of another one, run by several groups of members side by side.

    Attributes:
        label: Its name among the parts of the collective that it belongs to; empty for the whole.
        opcode: What it is for each of its groups, such as `reduce-scatter`.
        algorithm: How it is done.
        parent: Index of the phase that it is a part of; -1 for the whole.
        size: Bytes of the whole vector of one group, as in a collective's `bytes_out`.
        groups: Ranks, in order; shape (groups, members).
        names_algorithm: Whether the names of its rows and parts have that of the algorithm in front.
    """

    label: str
    opcode: str
    algorithm: str
    parent: int
    size: float
    groups: Array
    names_algorithm: bool = True


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Rows of all members of a group, columns of one length; see the module for what a row means.

    Attributes:
        processors: The member of each rank.
        opcode: Index into `ROW_OPCODES`.
        rank: Whose row it is.
        to, source: Ranks that the row sends to and receives from; -1 for none.
        bytes_out, bytes_in: Bytes sent and received.
        scale: Share of the cost of reducing the whole vector once.
        operands: Rows of the same member that must have finished before.
        sender: Row that sends what this row receives; -1 for none.
        level: Step in which a row can run at the earliest, counted from 0 over all members.
        phase: Index into `phases`.
        block: Index into `blocks`, of what is sent; -1 for nothing.
        adds: Whether what arrives is added.
        phases: The collective itself, then its parts, each after the one that it belongs to.
        blocks: Parts of the vector.
    """

    processors: Array
    opcode: Array
    rank: Array
    to: Array
    source: Array
    bytes_out: Array
    bytes_in: Array
    scale: Array
    operands: Ragged
    sender: Array
    level: Array
    phase: Array
    block: Array
    adds: Array
    phases: tuple[Phase, ...]
    blocks: Pieces

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.opcode)

    @property
    def levels(self) -> int:
        """Number of levels."""
        return int(self.level.max()) + 1 if len(self) else 0

    @cached_property
    def by_level(self) -> Ragged:
        """For each level its rows, in order."""
        return Ragged.grouped(self.level, self.levels)

    @cached_property
    def by_rank(self) -> Ragged:
        """For each rank its rows, in order."""
        return Ragged.grouped(self.rank, len(self.processors))

    @cached_property
    def final(self) -> Array:
        """Whether no other row waits for a row to finish."""
        final = np.ones(len(self), dtype=bool)
        final[self.operands.values] = False
        return final
