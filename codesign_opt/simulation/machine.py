"""The programs of all processors as one set of flat columns, and the channels between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError
from codesign_opt.graphs.graph import Ragged
from codesign_opt.graphs.opcodes import OPCODES
from codesign_opt.simulation.program import Kind, Program, Stream
from codesign_opt.simulation.streams import Streams

Array = NDArray[Any]

_NO_LIMIT: Final = 2**31
"""As good as infinitely many streams."""

_JOINED: Final = ("kind", "priority", "seconds", "bytes", "needs", "executions", "route", "size", "repeats")
"""Columns that are those of the programs, one after the other."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Machine:
    """Programs that run together. Instructions and subroutines are numbered on from one program to the next.

    A channel is a source, a destination and a tag; its messages are received in the order in which they are sent.

    Attributes:
        programs: In ascending order of their processors.
        processors: Their numbers.
        place: Position in `programs` of the program that an instruction belongs to.
        entries: Entry subroutine of each program.
        kind, priority, seconds, bytes, bonded, needs, executions: As in `Program`, over all instructions.
        stream: That an instruction occupies; number `place * stream_classes + class`.
        free: Number of streams behind each of these numbers.
        stream_classes: Classes of streams of a processor.
        users: Instructions that have one as an operand.
        subroutine, caller, size, first, following, repeats, sources, draws: As in `Program`.
        sends, asks: Channel that an instruction sends a message on, and that it asks for one; -1 for none.
        pair: Of processors, for what is sent; -1 for nothing.
        route: As in `Program`.
        pair_source, pair_destination: Places of the processors of a pair.
        channel_pair, channel_tag: Of a channel.
    """

    programs: tuple[Program, ...]
    processors: Array
    place: Array
    entries: Array
    kind: Array
    priority: Array
    seconds: Array
    bytes: Array
    bonded: Array
    needs: Array
    executions: Array
    stream: Array
    free: Array
    stream_classes: int
    users: Ragged
    subroutine: Array
    caller: Array
    size: Array
    first: Array
    following: Array
    repeats: Array
    sources: Ragged
    draws: Ragged
    sends: Array
    asks: Array
    pair: Array
    route: Array
    pair_source: Array
    pair_destination: Array
    channel_pair: Array
    channel_tag: Array

    def __len__(self) -> int:
        """Number of instructions."""
        return len(self.kind)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the instructions."""
        return tuple(name for program in self.programs for name in program.graph.names)

    @cached_property
    def opcodes(self) -> Array:
        """Of the instructions, as indices into `opcodes.OPCODES`."""
        return np.concatenate([program.graph.opcode for program in self.programs])

    @property
    def channels(self) -> int:
        """Number of channels."""
        return len(self.channel_pair)

    @property
    def messages(self) -> int:
        """Number of messages."""
        return int(self.executions[self.sends >= 0].sum())

    def described(self, instruction: int) -> str:
        """An instruction for an error message."""
        program = self.programs[self.place[instruction]]
        opcode = OPCODES[self.opcodes[instruction]]
        return f"processor {program.processor}: {opcode} '{self.names[instruction]}'"


def assemble(programs: Iterable[Program], streams: Streams) -> Machine:
    """Put programs together.

    Raises:
        InputError: Two programs for one processor, a peer without a program, or a channel on which not as many messages
            are sent as received.
    """
    ordered = sorted(programs, key=lambda program: program.processor)
    if not ordered:
        raise InputError("no program to run", "give one graph for each processor")
    processors = np.array([program.processor for program in ordered])
    twice = processors[1:][processors[1:] == processors[:-1]]
    if len(twice):
        raise InputError(f"processor {twice[0]} has two programs", "give one graph for each processor")
    parts = _Parts(ordered)
    stream = parts.column("stream")
    _check_streams(stream, streams)
    stream = np.where(stream == Stream.HOST, int(streams.host_stream), stream)
    place = np.repeat(np.arange(len(ordered)), np.diff(parts.instructions))
    channels = _channels(parts, processors, place)
    _check_balance(channels, parts)
    classes = len(streams.counts)
    return Machine(
        programs=tuple(ordered),
        processors=processors,
        place=place,
        entries=parts.subroutines[:-1],
        stream=place * classes + stream,
        free=np.tile([int(min(count, _NO_LIMIT)) for count in streams.counts], len(ordered)),
        stream_classes=classes,
        bonded=parts.indices([program.bonded for program in ordered], parts.instructions),
        users=parts.lists([program.graph.users for program in ordered], parts.instructions),
        subroutine=parts.indices([program.graph.subroutine for program in ordered], parts.subroutines),
        caller=parts.indices([program.graph.caller for program in ordered], parts.instructions),
        first=parts.indices([program.first for program in ordered], parts.subroutines),
        following=parts.indices([program.following for program in ordered], parts.subroutines),
        sources=parts.lists([program.sources for program in ordered], parts.instructions),
        draws=parts.lists([program.draws for program in ordered], parts.subroutines),
        **{
            name: parts.column(name)
            for name in ("kind", "priority", "seconds", "bytes", "needs", "executions", "route")
        },
        **{name: parts.column(name) for name in ("size", "repeats")},
        **channels,
    )


class _Parts:
    """Programs one after the other.

    Attributes:
        programs: In order.
        instructions, subroutines: How many there are before each program, and in all.
    """

    def __init__(self, programs: Sequence[Program]) -> None:
        self.programs = programs
        self.instructions = _starts([len(program) for program in programs])
        self.subroutines = _starts([len(program.size) for program in programs])

    def column(self, name: str) -> Array:
        """A column of all programs."""
        return np.concatenate([getattr(program, name) for program in self.programs])

    def indices(self, columns: Sequence[Array], shifts: Array) -> Array:
        """A column of indices, shifted by where each program starts; negative ones stay."""
        values = np.concatenate(columns)
        shift = np.repeat(shifts[:-1], [len(column) for column in columns])
        return np.where(values >= 0, values + shift, values)

    def lists(self, columns: Sequence[Ragged], shifts: Array) -> Ragged:
        """Lists of indices, shifted likewise."""
        lengths = np.concatenate([np.diff(lists.offsets) for lists in columns])
        return Ragged(_starts(lengths), self.indices([lists.values for lists in columns], shifts))


def _starts(lengths: Sequence[int] | Array) -> Array:
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def _check_streams(stream: Array, streams: Streams) -> None:
    if stream.max(initial=0) >= len(streams.counts):
        raise InputError(
            f"streams: number {stream.max()} is occupied, but there are {len(streams.counts)}",
            "name the counts of further streams",
        )


def _channels(parts: _Parts, processors: Array, place: Array) -> dict[str, Array]:
    """The columns of `Machine` about channels and pairs."""
    kind, peer = parts.column("kind"), parts.column("peer")
    tag = np.concatenate([program.graph.tag for program in parts.programs])
    ends = np.flatnonzero((kind == Kind.SEND_START) | (kind == Kind.RECEIVE_START) | (kind == Kind.EXCHANGE))
    sends = kind[ends] != Kind.RECEIVE_START
    # A program holds an exchange only with its own processor: what it sends is what it gets.
    asks = kind[ends] != Kind.SEND_START
    own = place[ends]
    other = np.minimum(np.searchsorted(processors, peer[ends]), len(processors) - 1)
    strange = np.flatnonzero(processors[other] != peer[ends])
    if len(strange):
        raise InputError(
            f"processor {processors[own[strange[0]]]} communicates with processor {peer[ends[strange[0]]]}, "
            "which has no program",
            "give one graph for each processor",
        )
    source, destination = np.where(sends, own, other), np.where(sends, other, own)
    pairs, pair_of_end = np.unique(source * len(processors) + destination, return_inverse=True)
    tags, tag_of_end = np.unique(tag[ends], return_inverse=True)
    channels, channel_of_end = np.unique(pair_of_end * max(len(tags), 1) + tag_of_end, return_inverse=True)
    columns = {name: np.full(len(kind), -1, dtype=np.int64) for name in ("sends", "asks", "pair")}
    columns["sends"][ends[sends]] = channel_of_end[sends]
    columns["asks"][ends[asks]] = channel_of_end[asks]
    columns["pair"][ends[sends]] = pair_of_end[sends]
    return {
        **columns,
        "pair_source": pairs // len(processors),
        "pair_destination": pairs % len(processors),
        "channel_pair": channels // max(len(tags), 1),
        "channel_tag": tags[channels % max(len(tags), 1)],
    }


def _check_balance(channels: dict[str, Array], parts: _Parts) -> None:
    """On every channel as many messages are received as sent."""
    sends, asks, count = channels["sends"], channels["asks"], len(channels["channel_pair"])
    executions = parts.column("executions")
    sent = np.bincount(sends[sends >= 0], weights=executions[sends >= 0], minlength=count)
    asked = np.bincount(asks[asks >= 0], weights=executions[asks >= 0], minlength=count)
    wrong = np.flatnonzero(sent != asked)
    if not len(wrong):
        return
    channel = wrong[0]
    instruction = np.flatnonzero((sends == channel) | (asks == channel))[0]
    place = int(np.searchsorted(parts.instructions, instruction, side="right")) - 1
    program, local = parts.programs[place], instruction - parts.instructions[place]
    graph, peer = program.graph, program.peer[local]
    source, destination = (program.processor, peer) if sends[instruction] >= 0 else (peer, program.processor)
    raise InputError(
        f"from processor {source} to processor {destination}, tag {graph.tag[local]}: {sent[channel]:.0f} messages are "
        f"sent and {asked[channel]:.0f} received; one of the instructions is {graph.opcode_name(int(local))} "
        f"'{graph.names[local]}' of processor {program.processor}",
        "every send needs a receive with the same tag on the other processor",
    )
