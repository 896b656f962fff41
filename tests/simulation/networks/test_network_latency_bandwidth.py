from __future__ import annotations

import math

import numpy as np
import pytest
from network_cases import delivered

from codesign_opt.simulation.networks import LatencyBandwidthNetwork, astra_sim_nanoseconds, message_times
from codesign_opt.simulation.topologies import Link, full_mesh, line, product, ring, switch
from codesign_opt.simulation.topologies.files import astra_sim_blocks

LINK = Link(bandwidth=10.0, latency=0.5)


def test_hops_times_latency_and_bytes_over_bandwidth() -> None:
    assert message_times(ring(8, LINK), [0, 0, 0, 3], [3, 7, 4, 3], 20.0).tolist() == [3.5, 2.5, 4.0, 0.0]


def test_the_slowest_link_counts() -> None:
    topology = product([line(3, LINK), line(2, Link(bandwidth=4.0, latency=0.25))])
    assert message_times(topology, [0], [5], [8.0]).tolist() == [2 * 0.5 + 0.25 + 8.0 / 4.0]


def test_messages_do_not_share() -> None:
    network = LatencyBandwidthNetwork(line(2, LINK))
    assert delivered(network, [0] * 5, [1] * 5, [10.0] * 5).tolist() == [1.5] * 5


def test_a_delivery_is_known_when_the_message_is_posted() -> None:
    network = LatencyBandwidthNetwork(line(2, LINK))
    [route_class] = network.classes([0], [1]).tolist()
    assert network.next_completion() == math.inf
    assert network.post(2.0, route_class, 10.0) == 0
    assert network.post(3.0, route_class, 20.0) == 1
    assert network.next_completion() == 2.0
    assert network.advance(2.5) == [(0, 3.0, 3.5)]
    assert network.advance(3.0) == [(1, 5.0, 5.5)]
    with pytest.raises(ValueError, match=r"past 1\.0 s"):
        network.post(1.0, route_class, 10.0)


NETWORK = {"topology": ["Ring", "Switch"], "npus_count": [8, 4], "bandwidth": [50, 100], "latency": [500, 700]}


def test_astra_sims_form() -> None:
    blocks = astra_sim_blocks(NETWORK, where="test")
    size = 1_000_000
    # Ring: the shorter way round. Switch: two hops. 1 GB/s is 2^30 bytes/s; whole nanoseconds, cut.
    ring_bytes, switch_bytes = size / (50 * 2**30 / 1e9), size / (100 * 2**30 / 1e9)
    times = astra_sim_nanoseconds(blocks, [0, 0, 2, 0], [3, 6, 2 + 16, 0], size)
    assert times.tolist() == [int(3 * 500 + ring_bytes), int(2 * 500 + ring_bytes), int(2 * 700 + switch_bytes), 0]
    # Along the first dimension in which the ends differ, and no other.
    assert astra_sim_nanoseconds(blocks, [0], [1 + 8], size).tolist() == [int(500 + ring_bytes)]


def test_astra_sims_form_on_latencies_that_are_whole_nanoseconds() -> None:
    for latency in range(1, 2000, 7):
        link = Link(bandwidth=2.0**30, latency=latency * 1e-9)
        assert astra_sim_nanoseconds([full_mesh(3, link)], [0], [1], 0.0).tolist() == [latency]
        assert astra_sim_nanoseconds([switch(3, link)], [0], [1], 0.0).tolist() == [2 * latency]


def test_many_at_once() -> None:
    sources, destinations = np.indices((8, 8)).reshape(2, -1)
    times = message_times(ring(8, LINK), sources, destinations, 5.0)
    hops = np.minimum((destinations - sources) % 8, (sources - destinations) % 8)
    np.testing.assert_allclose(times, np.where(hops, hops * 0.5 + 0.5, 0.0))
