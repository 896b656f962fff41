"""Latency and bandwidth, no sharing: a message takes its own time whatever else is on the wire."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.networks.network import Delivery
from codesign_opt.simulation.networks.routes import RouteClasses
from codesign_opt.simulation.topologies.topology import Topology

Array = NDArray[Any]

_NANOSECOND = 1e-9


class LatencyBandwidthNetwork:
    """A network without contention, driven from outside (`network.Network` says how).

    A message of s bytes drains in s / B, B the least capacity on its route, and is delivered the latency of its links
    later. To its own sender it takes no time.

    Args:
        topology: Links and routes.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._classes = RouteClasses(topology)
        self._capacity: list[float] = []
        self._posted = 0
        self._deliveries: deque[tuple[float, Delivery]] = deque()
        self._now = 0.0

    def classes(self, sources: ArrayLike, destinations: ArrayLike) -> Array:
        """The number of the route of each pair of processors, for `post`. Ask for many at once.

        Raises:
            InputError: For a processor that does not exist.
        """
        numbers = self._classes.of_pairs(sources, destinations)
        new = list(range(len(self._capacity), len(self._classes)))
        self._capacity += _least_capacity(self._topology, self._classes.routes_of(new)).tolist()
        return numbers

    def post(self, time: float, route_class: int, size: float) -> int:
        """Send `size` bytes at `time`; returns the message's number, counted from 0.

        Raises:
            ValueError: Where `time` is before that of the last message.
        """
        if time < self._now:
            raise ValueError(f"the network is at {self._now} s, past {time} s")
        self._now = time
        drained = time + size / self._capacity[route_class]
        delivery = Delivery(self._posted, drained, drained + self._classes.latency[route_class])
        self._deliveries.append((time, delivery))
        self._posted += 1
        return delivery.message

    def next_completion(self) -> float:
        """When the oldest message was posted whose delivery has not been asked for; infinity where there is none."""
        return self._deliveries[0][0] if self._deliveries else math.inf

    def advance(self, time: float) -> list[Delivery]:
        """The deliveries of all messages posted up to `time`."""
        known = []
        while self._deliveries and self._deliveries[0][0] <= time:
            known.append(self._deliveries.popleft()[1])
        return known


def message_times(topology: Topology, sources: ArrayLike, destinations: ArrayLike, sizes: ArrayLike) -> Array:
    """Seconds that each message takes from sender to receiver, without contention.

    Args:
        topology: Links and routes.
        sources, destinations: Processors.
        sizes: Bytes.

    Raises:
        InputError: For a processor that does not exist.
    """
    routes = topology.routes(sources, destinations)
    rows = np.repeat(np.arange(len(routes)), np.diff(routes.offsets))
    latency = np.bincount(rows, topology.latency[routes.values], minlength=len(routes))
    return latency + np.asarray(sizes, dtype=np.float64) / _least_capacity(topology, routes)


def astra_sim_nanoseconds(
    blocks: Sequence[Topology], sources: ArrayLike, destinations: ArrayLike, sizes: ArrayLike
) -> Array:
    """Whole nanoseconds that each message takes in ASTRA-sim's network without contention.

    A message goes along the first dimension in which its ends differ and no other, so only messages along one
    dimension make sense.

    Args:
        blocks: The network along each dimension (`files.astra_sim_blocks`), the first dimension fastest.
        sources, destinations: Processors of the product of the blocks.
        sizes: Bytes.
    """
    start, end = np.broadcast_arrays(np.atleast_1d(sources), np.atleast_1d(destinations))
    times = np.zeros(len(start), dtype=np.int64)
    size = np.broadcast_to(np.asarray(sizes, dtype=np.float64), len(start))
    undecided = np.ones(len(start), dtype=bool)
    for block in blocks:
        here, there = start % block.processors, end % block.processors
        chosen = undecided & (here != there)
        seconds = message_times(block, here[chosen], there[chosen], size[chosen])
        # Rounded to a femtosecond first: 500e-9 s are 500 ns, not 499.99999999999994.
        times[chosen] = np.floor(np.round(seconds / _NANOSECOND, 6))
        undecided &= ~chosen
        start, end = start // block.processors, end // block.processors
    return times


def _least_capacity(topology: Topology, routes: Ragged) -> Array:
    """Bytes/s of each route's slowest link; infinity for no links."""
    least = np.full(len(routes), np.inf)
    rows = np.repeat(np.arange(len(routes)), np.diff(routes.offsets))
    np.minimum.at(least, rows, topology.capacity[routes.values])
    return least
