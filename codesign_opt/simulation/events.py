"""The event engine: many processors, their streams, and a network between them (spec graph-simulation 2.4 and 7)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError, nearest
from codesign_opt.simulation import kernel
from codesign_opt.simulation.acceleration import compiled_run, has_numba
from codesign_opt.simulation.critical_path import Causes
from codesign_opt.simulation.deadlock import deadlock
from codesign_opt.simulation.fusion import fuse
from codesign_opt.simulation.kernel_columns import State, Wires
from codesign_opt.simulation.kernel_input import as_columns, code_columns, first_state
from codesign_opt.simulation.log import Log
from codesign_opt.simulation.machine import Machine, assemble
from codesign_opt.simulation.messages import Messages
from codesign_opt.simulation.networks import FlowNetwork, LinkStatistics, Network
from codesign_opt.simulation.program import Program
from codesign_opt.simulation.result import Simulation
from codesign_opt.simulation.streams import Streams
from codesign_opt.simulation.topologies import Topology
from codesign_opt.simulation.wires import fifo_wires, latency_bandwidth_wires, no_wires

Array = NDArray[Any]
Model = Literal["flows", "fifo", "latency-bandwidth"]

__all__ = ["MODELS", "Model", "Simulation", "simulate"]

MODELS: Final = ("flows", "fifo", "latency-bandwidth")
"""Network models: max-min fair sharing, whole messages in turn, no sharing."""

_WORTH_COMPILING: Final = 200_000
"""Executions from which on the compiled loop is worth loading."""


def simulate(
    programs: Iterable[Program],
    topology: Topology,
    *,
    model: Model | Network = "flows",
    streams: Streams | None = None,
    record: bool = False,
    compiled: bool | None = None,
) -> Simulation:
    """Run the programs of all processors together.

    A send-start takes a send stream and posts its message; the message flows whether or not anybody asked for it. A
    send-done is over when the message has left, a recv-done when the message that its recv-start asked for has arrived.
    Per source, destination and tag the k-th receive gets the k-th message.

    Args:
        programs: One for each processor; their numbers are those of the topology.
        topology: The network.
        model: How messages share links: one of `MODELS`, or a network of one's own on this topology. A network that
            learns late when a message has left lets its send-done end late.
        streams: Of every processor. By default one of each, but no limit to sends and receives where links have one.
        record: Keep the log and what the critical path needs. Times are the same.
        compiled: Whether numba runs the inner loop, with equal results; by default for long runs where it is
            installed. A network that is driven from outside ("flows", or one's own) has no compiled loop.

    Raises:
        InputError: Programs that do not fit together, and a deadlock, with the instructions that wait.
        MissingExtraError: `compiled` without numba.
    """
    if isinstance(model, str) and model not in MODELS:
        raise InputError(f"network model '{model}'", nearest(model, MODELS))
    if streams is None:
        streams = Streams() if model == "latency-bandwidth" else Streams(send=math.inf, receive=math.inf)
    machine = assemble(programs, streams)
    if not record:
        machine = fuse(machine)
    routes, wires, flows = _network(machine, topology, model, streams)
    compiled = _compiles(machine, flows, compiled)
    executed = np.flatnonzero(machine.executions)
    code = code_columns(routes, executed, compiled=compiled)
    state = first_state(machine, executed, wires, record=record, compiled=compiled)
    run = compiled_run() if compiled else kernel.run
    events, rows, sent, timed = run(code, as_columns(wires, compiled=compiled), state, flows, record)
    result = _Columns(state, executed)
    if result["ended"].min() < 0:
        raise deadlock(machine, ended=result["ended"], waiting=executed[result["blocked"] > 0])
    return Simulation(
        machine=machine,
        topology=topology,
        ended=result["ended"],
        messages=_messages(machine, result, sent),
        timed=result.instructions("timed")[:timed],
        timed_started=result["timed_started"][:timed],
        links=_link_statistics(machine, topology, result, flows, model, sent),
        log=_log(machine, result, rows) if record else None,
        causes=_causes(result, rows, sent) if record else None,
        events=events,
    )


class _Columns:
    """The state after a run, as arrays."""

    def __init__(self, state: State, executed: Array) -> None:
        self._state = state
        self._executed = executed

    def __getitem__(self, name: str) -> Array:
        return np.asarray(getattr(self._state, name))

    def instructions(self, name: str) -> Array:
        """A column of instructions, numbered as in the machine."""
        return self._executed[self[name].astype(np.int64)]


class _DrivenNetwork:
    """A network as the inner loop drives it: messages by its own numbers, deliveries as tuples."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._message: dict[int, int] = {}

    @property
    def network(self) -> Network:
        """What is driven."""
        return self._network

    def post(self, time: float, route_class: int, size: float, message: int) -> None:
        """Put a message on its way."""
        self._message[self._network.post(time, route_class, size)] = message

    def next_completion(self) -> float:
        """When it has to be asked again."""
        return self._network.next_completion()

    def advance(self, time: float) -> Iterator[tuple[int, float, float]]:
        """Messages with the seconds at which they have left and at which they arrive."""
        for number, drained, delivered in self._network.advance(time):
            yield self._message.pop(number), max(drained, time), max(delivered, time)


def _network(
    machine: Machine, topology: Topology, model: Model | Network, streams: Streams
) -> tuple[Machine, Wires, _DrivenNetwork | None]:
    """What the inner loop works out itself, and what it asks: then its pairs are the network's route classes."""
    if model == "latency-bandwidth":
        return machine, latency_bandwidth_wires(machine, topology, streams), None
    if model == "fifo":
        return machine, fifo_wires(machine, topology), None
    network = FlowNetwork(topology) if isinstance(model, str) else model
    source, destination = machine.processors[machine.pair_source], machine.processors[machine.pair_destination]
    of_pair = np.append(network.classes(source, destination), -1)
    classes = np.where(machine.route >= 0, machine.route, of_pair[machine.pair])
    return replace(machine, pair=classes), no_wires(int(classes.max(initial=-1)) + 1), _DrivenNetwork(network)


def _compiles(machine: Machine, flows: _DrivenNetwork | None, wanted: bool | None) -> bool:
    if flows is not None:
        if wanted:
            raise InputError("this network model has no compiled loop", "choose fifo or latency-bandwidth")
        return False
    if wanted is not None:
        return wanted
    return bool(machine.executions.sum() >= _WORTH_COMPILING) and has_numba()


def _messages(machine: Machine, result: _Columns, sent: int) -> Messages:
    sender = result.instructions("sender")[:sent]
    channel = machine.sends[sender]
    pair = machine.channel_pair[channel]
    return Messages(
        source=machine.processors[machine.pair_source[pair]],
        destination=machine.processors[machine.pair_destination[pair]],
        tag=machine.channel_tag[channel],
        bytes=machine.bytes[sender],
        sender=sender,
        receiver=result.instructions("receiver")[:sent],
        **{name: result[name][:sent] for name in ("posted", "left", "arrived")},
    )


def _link_statistics(
    machine: Machine,
    topology: Topology,
    result: _Columns,
    flows: _DrivenNetwork | None,
    model: Model | Network,
    sent: int,
) -> LinkStatistics:
    if flows is not None:
        counted = getattr(flows.network, "link_statistics", None)
        nothing = np.zeros(topology.links)
        return counted() if counted is not None else LinkStatistics(bytes=nothing, busy=nothing, peak=nothing)
    if model == "fifo":
        carried, busy = result["link_bytes"], result["link_busy"]
    else:
        carried = _offered(machine, topology, result.instructions("sender")[:sent])
        busy = carried / topology.capacity
    return LinkStatistics(bytes=carried, busy=busy, peak=np.where(carried > 0, topology.capacity, 0.0))


def _offered(machine: Machine, topology: Topology, sender: Array) -> Array:
    """Bytes whose routes lead over each link."""
    source, destination = machine.processors[machine.pair_source], machine.processors[machine.pair_destination]
    routes = topology.routes(source, destination)
    sizes = np.bincount(machine.pair[sender], machine.bytes[sender], minlength=len(routes))
    return np.bincount(routes.values, np.repeat(sizes, np.diff(routes.offsets)), minlength=topology.links)


def _log(machine: Machine, result: _Columns, rows: int) -> Log:
    names = ("ready", "started", "finished", "clock")
    return Log(
        names=machine.names,
        opcodes=machine.opcodes,
        processors=machine.processors[machine.place],
        instruction=result.instructions("row_instruction")[:rows],
        **{name: result[f"row_{name}"][:rows] for name in names},
    )


def _causes(result: _Columns, rows: int, sent: int) -> Causes:
    return Causes(
        instruction=result.instructions("row_instruction")[:rows],
        **{name: result[f"row_{name}"][:rows] for name in ("ready", "started", "finished", "cause", "message")},
        sent_by=result["message_row"][:sent],
    )
