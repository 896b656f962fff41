"""What is sent is received; bandwidth-optimal algorithms send and reduce no more than they must."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from collective_execution import FAMILIES, Case, grids, lines, nodes
from hypothesis import given
from hypothesis import strategies as st

from codesign_opt.simulation.collectives import RECV, REDUCE, SENDRECV, Schedule, collective_schedule

SIZE = 3.0e6

cases = st.one_of(list(FAMILIES.values()))


@given(cases)
def test_rows_hold_together(case: Case) -> None:
    schedule = case.schedule(SIZE)
    receives, sends = schedule.sender >= 0, schedule.to >= 0
    sender = schedule.sender[receives]
    users = np.repeat(np.arange(len(schedule)), np.diff(schedule.operands.offsets))
    assert np.array_equal(receives, np.isin(schedule.opcode, [SENDRECV, RECV]))
    assert np.array_equal(np.sort(sender), np.flatnonzero(sends))
    assert np.array_equal(schedule.rank[receives], schedule.to[sender])
    assert np.array_equal(schedule.source[receives], schedule.rank[sender])
    assert np.array_equal(schedule.bytes_in[receives], schedule.bytes_out[sender])
    assert np.all(schedule.source[~receives] == -1)
    assert np.all(schedule.rank != schedule.to)
    assert np.array_equal(schedule.scale > 0, schedule.opcode == REDUCE)
    assert np.all(schedule.operands.values < users)
    assert np.array_equal(schedule.rank[schedule.operands.values], schedule.rank[users])
    assert np.all(schedule.level[schedule.operands.values] < schedule.level[users])
    assert np.all(schedule.level[sender] <= schedule.level[receives])


@given(cases)
def test_messages_between_two_members_arrive_in_the_order_in_which_they_are_sent(case: Case) -> None:
    schedule = case.schedule(SIZE)
    sent, received = defaultdict(list), defaultdict(list)
    for row in range(len(schedule)):
        if schedule.to[row] >= 0:
            sent[schedule.rank[row], schedule.to[row]].append(row)
        if schedule.sender[row] >= 0:
            received[schedule.source[row], schedule.rank[row]].append(schedule.sender[row])
    assert sent == received


@given(cases)
def test_messages_carry_what_their_bytes_say(case: Case) -> None:
    schedule = case.schedule(SIZE)
    for row in np.flatnonzero(schedule.block >= 0):
        _, lengths = schedule.blocks[schedule.block[row]]
        assert lengths.sum() * SIZE == pytest.approx(schedule.bytes_out[row], rel=1e-12)
    assert np.all(schedule.bytes_out[schedule.block < 0] == 0)


@given(cases)
def test_phases_are_made_of_their_groups(case: Case) -> None:
    schedule = case.schedule(SIZE)
    for number, phase in enumerate(schedule.phases):
        assert phase.parent < number
        assert (phase.parent == -1) == (number == 0) == (phase.label == "")
        assert len(np.unique(phase.groups)) == phase.groups.size
        group_of = np.full(len(schedule.processors), -1)
        group_of[phase.groups] = np.arange(len(phase.groups))[:, np.newaxis]
        rows = (schedule.phase == number) & (schedule.to >= 0)
        assert np.all(group_of[schedule.rank[rows]] >= 0)
        assert np.array_equal(group_of[schedule.rank[rows]], group_of[schedule.to[rows]])


@given(st.one_of(lines(), grids(), nodes(opcodes=("all-gather", "reduce-scatter", "all-reduce"))))
def test_all_but_the_own_part_is_sent_and_reduced(case: Case) -> None:
    schedule = case.schedule(SIZE)
    count = len(case.processors)
    phases = 2 if case.opcode == "all-reduce" else 1
    reduced = 0 if case.opcode == "all-gather" else count - 1
    assert schedule.bytes_out.sum() == pytest.approx(phases * SIZE * (count - 1))
    assert schedule.scale.sum() == pytest.approx(reduced)
    # On a line the members in the middle do more than those at the ends.
    if "mesh" not in case.algorithm and "mesh-1d" not in case.options.values():
        assert _per_rank(schedule, schedule.bytes_out) == pytest.approx(phases * SIZE * (count - 1) / count)
        assert _per_rank(schedule, schedule.scale) == pytest.approx(reduced / count)


@pytest.mark.parametrize(("width", "height"), [(2, 2), (3, 2), (4, 3)])
def test_members_of_the_reference_line_reduce_as_much_as_each_other(width: int, height: int) -> None:
    members = width * height
    line = collective_schedule("reduce-scatter", "mesh-1d", range(members), SIZE)
    options = {"dimension_widths": [width, height]}
    grid = collective_schedule("all-reduce", "mesh-2d", range(members), SIZE, options=options)
    assert _per_rank(line, line.scale) == pytest.approx((members - 1) / members)
    assert _per_rank(grid, grid.scale) == pytest.approx((members - 1) / members)


def test_members_of_a_line_stand_in_the_order_of_the_group() -> None:
    """On one row of a grid, processor 0 comes between 2 and 1."""
    options = {"dimension_widths": [3, 2]}
    schedule = collective_schedule("all-gather", "mesh-2d", [2, 0, 1], SIZE, options=options)
    pairs = {
        (int(schedule.processors[rank]), int(schedule.processors[to]))
        for rank, to in zip(schedule.rank, schedule.to, strict=True)
        if to >= 0
    }
    assert pairs == {(2, 0), (0, 2), (0, 1), (1, 0)}


@pytest.mark.parametrize("members", range(2, 10))
def test_a_line_sends_more_in_its_middle(members: int) -> None:
    schedule = collective_schedule("all-gather", "mesh-1d", range(members), SIZE)
    for i in range(members):
        blocks = (i < members - 1) * (i + 1) + (i > 0) * (members - i)
        rows = schedule.rank == i
        assert schedule.bytes_out[rows].sum() == pytest.approx(blocks * SIZE / members)
        steps = members - 1 if i in (0, members - 1) else max(i, members - 1 - i) + 1
        assert schedule.level[rows].max() == steps - 1


@pytest.mark.parametrize(("members", "rounds"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4)])
def test_dissemination_sends_and_reduces_whole_vectors(members: int, rounds: int) -> None:
    schedule = collective_schedule("all-reduce", "dissemination", range(members), SIZE)
    assert _per_rank(schedule, schedule.bytes_out) == pytest.approx(rounds * SIZE)
    assert _per_rank(schedule, schedule.scale) == pytest.approx(rounds)


@pytest.mark.parametrize("members", [1, 2, 5])
def test_a_barrier_is_messages_of_no_bytes_to_the_first_member_and_back(members: int) -> None:
    schedule = collective_schedule("barrier", "centralized", range(members), 0.0)
    messages = Counter(zip(schedule.rank.tolist(), schedule.to.tolist(), strict=True))
    others = range(1, members)
    assert {pair: number for pair, number in messages.items() if pair[1] >= 0} == {
        **{(0, other): 1 for other in others},
        **{(other, 0): 1 for other in others},
    }
    assert schedule.bytes_out.sum() == 0


def test_each_member_forwards_in_at_most_one_of_the_two_trees() -> None:
    for members in range(2, 40):
        schedule = collective_schedule("all-reduce", "double-binary-tree", range(members), SIZE, options={"chunks": 1})
        forwarding = Counter(schedule.rank[schedule.opcode == REDUCE].tolist())
        # A member with two links below it in one tree has none in the other; two roots share the rest.
        assert max(forwarding.values()) <= 2
        assert sum(forwarding.values()) == 2 * (members - 1)
        assert _per_rank(schedule, schedule.bytes_out).max() <= 2 * SIZE


@pytest.mark.parametrize(
    ("opcode", "algorithm"),
    [(opcode, name) for opcode in ("all-gather", "reduce-scatter", "all-reduce") for name in ("unidir-ring", "mesh-1d")]
    + [("all-reduce", "dissemination"), ("all-to-all", "ring"), ("broadcast", "binomial"), ("gather", "direct")],
)
def test_a_group_of_one_has_nothing_to_do(opcode: str, algorithm: str) -> None:
    assert len(collective_schedule(opcode, algorithm, [7], SIZE)) == 0


def test_all_reduce_by_nothing_is_free() -> None:
    assert len(collective_schedule("all-reduce", "null", range(8), SIZE)) == 0


def test_incomplete_nodes_exchange_among_the_members_that_are_there() -> None:
    """Three places on a node, two members on each of two nodes: halves of the vector, where thirds would lose data."""
    options = {"dimension_widths": [2, 2], "concentration": 3}
    schedule = collective_schedule("reduce-scatter", "torus-2d", [0, 2, 3, 5], 48.0, options=options)
    local = np.isin(schedule.phase, [i for i, phase in enumerate(schedule.phases) if "local" in _path(schedule, i)])
    assert schedule.bytes_out[local & (schedule.rank == 0) & (schedule.to >= 0)].tolist() == [12.0, 12.0]
    assert _per_rank(schedule, schedule.bytes_out) == pytest.approx(36.0)


def _path(schedule: Schedule, phase: int) -> list[str]:
    labels = []
    while phase >= 0:
        labels.append(schedule.phases[phase].label)
        phase = schedule.phases[phase].parent
    return labels


def _per_rank(schedule: Schedule, column: np.ndarray) -> np.ndarray:
    return np.bincount(schedule.rank, weights=column, minlength=len(schedule.processors))
