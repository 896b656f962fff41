"""Route classes: all messages between one pair of processors take one route and are treated alike."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.topologies.rows import steps
from codesign_opt.simulation.topologies.topology import Topology, offsets_of

Array = NDArray[Any]


class RouteClasses:
    """Routes with a number each, and what all messages on one have in common. Grows as routes are asked for.

    Args:
        topology: Where the routes of pairs come from, and the links' latencies.

    Attributes:
        hops: Links of each class.
        latency: Sum over them, seconds.
        cap: Most that one message can take, bytes/s; infinity for none.
        weight: Shares are in proportion to it.
    """

    # Columns of one number a class: `array` is as compact as NumPy's arrays and faster to read one by one.

    def __init__(self, topology: Topology) -> None:
        self.hops = array("q")
        self.latency = array("d")
        self.cap = array("d")
        self.weight = array("d")
        self._topology = topology
        self._offsets = array("q", [0])
        self._links = np.zeros(64, dtype=np.int64)
        self._of_pair: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.latency)

    def of_pairs(self, sources: ArrayLike, destinations: ArrayLike) -> Array:
        """The class of each pair of processors.

        Raises:
            InputError: For a processor that does not exist.
        """
        starts, ends = self._topology.pairs(sources, destinations)
        keys, place = np.unique(starts * self._topology.processors + ends, return_inverse=True)
        known = np.array([self._of_pair.get(key, -1) for key in keys.tolist()], dtype=np.int64)
        new = keys[known < 0]
        if len(new):
            added = self.add(self._topology.routes(*np.divmod(new, self._topology.processors)))
            known[known < 0] = added
            self._of_pair.update(zip(new.tolist(), added.tolist(), strict=True))
        return known[place]

    def add(self, routes: Ragged, *, caps: ArrayLike | None = None, weights: ArrayLike | None = None) -> Array:
        """A new class for each route; returns their numbers.

        Args:
            routes: Links, none of them twice on a route.
            caps: Of each, bytes/s; None for none.
            weights: Of each; None for 1.
        """
        first, count, used = len(self), len(routes), self._offsets[-1]
        rows, _ = steps(np.diff(routes.offsets))
        cap, weight = (
            np.broadcast_to(np.asarray(default if column is None else column, dtype=np.float64), count)
            for column, default in ((caps, np.inf), (weights, 1.0))
        )
        self.hops.frombytes(np.diff(routes.offsets).astype(np.int64).tobytes())
        self.latency.frombytes(np.bincount(rows, self._topology.latency[routes.values], minlength=count).tobytes())
        self.cap.frombytes(cap.tobytes())
        self.weight.frombytes(weight.tobytes())
        self._offsets.frombytes((used + routes.offsets[1:]).astype(np.int64).tobytes())
        if self._offsets[-1] > len(self._links):
            spare = np.zeros(max(self._offsets[-1], 2 * used), dtype=np.int64)
            self._links = np.concatenate([self._links[:used], spare])
        self._links[used : self._offsets[-1]] = routes.values
        return np.arange(first, first + count)

    def links_of(self, route_class: int) -> list[int]:
        """The links of a class, in order."""
        links: list[int] = self._links[self._offsets[route_class] : self._offsets[route_class + 1]].tolist()
        return links

    def routes_of(self, classes: list[int]) -> Ragged:
        """The links of some classes."""
        first = np.array([self._offsets[number] for number in classes], dtype=np.int64)
        lengths = np.array([self._offsets[number + 1] for number in classes], dtype=np.int64) - first
        rows, places = steps(lengths)
        return Ragged(offsets_of(lengths), self._links[first[rows] + places])
