"""The chain of instructions and messages that ends last: what would have to be faster for the whole to be faster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs.opcodes import OPCODES
from codesign_opt.simulation.machine import Machine
from codesign_opt.simulation.messages import Messages
from codesign_opt.simulation.program import Kind

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalStep:
    """A link of the chain: an instruction that runs, or a message on its way; an exchange counts as an instruction.

    Attributes:
        processor: Where the instruction runs, or the message comes from.
        destination: Where the message goes; None for an instruction.
        instruction: That runs or sends; its position in the machine.
        name, opcode: Of that instruction.
        start, end: Seconds; it starts when the step before it ends.
    """

    processor: int
    destination: int | None
    instruction: int
    name: str
    opcode: str
    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class Causes:
    """Why each row of a log happened when it did. Columns over rows, but for the last one.

    Attributes:
        instruction: That the row is about.
        ready, started, finished: Seconds.
        cause: Row that let it start: its last operand, or what held its stream before; -1 for the start of the run.
        message: That the instruction dealt with; -1 for none.
        sent_by: For each message the row of the instruction that sent it.
    """

    instruction: Array
    ready: Array
    started: Array
    finished: Array
    cause: Array
    message: Array
    sent_by: Array


def critical_path(machine: Machine, causes: Causes, messages: Messages) -> list[CriticalStep]:
    """Steps from the start of the run to its end, one after the other without a gap."""
    steps: list[CriticalStep] = []

    def add_message(message: int, end: float) -> None:
        if end > messages.posted[message]:
            steps.append(_message_step(machine, messages, message, float(end)))

    row = int(np.argmax(causes.finished))
    until = float(causes.finished[row])
    while row >= 0:
        kind, message = machine.kind[causes.instruction[row]], int(causes.message[row])
        if kind in (Kind.TIMED, Kind.EXCHANGE) and until > causes.started[row]:
            steps.append(_instruction_step(machine, causes, row, until))
        elif kind in (Kind.SEND_DONE, Kind.RECEIVE_DONE) and causes.finished[row] > causes.ready[row]:
            add_message(message, (messages.left if kind == Kind.SEND_DONE else messages.arrived)[message])
            row = int(causes.sent_by[message])
        holder = _stream_holder(machine, causes, messages, row) if kind == Kind.EXCHANGE else -1
        if holder >= 0:
            row, until = holder, float(causes.started[row])
            continue
        cause = int(causes.cause[row])
        if cause >= 0 and causes.finished[cause] < causes.started[row] and _waits(machine, causes, row):
            # A send that waited until another message had left.
            held_by = int(causes.message[cause])
            add_message(held_by, messages.left[held_by])
        row = cause
        until = float(causes.finished[row])
    return steps[::-1]


def _waits(machine: Machine, causes: Causes, row: int) -> bool:
    return bool(machine.kind[causes.instruction[row]] <= Kind.EXCHANGE and causes.started[row] > causes.ready[row])


def _stream_holder(machine: Machine, causes: Causes, messages: Messages, row: int) -> int:
    """Row of the exchange that held the stream until this one started, before it was over itself; -1 for none."""
    if not _waits(machine, causes, row):
        return -1
    stream = machine.stream[causes.instruction[row]]
    held = np.flatnonzero((machine.stream[messages.sender] == stream) & (messages.left == causes.started[row]))
    return int(np.flatnonzero(causes.message == held[0])[0]) if len(held) else -1


def _instruction_step(machine: Machine, causes: Causes, row: int, until: float) -> CriticalStep:
    instruction = causes.instruction[row]
    return CriticalStep(
        processor=int(machine.processors[machine.place[instruction]]),
        destination=None,
        instruction=int(instruction),
        name=machine.names[instruction],
        opcode=OPCODES[machine.opcodes[instruction]],
        start=float(causes.started[row]),
        end=until,
    )


def _message_step(machine: Machine, messages: Messages, message: int, end: float) -> CriticalStep:
    instruction = messages.sender[message]
    return CriticalStep(
        processor=int(messages.source[message]),
        destination=int(messages.destination[message]),
        instruction=int(instruction),
        name=machine.names[instruction],
        opcode=OPCODES[machine.opcodes[instruction]],
        start=float(messages.posted[message]),
        end=end,
    )
