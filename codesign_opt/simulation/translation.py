"""Translation of a program: what each processor does, with collectives as messages, and messages by a protocol."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Final

import numpy as np

from codesign_opt.errors import InputError
from codesign_opt.graphs.builder import GraphBuilder
from codesign_opt.graphs.graph import Array, Graph, Groups
from codesign_opt.graphs.individual import individual_graphs
from codesign_opt.graphs.validity import check_graph
from codesign_opt.simulation.collectives import Schedule
from codesign_opt.simulation.collectives.team import Team
from codesign_opt.simulation.copying import copy_graph, copy_scaled
from codesign_opt.simulation.lowering import PROCESSOR, Member, lower, member_of
from codesign_opt.simulation.protocol import Transfer, expand_push, message_order, tag_messages, transfer_groups
from codesign_opt.simulation.translation_file import Translation, read_translation

__all__ = ["REDUCING", "Translation", "read_translation", "translate"]

REDUCING: Final = ("all-reduce", "reduce-scatter", "reduce")
"""Collectives that have a subroutine of their own before translation: what reducing the whole vector costs."""


def translate(graph: Graph, translation: Translation, *, processors: Iterable[int] | None = None) -> list[Graph]:
    """The programs of processors; their names end in `_<processor>`.

    Programs that differ in nothing but the peers are written once and share their columns.

    Args:
        graph: The program of all processors. The inner subroutine of a collective that reduces says what reducing the
            whole vector costs.
        translation: How collectives and messages are done.
        processors: Whose programs; by default of all that take part in any communication, in ascending order.

    Raises:
        InputError: A graph that cannot be run or is that of one processor, a collective that reduces and does not say
            what that costs, or a group that the algorithm cannot handle; names graph and instruction.
    """
    check_graph(graph)
    schedules: dict[tuple[str, tuple[int, ...], float], Schedule] = {}
    templates: dict[tuple[bytes, ...], _Template] = {}
    programs = []
    for program in individual_graphs(graph, processors):
        parts = _Parts.of(program, translation, schedules)
        if parts.shape not in templates:
            templates[parts.shape] = _Template.written(parts)
        programs.append(templates[parts.shape].filled(parts))
    return programs


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """What is to be written for one processor.

    Attributes:
        program: Its program before translation.
        translation: How collectives and messages are done.
        members: Its part in each collective that is translated, by instruction.
        transfers: The messages of each instruction that the protocol takes care of.
    """

    program: Graph
    translation: Translation
    members: dict[int, Member]
    transfers: dict[int, Transfer]

    @staticmethod
    def of(
        program: Graph, translation: Translation, schedules: dict[tuple[str, tuple[int, ...], float], Schedule]
    ) -> _Parts:
        """Collect them; `schedules` keeps those that are made, for other members of the same groups."""
        members: dict[int, Member] = {}
        transfers: dict[int, Transfer] = {}
        made: dict[tuple[str, tuple[int, ...], float], Member] = {}
        assert program.processor is not None
        for instruction, groups in enumerate(program.groups):
            opcode = program.opcode_name(instruction)
            if opcode in translation.protocols:
                transfers[instruction] = _transfer(program, instruction)
            if opcode not in translation.collectives:
                continue
            _check_reduction(program, instruction)
            key = (opcode, groups[0], float(program.bytes_out[instruction]))
            if key not in schedules:
                schedules[key] = _schedule(program, instruction, translation)
            if key not in made:
                made[key] = member_of(schedules[key], program.processor)
            members[instruction] = made[key]
        return _Parts(program=program, translation=translation, members=members, transfers=transfers)

    @property
    def shape(self) -> tuple[bytes, ...]:
        """Equal for processors whose translated programs differ in nothing but the communication groups."""
        rows = [member.shape + str(instruction).encode() for instruction, member in self.members.items()]
        return (self.program.identifier.tobytes(), self.program.opcode.tobytes(), *rows)

    @property
    def groups(self) -> list[Groups]:
        """All communication groups: of the program before translation, of collectives, of transfers."""
        transfers = (transfer_groups(transfer.source, transfer.to) for transfer in self.transfers.values())
        members = (member.groups for member in self.members.values())
        return [*self.program.groups, *chain.from_iterable(members), *chain.from_iterable(transfers)]


@dataclass(frozen=True, kw_only=True)
class _Template:
    """The translated program of all processors of one shape.

    Attributes:
        graph: The program of one of them.
        group: For each instruction the index of its communication groups in `_Parts.groups`; -1 for none.
        named: The instructions whose names end with the number of the processor.
        messages: The instructions that start messages, in the order in which they are numbered.
    """

    graph: Graph
    group: Array
    named: list[int]
    messages: Array

    @staticmethod
    def written(parts: _Parts) -> _Template:
        """Write the program; it is checked once for all processors of the shape."""
        graph = _Writer(parts).graph()
        group = np.array([groups[0][0] if groups else -1 for groups in graph.groups], dtype=np.int64)
        named = [place for place, name in enumerate(graph.names) if name.endswith(PROCESSOR)]
        template = _Template(graph=graph, group=group, named=named, messages=message_order(graph))
        check_graph(template.filled(parts))
        return template

    def filled(self, parts: _Parts) -> Graph:
        """The program of a processor of the shape."""
        table = [*parts.groups, ()]
        names = self.graph.names
        if self.named:
            changed = list(names)
            for place in self.named:
                changed[place] = f"{names[place].removesuffix(PROCESSOR)}{parts.program.processor}"
            names = tuple(changed)
        program = replace(
            self.graph,
            name=parts.program.name,
            processor=parts.program.processor,
            names=names,
            groups=tuple(map(table.__getitem__, self.group.tolist())),
        )
        return tag_messages(program, self.messages)


class _Writer:
    """Writes a translated program, in which the index of groups in `_Parts.groups` stands for them."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts
        numbers = ((((place,),) if groups else ()) for place, groups in enumerate(parts.program.groups))
        self._program = replace(parts.program, groups=tuple(numbers))
        self._builder = GraphBuilder(parts.program.name, parts.program.processor)
        sizes = {place: len(member.groups) for place, member in parts.members.items()}
        sizes |= dict.fromkeys(parts.transfers, 3)
        starts = np.cumsum([len(parts.program), *sizes.values()]).tolist()
        self._first_group = dict(zip(sizes, starts, strict=False))

    def graph(self) -> Graph:
        copy_graph(self._program, self._builder, self._expand)
        return self._builder.build()

    def _expand(self, instruction: int, number: int) -> bool:
        name = self._program.names[instruction]
        first = self._first_group.get(instruction, 0)
        if instruction in self._parts.transfers:
            transfer = self._parts.transfers[instruction]
            numbered = replace(
                transfer,
                source=None if transfer.source is None else first + 1,
                to=None if transfer.to is None else first + 2,
            )
            expand_push(self._builder, number, name, numbered)
        elif instruction in self._parts.members:
            lower(
                self._builder,
                number,
                name,
                self._parts.members[instruction],
                first_group=first,
                reduce=partial(self._reduce, self._program.inner[instruction].tolist()),
                communicate=self._communicate,
            )
        else:
            return False
        return True

    def _reduce(self, reduction: list[int], call: int, count: int, scale: float) -> None:
        copy_scaled(self._program, self._builder, reduction[0], call, suffix=f"_phase_{count}", scale=scale)

    def _communicate(self, number: int, name: str, transfer: Transfer) -> None:
        if transfer.opcode in self._parts.translation.protocols:
            expand_push(self._builder, number, name, transfer)


