"""Network models that the inner loop of the event engine works out itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.simulation.kernel_columns import Wires
from codesign_opt.simulation.machine import Machine
from codesign_opt.simulation.streams import Streams
from codesign_opt.simulation.topologies.topology import Topology

Array = NDArray[Any]


def latency_bandwidth_wires(machine: Machine, topology: Topology, streams: Streams) -> Wires:
    """A message leaves in bytes / least capacity on its route, and arrives the latency of its links later.

    Messages to one processor share nothing but its receive streams: one that finds none free enters later. The links of
    the result are these streams.

    Raises:
        InputError: For a processor that the topology does not have.
    """
    latency, pace = pair_costs(topology, *_ends(machine))
    pairs, places = len(pace), len(machine.programs)
    limited = streams.receive != math.inf
    return Wires(
        direct=True,
        latency=latency,
        seconds_per_byte=pace,
        route_from=np.arange(pairs + 1) if limited else np.zeros(pairs + 1, dtype=np.int64),
        link=machine.pair_destination if limited else np.zeros(0, dtype=np.int64),
        link_latency=np.zeros(pairs if limited else 0),
        link_seconds_per_byte=pace if limited else np.zeros(0),
        server_from=np.arange(places + 1) * (int(streams.receive) if limited else 0),
    )


def fifo_wires(machine: Machine, topology: Topology) -> Wires:
    """Every link takes whole messages, one after the other in the order in which they come to it.

    Raises:
        InputError: For a processor that the topology does not have.
    """
    routes = topology.routes(*_ends(machine))
    return Wires(
        direct=False,
        latency=np.zeros(0),
        seconds_per_byte=np.zeros(0),
        route_from=routes.offsets,
        link=routes.values,
        link_latency=topology.latency[routes.values],
        link_seconds_per_byte=1 / topology.capacity[routes.values],
        server_from=np.arange(topology.links + 1),
    )


def no_wires(classes: int) -> Wires:
    """For a network that is driven from outside, of so many route classes."""
    nothing, none = np.zeros(0), np.zeros(0, dtype=np.int64)
    return Wires(
        direct=False,
        latency=nothing,
        seconds_per_byte=nothing,
        route_from=np.zeros(classes + 1, dtype=np.int64),
        link=none,
        link_latency=nothing,
        link_seconds_per_byte=nothing,
        server_from=np.zeros(1, dtype=np.int64),
    )


def pair_costs(topology: Topology, sources: Array, destinations: Array) -> tuple[Array, Array]:
    """Seconds of a message of 0 bytes, and seconds for each byte more, on the route of each pair of processors.

    Raises:
        InputError: For a processor that the topology does not have.
    """
    routes = topology.routes(sources, destinations)
    pair = np.repeat(np.arange(len(routes)), np.diff(routes.offsets))
    pace = np.zeros(len(routes))
    np.maximum.at(pace, pair, 1 / topology.capacity[routes.values])
    return np.bincount(pair, topology.latency[routes.values], minlength=len(routes)), pace


def _ends(machine: Machine) -> tuple[Array, Array]:
    return machine.processors[machine.pair_source], machine.processors[machine.pair_destination]
