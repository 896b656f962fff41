"""Product of networks: a building block in each dimension, as ASTRA-sim's hierarchical networks and all tori are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError
from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.topologies.rows import joined
from codesign_opt.simulation.topologies.topology import Topology, check_links

Array = NDArray[Any]


def product(blocks: Sequence[Topology], *, name: str = "") -> Topology:
    """Processors numbered by their place in each dimension, the first dimension fastest.

    All processors that differ in one dimension only are joined by a copy of that dimension's block. Messages correct
    the first dimension first (dimension order).

    Args:
        blocks: The network along each dimension; its processors are the places.
        name: What reports call it; by default the blocks' names.

    Raises:
        InputError: For no dimension, or too many links.
    """
    if not blocks:
        raise InputError("product: no dimension", "give at least one building block")
    processors = math.prod(block.processors for block in blocks)
    text = name or " × ".join(block.name for block in blocks)
    check_links(text, sum(processors // block.processors * block.links for block in blocks))
    dimensions: list[_Dimension] = []
    tails: list[Array] = []
    heads: list[Array] = []
    switches: list[str] = []
    first_link, stride = 0, 1
    for block in blocks:
        dimension = _Dimension(block, stride, first_link, processors // block.processors)
        dimensions.append(dimension)
        tails.append(dimension.nodes(block.tail, processors + len(switches)))
        heads.append(dimension.nodes(block.head, processors + len(switches)))
        switches += [
            f"{switch} {copy} of dimension {len(tails)}"
            for copy in range(dimension.copies)
            for switch in block.switches
        ]
        first_link += dimension.copies * block.links
        stride *= block.processors
    return Topology(
        name=text,
        processors=processors,
        switches=tuple(switches),
        tail=np.concatenate(tails),
        head=np.concatenate(heads),
        capacity=np.concatenate([np.tile(part.block.capacity, part.copies) for part in dimensions]),
        latency=np.concatenate([np.tile(part.block.latency, part.copies) for part in dimensions]),
        router=partial(_route, tuple(dimensions)),
        bisection=min(
            (part.block.bisection * part.copies for part in dimensions if part.block.processors > 1), default=0.0
        ),
        diameter=sum(block.diameter for block in blocks),
    )


class _Dimension(NamedTuple):
    """One dimension: its block, the distance of neighbouring places, its first link, and how often the block occurs."""

    block: Topology
    stride: int
    first_link: int
    copies: int

    def digit(self, processors: Array) -> Array:
        """The place of each processor along this dimension."""
        place: Array = processors // self.stride % self.block.processors
        return place

    def copy(self, processors: Array) -> Array:
        """The copy of the block that each processor belongs to."""
        number: Array = processors % self.stride + processors // (self.stride * self.block.processors) * self.stride
        return number

    def nodes(self, local: Array, first_switch: int) -> Array:
        """The nodes of the whole that the block's nodes `local` are, in one copy after the other."""
        width = self.block.processors
        copies = np.arange(self.copies)[:, None]
        low, high = copies % self.stride, copies // self.stride
        processors = low + (local + high * width) * self.stride
        switches = first_switch + copies * len(self.block.switches) + (local - width)
        numbers: Array = np.where(local < width, processors, switches).ravel()
        return numbers


def _route(dimensions: tuple[_Dimension, ...], sources: Array, destinations: Array) -> Ragged:
    here = sources
    parts = []
    for dimension in dimensions:
        block, stride = dimension.block, dimension.stride
        part = block.routes(dimension.digit(sources), dimension.digit(destinations))
        shift = dimension.first_link + dimension.copy(here) * block.links
        parts.append(Ragged(part.offsets, part.values + np.repeat(shift, np.diff(part.offsets))))
        here = here + (dimension.digit(destinations) - dimension.digit(sources)) * stride
    return joined(parts)
