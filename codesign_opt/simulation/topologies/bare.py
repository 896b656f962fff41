"""Links by themselves, without processors: for routes that are given by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codesign_opt.errors import InputError
from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.topologies.topology import Topology

Array = NDArray[Any]


def bare_links(capacity: ArrayLike, latency: ArrayLike = 0.0) -> Topology:
    """A topology of links that each join two nodes of their own. It has no processors and no routes.

    Args:
        capacity: Of each link, bytes/s.
        latency: Of each, or of all, seconds.

    Raises:
        InputError: For a capacity that is not above 0 and finite.
    """
    column = np.atleast_1d(np.asarray(capacity, dtype=np.float64))
    if not ((column > 0) & (column < np.inf)).all():
        raise InputError(f"bare links: capacity: {column.min()} is not allowed", "above 0 B/s, and finite")
    ends = np.arange(2 * len(column))
    return Topology(
        name=f"{len(column)} bare links",
        processors=0,
        switches=tuple(f"{side} of link {link}" for link in range(len(column)) for side in ("start", "end")),
        tail=ends[::2],
        head=ends[1::2],
        capacity=column,
        latency=np.broadcast_to(np.asarray(latency, dtype=np.float64), len(column)),
        router=_no_routes,
        bisection=0.0,
        diameter=0,
    )


def _no_routes(sources: Array, destinations: Array) -> Ragged:
    return Ragged(np.zeros(len(sources) + 1, dtype=np.int64), np.zeros(0, dtype=np.int64))
