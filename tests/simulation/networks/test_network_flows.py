from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_cases import delivered, golden, numbered, time_of_steps

from codesign_opt.graphs import Ragged
from codesign_opt.simulation.networks import (
    FlowNetwork,
    allocation,
    certificate,
    flow_completion_times,
    flows,
    max_min_rates,
)
from codesign_opt.simulation.topologies import Link, bare_links, leaf_spine, line, ring, switch, torus

LINK = Link(bandwidth=10.0, latency=0.5)


@pytest.mark.parametrize("case", golden("network_max_min_fct"), ids=lambda case: case["name"])
def test_golden_completion_times(case: dict) -> None:
    capacity, routes = numbered(case)
    times = flow_completion_times(capacity, routes, case["bytes"], case["start"])
    np.testing.assert_allclose(times, [float(Fraction(time)) for time in case["finish_exact"]], rtol=1e-15, atol=0)


def test_a_single_flow_takes_its_bytes_over_the_bandwidth_and_the_latencies() -> None:
    network = FlowNetwork(line(4, LINK))
    assert delivered(network, [0], [3], [25.0]).tolist() == [2.5 + 3 * 0.5]


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_equal_flows_on_one_link_finish_together(count: int) -> None:
    network = FlowNetwork(line(2, LINK))
    times = delivered(network, [0] * count, [1] * count, [4.0] * count)
    np.testing.assert_allclose(times, count * 0.4 + 0.5, rtol=1e-13)


def test_the_slowest_link_counts() -> None:
    times = flow_completion_times([10.0, 2.0, 5.0], Ragged.from_lists([[0, 1, 2]]), [8.0], latency=[0.25, 0.5, 1.0])
    assert times.tolist() == [8.0 / 2.0 + 1.75]


def test_no_bytes_take_the_latency_only() -> None:
    network = FlowNetwork(line(4, LINK))
    assert delivered(network, [0, 0], [3, 3], [0.0, 10.0]).tolist() == [1.5, 2.5]


def test_a_message_to_oneself_takes_no_time() -> None:
    network = FlowNetwork(line(4, LINK))
    assert delivered(network, [2], [2], [1e9]).tolist() == [0.0]


def test_overheads_come_before_and_after() -> None:
    network = FlowNetwork(line(2, LINK), send_overhead=1.0, receive_overhead=2.0)
    network.post(3.0, int(network.classes(0, 1)[0]), 20.0)
    assert network.next_completion() == 4.0
    assert network.advance(4.0) == []
    assert network.next_completion() == 6.0
    [delivery] = network.advance(math.inf)
    assert (delivery.message, delivery.drained, delivery.delivered) == (0, 6.0, 6.0 + 0.5 + 2.0)


def test_flows_of_one_class_that_start_at_different_times() -> None:
    # 100 bytes from 0, 50 bytes from 2 on one link of 10: both at 5 from 2; the short one has drained at 12.
    network = FlowNetwork(line(2, Link(bandwidth=10.0, latency=0.0)))
    [route_class] = network.classes([0], [1]).tolist()
    network.post(0.0, route_class, 100.0)
    assert network.rates() == {route_class: 10.0}
    network.post(2.0, route_class, 50.0)
    assert network.rates() == {route_class: 5.0}
    assert [(delivery.message, delivery.drained) for delivery in network.advance(math.inf)] == [(1, 12.0), (0, 15.0)]


def test_what_ends_together_is_reported_together_in_the_order_of_posting() -> None:
    processors = 96
    network = FlowNetwork(ring(processors, LINK))
    here = np.arange(processors)[::-1]
    for route_class in network.classes(here, (here + 1) % processors).tolist():
        network.post(0.0, route_class, 3.0)
    moment = network.next_completion()
    deliveries = network.advance(moment)
    assert [delivery.message for delivery in deliveries] == list(range(processors))
    assert {delivery.drained for delivery in deliveries} == {0.3}
    assert network.next_completion() == math.inf


def test_time_only_moves_forward() -> None:
    network = FlowNetwork(line(2, LINK))
    [route_class] = network.classes([0], [1]).tolist()
    network.post(5.0, route_class, 10.0)
    with pytest.raises(ValueError, match=r"not 4\.0 s"):
        network.post(4.0, route_class, 10.0)
    with pytest.raises(ValueError, match=r"acts at 6\.0 s, not 7\.0 s"):
        network.post(7.0, route_class, 10.0)
    network.advance(7.0)
    network.post(7.0, route_class, 10.0)


