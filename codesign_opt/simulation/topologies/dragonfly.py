"""Dragonfly: groups of routers, each group a full mesh, every pair of groups joined by global links."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError, nearest
from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.topologies.rows import ABSENT, from_columns, spread
from codesign_opt.simulation.topologies.topology import Link, Topology, check_count, check_links, link_columns

Array = NDArray[Any]
Routing = Literal["minimal", "valiant"]


def dragonfly(
    groups: int,
    routers: int,
    *,
    processors_per_router: int,
    global_links: int,
    terminal: Link,
    local: Link,
    optical: Link,
    routing: Routing = "minimal",
) -> Topology:
    """A dragonfly; balanced when routers = 2 · processors_per_router = 2 · global_links.

    Port k of a group's routers · global_links global ports belongs to router k // global_links and leads to the group
    1 + k mod (groups - 1) further on. Every two groups have equally many links; ports left over stay unused.

    Args:
        groups: At most routers · global_links + 1.
        routers: Of one group.
        processors_per_router: Endpoints of one router.
        global_links: Ports of one router to other groups.
        terminal: Between a processor and its router, each way.
        local: Between two routers of a group, each way.
        optical: Between two groups, each way.
        routing: "minimal": to the group's router with the link (one of them by a hash of the pair), over it, to the
            destination's router. "valiant": messages to another group go minimally to a third group first, chosen by a
            hash of the pair; that spreads adversarial traffic and halves what uniform traffic can have.

    Raises:
        InputError: For counts out of their range, or an unknown routing.
    """
    shape = _Shape(groups, routers, processors_per_router, global_links)
    _check(shape, routing)
    processors, links = shape.processors, shape.local_links
    ends = np.arange(processors)
    home = processors + ends // processors_per_router
    group, port = np.divmod(np.arange(groups * shape.ports), max(shape.ports, 1))
    there, back = shape.far_end(group, port)
    near, place = np.divmod(np.arange(links), max(routers - 1, 1))
    neighbour = place + (place >= near % routers) + near // routers * routers
    detours = routing == "valiant" and groups > 2
    hops = 1 if groups == 1 else 2 if detours else 1
    inner = 1 if routers > 1 else 0
    return Topology(
        name=f"dragonfly of {groups} groups × {routers} routers × {processors_per_router}, {routing}",
        processors=processors,
        switches=tuple(f"router {number}.{router}" for number in range(groups) for router in range(routers)),
        tail=np.concatenate([ends, home, processors + near, processors + group * routers + port // global_links]),
        head=np.concatenate([home, ends, processors + neighbour, processors + there * routers + back // global_links]),
        **link_columns([(2 * processors, terminal), (links, local), (groups * shape.ports, optical)]),
        router=partial(_route, shape, detours),
        bisection=_bisection(shape, terminal, local, optical),
        diameter=2 + inner if groups == 1 else 2 + hops + (hops + 1) * inner,
    )


class _Shape(NamedTuple):
    groups: int
    routers: int
    per_router: int
    global_links: int

    @property
    def processors(self) -> int:
        return self.groups * self.routers * self.per_router

    @property
    def local_links(self) -> int:
        return self.groups * self.routers * (self.routers - 1)

    @property
    def parallel(self) -> int:
        """Links from one group to another."""
        return self.routers * self.global_links // (self.groups - 1) if self.groups > 1 else 0

    @property
    def ports(self) -> int:
        """Ports in use of a group."""
        return self.parallel * (self.groups - 1)

    def far_end(self, group: Array, port: Array) -> tuple[Array, Array]:
        """Group and port at the other end of a group's port."""
        others = max(self.groups - 1, 1)
        parallel, distance = np.divmod(port, others)
        return (group + 1 + distance) % self.groups, parallel * others + others - 1 - distance

    def local_link(self, group: Array, start: Array, end: Array) -> Array:
        """The link between two routers of a group; absent where they are the same."""
        link = 2 * self.processors + (group * self.routers + start) * (self.routers - 1) + end - (end > start)
        return np.where(start != end, link, ABSENT)

    def global_link(self, group: Array, port: Array) -> Array:
        """The link at a group's port."""
        return 2 * self.processors + self.local_links + group * self.ports + port


def _route(shape: _Shape, detours: bool, sources: Array, destinations: Array) -> Ragged:
    start, end = sources // shape.per_router, destinations // shape.per_router
    group, router = np.divmod(start, shape.routers)
    last_group, last_router = np.divmod(end, shape.routers)
    columns = [sources]
    if shape.groups > 1:
        stops = [last_group]
        if detours:
            stops.insert(0, _third_group(shape, group, last_group, sources, destinations))
        for salt, stop in enumerate(stops):
            parallel = spread(sources, destinations, salt, shape.parallel)
            port = parallel * (shape.groups - 1) + (stop - group - 1) % shape.groups
            leaves = stop != group
            gateway = np.where(leaves, port // shape.global_links, router)
            columns += [
                shape.local_link(group, router, gateway),
                np.where(leaves, shape.global_link(group, port), ABSENT),
            ]
            _, far_port = shape.far_end(group, port)
            router = np.where(leaves, far_port // shape.global_links, router)
            group = stop
    columns += [shape.local_link(group, router, last_router), shape.processors + destinations]
    return from_columns(columns)


def _third_group(shape: _Shape, group: Array, last_group: Array, sources: Array, destinations: Array) -> Array:
    """A group that is neither end; the own one where both ends are in it."""
    low, high = np.minimum(group, last_group), np.maximum(group, last_group)
    third = spread(sources, destinations, 2, shape.groups - 2)
    third = third + (third >= low)
    third = third + (third >= high)
    return np.where(group == last_group, group, third)


def _check(shape: _Shape, routing: str) -> None:
    most = shape.routers * shape.global_links + 1
    for key, value in zip(("routers", "processors_per_router", "global_links"), shape[1:], strict=True):
        check_count("dragonfly", key, value)
    check_count("dragonfly", "groups", shape.groups, maximum=most)
    if routing not in get_args(Routing):
        raise InputError(f"dragonfly: routing: '{routing}' is not allowed", nearest(routing, get_args(Routing)))
    check_links("dragonfly", 2 * shape.processors + shape.local_links + shape.groups * shape.ports)


def _bisection(shape: _Shape, terminal: Link, local: Link, optical: Link) -> float:
    """Half of the groups (of the routers, in a single group) from the others."""
    parts, of_each = (shape.groups, shape.routers) if shape.groups > 1 else (shape.routers, 1)
    between = shape.parallel * optical.capacity if shape.groups > 1 else local.capacity
    if parts == 1:
        return shape.processors // 2 * terminal.capacity
    low = parts // 2
    return min(low * (parts - low) * between, low * of_each * shape.per_router * terminal.capacity)
