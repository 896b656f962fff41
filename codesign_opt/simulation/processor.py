"""The simple simulator: one processor, no network (spec graph-simulation 3)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from codesign_opt.errors import InputError
from codesign_opt.graphs.opcodes import CODES, COLLECTIVES
from codesign_opt.simulation.log import Log
from codesign_opt.simulation.program import Kind, Program
from codesign_opt.simulation.scheduler import ReadyAt, Scheduler

_PROCESSOR, _TRANSMIT, _RECEIVE = range(3)
_CLOCK_OF: Final = {
    Kind.TIMED: _PROCESSOR,
    Kind.SEND_START: _TRANSMIT,
    Kind.SEND_DONE: _TRANSMIT,
    Kind.RECEIVE_START: _RECEIVE,
    Kind.RECEIVE_DONE: _RECEIVE,
}


@dataclass(frozen=True, kw_only=True)
class ProcessorRun:
    """Result of `simulate_processor`.

    Attributes:
        processor, transmit, receive: Seconds at which the processor, and the network interface each way, are done.
        log: What ran when.
    """

    processor: float
    transmit: float
    receive: float
    log: Log

    @property
    def end(self) -> float:
        """Seconds at which all is done, communication included."""
        return max(self.processor, self.transmit, self.receive)


def simulate_processor(
    program: Program, *, network_bandwidth: float, start: float = 0.0, ready_at: ReadyAt = "latest"
) -> ProcessorRun:
    """Run one processor's program: what is available goes in turn, each on the first of three clocks that fits it.

    Sending takes the transmit clock for bytes / bandwidth, receiving the receive clock; there is no latency and no
    partner, so a message that is sent and then received costs twice.

    Args:
        program: Of the processor.
        network_bandwidth: Bytes/s each way.
        start: Seconds at which all three clocks stand first.
        ready_at: As for `Scheduler`.

    Raises:
        InputError: A bandwidth that is not positive, a collective that is not translated, or instructions that wait
            for one another in a circle.
    """
    if not network_bandwidth > 0:
        raise InputError(f"network bandwidth: {network_bandwidth} B/s", "must be positive")
    _check_translated(program)
    clock_of = [_CLOCK_OF.get(Kind(kind), _PROCESSOR) for kind in program.kind.tolist()]
    durations = (program.seconds + program.bytes / network_bandwidth).tolist()
    clocks = [start, start, start]
    scheduler = Scheduler(program, start=start, ready_at=ready_at)
    queue = deque(scheduler.begin())
    while queue:
        instruction = queue.popleft()
        clock = clock_of[instruction]
        started = max(scheduler.ready[instruction], clocks[clock])
        finished = clocks[clock] = started + durations[instruction]
        queue.extend(scheduler.finish(instruction, started=started, finished=finished))
    if not scheduler.over:
        raise InputError(
            f"graph '{program.graph.name}': instructions wait for one another in a circle",
            "an operand stands before its users",
        )
    return ProcessorRun(processor=clocks[0], transmit=clocks[1], receive=clocks[2], log=scheduler.log())


def _check_translated(program: Program) -> None:
    collectives = [CODES[name] for name in COLLECTIVES]
    for instruction, kind in enumerate(program.kind.tolist()):
        if kind == Kind.TIMED and program.graph.opcode[instruction] in collectives:
            raise InputError(
                f"graph '{program.graph.name}': {program.graph.opcode_name(instruction)} "
                f"'{program.graph.names[instruction]}' is not translated",
                "translate the graph first",
            )
