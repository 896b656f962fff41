"""A single switch: every processor has a link up to it and a link down from it; the switch itself never blocks."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.topologies.rows import from_columns
from codesign_opt.simulation.topologies.topology import (
    Link,
    Topology,
    check_count,
    check_links,
    delayed,
    link_columns,
)

Array = NDArray[Any]


def switch(processors: int, link: Link, *, switch_latency: float = 0.0) -> Topology:
    """Processors around one switch. A message takes two links, so twice `link.latency` and once `switch_latency`.

    Args:
        processors: At least 1.
        link: Between a processor and the switch, each way.
        switch_latency: Seconds through the switch; they count on the link up.

    Raises:
        InputError: For a wrong number of processors.
    """
    check_count("switch", "processors", processors)
    check_links("switch", 2 * processors)
    ends = np.arange(processors)
    middle = np.full(processors, processors)
    return Topology(
        name=f"switch of {processors}",
        processors=processors,
        switches=("switch",),
        tail=np.concatenate([ends, middle]),
        head=np.concatenate([middle, ends]),
        **link_columns([(processors, delayed(link, switch_latency)), (processors, link)]),
        router=partial(_route, processors),
        bisection=processors // 2 * link.capacity,
        diameter=2 if processors > 1 else 0,
    )


def _route(processors: int, sources: Array, destinations: Array) -> Ragged:
    return from_columns([sources, processors + destinations])
