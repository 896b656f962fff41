"""A network as directed links and the routes over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codesign_opt.errors import InputError
from codesign_opt.graphs.graph import Ragged

Array = NDArray[Any]
Router = Callable[[Array, Array], Ragged]

MAX_LINKS = 20_000_000
"""More directed links than this are refused: what they need of memory is no longer a matter of seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one direction of a link can do.

    Attributes:
        bandwidth: Bytes/s.
        latency: Seconds from one end to the other.
        efficiency: Share of the bandwidth that messages reach, 0 < efficiency ≤ 1.

    Raises:
        InputError: For values out of these ranges.
    """

    bandwidth: float
    latency: float
    efficiency: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.bandwidth < np.inf:
            raise InputError(f"link: bandwidth: {self.bandwidth} is not allowed", "above 0 B/s")
        if not 0 <= self.latency < np.inf:
            raise InputError(f"link: latency: {self.latency} is not allowed", "at least 0 s")
        if not 0 < self.efficiency <= 1:
            raise InputError(f"link: efficiency: {self.efficiency} is not allowed", "above 0 and at most 1")

    @property
    def capacity(self) -> float:
        """Bytes/s that messages reach."""
        return self.bandwidth * self.efficiency


@dataclass(frozen=True, kw_only=True, eq=False)
class Topology:
    """A network. Nodes are numbered, processors first; columns have one entry a directed link.

    Attributes:
        name: What reports call it.
        processors: Number of endpoints, nodes 0 to `processors` - 1.
        switches: Names of the other nodes.
        tail, head: Nodes that a link leads from and to.
        capacity: Bytes/s.
        latency: Seconds.
        router: Links from each source to each destination, for processors that exist and differ.
        bisection: Bytes/s, one way, between two halves of the processors, by the formula of the construction.
        diameter: Links of the longest route.
    """

    name: str
    processors: int
    switches: tuple[str, ...]
    tail: Array
    head: Array
    capacity: Array
    latency: Array
    router: Router
    bisection: float
    diameter: int

    @property
    def links(self) -> int:
        """Number of directed links."""
        return len(self.capacity)

    def routes(self, sources: ArrayLike, destinations: ArrayLike) -> Ragged:
        """Links of the route of each pair of processors, in order; none where both are the same.

        The same pair always has the same route.

        Raises:
            InputError: For a processor that does not exist.
        """
        starts, ends = self.pairs(sources, destinations)
        apart = starts != ends
        if apart.all():
            return self.router(starts, ends)
        some = self.router(starts[apart], ends[apart])
        lengths = np.zeros(len(starts), dtype=np.int64)
        lengths[apart] = np.diff(some.offsets)
        return Ragged(offsets_of(lengths), some.values)

    def pairs(self, sources: ArrayLike, destinations: ArrayLike) -> tuple[Array, Array]:
        """The processors as two arrays of one length.

        Raises:
            InputError: For a processor that does not exist.
        """
        starts, ends = np.broadcast_arrays(np.atleast_1d(sources), np.atleast_1d(destinations))
        for processors in (starts, ends):
            if processors.size and not 0 <= processors.min() <= processors.max() < self.processors:
                wrong = processors[(processors < 0) | (processors >= self.processors)][0]
                raise InputError(f"{self.name}: no processor {wrong}", f"0 to {self.processors - 1}")
        return starts.astype(np.int64), ends.astype(np.int64)

    def node_name(self, node: int) -> str:
        """What reports call a node: the number of a processor, the name of a switch."""
        return str(node) if node < self.processors else self.switches[node - self.processors]

    def link_name(self, link: int) -> str:
        """What reports call a link: "3 → leaf 0"."""
        return f"{self.node_name(int(self.tail[link]))} → {self.node_name(int(self.head[link]))}"


def link_columns(groups: Sequence[tuple[int, Link]]) -> dict[str, Array]:
    """The columns `capacity` and `latency` of so many links of each kind, one kind after the other."""
    counts = [count for count, _ in groups]
    return {
        "capacity": np.repeat([link.capacity for _, link in groups], counts).astype(np.float64),
        "latency": np.repeat([link.latency for _, link in groups], counts).astype(np.float64),
    }


def delayed(link: Link, seconds: float) -> Link:
    """The link with more latency: that of the switch that it leads into."""
    return Link(bandwidth=link.bandwidth, latency=link.latency + seconds, efficiency=link.efficiency)


def check_count(name: str, key: str, value: int, *, minimum: int = 1, maximum: float = np.inf) -> None:
    """Refuse a number of parts out of its range.

    Raises:
        InputError: Naming topology, key, value and range.
    """
    if not minimum <= value <= maximum:
        limit = f"at least {minimum}" if maximum == np.inf else f"{minimum} to {maximum:.0f}"
        raise InputError(f"{name}: {key}: {value} is not allowed", limit)


def check_links(name: str, links: int) -> None:
    """Refuse a network too large to build.

    Raises:
        InputError: For more than `MAX_LINKS`.
    """
    if links > MAX_LINKS:
        raise InputError(f"{name}: {links} directed links are too many", f"at most {MAX_LINKS}")


def offsets_of(lengths: Array) -> Array:
    """Offsets of lists of these lengths."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
