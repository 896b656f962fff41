"""The four messages that a graph file consists of, and the fields of each (spec graph-simulation section 1.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal


@dataclass(slots=True)
class GraphMessage:
    """A file."""

    name: str = ""
    processor_id: int = 0
    entry_subroutine: SubroutineMessage | None = None


@dataclass(slots=True)
class SubroutineMessage:
    """A list of instructions; the entry, or inside an instruction."""

    name: str = ""
    subroutine_root_id: int = 0
    execution_probability: float = 0.0
    execution_count: int = 0
    instructions: list[InstructionMessage] = field(default_factory=list)


@dataclass(slots=True)
class InstructionMessage:
    """An instruction with the subroutines inside it."""

    name: str = ""
    opcode: str = ""
    instruction_id: int = 0
    ops: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    transcendentals: float = 0.0
    seconds: float = 0.0
    bonded_instruction_id: int = 0
    communication_tag: int = 0
    communication_groups: list[GroupMessage] = field(default_factory=list)
    operand_ids: list[int] = field(default_factory=list)
    inner_subroutines: list[SubroutineMessage] = field(default_factory=list)


@dataclass(slots=True)
class GroupMessage:
    """Processors of one communication group."""

    group_ids: list[int] = field(default_factory=list)


Message = GraphMessage | SubroutineMessage | InstructionMessage | GroupMessage
Kind = Literal["string", "int64", "uint64", "double", "message"]


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field of a message: its name, its number in binary files and what it holds."""

    name: str
    number: int
    kind: Kind
    repeated: bool = False
    message: type[Message] | None = None


FIELDS: Final[Mapping[type[Message], tuple[Field, ...]]] = {
    GraphMessage: (
        Field("name", 1, "string"),
        Field("processor_id", 2, "int64"),
        Field("entry_subroutine", 3, "message", message=SubroutineMessage),
    ),
    SubroutineMessage: (
        Field("name", 1, "string"),
        Field("subroutine_root_id", 2, "int64"),
        Field("execution_probability", 3, "double"),
        Field("execution_count", 4, "int64"),
        Field("instructions", 5, "message", repeated=True, message=InstructionMessage),
    ),
    InstructionMessage: (
        Field("name", 1, "string"),
        Field("opcode", 2, "string"),
        Field("instruction_id", 3, "int64"),
        Field("ops", 4, "double"),
        Field("bytes_in", 5, "double"),
        Field("bytes_out", 6, "double"),
        Field("transcendentals", 7, "double"),
        Field("seconds", 8, "double"),
        Field("bonded_instruction_id", 9, "int64"),
        Field("communication_tag", 10, "uint64"),
        Field("communication_groups", 11, "message", repeated=True, message=GroupMessage),
        Field("operand_ids", 12, "int64", repeated=True),
        Field("inner_subroutines", 13, "message", repeated=True, message=SubroutineMessage),
    ),
    GroupMessage: (Field("group_ids", 1, "int64", repeated=True),),
}

Event = tuple[Literal["value", "open", "close"], Field, Any]


def walk(message: GraphMessage) -> Iterator[Event]:
    """What a file says, in the order of the field numbers: ("value", field, value), and messages as "open" … "close".

    A repeated field of numbers is one value, a list. Zeros, empty strings and empty lists are left out.
    """
    fields: list[Field] = []
    walks = [_entries(message)]
    while walks:
        entry = next(walks[-1], None)
        if entry is None:
            walks.pop()
            if fields:
                yield "close", fields.pop(), None
        elif entry[0].message is None:
            yield "value", *entry
        else:
            yield "open", *entry
            fields.append(entry[0])
            walks.append(_entries(entry[1]))


def describe(messages: list[Message]) -> str:
    """Where a reader is, given the messages that it is inside of: " in instruction 'x'", or nothing."""
    names = [message.name for message in messages if isinstance(message, InstructionMessage)]
    return f" in instruction '{names[-1]}'" if names else ""


def _entries(message: Message) -> Iterator[tuple[Field, Any]]:
    for entry in FIELDS[type(message)]:
        value = getattr(message, entry.name)
        if not value:
            continue
        if entry.message is not None and entry.repeated:
            for inner in value:
                yield entry, inner
        else:
            yield entry, value
