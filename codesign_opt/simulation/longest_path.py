"""Longest paths, level by level: all that depends only on what is known is worked out at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError

Array = NDArray[Any]


def longest_path(count: int, source: Array, target: Array, weight: Array) -> Array:
    """Length of the longest path to each of `count` nodes, from those that no edge leads to, which are at 0.

    Args:
        count: Of nodes.
        source, target: Nodes that each edge leads from and to.
        weight: Of each edge.

    Raises:
        InputError: Edges that go round in a circle.
    """
    order = np.argsort(source, kind="stable")
    target, weight = target[order], weight[order]
    first = np.searchsorted(source[order], np.arange(count + 1))
    missing = np.bincount(target, minlength=count)
    length = np.zeros(count)
    level = np.flatnonzero(missing == 0)
    reached = 0
    while len(level):
        reached += len(level)
        fan_out = first[level + 1] - first[level]
        edges = np.repeat(first[level] - np.cumsum(fan_out) + fan_out, fan_out) + np.arange(fan_out.sum())
        ends = target[edges]
        np.maximum.at(length, ends, np.repeat(length[level], fan_out) + weight[edges])
        np.subtract.at(missing, ends, 1)
        level = _distinct(ends[missing[ends] == 0])
    if reached < count:
        raise InputError(
            f"{count - reached} instructions wait for one another in a circle",
            "the order of the streams, of the messages and of the operands must agree",
        )
    return length


def _distinct(nodes: Array) -> Array:
    """Each node once, in ascending order."""
    nodes = np.sort(nodes)
    return nodes[np.concatenate([[True], nodes[1:] != nodes[:-1]])] if len(nodes) else nodes
