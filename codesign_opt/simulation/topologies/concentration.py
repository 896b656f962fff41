"""Concentration: several processors share the network ports of one node."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.topologies.rows import from_columns, joined
from codesign_opt.simulation.topologies.topology import Link, Topology, check_count, check_links, link_columns

Array = NDArray[Any]


def concentrated(network: Topology, processors_per_node: int, local: Link) -> Topology:
    """`network` with each endpoint a node of several processors, numbered node by node.

    A processor has a link of its own to its node and one back. Processors of a node exchange over these two; a message
    to another node takes them as well, around the network's route.

    Args:
        network: Between the nodes.
        processors_per_node: Processors that share a node's ports.
        local: Between a processor and its node, each way.

    Raises:
        InputError: For a count below 1.
    """
    check_count("concentration", "processors_per_node", processors_per_node)
    processors = network.processors * processors_per_node
    check_links("concentration", network.links + 2 * processors)
    ends = np.arange(processors)
    node = processors + ends // processors_per_node
    own = link_columns([(2 * processors, local)])
    return Topology(
        name=f"{network.name}, {processors_per_node} processors a node",
        processors=processors,
        switches=(*(f"node {number}" for number in range(network.processors)), *network.switches),
        tail=np.concatenate([ends, node, processors + network.tail]),
        head=np.concatenate([node, ends, processors + network.head]),
        capacity=np.concatenate([own["capacity"], network.capacity]),
        latency=np.concatenate([own["latency"], network.latency]),
        router=partial(_route, network, processors_per_node),
        bisection=_bisection(network, processors_per_node, local),
        diameter=network.diameter + (2 if processors > 1 else 0),
    )


def _route(network: Topology, per_node: int, sources: Array, destinations: Array) -> Ragged:
    processors = network.processors * per_node
    between = network.routes(sources // per_node, destinations // per_node)
    return joined(
        [
            from_columns([sources]),
            Ragged(between.offsets, between.values + 2 * processors),
            from_columns([processors + destinations]),
        ]
    )


def _bisection(network: Topology, per_node: int, local: Link) -> float:
    if network.processors == 1:
        return per_node // 2 * local.capacity
    return min(network.bisection, network.processors // 2 * per_node * local.capacity)