def _transfer(program: Graph, instruction: int) -> Transfer:
    opcode, peers = program.opcode_name(instruction), program.groups[instruction][0]
    return Transfer(
        source=None if opcode == "send" else peers[0],
        to=None if opcode == "recv" else peers[-1],
        bytes_sent=float(program.bytes_in[instruction]),
        bytes_received=float(program.bytes_out[instruction]),
    )


def _schedule(program: Graph, instruction: int, translation: Translation) -> Schedule:
    choice = translation.collectives[program.opcode_name(instruction)]
    team = Team.whole(program.groups[instruction][0], float(program.bytes_out[instruction]))
    try:
        return choice.algorithm.build(team, **choice.options)
    except InputError as error:
        raise _refusal(program, instruction, error.message, error.hint) from None


def _check_reduction(program: Graph, instruction: int) -> None:
    """Refuse a collective that does not say what reducing costs, or does so without reducing."""
    opcode, inner = program.opcode_name(instruction), len(program.inner[instruction])
    if opcode in REDUCING and not inner:
        hint = "give it one, with a delay of 0 seconds where reducing costs nothing"
        raise _refusal(program, instruction, f"{opcode} without a subroutine that says what reducing costs", hint)
    if opcode not in REDUCING and inner:
        raise _refusal(program, instruction, f"{opcode} with an inner subroutine, but nothing to reduce", "remove it")


def _refusal(program: Graph, instruction: int, what: str, hint: str) -> InputError:
    name, identifier = program.names[instruction], program.identifier[instruction]
    return InputError(f"graph '{program.name}': instruction '{name}' (id {identifier}): {what}", hint)
