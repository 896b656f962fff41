"""Line: a ring that is not closed. One dimension of a mesh."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.topologies.rows import steps
from codesign_opt.simulation.topologies.topology import (
    Link,
    Topology,
    check_count,
    check_links,
    link_columns,
    offsets_of,
)

Array = NDArray[Any]


def line(processors: int, link: Link) -> Topology:
    """Processors in a row, neighbours linked both ways.

    Raises:
        InputError: For fewer than 2 processors.
    """
    check_count("line", "processors", processors, minimum=2)
    pairs = processors - 1
    check_links("line", 2 * pairs)
    left = np.arange(pairs)
    return Topology(
        name=f"line of {processors}",
        processors=processors,
        switches=(),
        tail=np.concatenate([left, left + 1]),
        head=np.concatenate([left + 1, left]),
        **link_columns([(2 * pairs, link)]),
        router=partial(_route, pairs),
        bisection=link.capacity,
        diameter=pairs,
    )


def _route(pairs: int, sources: Array, destinations: Array) -> Ragged:
    lengths = np.abs(destinations - sources)
    row, step = steps(lengths)
    up = (destinations > sources)[row]
    start = sources[row]
    return Ragged(offsets_of(lengths), np.where(up, start + step, pairs + start - 1 - step))
