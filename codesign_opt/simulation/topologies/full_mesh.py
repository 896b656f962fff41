"""Full mesh: a link from every processor to every other."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.topologies.rows import from_columns
from codesign_opt.simulation.topologies.topology import Link, Topology, check_count, check_links, link_columns

Array = NDArray[Any]


def full_mesh(processors: int, link: Link, *, shared: bool = False) -> Topology:
    """Every processor linked to every other, both ways.

    Args:
        processors: At least 2.
        link: Of one pair; with `shared`, what one processor has for all its n - 1 peers together.
        shared: Whether `link.bandwidth` is divided among the peers, as a processor's ports are.

    Raises:
        InputError: For a wrong number of processors.
    """
    check_count("full mesh", "processors", processors, minimum=2)
    links = processors * (processors - 1)
    check_links("full mesh", links)
    if shared:
        link = Link(bandwidth=link.bandwidth / (processors - 1), latency=link.latency, efficiency=link.efficiency)
    tail = np.repeat(np.arange(processors), processors - 1)
    place = np.tile(np.arange(processors - 1), processors)
    return Topology(
        name=f"full mesh of {processors}",
        processors=processors,
        switches=(),
        tail=tail,
        head=place + (place >= tail),
        **link_columns([(links, link)]),
        router=partial(_route, processors),
        bisection=(processors // 2) * ((processors + 1) // 2) * link.capacity,
        diameter=1,
    )


def _route(processors: int, sources: Array, destinations: Array) -> Ragged:
    return from_columns([sources * (processors - 1) + destinations - (destinations > sources)])
