from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from network_cases import golden, numbered

from codesign_opt.graphs import Ragged
from codesign_opt.simulation.networks import certificate, max_min_rates

Instance = tuple[list[int], list[list[int]], list[int | None], list[int]]


@pytest.mark.parametrize("case", golden("network_max_min"), ids=lambda case: case["name"])
def test_golden_rates(case: dict) -> None:
    capacity, routes = numbered(case)
    rates = max_min_rates(capacity, routes)
    exact = [float(Fraction(rate)) for rate in case["rates_exact"]]
    np.testing.assert_allclose(rates, exact, rtol=1e-15, atol=0)
    assert certificate(capacity, routes, rates).all()


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """Capacities, routes, caps (None for none) and weights."""
    capacity = draw(st.lists(st.integers(1, 20), min_size=1, max_size=8))
    route = st.lists(st.integers(0, len(capacity) - 1), min_size=1, max_size=4, unique=True)
    routes = draw(st.lists(route, min_size=1, max_size=14))
    caps = [draw(st.none() | st.integers(1, 6)) for _ in routes]
    return capacity, routes, caps, [draw(st.integers(1, 4)) for _ in routes]


@given(instances())
def test_rates_are_proven_and_those_of_the_textbook(instance: Instance) -> None:
    capacity, lists, caps, weights = instance
    routes = Ragged.from_lists(lists)
    limits = [np.inf if cap is None else cap for cap in caps]
    rates = max_min_rates(capacity, routes, caps=limits, weights=weights)
    assert certificate(capacity, routes, rates, caps=limits, weights=weights).all()
    np.testing.assert_allclose(rates, [float(rate) for rate in textbook_rates(instance)], rtol=1e-12)


def textbook_rates(instance: Instance) -> list[Fraction]:
    """Raise all levels together; whoever meets a full link, or his cap, stays. One flow at a time, in fractions."""
    capacity, routes, caps, weights = instance
    rates: dict[int, Fraction] = {}
    while len(rates) < len(routes):
        levels = {}
        for link, limit in enumerate(capacity):
            on_link = [flow for flow, route in enumerate(routes) if link in route]
            demand = sum(weights[flow] for flow in on_link if flow not in rates)
            if demand:
                levels[link] = (limit - sum(rates.get(flow, Fraction(0)) for flow in on_link)) / Fraction(demand)
        flow, level = min(
            (
                (flow, min([levels[link] for link in route] + [Fraction(caps[flow] or 10**9, weights[flow])]))
                for flow, route in enumerate(routes)
                if flow not in rates
            ),
            key=lambda pair: pair[1],
        )
        rates[flow] = level * weights[flow]
    return [rates[flow] for flow in range(len(routes))]


@given(instances(), st.floats(0.01, 100.0))
def test_rates_grow_with_all_capacities_together(instance: Instance, factor: float) -> None:
    capacity, lists, _, weights = instance
    routes = Ragged.from_lists(lists)
    rates = max_min_rates(capacity, routes, weights=weights)
    scaled = max_min_rates(np.array(capacity) * factor, routes, weights=weights)
    np.testing.assert_allclose(scaled, rates * factor, rtol=1e-12)


@given(instances(), st.randoms(use_true_random=False))
def test_the_order_of_flows_does_not_matter(instance: Instance, random: object) -> None:
    capacity, lists, _, _ = instance
    order = np.array(random.sample(range(len(lists)), len(lists)))  # type: ignore[attr-defined]
    rates = max_min_rates(capacity, Ragged.from_lists(lists))
    permuted = max_min_rates(capacity, Ragged.from_lists([lists[flow] for flow in order]))
    np.testing.assert_allclose(permuted, rates[order], rtol=1e-13)


def test_a_capped_flow_leaves_the_rest_to_others() -> None:
    routes = Ragged.from_lists([[0], [0]])
    assert max_min_rates([10.0], routes, caps=[2.0, np.inf]).tolist() == [2.0, 8.0]


def test_weights_divide_a_link() -> None:
    routes = Ragged.from_lists([[0], [0]])
    assert max_min_rates([10.0], routes, weights=[1.0, 3.0]).tolist() == [2.5, 7.5]


def test_a_flow_without_links_gets_its_cap() -> None:
    assert max_min_rates([10.0], Ragged.from_lists([[], [0]]), caps=[3.0, np.inf]).tolist() == [3.0, 10.0]


def test_no_flows_no_rates() -> None:
    assert max_min_rates([1.0], Ragged.from_lists([])).tolist() == []


def test_the_certificate_refuses_other_rates() -> None:
    # Flow 0 crosses both links; the second link has 2, so flow 2 can have 1.5.
    capacity, routes = [1.0, 2.0], Ragged.from_lists([[0, 1], [0], [1]])
    assert certificate(capacity, routes, [0.5, 0.5, 1.5]).tolist() == [True, True, True]
    # Feasible but not fair: flow 1 has more than flow 0 on the full link; flow 2 leaves 0.2.
    assert certificate(capacity, routes, [0.4, 0.6, 1.6]).tolist() == [False, True, True]
    assert certificate(capacity, routes, [0.5, 0.5, 1.3]).tolist() == [True, True, False]
    # Too much on the first link, and above a cap.
    assert certificate(capacity, routes, [0.6, 0.6, 1.4]).tolist() == [False, False, True]
    assert certificate([1.0], Ragged.from_lists([[0]]), [1.0], caps=[0.5]).tolist() == [False]
