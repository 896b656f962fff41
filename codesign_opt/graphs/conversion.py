"""From the messages of a graph file to a graph, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import NoReturn

import numpy as np

from codesign_opt.errors import InputError, nearest
from codesign_opt.graphs.dependencies import find_cycle
from codesign_opt.graphs.graph import Array, Graph, Ragged
from codesign_opt.graphs.messages import GraphMessage, GroupMessage, InstructionMessage, SubroutineMessage
from codesign_opt.graphs.opcodes import CODES, OPCODES

_COMPOSITE = -1
"""Processor in the files of graphs that hold all processors."""


def graph_of(message: GraphMessage, source: str) -> Graph:
    """The graph that a message describes.

    Raises:
        InputError: No entry, an empty subroutine, an unknown opcode, an identifier that is used twice, operands or a
            root that are not in their subroutine, or operands that wait for each other; names `source`.
    """
    if message.entry_subroutine is None:
        raise InputError(f"{source}: no entry_subroutine", "the file is empty, or not a program graph")
    listing = _Listing(message.entry_subroutine, source)
    instructions, subroutines = listing.instructions, listing.subroutines
    subroutine = np.array(listing.subroutine, dtype=np.int64)
    identifier = _integers(entry.instruction_id for entry in instructions)
    finder = _Finder(listing, identifier, subroutine)
    operands = finder.operands()
    return Graph(
        name=message.name,
        processor=message.processor_id if message.processor_id >= 0 else None,
        names=tuple(entry.name for entry in instructions),
        opcode=np.array(listing.opcodes(), dtype=np.int16),
        identifier=identifier,
        subroutine=subroutine,
        ops=_numbers(entry.ops for entry in instructions),
        transcendentals=_numbers(entry.transcendentals for entry in instructions),
        bytes_in=_numbers(entry.bytes_in for entry in instructions),
        bytes_out=_numbers(entry.bytes_out for entry in instructions),
        seconds=_numbers(entry.seconds for entry in instructions),
        bonded=_integers(entry.bonded_instruction_id for entry in instructions),
        tag=np.fromiter((entry.communication_tag for entry in instructions), dtype=np.uint64),
        operands=operands,
        groups=tuple(tuple(tuple(group.group_ids) for group in entry.communication_groups) for entry in instructions),
        subroutine_names=tuple(entry.name for entry in subroutines),
        root=finder.roots(),
        caller=np.array(listing.caller, dtype=np.int64),
        probability=_numbers(entry.execution_probability for entry in subroutines),
        count=_integers(entry.execution_count for entry in subroutines),
    )


def message_of(graph: Graph) -> GraphMessage:
    """The message that describes a graph."""
    identifier = graph.identifier.tolist()
    subroutines = [
        SubroutineMessage(name, identifier[root], probability, count)
        for name, root, probability, count in zip(
            graph.subroutine_names,
            graph.root.tolist(),
            graph.probability.tolist(),
            graph.count.tolist(),
            strict=True,
        )
    ]
    offsets, operand_ids = graph.operands.offsets.tolist(), graph.identifier[graph.operands.values].tolist()
    instructions = [
        InstructionMessage(*entry)
        for entry in zip(
            graph.names,
            (OPCODES[code] for code in graph.opcode.tolist()),
            identifier,
            graph.ops.tolist(),
            graph.bytes_in.tolist(),
            graph.bytes_out.tolist(),
            graph.transcendentals.tolist(),
            graph.seconds.tolist(),
            graph.bonded.tolist(),
            graph.tag.tolist(),
            ([GroupMessage(list(group)) for group in groups] for groups in graph.groups),
            (operand_ids[start:end] for start, end in pairwise(offsets)),
            strict=True,
        )
    ]
    for entry, number in zip(instructions, graph.subroutine.tolist(), strict=True):
        subroutines[number].instructions.append(entry)
    for called, caller in zip(subroutines[1:], graph.caller.tolist()[1:], strict=True):
        instructions[caller].inner_subroutines.append(called)
    processor = _COMPOSITE if graph.processor is None else graph.processor
    return GraphMessage(graph.name, processor, subroutines[0])


class _Listing:
    """The instructions and subroutines of a message in the order of a graph."""

    def __init__(self, entry: SubroutineMessage, source: str) -> None:
        self.source = source
        self.instructions: list[InstructionMessage] = []
        self.subroutine: list[int] = []
        self.subroutines = [entry]
        self.caller = [-1]
        walks = [(0, iter(entry.instructions))]
        while walks:
            number, rest = walks[-1]
            for instruction in rest:
                self.instructions.append(instruction)
                self.subroutine.append(number)
                if instruction.inner_subroutines:
                    walks += self._enter(instruction.inner_subroutines)
                    break
            else:
                walks.pop()
        for called in self.subroutines:
            if not called.instructions:
                raise InputError(f"{source}: subroutine '{called.name}' has no instructions")

    def opcodes(self) -> list[int]:
        codes = [CODES.get(entry.opcode, -1) for entry in self.instructions]
        if -1 in codes:
            position = codes.index(-1)
            opcode = self.instructions[position].opcode
            self.fail(position, f"unknown opcode '{opcode}'", nearest(opcode, CODES))
        return codes

    def fail(self, position: int, what: str, hint: str = "") -> NoReturn:
        entry = self.instructions[position]
        raise InputError(f"{self.source}: instruction '{entry.name}' (id {entry.instruction_id}): {what}", hint)

    def _enter(self, inner: Sequence[SubroutineMessage]) -> Iterator[tuple[int, Iterator[InstructionMessage]]]:
        """The walks through the subroutines of the last instruction; the first one is to be walked first."""
        first = len(self.subroutines)
        self.subroutines += inner
        self.caller += [len(self.instructions) - 1] * len(inner)
        numbered = list(enumerate((iter(called.instructions) for called in inner), first))
        return reversed(numbered)


class _Finder:
    """Finds instructions by their identifiers."""

    def __init__(self, listing: _Listing, identifier: Array, subroutine: Array) -> None:
        self._listing = listing
        self._subroutine = subroutine
        self._order = np.argsort(identifier, kind="stable")
        self._sorted = identifier[self._order]
        twice = np.flatnonzero(np.diff(self._sorted) == 0)
        if len(twice):
            first, second = self._order[twice[0]], self._order[twice[0] + 1]
            listing.fail(second, f"instruction '{listing.instructions[first].name}' has the same id", "ids are unique")

    def operands(self) -> Ragged:
        listed = self._listing.instructions
        lengths = np.fromiter((len(entry.operand_ids) for entry in listed), dtype=np.int64)
        wanted = _integers(chain.from_iterable(entry.operand_ids for entry in listed))
        user = np.repeat(np.arange(len(listed)), lengths)
        found = self._positions(wanted)
        for fault in np.flatnonzero(found < 0)[:1]:
            self._listing.fail(user[fault], f"operand {wanted[fault]} does not exist", "operands are instruction ids")
        for fault in np.flatnonzero(self._subroutine[found] != self._subroutine[user])[:1]:
            self._listing.fail(
                user[fault],
                f"operand {wanted[fault]} ('{listed[found[fault]].name}') is in another subroutine",
                "operands stand in the same subroutine",
            )
        operands = Ragged(np.concatenate(([0], np.cumsum(lengths))), found)
        cycle = find_cycle(operands)
        if cycle:
            names = [f"'{listed[position].name}'" for position in [*cycle[:5], cycle[0]]]
            circle = " ← ".join(names if len(cycle) <= 5 else [*names[:5], "…", names[-1]])
            self._listing.fail(cycle[0], f"waits for itself: {circle}", "operands must not form a cycle")
        return operands

    def roots(self) -> Array:
        subroutines = self._listing.subroutines
        wanted = _integers(entry.subroutine_root_id for entry in subroutines)
        found = self._positions(wanted)
        missing = (found < 0) | (self._subroutine[found] != np.arange(len(found)))
        for fault in np.flatnonzero(missing)[:1]:
            raise InputError(
                f"{self._listing.source}: subroutine '{subroutines[fault].name}': root {wanted[fault]} is not in it",
                "subroutine_root_id is the id of one of its instructions",
            )
        return found

    def _positions(self, wanted: Array) -> Array:
        """Positions of instructions; -1 for identifiers that do not exist."""
        places = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        return np.where(self._sorted[places] == wanted, self._order[places], -1)


def _numbers(values: Iterable[float]) -> Array:
    return np.fromiter(values, dtype=np.float64)


def _integers(values: Iterable[int]) -> Array:
    return np.fromiter(values, dtype=np.int64)
