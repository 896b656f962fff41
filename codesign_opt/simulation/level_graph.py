"""What waits for what, and how long: the executions of a machine as the nodes and edges of one graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codesign_opt.simulation.machine import Machine
from codesign_opt.simulation.program import Kind
from codesign_opt.simulation.unrolling import Unrolled

Array = NDArray[Any]


class Edges(NamedTuple):
    """Nodes that wait for others, and how long after these they can be."""

    source: Array
    target: Array
    seconds: Array


@dataclass(frozen=True, kw_only=True)
class LevelGraph:
    """Node 2e is the start of execution e, and 2e + 1 its end; behind them stand start and end of each run.

    Attributes:
        nodes: How many there are.
        ends: Nodes at which the entry runs are over.
        own: What the start of an execution waits for, beside streams: its run, and its operands.
        others: All other edges.
        queued: Executions that take a stream, in program order, stream after stream.
        held: Seconds for which each execution holds its stream.
        travel: Seconds from the start of each execution until the first byte of its message arrives.
    """

    nodes: int
    ends: Array
    own: Edges
    others: Edges
    queued: Array
    held: Array
    travel: Array


def level_graph(machine: Machine, run: Unrolled, *, latency: Array, pace: Array) -> LevelGraph:
    """The graph of all executions; messages share nothing, single streams run in program order.

    Args:
        machine: What runs.
        run: Its executions.
        latency: Seconds of a message of 0 bytes, for each pair of processors.
        pace: Seconds for each byte more.
    """
    kind = machine.kind[run.instruction]
    sends = (kind >= Kind.SEND_START) & (kind <= Kind.EXCHANGE)
    pair = np.where(sends, machine.pair[run.instruction], -1)
    held = np.where(kind == Kind.TIMED, machine.seconds[run.instruction], 0.0)
    held[sends] = (machine.bytes[run.instruction] * np.append(pace, 0.0)[pair])[sends]
    travel = np.append(latency, 0.0)[pair]
    queued = _in_order(run, np.flatnonzero(kind <= Kind.EXCHANGE), machine.stream)
    runs = 2 * len(run.instruction) + 2 * np.arange(len(run.subroutine))
    parts = [
        _through_leaves(kind, held),
        _through_messages(machine, run, kind, held, travel),
        _through_queues(machine, run, queued, held),
        *_through_runs(machine, run, runs),
    ]
    return LevelGraph(
        nodes=2 * (len(run.instruction) + len(run.subroutine)),
        ends=runs[: len(machine.entries)] + 1,
        own=_starts(machine, run, runs),
        others=joined(parts),
        queued=queued,
        held=held,
        travel=travel,
    )


def joined(parts: Iterable[Edges]) -> Edges:
    """All edges of several sets."""
    return Edges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _starts(machine: Machine, run: Unrolled, runs: Array) -> Edges:
    every = np.arange(len(run.instruction))
    users = np.diff(machine.users.offsets)[run.instruction]
    operand = np.repeat(every, users)
    number = np.arange(len(operand)) - np.repeat(np.cumsum(users) - users, users)
    user = machine.users.values[machine.users.offsets[run.instruction[operand]] + number]
    sources = every[machine.needs[run.instruction] == 0]
    return _free(
        np.concatenate([2 * operand + 1, runs[run.run[sources]]]),
        np.concatenate([2 * run.beside(operand, user), 2 * sources]),
    )


def _through_leaves(kind: Array, held: Array) -> Edges:
    """From start to end of what calls nothing; messages are waited for by edges of their own."""
    leaf = np.flatnonzero(kind != Kind.CALLER)
    lasting = np.isin(kind[leaf], (Kind.TIMED, Kind.SEND, Kind.EXCHANGE))
    return Edges(2 * leaf, 2 * leaf + 1, np.where(lasting, held[leaf], 0.0))


def _through_messages(machine: Machine, run: Unrolled, kind: Array, held: Array, travel: Array) -> Edges:
    """From the start of a send to the end of what waits for it to leave, and of what waits for it to arrive."""
    sends = _in_order(run, np.flatnonzero((kind >= Kind.SEND_START) & (kind <= Kind.EXCHANGE)), machine.sends)
    asks = _in_order(run, np.flatnonzero((kind >= Kind.EXCHANGE) & (kind <= Kind.RECEIVE)), machine.asks)
    # What was fused into one is bonded to itself.
    starting = sends[kind[sends] == Kind.SEND_START]
    left = run.beside(starting, machine.bonded[run.instruction[starting]])
    arrived = asks.copy()
    halves = kind[asks] == Kind.RECEIVE_START
    arrived[halves] = run.beside(asks[halves], machine.bonded[run.instruction[asks[halves]]])
    return Edges(
        2 * np.concatenate([starting, sends]),
        2 * np.concatenate([left, arrived]) + 1,
        np.concatenate([held[starting], travel[sends] + held[sends]]),
    )


def _through_queues(machine: Machine, run: Unrolled, queued: Array, held: Array) -> Edges:
    """From what takes a stream to what takes it next, where there is only one."""
    stream = machine.stream[run.instruction[queued]]
    follows = np.flatnonzero((stream[1:] == stream[:-1]) & (machine.free[stream[1:]] == 1))
    return Edges(2 * queued[follows], 2 * queued[follows + 1], held[queued[follows]])


def _through_runs(machine: Machine, run: Unrolled, runs: Array) -> list[Edges]:
    """From the last instructions of a run to its end; from a caller through its runs in turn, and back."""
    last = np.flatnonzero(np.diff(machine.users.offsets)[run.instruction] == 0)
    called = np.flatnonzero(run.caller >= 0)
    called = called[np.lexsort((run.turn[called], run.caller[called]))]
    caller = run.caller[called]
    goes_on = caller[1:] == caller[:-1]
    opening, closing = np.ones(len(called), dtype=bool), np.ones(len(called), dtype=bool)
    opening[1:], closing[:-1] = ~goes_on, ~goes_on
    return [
        _free(2 * last + 1, runs[run.run[last]] + 1),
        _free(2 * caller[opening], runs[called[opening]]),
        _free(runs[called[:-1][goes_on]] + 1, runs[called[1:][goes_on]]),
        _free(runs[called[closing]] + 1, 2 * caller[closing] + 1),
    ]


def _free(source: Array, target: Array) -> Edges:
    return Edges(source, target, np.zeros(len(source)))


def _in_order(run: Unrolled, executions: Array, group: Array) -> Array:
    """Executions by group of their instruction, then in program order."""
    return executions[np.lexsort((run.position[executions], group[run.instruction[executions]]))]
