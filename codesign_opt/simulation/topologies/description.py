"""A topology in a paragraph."""

from __future__ import annotations

import numpy as np

from codesign_opt.simulation.topologies.topology import Topology
from codesign_opt.units import format_quantity

_SHOWN = 4


def describe(topology: Topology) -> str:
    """Endpoints, links by capacity and latency, bisection and longest route, in one paragraph of text."""
    kinds, counts = np.unique(np.stack([topology.capacity, topology.latency]), axis=1, return_counts=True)
    order = np.argsort(-kinds[0], kind="stable")
    parts = [
        f"{counts[kind]} of {format_quantity(kinds[0, kind], 'B/s')} and {format_quantity(kinds[1, kind], 's')}"
        for kind in order[:_SHOWN]
    ]
    if len(order) > _SHOWN:
        parts.append(f"{counts[order[_SHOWN:]].sum()} others")
    count = len(topology.switches)
    switches = f", {count} switch{'es' if count > 1 else ''}" if count else ""
    return (
        f"{topology.name}: {topology.processors} processors{switches}, {topology.links} directed links"
        f" ({'; '.join(parts)}). Bisection {format_quantity(topology.bisection, 'B/s')} one way;"
        f" the longest route has {topology.diameter} link{'' if topology.diameter == 1 else 's'}."
    )
