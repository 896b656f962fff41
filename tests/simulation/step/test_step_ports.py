"""Ports that transfers share: by hand, and against the general network of flows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign_opt.graphs import Ragged
from codesign_opt.simulation.networks import flow_completion_times, max_min_rates
from codesign_opt.simulation.step.ports import PortNetwork, TransferKind

PORTS = 6


def drive(
    network: PortNetwork, kinds: Sequence[int], sizes: Sequence[float], starts: Sequence[float]
) -> tuple[list[float], list[float]]:
    """When each transfer leaves its sender, and when it arrives; transfers are posted in the order of their starts."""
    deliveries = []
    order = sorted(range(len(starts)), key=lambda number: starts[number])
    for number in order:
        deliveries += network.advance(starts[number])
        network.post(starts[number], kinds[number], sizes[number])
    while network.next_completion() < math.inf:
        deliveries += network.advance(network.next_completion())
    assert len(deliveries) == len(starts)
    left, arrived = [0.0] * len(starts), [0.0] * len(starts)
    for delivery in deliveries:
        left[order[delivery.message]], arrived[order[delivery.message]] = delivery.drained, delivery.delivered
    return left, arrived


def network(*ports: tuple[int, ...], pace: float = 1.0, latency: float = 0.0, held: bool = False) -> PortNetwork:
    """A kind of transfers for each tuple of ports."""
    return PortNetwork([TransferKind(of, pace, latency, held) for of in ports], PORTS)


@st.composite
def transfers(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[float], list[float]]:
    """Ports, sizes and starts of some transfers."""
    count = draw(st.integers(1, 12))
    ports = draw(
        st.lists(
            st.tuples(st.integers(0, PORTS // 2 - 1), st.integers(PORTS // 2, PORTS - 1)),
            min_size=count,
            max_size=count,
        )
    )
    seconds = st.floats(0.01, 10.0)
    sizes = draw(st.lists(seconds, min_size=count, max_size=count))
    starts = draw(st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.5, 7.0]), min_size=count, max_size=count))
    return ports, sizes, starts


def test_a_transfer_alone_takes_its_bytes_and_its_latency() -> None:
    left, arrived = drive(network((0, 3), pace=0.25, latency=0.5), [0], [8.0], [1.0])
    assert left == [3.0]
    assert arrived == [3.5]


def test_a_sender_that_is_held_waits_for_the_arrival() -> None:
    left, arrived = drive(network((0, 3), pace=0.25, latency=0.5, held=True), [0], [8.0], [1.0])
    assert left == arrived == [3.5]


def test_latency_does_not_fill_the_port() -> None:
    # The second transfer begins when the first one has left, and is not slowed by what is in flight.
    _, arrived = drive(network((0, 3), latency=10.0), [0, 0], [2.0, 2.0], [0.0, 2.0])
    assert arrived == [12.0, 14.0]


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("shared", ["out", "in", "both"])
def test_equal_transfers_on_one_port_take_so_many_times_as_long(count: int, shared: str) -> None:
    out = [0] * count if shared != "in" else [number % 3 for number in range(count)]
    into = [3] * count if shared != "out" else [3 + number % 3 for number in range(count)]
    chosen = network(*zip(out, into, strict=True))
    left, _ = drive(chosen, list(range(count)), [2.0] * count, [0.0] * count)
    assert left == pytest.approx([2.0 * count] * count, rel=1e-12)


def test_what_ends_at_once_is_delivered_in_order() -> None:
    chosen = network((0, 3), (1, 4), (2, 5))
    for kind in (2, 0, 1):
        chosen.post(0.0, kind, 3.0)
    assert [delivery.message for delivery in chosen.advance(3.0)] == [0, 1, 2]
    assert chosen.next_completion() == math.inf


def test_shares_by_hand() -> None:
    # Two transfers leave port 0, one of them for port 3, where a third arrives from port 1: all get a half. When the
    # first one is through, at 2 s, the other two have their ports for themselves.
    left, _ = drive(network((0, 3), (0, 4), (1, 3)), [0, 1, 2], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0])
    assert left == pytest.approx([2.0, 3.0, 4.0], rel=1e-12)


def test_what_one_port_leaves_another_takes() -> None:
    # Three leave port 0 with a third each; a fourth into the port of one of them takes the two thirds that remain.
    left, _ = drive(network((0, 3), (0, 4), (0, 5), (1, 3)), [0, 1, 2, 3], [1.0] * 4, [0.0] * 4)
    assert left == pytest.approx([3.0, 3.0, 3.0, 1.5], rel=1e-12)


def test_nothing_to_transfer_is_through_at_once() -> None:
    left, arrived = drive(network((0, 3), latency=0.25), [0, 0], [0.0, 4.0], [2.0, 2.0])
    assert left == [2.0, 6.0]
    assert arrived == [2.25, 6.25]


def test_transfers_of_different_pace_share_the_time_of_a_port() -> None:
    # Each gets half of the port; a byte of the second kind takes four times as long.
    chosen = PortNetwork([TransferKind((0, 3), 1.0, 0.0), TransferKind((0, 4), 4.0, 0.0)], PORTS)
    left, _ = drive(chosen, [0, 1], [4.0, 1.0], [0.0, 0.0])
    assert left == pytest.approx([8.0, 8.0], rel=1e-12)


@given(transfers())
def test_rates_are_the_max_min_fair_ones(
    given_transfers: tuple[list[tuple[int, int]], list[float], list[float]],
) -> None:
    ports, _, _ = given_transfers
    rates = max_min_rates(np.ones(PORTS), Ragged.from_lists(ports))
    for probe in range(len(ports)):
        # A transfer of next to nothing is through before any rate changes.
        sizes = [1e-6 if number == probe else 1.0 for number in range(len(ports))]
        left, _ = drive(network(*ports), list(range(len(ports))), sizes, [0.0] * len(ports))
        assert left[probe] == pytest.approx(1e-6 / rates[probe], rel=1e-9)


@given(transfers(), st.sampled_from([0.0, 0.3]))
def test_transfers_end_as_on_a_network_of_flows(
    given_transfers: tuple[list[tuple[int, int]], list[float], list[float]], latency: float
) -> None:
    ports, sizes, starts = given_transfers
    _, arrived = drive(network(*ports, latency=latency), list(range(len(ports))), sizes, starts)
    wanted = flow_completion_times(np.ones(PORTS), Ragged.from_lists(ports), sizes, starts) + latency
    assert arrived == pytest.approx(wanted.tolist(), rel=1e-9)


@given(transfers())
def test_a_port_is_never_filled_faster_than_it_can_be(
    given_transfers: tuple[list[tuple[int, int]], list[float], list[float]],
) -> None:
    ports, sizes, starts = given_transfers
    left, _ = drive(network(*ports), list(range(len(ports))), sizes, starts)
    for port in range(PORTS):
        members = [number for number, of in enumerate(ports) if port in of]
        # What ends by some moment was transferred since the first of it began.
        for last in members:
            by_then = [number for number in members if left[number] <= left[last]]
            begun = min(starts[number] for number in by_then)
            assert sum(sizes[number] for number in by_then) <= (left[last] - begun) * (1 + 1e-9)
    assert all(end >= (start + size) * (1 - 1e-12) for end, start, size in zip(left, starts, sizes, strict=True))


@given(st.lists(st.floats(0.01, 5.0), min_size=1, max_size=8))
def test_a_busy_port_is_never_idle(sizes: list[float]) -> None:
    # The next transfer comes before the one under way is through.
    starts = [0.5 * sum(sizes[:number]) for number in range(len(sizes))]
    left, _ = drive(network((0, 3)), [0] * len(sizes), sizes, starts)
    assert max(left) == pytest.approx(sum(sizes), rel=1e-9)


def test_classes_are_named_by_the_transfers_themselves() -> None:
    assert network((0, 3)).classes([0, 1], [1, 0]).tolist() == [0, 0]
