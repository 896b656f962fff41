"""Rail-optimised network: processor j of every node on rail switch j, the processors of a node by a switch inside."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.topologies.rows import ABSENT, from_columns
from codesign_opt.simulation.topologies.topology import Link, Topology, check_count, check_links, link_columns

Array = NDArray[Any]


def rail_optimised(
    nodes: int, processors_per_node: int, *, inside: Link, rail: Link, spine: Link | None = None
) -> Topology:
    """Processor j of node i is number i · `processors_per_node` + j and has a port inside and a port on rail j.

    Inside a node messages take the switch inside; between nodes on one rail, the rail switch. From one rail to another
    in another node they first go, inside the node, to the processor on the destination's rail; with a spine, they go up
    from one rail switch and down to the other instead.

    Args:
        nodes, processors_per_node: How many.
        inside: Between a processor and its node's switch, each way.
        rail: Between a processor and its rail switch, each way.
        spine: All links between one rail switch and the spine together, each way; None for no spine.

    Raises:
        InputError: For counts below 1.
    """
    check_count("rail", "nodes", nodes)
    check_count("rail", "processors_per_node", processors_per_node)
    processors = nodes * processors_per_node
    check_links("rail", 4 * processors)
    ends = np.arange(processors)
    node_switch = processors + ends // processors_per_node
    rail_switch = processors + nodes + ends % processors_per_node
    tails, heads = [ends, node_switch, ends, rail_switch], [node_switch, ends, rail_switch, ends]
    kinds = [(2 * processors, inside), (2 * processors, rail)]
    switches = [
        *(f"inside node {node}" for node in range(nodes)),
        *(f"rail {number}" for number in range(processors_per_node)),
    ]
    if spine is not None:
        rails = processors + nodes + np.arange(processors_per_node)
        top = np.full(processors_per_node, processors + len(switches))
        tails, heads = [*tails, rails, top], [*heads, top, rails]
        kinds.append((2 * processors_per_node, spine))
        switches.append("spine")
    return Topology(
        name=f"rail-optimised {nodes} nodes × {processors_per_node}",
        processors=processors,
        switches=tuple(switches),
        tail=np.concatenate(tails),
        head=np.concatenate(heads),
        **link_columns(kinds),
        router=partial(_route, processors, processors_per_node, spine is not None),
        bisection=_bisection(nodes, processors_per_node, inside, rail, spine),
        diameter=4 if nodes > 1 and processors_per_node > 1 else min(2, 2 * (processors - 1)),
    )


def _route(processors: int, per_node: int, has_spine: bool, sources: Array, destinations: Array) -> Ragged:
    outside = sources // per_node != destinations // per_node
    from_rail, to_rail = sources % per_node, destinations % per_node
    crosses = outside & (from_rail != to_rail)
    inside_up, inside_down, rail_up, rail_down = (number * processors for number in range(4))
    to_spine, from_spine = 4 * processors, 4 * processors + per_node
    last = np.where(outside, rail_down, inside_down) + destinations
    if has_spine:
        return from_columns(
            [
                np.where(outside, rail_up, inside_up) + sources,
                np.where(crosses, to_spine + from_rail, ABSENT),
                np.where(crosses, from_spine + to_rail, ABSENT),
                last,
            ]
        )
    relay = sources - from_rail + to_rail
    return from_columns(
        [
            np.where(crosses | ~outside, inside_up + sources, ABSENT),
            np.where(crosses, inside_down + relay, ABSENT),
            np.where(outside, rail_up + relay, ABSENT),
            last,
        ]
    )


def _bisection(nodes: int, per_node: int, inside: Link, rail: Link, spine: Link | None) -> float:
    """The lesser of two cuts: half of the nodes from the others, half of the rails from the others."""
    between_rails = per_node // 2 * (nodes * inside.capacity + (spine.capacity if spine is not None else 0.0))
    between_nodes = nodes // 2 * per_node * rail.capacity
    return min((cut for cut in (between_rails, between_nodes) if cut > 0), default=0.0)
