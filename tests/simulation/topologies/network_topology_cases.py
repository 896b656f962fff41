"""Topologies of every kind, small enough to look at all pairs of processors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np

from codesign_opt.simulation.topologies import (
    Link,
    Topology,
    concentrated,
    dragonfly,
    fat_tree,
    full_mesh,
    leaf_spine,
    line,
    mesh,
    product,
    rail_optimised,
    ring,
    switch,
    torus,
)

FAST = Link(bandwidth=10.0, latency=1.0)
SLOW = Link(bandwidth=3.0, latency=0.5)
MIDDLE = Link(bandwidth=7.0, latency=0.25)

_flies = partial(dragonfly, terminal=FAST, local=SLOW, optical=MIDDLE)

CASES: dict[str, Callable[[], Topology]] = {
    "full mesh": lambda: full_mesh(5, FAST),
    "switch": lambda: switch(6, FAST, switch_latency=0.125),
    "switch of one": lambda: switch(1, FAST),
    "even ring": lambda: ring(8, FAST),
    "odd ring": lambda: ring(7, FAST),
    "ring of two": lambda: ring(2, FAST),
    "one-way ring": lambda: ring(5, FAST, bidirectional=False),
    "line": lambda: line(6, FAST),
    "torus": lambda: torus([4, 3], [FAST, SLOW]),
    "torus of three dimensions": lambda: torus([4, 2, 3], [FAST, SLOW, MIDDLE]),
    "mesh": lambda: mesh([3, 4], [FAST, SLOW]),
    "leaf-spine": lambda: leaf_spine(4, 4, 3, link=FAST, uplink=SLOW),
    "sprayed leaf-spine": lambda: leaf_spine(4, 4, 3, link=FAST, uplink=SLOW, routing="spray"),
    "fat tree": lambda: fat_tree((2, 3, 4), (2, 3), (FAST, SLOW, MIDDLE)),
    "fat tree by destination": lambda: fat_tree((2, 3, 4), (2, 3), (FAST, SLOW, MIDDLE), routing="destination"),
    "sprayed fat tree": lambda: fat_tree((2, 3, 4), (2, 3), (FAST, SLOW, MIDDLE), routing="spray"),
    "fat tree of one level": lambda: fat_tree((5,), (), (FAST,)),
    "rails": lambda: rail_optimised(4, 3, inside=FAST, rail=SLOW),
    "rails with spine": lambda: rail_optimised(4, 3, inside=FAST, rail=SLOW, spine=MIDDLE),
    "rails of one node": lambda: rail_optimised(1, 4, inside=FAST, rail=SLOW),
    "full dragonfly": lambda: _flies(9, 4, processors_per_router=2, global_links=2),
    "small dragonfly": lambda: _flies(4, 3, processors_per_router=2, global_links=2),
    "valiant dragonfly": lambda: _flies(5, 4, processors_per_router=2, global_links=2, routing="valiant"),
    "dragonfly of one group": lambda: _flies(1, 4, processors_per_router=2, global_links=2),
    "dragonfly of single routers": lambda: _flies(3, 1, processors_per_router=2, global_links=2, routing="valiant"),
    "product": lambda: product([ring(4, FAST), switch(3, SLOW), full_mesh(2, MIDDLE)]),
    "concentrated torus": lambda: concentrated(torus([3, 3], [FAST, SLOW]), 2, MIDDLE),
    "concentrated switch": lambda: concentrated(switch(3, FAST), 2, MIDDLE),
}


def all_pairs(topology: Topology) -> tuple[np.ndarray, np.ndarray]:
    """Sources and destinations, equal ones included."""
    sources, destinations = zip(*itertools.product(range(topology.processors), repeat=2), strict=True)
    return np.array(sources), np.array(destinations)
