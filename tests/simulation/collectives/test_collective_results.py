"""Every rank ends with the right vector, whatever the order in which messages travel."""

from __future__ import annotations

from math import lcm
from random import Random

import numpy as np
import pytest
from collective_execution import FAMILIES, run
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign_opt.simulation.collectives import collective_permute, collective_schedule


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=30)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_every_rank_ends_with_the_right_vector(family: str, data: st.DataObject, seed: int) -> None:
    case = data.draw(FAMILIES[family])
    members = len(case.processors)
    points = members * 4 * lcm(1, 2, 3, 4)
    values = np.random.default_rng(seed).integers(1, 1000, (members, points)).astype(float)
    start, expected = ENDS[case.opcode](values)
    end = run(case.schedule(), start, points, Random(seed))
    assert np.array_equal(np.where(np.isnan(expected), 0, end), np.where(np.isnan(expected), 0, expected))


def test_dissemination_adds_some_vectors_twice_unless_the_number_is_a_power_of_two() -> None:
    schedule = collective_schedule("all-reduce", "dissemination", range(3), 1.0)
    end = run(schedule, np.array([[1.0] * 3, [10.0] * 3, [100.0] * 3]), 3, Random(1))
    # Rank 0 gets 10 from rank 1, then from rank 2 its 100 with the 1 that rank 2 had got from rank 0.
    assert end[0].tolist() == [1 + 10 + 100 + 1] * 3


@pytest.mark.parametrize("members", [3, 4, 7])
def test_the_messages_of_the_reference_line_cannot_be_a_reduce_scatter(members: int) -> None:
    """What member 0 has for the n - 1 others would have to cross its link, but one block does."""
    schedule = collective_schedule("reduce-scatter", "mesh-1d", range(members), float(members))
    mirrored = collective_schedule(
        "reduce-scatter", "mesh-1d", range(members), float(members), options={"mirrored": True}
    )
    assert schedule.bytes_out[schedule.rank == 0].sum() == 1
    assert mirrored.bytes_out[mirrored.rank == 0].sum() == members - 1
    assert np.all(schedule.block == -1)
    assert schedule.bytes_out.sum() == mirrored.bytes_out.sum()


@given(st.permutations(range(6)), st.integers(0, 6), st.integers(0, 2**32 - 1))
def test_a_permutation_moves_vectors(targets: list[int], count: int, seed: int) -> None:
    pairs = list(zip(range(10, 10 + count), (10 + target for target in targets), strict=False))
    schedule = collective_permute(pairs, 8.0)
    ranks = {processor: rank for rank, processor in enumerate(schedule.processors.tolist())}
    start = np.full((len(ranks), len(ranks)), np.nan)
    np.fill_diagonal(start, np.arange(len(ranks)))
    end = run(schedule, start, 1, Random(seed))
    for source, target in pairs:
        assert end[ranks[target], ranks[source]] == ranks[source]
    moved = [pair for pair in pairs if pair[0] != pair[1]]
    assert schedule.bytes_out.sum() == schedule.bytes_in.sum() == 8.0 * len(moved)


def _own_piece(values: np.ndarray) -> np.ndarray:
    """Each rank's piece of a vector; not a number elsewhere."""
    members, points = values.shape
    own = np.repeat(np.arange(members), points // members) == np.arange(members)[:, np.newaxis]
    return np.where(own, values, np.nan)


def _first(values: np.ndarray) -> np.ndarray:
    """A vector at rank 0 only."""
    return np.where(np.arange(len(values))[:, np.newaxis] == 0, values, np.nan)


def _all_to_all(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    members, points = values.shape
    domain = np.broadcast_to(values.ravel(), (members, members * points))
    sender, _, place = np.unravel_index(np.arange(members * points), (members, 1, points))
    receiver = place // (points // members)
    rank = np.arange(members)[:, np.newaxis]
    return np.where(sender == rank, domain, np.nan), np.where(receiver == rank, domain, np.nan)


def _whole(values: np.ndarray) -> np.ndarray:
    """The vector of rank 0 at all ranks."""
    return np.broadcast_to(values[0], values.shape)


def _sum(values: np.ndarray) -> np.ndarray:
    return np.broadcast_to(values.sum(axis=0), values.shape)


ENDS = {
    "all-gather": lambda values: (_own_piece(_whole(values)), _whole(values)),
    "gather": lambda values: (_own_piece(_whole(values)), _first(_whole(values))),
    "reduce-scatter": lambda values: (values, _own_piece(_sum(values))),
    "all-reduce": lambda values: (values, _sum(values)),
    "reduce": lambda values: (values, _first(_sum(values))),
    "broadcast": lambda values: (_first(values), _whole(values)),
    "scatter": lambda values: (_first(values), _own_piece(_whole(values))),
    "all-to-all": _all_to_all,
}
"""Vectors before and after; not a number where a rank has nothing, or nothing that matters."""