@pytest.mark.parametrize("cohort_from", [1, 1000])
def test_link_statistics(cohort_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "_COHORT", cohort_from)
    # 0 → 2 over both links and 1 → 2 on the second: 5 each until 30 bytes have drained at 6, then 10 for the last 20.
    network = FlowNetwork(line(3, Link(bandwidth=10.0, latency=0.0)))
    long, short = network.classes([0, 1], [2, 2]).tolist()
    network.post(0.0, long, 30.0)
    network.post(0.0, short, 50.0)
    network.advance(6.0)
    network.post(7.0, long, 0.0)
    halfway = network.link_statistics()
    assert halfway.bytes.tolist() == [30.0, 30.0 + 40.0, 0.0, 0.0]
    assert halfway.busy.tolist() == [6.0, 7.0, 0.0, 0.0]
    assert halfway.peak.tolist() == [5.0, 10.0, 0.0, 0.0]
    network.advance(math.inf)
    end = network.link_statistics()
    assert end.bytes.tolist() == [30.0, 80.0, 0.0, 0.0]
    assert end.busy.tolist() == [6.0, 8.0, 0.0, 0.0]


def test_a_step_taken_together_is_what_its_flows_are_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = leaf_spine(6, 8, 4, link=LINK, uplink=LINK)
    here = np.arange(48)
    for sizes in (np.full(48, 7.0), 1.0 + here % 5):
        outcomes = []
        for cohort_from in (1, 1000):
            monkeypatch.setattr(flows, "_COHORT", cohort_from)
            network = FlowNetwork(topology)
            times = [delivered(network, here, (here + 19) % 48, sizes)]
            # A second step starts while the first message of a third is under way.
            start = times[0].max()
            network.post(start, int(network.classes(0, 47)[0]), 20.0)
            network.advance(start + 0.25)
            for route_class, size in zip(network.classes(here, (here + 5) % 48).tolist(), sizes.tolist(), strict=True):
                network.post(start + 0.25, route_class, size)
            halfway = network.link_statistics()
            times.append(np.array([delivery.delivered for delivery in sorted(network.advance(math.inf))]))
            outcomes.append((*times, *vars(halfway).values(), *vars(network.link_statistics()).values()))
        for together, one_by_one in zip(*outcomes, strict=True):
            np.testing.assert_allclose(together, one_by_one, rtol=1e-12, atol=1e-12)


def test_a_cohort_is_left_when_more_is_posted_or_a_flow_ends_that_held_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "_COHORT", 1)
    # Three flows on a link of 9: 3 each until the first has drained 3 at 1; then 4.5 for the others.
    network = FlowNetwork(line(2, Link(bandwidth=9.0, latency=0.0)))
    [route_class] = network.classes([0], [1]).tolist()
    for size in (3.0, 12.0, 12.0):
        network.post(0.0, route_class, size)
    assert network.rates() == {route_class: 3.0}
    assert [delivery.drained for delivery in network.advance(1.0)] == [1.0]
    assert network.rates() == {route_class: 4.5}
    assert network.next_completion() == 3.0
    # One more at 2: 3 each again. 4.5 bytes remain of the two at 2, and take until 3.5; then all for the last.
    network.post(2.0, route_class, 9.0)
    ends = [(delivery.message, delivery.drained) for delivery in network.advance(math.inf)]
    assert ends == [(1, 3.5), (2, 3.5), (3, 4.0)]
    assert network.link_statistics().bytes.tolist() == [36.0, 0.0]
    assert network.link_statistics().busy.tolist() == [4.0, 0.0]


def test_statistics_count_bytes_of_classes_whose_state_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "_KEPT", 0)
    network = FlowNetwork(switch(4, LINK))
    shifts = [(np.arange(4), (np.arange(4) + shift) % 4, 5.0) for shift in (1, 2, 3, 1)]
    time_of_steps(network, shifts)
    assert network.link_statistics().bytes.tolist() == [20.0] * 8


# Random networks


