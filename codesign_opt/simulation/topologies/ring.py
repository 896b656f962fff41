"""Ring: every processor linked to the next, and to the one before where the ring runs both ways."""

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


def ring(processors: int, link: Link, *, bidirectional: bool = True) -> Topology:
    """A ring; messages go the shorter way round, clockwise (towards higher numbers) where both are equal.

    Two processors have one link each way: the way round the back would be the same link once more.

    Args:
        processors: At least 2.
        link: From a processor to its neighbour.
        bidirectional: Whether there are links counter-clockwise as well.

    Raises:
        InputError: For a wrong number of processors.
    """
    check_count("ring", "processors", processors, minimum=2)
    both = bidirectional and processors > 2
    links = processors * (2 if both else 1)
    check_links("ring", links)
    here = np.arange(processors)
    following, previous = (here + 1) % processors, (here - 1) % processors
    return Topology(
        name=f"{'ring' if bidirectional else 'one-way ring'} of {processors}",
        processors=processors,
        switches=(),
        tail=np.concatenate([here, here]) if both else here,
        head=np.concatenate([following, previous]) if both else following,
        **link_columns([(links, link)]),
        router=partial(_route, processors, both),
        bisection=(2 if both else 1) * link.capacity,
        diameter=processors // 2 if both else processors - 1,
    )


def _route(processors: int, both: bool, sources: Array, destinations: Array) -> Ragged:
    clockwise = (destinations - sources) % processors
    back = clockwise * 2 > processors if both else np.zeros(len(clockwise), dtype=bool)
    lengths = np.where(back, processors - clockwise, clockwise)
    row, step = steps(lengths)
    start = sources[row]
    forward_link = (start + step) % processors
    back_link = processors + (start - step) % processors
    return Ragged(offsets_of(lengths), np.where(back[row], back_link, forward_link))
