"""Fat trees of any number of levels; two of them are leaf and spine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError, nearest
from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.topologies.rows import ABSENT, from_columns, spread
from codesign_opt.simulation.topologies.topology import (
    Link,
    Topology,
    check_count,
    check_links,
    link_columns,
)

Array = NDArray[Any]
Routing = Literal["ecmp", "destination", "spray"]


def leaf_spine(
    leaves: int, processors_per_leaf: int, spines: int, *, link: Link, uplink: Link, routing: Routing = "ecmp"
) -> Topology:
    """Leaf switches with processors, every leaf linked to every spine.

    Args:
        leaves, processors_per_leaf, spines: How many.
        link: Between a processor and its leaf, each way.
        uplink: Between a leaf and one spine, each way; see `uplink_bandwidth` for a given oversubscription.
        routing: As for `fat_tree`.

    Raises:
        InputError: As `fat_tree`.
    """
    return fat_tree((processors_per_leaf, leaves), (spines,), (link, uplink), routing=routing)


def fat_tree(
    children: Sequence[int], parents: Sequence[int], links: Sequence[Link], *, routing: Routing = "ecmp"
) -> Topology:
    """A tree of switches with several parents each. Messages go up to a common ancestor, then down.

    A switch of level i has `children[i - 1]` children and, below the top, `parents[i - 1]` parents; level 1 are the
    leaves, whose children are processors, each with one port. Switches of 2k ports in three levels are children
    (k, k, 2k) and parents (k, k).

    Args:
        children: Of a switch, from the leaves to the top.
        parents: Of a switch, from the leaves to below the top: one entry less.
        links: Between two levels, each way, from the processors' ports to the top.
        routing: "ecmp": each pair of processors has one way up, chosen by a hash of the pair. "destination": the way up
            is the destination's number modulo the parents, level by level, so that shifts by any distance meet no
            other message in a tree of full bisection. "spray": the packets of a message are split evenly over all
            ways; the links side by side then act as one, and are one here.

    Raises:
        InputError: For lists that do not fit together, or counts below 1.
    """
    _check(children, parents, links, routing)
    name = f"{_kind(children)} {'×'.join(str(count) for count in children)}"
    if routing == "spray":
        widths = np.cumprod([1, 1, *parents])[1:]
        links = [_bundle(link, int(width)) for link, width in zip(links, widths, strict=True)]
        parents = [1] * len(parents)
    levels = _levels(children, parents)
    check_links(name, 2 * sum(level.links for level in levels))
    return Topology(
        name=f"{name}, {routing}",
        processors=math.prod(children),
        switches=tuple(_switch_names(children, levels)),
        tail=np.concatenate([*(level.lower for level in levels), *(level.upper for level in levels)]),
        head=np.concatenate([*(level.upper for level in levels), *(level.lower for level in levels)]),
        **link_columns([(level.links, link) for level, link in zip(levels, links, strict=True)] * 2),
        router=partial(_route, tuple(levels), routing == "destination"),
        bisection=_bisection(children, levels, links),
        diameter=2 * len(children),
    )


def uplink_bandwidth(link: Link, *, children: int, parents: int, oversubscription: float) -> float:
    """Bytes/s of a switch's link to one parent.

    What its children can send together is `oversubscription` times what it can send up.

    Args:
        link: Between a child and the switch.
        children, parents: Of the switch.
        oversubscription: 1 for full bisection.
    """
    return children * link.bandwidth / (parents * oversubscription)


class _Level(NamedTuple):
    """The links between two levels.

    Attributes:
        size: Processors below a lower node.
        copies: Lower nodes that have the same processors below them.
        parents: Of a lower node.
        first: Number of the first link; `lower` and `upper` are its nodes.
    """

    size: int
    copies: int
    parents: int
    first: int
    lower: Array
    upper: Array

    @property
    def links(self) -> int:
        return len(self.lower)


def _levels(children: Sequence[int], parents: Sequence[int]) -> list[_Level]:
    processors = math.prod(children)
    levels: list[_Level] = []
    size = copies = 1
    first = first_lower = 0
    for fanout, width in zip(children, [1, *parents], strict=True):
        trees = processors // size
        tree, copy, parent = (part.ravel() for part in np.indices((trees, copies, width)))
        first_upper = first_lower + trees * copies
        upper = first_upper + tree // fanout * copies * width + copy * width + parent
        levels.append(_Level(size, copies, width, first, first_lower + tree * copies + copy, upper))
        first, first_lower = first + len(upper), first_upper
        size, copies = size * fanout, copies * width
    return levels


def _route(levels: tuple[_Level, ...], by_destination: bool, sources: Array, destinations: Array) -> Ragged:
    links = sum(level.links for level in levels)
    up: list[Array] = []
    down: list[Array] = []
    copy = np.zeros(len(sources), dtype=np.int64)
    for number, level in enumerate(levels):
        source, destination = sources // level.size, destinations // level.size
        if by_destination:
            parent = destinations // level.copies % level.parents
        else:
            parent = spread(sources, destinations, number, level.parents)
        apart = source != destination
        for tree, first, side in ((source, level.first, up), (destination, links + level.first, down)):
            side.append(np.where(apart, first + (tree * level.copies + copy) * level.parents + parent, ABSENT))
        copy = copy * level.parents + parent
    return from_columns([*up, *reversed(down)])


def _check(children: Sequence[int], parents: Sequence[int], links: Sequence[Link], routing: str) -> None:
    if not children or len(parents) != len(children) - 1 or len(links) != len(children):
        lengths = f"{len(children)} children, {len(parents)} parents, {len(links)} links"
        raise InputError(f"fat tree: {lengths} do not fit", "k levels have k children, k - 1 parents and k links")
    if routing not in get_args(Routing):
        raise InputError(f"fat tree: routing: '{routing}' is not allowed", nearest(routing, get_args(Routing)))
    for key, counts in (("children", children), ("parents", parents)):
        for count in counts:
            check_count("fat tree", key, count)
    check_count("fat tree", "children (of the top)", children[-1], minimum=2)


def _bundle(link: Link, count: int) -> Link:
    return Link(bandwidth=link.bandwidth * count, latency=link.latency, efficiency=link.efficiency)


def _kind(children: Sequence[int]) -> str:
    return "leaf-spine" if len(children) == 2 else "fat tree"


def _switch_names(children: Sequence[int], levels: list[_Level]) -> list[str]:
    words = ["leaf", "spine"] if len(children) == 2 else [f"level {number + 1} switch" for number in range(len(levels))]
    counts = [int(level.upper.max() - level.upper.min()) + 1 for level in levels]
    return [f"{word} {number}" for word, count in zip(words, counts, strict=True) for number in range(count)]


def _bisection(children: Sequence[int], levels: list[_Level], links: Sequence[Link]) -> float:
    """The least that the top's children, half of them, can send up from any level below."""
    half = math.prod(children) // children[-1] * (children[-1] // 2)
    return min(
        half // level.size * level.copies * level.parents * link.capacity
        for level, link in zip(levels, links, strict=True)
    )