@st.composite
def _histories(draw: st.DrawFn) -> tuple[list[float], list[list[int]], list[float], list[float], list[tuple]]:
    """Capacities; routes with caps and weights; posts with the time since the last one, class and size."""
    capacity = draw(st.lists(st.sampled_from([1.0, 2.0, 3.0, 7.5, 10.0]), min_size=1, max_size=8))
    route = st.lists(st.integers(0, len(capacity) - 1), min_size=1, max_size=4, unique=True)
    routes = draw(st.lists(route, min_size=1, max_size=20))
    caps = [draw(st.sampled_from([math.inf, math.inf, 0.5, 4.0])) for _ in routes]
    weights = [draw(st.sampled_from([1.0, 1.0, 2.0, 0.5])) for _ in routes]
    post = st.tuples(
        st.sampled_from([0.0, 0.0, 0.1, 1.0, 3.0]),
        st.integers(0, len(routes) - 1),
        st.sampled_from([0.1, 1.0, 2.0, 5.5]),
    )
    return capacity, routes, caps, weights, draw(st.lists(post, min_size=1, max_size=40))


@pytest.mark.parametrize(("vectorised_from", "rounds"), [(1, 4), (6, 4), (1000, 4), (1000, 1)])
def test_rates_are_proven_after_every_event(vectorised_from: int, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept up to date is what a solution from scratch gives: by objects, by arrays, by whole components."""
    monkeypatch.setattr(allocation, "_VECTORISED", vectorised_from)
    monkeypatch.setattr(allocation, "_ROUNDS", rounds)

    @given(_histories())
    def check(history: tuple) -> None:
        capacity, routes, caps, weights, posts = history
        network = FlowNetwork(bare_links(capacity))
        network.add_routes(Ragged.from_lists(routes), caps=caps, weights=weights)
        pending: dict[int, int] = {}
        time = 0.0
        for gap, route_class, size in posts:
            for moment in (network.next_completion(), time + gap):
                for delivery in network.advance(min(moment, time + gap)):
                    del pending[delivery.message]
                check_rates(network, capacity, routes, caps, weights, list(pending.values()))
            time += gap
            pending[network.post(time, route_class, size)] = route_class
            check_rates(network, capacity, routes, caps, weights, list(pending.values()))
        assert len(network.advance(math.inf)) == len(pending)

    check()


def check_rates(
    network: FlowNetwork,
    capacity: list[float],
    routes: list[list[int]],
    caps: list[float],
    weights: list[float],
    classes: list[int],
) -> None:
    rates = network.rates()
    assert set(rates) == set(classes)
    present = Ragged.from_lists([routes[number] for number in classes])
    limits = {
        "caps": [caps[number] for number in classes],
        "weights": [weights[number] for number in classes],
    }
    of_flows = np.array([rates[number] for number in classes])
    assert certificate(capacity, present, of_flows, **limits).all()
    np.testing.assert_allclose(of_flows, max_min_rates(capacity, present, **limits), rtol=1e-12)


@st.composite
def _flows(draw: st.DrawFn) -> tuple[list[float], list[list[int]], list[float], list[float]]:
    capacity = draw(st.lists(st.sampled_from([1.0, 2.0, 4.0, 10.0]), min_size=1, max_size=6))
    route = st.lists(st.integers(0, len(capacity) - 1), min_size=1, max_size=4, unique=True)
    routes = draw(st.lists(route, min_size=1, max_size=12))
    sizes = [draw(st.sampled_from([0.0, 1.0, 3.0, 10.0])) for _ in routes]
    return capacity, routes, sizes, [draw(st.sampled_from([0.0, 0.0, 1.0, 2.5])) for _ in routes]


@pytest.mark.parametrize("cohort_from", [1, 1000])
def test_completion_times_are_those_of_the_plain_simulation(cohort_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "_COHORT", cohort_from)

    @given(_flows())
    def check(instance: tuple) -> None:
        capacity, routes, sizes, starts = instance
        times = flow_completion_times(capacity, Ragged.from_lists(routes), sizes, starts)
        np.testing.assert_allclose(times, plain_completion_times(*instance), rtol=1e-10)

    check()


def plain_completion_times(
    capacity: list[float], routes: list[list[int]], sizes: list[float], starts: list[float]
) -> list[float]:
    """Everything anew at every event, no classes, no components."""
    left = dict(enumerate(sizes))
    ends = [0.0] * len(routes)
    time = 0.0
    while left:
        active = [flow for flow in left if starts[flow] <= time]
        rates = max_min_rates(capacity, Ragged.from_lists([routes[flow] for flow in active]))
        spans = [left[flow] / rate for flow, rate in zip(active, rates, strict=True)]
        spans += [starts[flow] - time for flow in left if starts[flow] > time]
        span = min(spans)
        for flow, rate in zip(active, rates, strict=True):
            left[flow] -= span * rate
            if left[flow] <= 1e-12 * sizes[flow]:
                del left[flow]
                ends[flow] = time + span
        time += span
    return ends


@given(_flows(), st.randoms(use_true_random=False))
def test_numbers_of_flows_do_not_matter(instance: tuple, random: object) -> None:
    capacity, routes, sizes, starts = instance
    order = random.sample(range(len(routes)), len(routes))  # type: ignore[attr-defined]
    times = flow_completion_times(capacity, Ragged.from_lists(routes), sizes, starts)
    routes, sizes, starts = ([column[flow] for flow in order] for column in (routes, sizes, starts))
    permuted = flow_completion_times(capacity, Ragged.from_lists(routes), sizes, starts)
    np.testing.assert_allclose(permuted, times[order], rtol=1e-12)


@given(st.lists(st.tuples(*[st.integers(0, 15)] * 2, st.floats(0.0, 50.0)), min_size=1, max_size=40), st.data())
def test_no_cut_is_crossed_faster_than_its_capacity(
    messages: list[tuple[int, int, float]], data: st.DataObject
) -> None:
    topology = torus([4, 4], [LINK, Link(bandwidth=3.0, latency=0.25)])
    sources, destinations, sizes = (np.array(column) for column in zip(*messages, strict=True))
    last = delivered(FlowNetwork(topology), sources, destinations, sizes).max()
    for _ in range(5):
        side = np.array(data.draw(st.lists(st.booleans(), min_size=16, max_size=16)))
        across = sizes[side[sources] & ~side[destinations]].sum()
        capacity = topology.capacity[side[topology.tail] & ~side[topology.head]].sum()
        assert across <= last * capacity * (1 + 1e-9)


@settings(max_examples=20)
@given(st.lists(st.tuples(st.floats(1.0, 50.0), st.floats(0.0, 5.0)), min_size=1, max_size=12), st.floats(1.0, 4.0))
def test_more_capacity_or_less_traffic_is_never_slower_on_a_single_bottleneck(
    flows_there: list[tuple[float, float]], factor: float
) -> None:
    sizes, starts = (np.array(column) for column in zip(*flows_there, strict=True))
    routes = Ragged.from_lists([[0]] * len(sizes))
    times = flow_completion_times([10.0], routes, sizes, starts)
    wider = flow_completion_times([10.0 * factor], routes, sizes, starts)
    lighter = flow_completion_times([10.0], routes, sizes / factor, starts)
    assert (wider <= times * (1 + 1e-12)).all()
    assert (lighter <= times * (1 + 1e-12)).all()


# Repeatability

_PROGRAM = """
import math
import numpy as np
from codesign_opt.simulation.networks import FlowNetwork
from codesign_opt.simulation.topologies import Link, leaf_spine

link, uplink = Link(bandwidth=50.0, latency=1.0), Link(bandwidth=60.0, latency=1.0)
network = FlowNetwork(leaf_spine(6, 8, 4, link=link, uplink=uplink))
here = np.arange(48)
sizes = np.random.default_rng(1).uniform(1, 2, 48)
for shift in (5, 11, 23):
    for route_class, size in zip(network.classes(here, (here + shift) % 48), sizes):
        network.post(0.0, int(route_class), float(size))
print([(delivery.message, delivery.delivered.hex()) for delivery in network.advance(math.inf)])
"""


def test_the_same_bytes_come_out_whatever_the_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "12345")
    }
    assert len(outputs) == 1
    assert outputs.pop().count(b"0x") == 3 * 48


def test_steps_that_repeat_take_as_long_every_time() -> None:
    topology = leaf_spine(8, 8, 4, link=LINK, uplink=LINK)
    here = np.arange(64)
    network = FlowNetwork(topology)
    ends = []
    for _ in range(3):
        start = ends[-1] if ends else 0.0
        for route_class in network.classes(here, (here + 19) % 64).tolist():
            network.post(start, route_class, 7.0)
        ends.append(max(delivery.delivered for delivery in network.advance(math.inf)))
    np.testing.assert_allclose(np.diff(ends), ends[0], rtol=1e-12)
