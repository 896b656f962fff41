from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from network_cases import delivered, golden

from codesign_opt.simulation.networks import FifoNetwork
from codesign_opt.simulation.topologies import Link, Topology, full_mesh, line, ring, switch

LINK = Link(bandwidth=10.0, latency=0.5)
CASES = golden("network_fifo_store_and_forward")


def topology_of_case(case: dict[str, Any]) -> Topology:
    link = Link(bandwidth=case["bandwidth_GBps"] * 2**30, latency=case["latency_ns"] * 1e-9)
    if case["topology"] == "Ring":
        return ring(case["npus"], link, bidirectional=case["bidirectional"])
    return {"Switch": switch, "FullyConnected": full_mesh}[case["topology"]](case["npus"], link)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['topology']} {case['npus']} {case['final_ns']}")
def test_golden_arrivals_to_the_nanosecond(case: dict[str, Any]) -> None:
    processors = range(case["npus"])
    every = [[source, destination, 2**20, None] for source in processors for destination in processors]
    messages = case.get("messages_src_dst_bytes_arrival_ns") or [row for row in every if row[0] != row[1]]
    sources, destinations, sizes, arrivals = zip(*messages, strict=True)
    network = FifoNetwork(topology_of_case(case), whole_nanoseconds=True)
    times = delivered(network, sources, destinations, np.array(sizes, dtype=float)) * 1e9
    nanoseconds = np.rint(times).astype(int)
    np.testing.assert_allclose(times, nanoseconds, rtol=0, atol=1e-6)
    assert nanoseconds.max() == case["final_ns"]
    if arrivals[0] is not None:
        assert nanoseconds.tolist() == list(arrivals)


@pytest.mark.parametrize("case", CASES[:5], ids=lambda case: f"{case['topology']} {case['npus']} {case['final_ns']}")
def test_exact_times_are_within_the_cut_nanoseconds(case: dict[str, Any]) -> None:
    sources, destinations, sizes, arrivals = zip(*case["messages_src_dst_bytes_arrival_ns"], strict=True)
    times = delivered(FifoNetwork(topology_of_case(case)), sources, destinations, np.array(sizes, dtype=float)) * 1e9
    # A message waits for at most all others, and each loses less than a nanosecond on each of at most seven links.
    assert (np.abs(times - arrivals) < 8 * len(sizes)).all()


def test_a_message_is_stored_on_every_link() -> None:
    assert delivered(FifoNetwork(line(4, LINK)), [0], [3], [20.0]).tolist() == [3 * (2.0 + 0.5)]


def test_messages_on_one_link_take_turns_in_the_order_of_posting() -> None:
    times = delivered(FifoNetwork(line(2, LINK)), [0, 0, 0], [1, 1, 1], [20.0, 5.0, 10.0])
    assert times.tolist() == [2.5, 3.0, 4.0]


def test_the_first_to_arrive_goes_first() -> None:
    # 0 → 2 reaches node 1 at 2.5; what node 1 posts at 2.4 for 2 is before it, what it posts at 2.6 behind it.
    network = FifoNetwork(line(3, LINK))
    long, short = network.classes([0, 1], [2, 2]).tolist()
    network.post(0.0, long, 20.0)
    network.post(2.4, short, 10.0)
    network.post(2.6, short, 10.0)
    times = {delivery.message: delivery.delivered for delivery in network.advance(math.inf)}
    assert times == pytest.approx({1: 2.4 + 1.0 + 0.5, 0: 3.4 + 2.0 + 0.5, 2: 5.4 + 1.0 + 0.5}, rel=1e-12)


def test_a_message_has_left_when_the_first_link_has_sent_it() -> None:
    network = FifoNetwork(line(3, LINK))
    [route_class] = network.classes([0], [2]).tolist()
    network.post(1.0, route_class, 20.0)
    [delivery] = network.advance(math.inf)
    assert (delivery.drained, delivery.delivered) == (3.0, 6.0)


def test_driving_it_event_by_event_changes_nothing() -> None:
    topology = switch(6, LINK)
    sources, destinations = np.indices((6, 6)).reshape(2, -1)
    sizes = 1.0 + np.arange(36) % 5
    at_once = delivered(FifoNetwork(topology), sources, destinations, sizes)
    network = FifoNetwork(topology)
    for route_class, size in zip(network.classes(sources, destinations).tolist(), sizes.tolist(), strict=True):
        network.post(0.0, route_class, size)
    times = {}
    while (moment := network.next_completion()) < math.inf:
        for delivery in network.advance(moment):
            assert delivery.delivered >= moment
            times[delivery.message] = delivery.delivered
    assert [times[message] for message in range(36)] == at_once.tolist()


def test_no_bytes_and_no_links() -> None:
    network = FifoNetwork(line(3, LINK))
    assert delivered(network, [0, 1], [2, 1], [0.0, 100.0]).tolist() == [1.0, 0.0]


def test_time_only_moves_forward() -> None:
    network = FifoNetwork(line(2, LINK))
    [route_class] = network.classes([0], [1]).tolist()
    network.post(5.0, route_class, 10.0)
    network.advance(5.0)
    with pytest.raises(ValueError, match=r"past 4\.0 s"):
        network.post(4.0, route_class, 10.0)


@pytest.mark.parametrize("whole_nanoseconds", [False, True])
def test_link_statistics(whole_nanoseconds: bool) -> None:
    network = FifoNetwork(line(3, Link(bandwidth=1e9, latency=0.0)), whole_nanoseconds=whole_nanoseconds)
    delivered(network, [0, 1], [2, 2], [3000.0, 5000.0])
    statistics = network.link_statistics()
    assert statistics.bytes.tolist() == [3000.0, 8000.0, 0.0, 0.0]
    assert statistics.busy.tolist() == pytest.approx([3e-6, 8e-6, 0.0, 0.0], rel=1e-12)
    assert statistics.peak.tolist() == pytest.approx([1e9, 1e9, 0.0, 0.0], rel=1e-12)


@given(st.lists(st.tuples(*[st.integers(0, 7)] * 2, st.floats(0.1, 50.0)), min_size=1, max_size=30))
def test_links_carry_every_message_once_and_are_never_faster_than_their_capacity(
    messages: list[tuple[int, int, float]],
) -> None:
    topology = ring(8, LINK)
    network = FifoNetwork(topology)
    sources, destinations, sizes = (np.array(column) for column in zip(*messages, strict=True))
    times = delivered(network, sources, destinations, sizes)
    routes = topology.routes(sources, destinations)
    load = np.bincount(routes.values, np.repeat(sizes, np.diff(routes.offsets)), minlength=topology.links)
    np.testing.assert_allclose(network.link_statistics().bytes, load)
    assert load.max() / 10.0 <= times.max() * (1 + 1e-12)
    alone = np.diff(routes.offsets) * (sizes / 10.0 + 0.5)
    assert (times >= alone * (1 - 1e-12)).all()
