"""Collectives in steps on networks of their own, against the formulas of the literature."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from network_cases import Step, delivered, time_of_steps

from codesign_opt.simulation.networks import FifoNetwork, FlowNetwork, LatencyBandwidthNetwork, Network
from codesign_opt.simulation.topologies import Link, Topology, leaf_spine, ring, switch, torus

ALPHA, BANDWIDTH, SIZE = 3e-6, 40e9, 64e6
LINK = Link(bandwidth=BANDWIDTH, latency=ALPHA)

MODELS = [FlowNetwork, FifoNetwork, LatencyBandwidthNetwork]
EXACT = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
COUNTS = pytest.mark.parametrize("processors", [2, 3, 8, 33])


@EXACT
@COUNTS
def test_ring_all_reduce(model: Callable[[Topology], Network], processors: int) -> None:
    here = np.arange(processors)
    steps = [(here, (here + 1) % processors, SIZE / processors)] * (2 * (processors - 1))
    expected = 2 * (processors - 1) * (ALPHA + SIZE / (processors * BANDWIDTH))
    assert time_of_steps(model(ring(processors, LINK)), steps) == pytest.approx(expected, rel=1e-9)


@EXACT
@pytest.mark.parametrize("processors", [3, 8, 33])
def test_bidirectional_ring_all_reduce(model: Callable[[Topology], Network], processors: int) -> None:
    here = np.arange(processors)
    both = np.concatenate([(here + 1) % processors, (here - 1) % processors])
    steps = [(np.tile(here, 2), both, SIZE / (2 * processors))] * (2 * (processors - 1))
    expected = 2 * (processors - 1) * (ALPHA + SIZE / (2 * processors * BANDWIDTH))
    assert time_of_steps(model(ring(processors, LINK)), steps) == pytest.approx(expected, rel=1e-9)


@EXACT
@pytest.mark.parametrize("width", [3, 4, 8])
def test_torus_all_reduce_over_all_four_links(model: Callable[[Topology], Network], width: int) -> None:
    processors = width * width
    time = time_of_steps(model(torus([width, width], [LINK, LINK])), _torus_all_reduce(width))
    expected = 4 * (width - 1) * ALPHA + 2 * SIZE * (processors - 1) / processors / (4 * BANDWIDTH)
    assert time == pytest.approx(expected, rel=1e-9)


def _torus_all_reduce(width: int) -> Iterator[Step]:
    """Two streams of half the size, one along x first and one along y first, each both ways round."""
    here = np.arange(width * width)
    x, y = here % width, here // width
    along_x = [y * width + (x + sign) % width for sign in (1, -1)]
    along_y = [(y + sign) % width * width + x for sign in (1, -1)]
    sources, destinations = np.tile(here, 4), np.concatenate([*along_x, *along_y])
    scatter = [SIZE / 4 / width] * (width - 1) + [SIZE / 4 / width**2] * (width - 1)
    # Both streams have the same sizes at the same time; only their dimensions are swapped.
    yield from ((sources, destinations, size) for size in scatter + scatter[::-1])


@EXACT
@COUNTS
def test_direct_all_to_all_on_a_switch(model: Callable[[Topology], Network], processors: int) -> None:
    here = np.arange(processors)
    steps = [(here, (here + shift) % processors, SIZE / processors) for shift in range(1, processors)]
    port = Link(bandwidth=BANDWIDTH, latency=ALPHA / 2)
    hops = 2 if model is FifoNetwork else 1  # Store and forward takes the bandwidth term on every link.
    expected = (processors - 1) * (ALPHA + hops * SIZE / (processors * BANDWIDTH))
    assert time_of_steps(model(switch(processors, port)), steps) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("processors", [4, 8, 16])
def test_all_to_all_on_a_bidirectional_ring_against_the_cut(processors: int) -> None:
    sources, destinations = np.indices((processors, processors)).reshape(2, -1)
    link = Link(bandwidth=BANDWIDTH, latency=0.0)
    time = delivered(FlowNetwork(ring(processors, link)), sources, destinations, SIZE / processors).max()
    bound = processors * SIZE / (8 * BANDWIDTH)
    assert time >= bound
    # Messages half-way round all go clockwise: on a clockwise link 1 + 2 + … + n/2 of them meet.
    load = processors / 4 * (processors / 2 + 1)
    assert time == pytest.approx(load * SIZE / processors / BANDWIDTH, rel=1e-9)


@pytest.mark.parametrize("oversubscription", [1, 2, 4])
def test_oversubscription_slows_what_crosses_leaves(oversubscription: int) -> None:
    link = Link(bandwidth=BANDWIDTH, latency=0.0)
    topology = leaf_spine(4, 8, 8 // oversubscription, link=link, uplink=link, routing="spray")
    here = np.arange(32)
    time = delivered(FlowNetwork(topology), here, (here + 8) % 32, SIZE).max()
    assert time == pytest.approx(oversubscription * SIZE / BANDWIDTH, rel=1e-9)
