"""Write a program graph instruction by instruction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from codesign_opt.errors import InputError, nearest
from codesign_opt.graphs.graph import Graph, Groups, Ragged
from codesign_opt.graphs.opcodes import CODES


@dataclass
class GraphBuilder:
    """A graph as it grows. Subroutines and instructions are named by the numbers that adding them returns.

    Attributes:
        name: Of the program.
        processor: Whose program it is; None for one graph of all processors.
    """

    name: str
    processor: int | None = None
    _instructions: list[_Instruction] = field(default_factory=list)
    _subroutines: list[_Subroutine] = field(default_factory=list)

    def subroutine(self, name: str, *, caller: int | None = None, count: int = 1, probability: float = 1.0) -> int:
        """Add a subroutine; the first one, without a caller, is the entry. Its root is its last instruction."""
        number = len(self._subroutines)
        self._subroutines.append(_Subroutine(name, caller, count, probability))
        if caller is not None:
            self._instructions[caller].inner.append(number)
        return number

    def instruction(
        self,
        subroutine: int,
        name: str,
        opcode: str,
        *,
        operands: Iterable[int] = (),
        seconds: float = 0.0,
        bytes_in: float = 0.0,
        bytes_out: float = 0.0,
        ops: float = 0.0,
        transcendentals: float = 0.0,
        groups: Sequence[Sequence[int]] = (),
        bonded: int = 0,
        tag: int = 0,
        identifier: int | None = None,
    ) -> int:
        """Add an instruction at the end of a subroutine.

        Raises:
            InputError: For an opcode that does not exist.
        """
        if opcode not in CODES:
            raise InputError(
                f"graph '{self.name}': instruction '{name}': unknown opcode '{opcode}'", nearest(opcode, CODES)
            )
        number = len(self._instructions)
        self._instructions.append(
            _Instruction(
                name=name,
                opcode=CODES[opcode],
                subroutine=subroutine,
                operands=tuple(operands),
                seconds=float(seconds),
                bytes_in=float(bytes_in),
                bytes_out=float(bytes_out),
                ops=float(ops),
                transcendentals=float(transcendentals),
                groups=tuple(tuple(group) for group in groups),
                bonded=bonded,
                tag=tag,
                identifier=identifier,
            )
        )
        self._subroutines[subroutine].members.append(number)
        return number

    def depend(self, instruction: int, operands: Iterable[int]) -> None:
        """Let an instruction wait for others as well."""
        entry = self._instructions[instruction]
        entry.operands = (*entry.operands, *operands)

    def set_root(self, subroutine: int, instruction: int) -> None:
        """Let an instruction other than the last be the root of a subroutine."""
        self._subroutines[subroutine].root = instruction

    def bond(self, start: int, done: int) -> None:
        """Tie a `-start` and its `-done` to each other, by their identifiers in the finished graph."""
        self._instructions[start].partner = done
        self._instructions[done].partner = start

    def tag(self, instruction: int, tag: int) -> None:
        """Number the message of an instruction."""
        self._instructions[instruction].tag = tag

    def build(self) -> Graph:
        """The finished graph. Instructions without an identifier get the lowest free ones.

        Raises:
            InputError: For a subroutine without instructions.
        """
        empty = next((entry.name for entry in self._subroutines if not entry.members), None)
        if empty is not None or not self._subroutines:
            raise InputError(f"graph '{self.name}': subroutine '{empty or 'entry'}' has no instructions")
        order, subroutines = self._file_order()
        position = np.empty(len(self._instructions), dtype=np.int64)
        position[order] = np.arange(len(order))
        rank = np.empty(len(self._subroutines), dtype=np.int64)
        rank[subroutines] = np.arange(len(subroutines))
        listed = [self._instructions[number] for number in order]
        called = [self._subroutines[number] for number in subroutines]
        identifiers = self._identifiers(order)
        return Graph(
            name=self.name,
            processor=self.processor,
            names=tuple(entry.name for entry in listed),
            opcode=np.array([entry.opcode for entry in listed], dtype=np.int16),
            identifier=identifiers[order],
            subroutine=rank[[entry.subroutine for entry in listed]],
            ops=np.array([entry.ops for entry in listed]),
            transcendentals=np.array([entry.transcendentals for entry in listed]),
            bytes_in=np.array([entry.bytes_in for entry in listed]),
            bytes_out=np.array([entry.bytes_out for entry in listed]),
            seconds=np.array([entry.seconds for entry in listed]),
            bonded=np.array(
                [entry.bonded if entry.partner is None else identifiers[entry.partner] for entry in listed],
                dtype=np.int64,
            ),
            tag=np.array([entry.tag for entry in listed], dtype=np.uint64),
            operands=Ragged.from_lists([[int(position[operand]) for operand in entry.operands] for entry in listed]),
            groups=tuple(entry.groups for entry in listed),
            subroutine_names=tuple(entry.name for entry in called),
            root=position[[entry.members[-1] if entry.root is None else entry.root for entry in called]],
            caller=np.array([-1 if entry.caller is None else position[entry.caller] for entry in called]),
            probability=np.array([entry.probability for entry in called], dtype=np.float64),
            count=np.array([entry.count for entry in called], dtype=np.int64),
        )

    def _file_order(self) -> tuple[list[int], list[int]]:
        """Instructions, each followed by those of its inner subroutines; and subroutines as they are met."""
        order: list[int] = []
        subroutines = [0]
        walks = [iter(self._subroutines[0].members)]
        while walks:
            number = next(walks[-1], None)
            if number is None:
                walks.pop()
                continue
            order.append(number)
            inner = self._instructions[number].inner
            subroutines += inner
            walks += [iter(self._subroutines[called].members) for called in reversed(inner)]
        return order, subroutines

    def _identifiers(self, order: Sequence[int]) -> np.ndarray:
        given = {entry.identifier for entry in self._instructions if entry.identifier is not None}
        identifiers = np.empty(len(self._instructions), dtype=np.int64)
        following = 1
        for number in order:
            identifier = self._instructions[number].identifier
            if identifier is None:
                while following in given:
                    following += 1
                identifier = following
                following += 1
            identifiers[number] = identifier
        return identifiers


@dataclass(slots=True, kw_only=True)
class _Instruction:
    name: str
    opcode: int
    subroutine: int
    operands: tuple[int, ...]
    seconds: float
    bytes_in: float
    bytes_out: float
    ops: float
    transcendentals: float
    groups: Groups
    bonded: int
    tag: int
    identifier: int | None
    partner: int | None = None
    inner: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Subroutine:
    name: str
    caller: int | None
    count: int
    probability: float
    root: int | None = None
    members: list[int] = field(default_factory=list)
