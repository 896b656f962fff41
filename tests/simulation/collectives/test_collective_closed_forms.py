"""Closed forms against the schedules, run without contention, and against the textbook."""

from __future__ import annotations

from math import ceil, log2

import pytest
from collective_execution import OTHERS, grids, lines, makespan, nodes, others
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign_opt.errors import InputError
from codesign_opt.simulation.collectives import ALGORITHMS, closed_form, rounds

SIZE, ALPHA, RATE, REDUCTION = 1.2e6, 3e-6, 5e10, 7e-5

FAMILIES = {
    "lines": lines(shuffled=False),
    "grids": grids(whole=True),
    "nodes": nodes(whole=True),
    **{f"{opcode} {algorithm}": others(opcode, algorithm, option) for opcode, algorithm, option in OTHERS},
}


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=20)
@given(data=st.data())
def test_equal_to_the_schedule_without_contention(family: str, data: st.DataObject) -> None:
    case = data.draw(FAMILIES[family])
    seconds = closed_form(
        case.opcode,
        case.algorithm,
        members=len(case.processors),
        size=SIZE,
        latency=ALPHA,
        bandwidth=RATE,
        options=case.options,
        reduction_seconds=REDUCTION,
    )
    simulated = makespan(case.schedule(SIZE), latency=ALPHA, bandwidth=RATE, reduction_seconds=REDUCTION)
    assert seconds == pytest.approx(simulated, rel=1e-9)


@pytest.mark.parametrize("n", [2, 3, 8, 64])
def test_the_textbook(n: int) -> None:
    def seconds(opcode: str, algorithm: str, **options: object) -> float:
        return closed_form(opcode, algorithm, members=n, size=SIZE, latency=ALPHA, bandwidth=RATE, options=options)

    beta = SIZE / RATE
    assert seconds("all-reduce", "unidir-ring") == pytest.approx(2 * (n - 1) * (ALPHA + beta / n))
    assert seconds("all-reduce", "bidir-ring") == pytest.approx(2 * (n - 1) * (ALPHA + beta / (2 * n)))
    assert seconds("all-gather", "mesh-1d") == pytest.approx((n - 1) * (ALPHA + beta / n))
    assert seconds("all-to-all", "direct") == pytest.approx((n - 1) * (ALPHA + beta / n))
    assert seconds("all-to-all", "direct", window=n) == pytest.approx(ALPHA + beta / n)
    assert seconds("all-to-all", "ring") == pytest.approx((n - 1) * ALPHA + beta * (n - 1) / 2)
    assert seconds("all-reduce", "dissemination") == pytest.approx(ceil(log2(n)) * (ALPHA + beta))
    assert seconds("broadcast", "binomial") == pytest.approx(ceil(log2(n)) * (ALPHA + beta))
    assert seconds("broadcast", "scatter-all-gather") == pytest.approx(2 * (n - 1) * (ALPHA + beta / n))
    assert seconds("barrier", "centralized") == pytest.approx(2 * ALPHA)
    assert seconds("all-reduce", "null") == 0
    if n & (n - 1) == 0:
        expected = 2 * log2(n) * ALPHA + 2 * beta * (n - 1) / n
        assert seconds("all-reduce", "halving-doubling") == pytest.approx(expected)


@pytest.mark.parametrize(("width", "height"), [(4, 4), (8, 2), (3, 5)])
def test_a_torus_uses_all_four_links(width: int, height: int) -> None:
    n = width * height
    seconds = closed_form(
        "all-reduce", "torus-2d", members=n, size=SIZE, latency=ALPHA, bandwidth=RATE,
        options={"dimension_widths": [width, height]},
    )  # fmt: skip
    bandwidth_term = 2 * SIZE * (n - 1) / n / (4 * RATE)
    assert seconds == pytest.approx(2 * (width + height - 2) * ALPHA + bandwidth_term)


def test_nodes_have_their_own_network() -> None:
    seconds = closed_form(
        "all-reduce", "hierarchical", members=32, size=SIZE, latency=ALPHA, bandwidth=RATE,
        options={"node_size": 8}, inside_latency=ALPHA / 10, inside_bandwidth=8 * RATE,
    )  # fmt: skip
    inside = 2 * 7 * (ALPHA / 10 + SIZE / 8 / (8 * RATE))
    rails = 2 * 3 * (ALPHA + SIZE / 8 / 4 / RATE)
    assert seconds == pytest.approx(inside + rails)


def test_every_algorithm_has_rounds() -> None:
    options = {"dimension_widths": [4, 2], "node_size": 4}
    for opcode, algorithms in ALGORITHMS.items():
        for name, algorithm in algorithms.items():
            given_options = {option.name: options[option.name] for option in algorithm.options if option.required}
            steps = rounds(opcode, name, members=8, size=SIZE, options=given_options)
            assert (not steps) == (name == "null")


@pytest.mark.parametrize(
    ("algorithm", "options", "message"),
    [
        ("halving-doubling", {}, "power of two"),
        ("torus-2d", {"dimension_widths": [2, 2]}, "whole system"),
        ("hierarchical", {"node_size": 4}, "fill all nodes"),
    ],
)
def test_numbers_of_members_that_do_not_fit(algorithm: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        closed_form("all-reduce", algorithm, members=6, size=SIZE, latency=ALPHA, bandwidth=RATE, options=options)
