"""Collectives over nodes: inside every node, and along rails, which join members of the same number on all nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codesign_opt.errors import InputError
from codesign_opt.graphs.graph import Array
from codesign_opt.simulation.collectives import one_dimensional
from codesign_opt.simulation.collectives.composition import in_sequence
from codesign_opt.simulation.collectives.one_dimensional import OneDimensional
from codesign_opt.simulation.collectives.schedule import Schedule
from codesign_opt.simulation.collectives.team import Team

HIERARCHICAL = "hierarchical"

_NODE, _MEMBER = range(2)


@dataclass(frozen=True, kw_only=True)
class NodeAlgorithm:
    """A collective over nodes.

    Attributes:
        node_size: Processors of a node; node i has those from `i * node_size` on.
        inside: What is done inside a node.
        rails: What is done along a rail.
    """

    node_size: int
    inside: OneDimensional
    rails: OneDimensional


def hierarchical_all_gather(team: Team, algorithm: NodeAlgorithm) -> Schedule:
    """Along the rails, then inside.

    Raises:
        InputError: Nodes with different numbers of members.
    """
    inside, rails = _lines(team, algorithm)
    parts = [
        ("rails", one_dimensional.all_gather(rails, algorithm.rails)),
        ("inside", one_dimensional.all_gather(inside, algorithm.inside)),
    ]
    return in_sequence("all-gather", HIERARCHICAL, team, parts)


def hierarchical_reduce_scatter(team: Team, algorithm: NodeAlgorithm) -> Schedule:
    """Inside, then along the rails.

    Raises:
        InputError: Nodes with different numbers of members.
    """
    inside, rails = _lines(team, algorithm)
    parts = [
        ("inside", one_dimensional.reduce_scatter(inside, algorithm.inside)),
        ("rails", one_dimensional.reduce_scatter(rails, algorithm.rails)),
    ]
    return in_sequence("reduce-scatter", HIERARCHICAL, team, parts)


def hierarchical_all_reduce(team: Team, algorithm: NodeAlgorithm) -> Schedule:
    """A reduce-scatter inside, an all-reduce along every rail, an all-gather inside.

    Raises:
        InputError: Nodes with different numbers of members.
    """
    inside, rails = _lines(team, algorithm)
    parts = [
        ("reduce-scatter", one_dimensional.reduce_scatter(inside, algorithm.inside)),
        ("all-reduce", one_dimensional.all_reduce(rails, algorithm.rails)),
        ("all-gather", one_dimensional.all_gather(inside, algorithm.inside)),
    ]
    return in_sequence("all-reduce", HIERARCHICAL, team, parts)


def node_grid(processors: Array, node_size: int) -> Array:
    """Ranks by node and by order within the node; shape (nodes, members of a node).

    Raises:
        InputError: Nodes with different numbers of members.
    """
    nodes, counts = np.unique(processors // node_size, return_counts=True)
    if np.any(counts != counts[0]):
        first, other = nodes[0], nodes[counts != counts[0]][0]
        raise InputError(
            f"'{HIERARCHICAL}': node {first} has {counts[0]} members of the group, "
            f"node {other} has {counts[counts != counts[0]][0]}",
            "give groups that have the same number of members on every node",
        )
    order: Array = np.argsort(processors // node_size, kind="stable").reshape(len(nodes), -1)
    return order


def _lines(team: Team, algorithm: NodeAlgorithm) -> tuple[Team, Team]:
    grid = node_grid(team.processors, algorithm.node_size)
    return team.lines(grid, (_MEMBER,), free=(_NODE,)), team.lines(grid, (_NODE,))
