"""Collectives as instructions: the rows of a schedule become inner subroutines of the collective.

What one member does often differs from what another one does in the peers alone. So instructions are written with
numbers in place of communication groups and `PROCESSOR` in names, and each member has a table of the groups that the
numbers stand for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np

from codesign_opt.graphs.builder import GraphBuilder
from codesign_opt.graphs.graph import Array, Groups, Ragged
from codesign_opt.simulation.collectives import REDUCE, ROW_OPCODES, Schedule
from codesign_opt.simulation.protocol import Transfer, transfer_groups

PROCESSOR: Final = "\0"
"""Stands for the number of the processor at the end of a name."""

Reduce = Callable[[int, int, float], None]
"""Takes the number of a `call` in the builder, that of the reduction from 1, and its share of the whole reduction."""

Communicate = Callable[[int, str, Transfer], None]
"""Takes the number of a `send`, `recv` or `sendrecv` in the builder, its name, and what it does."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """One member of a collective.

    Attributes:
        schedule: The messages of its group.
        rows: Its rows in the schedule.
        operands: For each row its operands, as positions in `rows`.
        groups: Communication groups: for each phase the member's own, then for each row its `transfer_groups`.
    """

    schedule: Schedule
    rows: Array
    operands: Ragged
    groups: list[Groups]

    @cached_property
    def shape(self) -> bytes:
        """Equal for members of collectives whose phases and rows differ in nothing but the groups and peers."""
        schedule = self.schedule
        columns = (schedule.opcode, schedule.phase, schedule.bytes_out, schedule.bytes_in, schedule.scale)
        phases = [(phase.label, phase.opcode, phase.algorithm, phase.parent, phase.size) for phase in schedule.phases]
        parts = [column[self.rows] for column in columns] + [self.operands.offsets, self.operands.values]
        return b"".join([repr(phases).encode(), *(part.tobytes() for part in parts)])


def member_of(schedule: Schedule, processor: int) -> Member:
    """The part of a processor, which must be in the group."""
    rank = int(np.flatnonzero(schedule.processors == processor)[0])
    rows = schedule.by_rank[rank]
    operands = schedule.operands.take(rows)
    peers = np.stack((schedule.source[rows], schedule.to[rows]))
    different, which = np.unique(peers, axis=1, return_inverse=True)
    processors = [*schedule.processors.tolist(), None]
    transfers = [transfer_groups(processors[source], processors[to]) for source, to in different.T.tolist()]
    phases = [_own_group(schedule, phase.groups, rank) for phase in schedule.phases]
    groups = [*phases, *chain.from_iterable(transfers[index] for index in which.tolist())]
    return Member(
        schedule=schedule,
        rows=rows,
        operands=Ragged(operands.offsets, np.searchsorted(rows, operands.values)),
        groups=groups,
    )


def lower(
    builder: GraphBuilder,
    collective: int,
    name: str,
    member: Member,
    *,
    first_group: int,
    reduce: Reduce,
    communicate: Communicate,
) -> None:
    """Give a collective its algorithm as inner subroutine.

    Every phase of the schedule in which the member has something to do becomes a collective inside of it.

    Args:
        builder: The graph of the member.
        collective: Number of the collective in the builder.
        name: Its name.
        member: Whose rows to write.
        first_group: Number that stands for the first of the member's groups.
        reduce: What to do with each reduction.
        communicate: What to do with each communication.
    """
    schedule = member.schedule
    phases = _Phases(builder, schedule, first_group)
    phases.open(0, collective, name)
    placed: list[int] = []
    columns = (schedule.opcode, schedule.phase, schedule.bytes_out, schedule.bytes_in, schedule.scale)
    rows = zip(*(column[member.rows].tolist() for column in columns), strict=True)
    for position, (opcode, phase, sent, received, scale) in enumerate(rows):
        part = phases.part(phase)
        what = "reduction" if opcode == REDUCE else ROW_OPCODES[opcode]
        part.counts[what] += 1
        row_name = f"{part.name}_{what}_{part.counts[what]}"
        if opcode == REDUCE:
            placed.append(part.add(builder, row_name, "call"))
            reduce(placed[-1], part.counts[what], scale)
        else:
            both = first_group + len(schedule.phases) + 3 * position
            placed.append(part.add(builder, row_name, what, bytes_in=sent, bytes_out=received, group=both))
            transfer = Transfer(
                source=both + 1 if what != "send" else None,
                to=both + 2 if what != "recv" else None,
                bytes_sent=sent,
                bytes_received=received,
            )
            communicate(placed[-1], row_name, transfer)
        for operand in member.operands[position].tolist():
            operand_phase = int(schedule.phase[member.rows[operand]])
            phases.wait((phase, placed[-1]), (operand_phase, placed[operand]))
    phases.close()


@dataclass
class _Part:
    """A phase that has begun: its instruction, its subroutine, and the instructions of that with their operands.

    `name` is what the names of these begin with, `root` the name of the one that stands for all of them, if need be.
    """

    instruction: int
    subroutine: int
    name: str
    root: str
    operands: dict[int, dict[int, None]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def add(
        self,
        builder: GraphBuilder,
        name: str,
        opcode: str,
        *,
        bytes_in: float = 0.0,
        bytes_out: float = 0.0,
        group: int | None = None,
    ) -> int:
        groups = () if group is None else ((group,),)
        number = builder.instruction(
            self.subroutine, name, opcode, bytes_in=bytes_in, bytes_out=bytes_out, groups=groups
        )
        self.operands[number] = {}
        return number


@dataclass
class _Phases:
    """The phases of a schedule, as one member's rows are written."""

    builder: GraphBuilder
    schedule: Schedule
    first_group: int
    parts: dict[int, _Part] = field(default_factory=dict)

    def open(self, phase: int, instruction: int, name: str) -> _Part:
        """Begin the subroutine of a phase, whose instruction is there."""
        described = self.schedule.phases[phase]
        inner = f"{name}_{described.algorithm}"
        subroutine = self.builder.subroutine(inner, caller=instruction)
        if described.names_algorithm:
            part = _Part(instruction, subroutine, inner, root=f"{inner}_root_{PROCESSOR}")
        else:
            part = _Part(instruction, subroutine, name, root=f"{name}_root")
        self.parts[phase] = part
        return part

    def part(self, phase: int) -> _Part:
        """A phase, which begins when it is first asked for."""
        if phase in self.parts:
            return self.parts[phase]
        described = self.schedule.phases[phase]
        outer = self.part(described.parent)
        name = f"{outer.name}_{described.label}"
        group = self.first_group + phase
        instruction = outer.add(self.builder, name, described.opcode, bytes_out=described.size, group=group)
        return self.open(phase, instruction, name)

    def wait(self, row: tuple[int, int], operand: tuple[int, int]) -> None:
        """Let a row wait for another: each given by its phase and its instruction.

        Where they are in different phases, what waits is the outermost phase that holds one but not the other. That is
        the same, since a phase always waits for all of another one.
        """
        if row[0] != operand[0]:
            pairs = zip(self._path(row), self._path(operand), strict=False)
            row, operand = next((mine, other) for mine, other in pairs if mine[1] != other[1])
        self.parts[row[0]].operands[row[1]][operand[1]] = None

    def _path(self, place: tuple[int, int]) -> list[tuple[int, int]]:
        """The phases and instructions in them that a row is inside of, from the outermost on, and its own."""
        phase = place[0]
        path = [place]
        while (outer := self.schedule.phases[phase].parent) >= 0:
            path.append((outer, self.parts[phase].instruction))
            phase = outer
        return path[::-1]

    def close(self) -> None:
        """Write the operands, and let every subroutine end with a root."""
        for part in self.parts.values():
            for instruction, operands in part.operands.items():
                self.builder.depend(instruction, operands)
            waited_for = {operand for operands in part.operands.values() for operand in operands}
            last = [member for member in part.operands if member not in waited_for]
            if len(last) == 1:
                self.builder.set_root(part.subroutine, last[0])
            else:
                self.builder.instruction(part.subroutine, part.root, "null", operands=last)


def _own_group(schedule: Schedule, groups: Array, rank: int) -> Groups:
    own = groups[(groups == rank).any(axis=1)]
    return tuple(tuple(group) for group in schedule.processors[own].tolist())
