"""The network that a system's tiers stand for."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError
from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.topologies.rows import from_columns
from codesign_opt.simulation.topologies.topology import Link, Topology, check_count, check_links, link_columns
from codesign_opt.systems.system import NetworkTier, System

Array = NDArray[Any]


def topology_of(system: System, processors: int) -> Topology:
    """The first `processors` of a system, joined by its network tiers.

    Assumed: every processor has a port of its own on every tier, of the tier's bandwidth × efficiency each way, and a
    tier joins each `size` consecutive processors by one switch that never blocks. Two processors use the fastest tier
    that joins them; tiers beyond the first that joins all are left out. The tier's latency counts once, on the link up.

    Raises:
        InputError: For fewer than 1 processor, or more than the tiers join.
    """
    check_count(system.name, "processors", processors)
    tiers = _used(system, processors)
    check_links(system.name, 2 * processors * len(tiers))
    ends = np.arange(processors)
    tails, heads = [], []
    kinds: list[tuple[int, Link]] = []
    switches: list[str] = []
    for number, tier in enumerate(tiers):
        group = processors + len(switches) + ends // tier.size
        tails += [ends, group]
        heads += [group, ends]
        link = Link(bandwidth=tier.bandwidth, latency=0.0, efficiency=tier.efficiency)
        up = Link(bandwidth=tier.bandwidth, latency=tier.latency, efficiency=tier.efficiency)
        kinds += [(processors, up), (processors, link)]
        switches += [f"tier {number} switch {place}" for place in range(-(-processors // tier.size))]
    return Topology(
        name=f"tiers of {system.name}",
        processors=processors,
        switches=tuple(switches),
        tail=np.concatenate(tails),
        head=np.concatenate(heads),
        **link_columns(kinds),
        router=partial(_route, processors, tuple(tier.size for tier in tiers)),
        bisection=_bisection(tiers, processors),
        diameter=2 if processors > 1 else 0,
    )


def _used(system: System, processors: int) -> tuple[NetworkTier, ...]:
    for number, tier in enumerate(system.network_tiers):
        if tier.size >= processors:
            return system.network_tiers[: number + 1]
    largest = max((tier.size for tier in system.network_tiers), default=1)
    raise InputError(
        f"system '{system.name}': processors: {processors} are more than its network tiers join",
        f"at most {largest}, or a larger `size` of a tier",
    )


def _route(processors: int, sizes: tuple[int, ...], sources: Array, destinations: Array) -> Ragged:
    tier = np.full(len(sources), len(sizes) - 1)
    for number in reversed(range(len(sizes) - 1)):
        tier = np.where(sources // sizes[number] == destinations // sizes[number], number, tier)
    first = 2 * processors * tier
    return from_columns([first + sources, first + processors + destinations])


def _bisection(tiers: tuple[NetworkTier, ...], processors: int) -> float:
    """Half of what the last tier joins from the other half."""
    part = tiers[-2].size if len(tiers) > 1 else 1
    return -(-processors // part) // 2 * part * tiers[-1].bandwidth * tiers[-1].efficiency
