"""Orders of instructions by their operands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codesign_opt.graphs import Ragged
from codesign_opt.graphs.dependencies import find_cycle, operands_first, post_order

EDGES = st.integers(1, 8).flatmap(
    lambda count: st.lists(st.lists(st.integers(0, count - 1), max_size=3), min_size=count, max_size=count)
)


def test_lists_that_are_in_order_stay_as_they_are() -> None:
    assert operands_first(Ragged.from_lists([[], [], [0], [1, 0], [3, 3]])).tolist() == [0, 1, 2, 3, 4]
    assert operands_first(Ragged.from_lists([])).tolist() == []


def test_post_order_by_hand() -> None:
    #   5 waits for 3 and 1, 3 for 2 and 0, 1 for 0; 6 waits for 4 and is not reached.
    operands = Ragged.from_lists([[], [0], [], [2, 0], [], [3, 1], [4]])
    assert post_order(operands, 5, ()) == [2, 0, 3, 1, 5]
    assert post_order(operands, 5, range(7)) == [2, 0, 3, 1, 4, 6, 5]
    assert post_order(operands, 5, [6, 4, 0, 1, 2, 3, 5]) == [2, 0, 3, 1, 4, 6, 5]


@given(lists=EDGES)
def test_what_is_left_out_of_the_order_waits_for_a_cycle(lists: list[list[int]]) -> None:
    operands = Ragged.from_lists(lists)
    order = operands_first(operands).tolist()
    assert len(set(order)) == len(order)
    for place, instruction in enumerate(order):
        assert set(lists[instruction]) <= set(order[:place])
    missing = set(range(len(lists))) - set(order)
    assert all(set(lists[instruction]) & missing for instruction in missing)
    cycle = find_cycle(operands)
    assert bool(cycle) == bool(missing)
    for instruction, following in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        assert following in lists[instruction]


def test_a_long_chain_needs_no_recursion() -> None:
    count = 50_000
    operands = Ragged.from_lists([[place + 1] for place in range(count - 1)] + [[]])
    backwards = list(range(count - 1, -1, -1))
    assert operands_first(operands).tolist() == backwards
    assert post_order(operands, 0, range(count)) == backwards
