"""The level engine: longest paths in NumPy, where messages share nothing and streams run in program order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codesign_opt.simulation.fusion import fuse
from codesign_opt.simulation.level_graph import LevelGraph, joined, level_graph
from codesign_opt.simulation.longest_path import longest_path
from codesign_opt.simulation.machine import Machine, assemble
from codesign_opt.simulation.program import Program
from codesign_opt.simulation.streams import Streams
from codesign_opt.simulation.topologies import Topology
from codesign_opt.simulation.unrolling import Unrolled, unroll
from codesign_opt.simulation.wires import pair_costs

Array = NDArray[Any]

_ROUNDING: Final = 1e-12
"""Relative: overlaps this short are none."""


@dataclass(frozen=True, kw_only=True)
class LevelRun:
    """What a run took.

    Attributes:
        processors: In ascending order.
        ended: Seconds at which the program of each is over.
        exact: Whether the event engine gives the same with `model="latency-bandwidth"`: what waits for a stream becomes
            ready in program order, and there are always enough of the streams of which a processor has several, and of
            those to receive.
        executions: Of instructions.
    """

    processors: Array
    ended: Array
    exact: bool
    executions: int

    @property
    def makespan(self) -> float:
        """Seconds from the start until the last program is over."""
        return float(self.ended.max())


def simulate_levels(programs: Iterable[Program], topology: Topology, *, streams: Streams | None = None) -> LevelRun:
    """Run the programs of all processors together; a message takes its time whatever else is on the wire.

    A stream of which a processor has only one runs its instructions in the order in which the program writes them. Of
    others there are taken to be enough.

    Args:
        programs: One for each processor; their numbers are those of the topology.
        topology: The network.
        streams: Of every processor; one of each by default.

    Raises:
        InputError: Programs that do not fit together, that wait for one another in a circle, or are too long to unroll.
    """
    streams = Streams() if streams is None else streams
    machine = fuse(assemble(programs, streams))
    source, destination = machine.processors[machine.pair_source], machine.processors[machine.pair_destination]
    latency, pace = pair_costs(topology, source, destination)
    run = unroll(machine)
    graph = level_graph(machine, run, latency=latency, pace=pace)
    time = longest_path(graph.nodes, *joined([graph.own, graph.others]))
    return LevelRun(
        processors=machine.processors,
        ended=time[graph.ends],
        exact=_in_program_order(machine, run, graph, time) and _enough_streams(machine, run, graph, time, streams),
        executions=len(run.instruction),
    )


def _in_program_order(machine: Machine, run: Unrolled, graph: LevelGraph, time: Array) -> bool:
    """Whether streams that take what is ready first, and of equals what is written first, keep the program's order."""
    ready = np.zeros(graph.nodes)
    np.maximum.at(ready, graph.own.target, time[graph.own.source])
    instruction, start = run.instruction[graph.queued], 2 * graph.queued
    stream, priority = machine.stream[instruction], machine.priority[instruction]
    following = (stream[1:] == stream[:-1]) & (machine.free[stream[1:]] == 1)
    first, second = start[:-1][following], start[1:][following]
    if (priority[1:] < priority[:-1])[following].any() or (ready[second] < ready[first]).any():
        return False
    # Ready at one moment, and the stream is free: then it matters which of the two is known to be ready before.
    together = (ready[second] == ready[first]) & (time[first] == ready[first])
    if not together.any():
        return True
    turn = _turns_of_a_moment(graph, time)
    return bool((turn[first[together]] <= turn[second[together]]).all())


def _turns_of_a_moment(graph: LevelGraph, time: Array) -> Array:
    """How often streams have been given out, at the moment of each node, before what it waits for has happened."""
    edges = joined([graph.own, graph.others])
    at_once = (edges.seconds == 0) & (time[edges.source] == time[edges.target])
    source, target = edges.source[at_once], edges.target[at_once]
    starts = np.zeros(graph.nodes)
    starts[2 * graph.queued] = 1
    return longest_path(graph.nodes, source, target, starts[source])


def _enough_streams(machine: Machine, run: Unrolled, graph: LevelGraph, time: Array, streams: Streams) -> bool:
    start = time[: 2 * len(run.instruction) : 2]
    queued = graph.queued
    stream = machine.stream[run.instruction[queued]]
    several = machine.free[stream] > 1
    held = _most_at_once(stream[several], start[queued[several]], graph.held[queued[several]], len(machine.free))
    sending = queued[machine.sends[run.instruction[queued]] >= 0]
    place = machine.pair_destination[machine.pair[run.instruction[sending]]]
    entering = _most_at_once(place, (start + graph.travel)[sending], graph.held[sending], len(machine.programs))
    return bool((held <= machine.free).all() and (entering <= streams.receive).all())


def _most_at_once(group: Array, start: Array, duration: Array, groups: int) -> Array:
    """The highest number of intervals of each group that go on at the same time."""
    end = np.maximum(start, (start + duration) * (1 - _ROUNDING))
    time = np.concatenate([start, end])
    change = np.repeat([1, -1], len(group))
    # What ends at a moment makes room for what starts then; what has no duration ends after it has started.
    turn = np.concatenate([np.ones(len(group)), np.where(end > start, 0, 2)])
    order = np.lexsort((turn, time, np.tile(group, 2)))
    most = np.zeros(groups, dtype=np.int64)
    np.maximum.at(most, np.tile(group, 2)[order], np.cumsum(change[order]))
    return most
