"""Parts of vectors."""

from __future__ import annotations

import numpy as np
import pytest

from codesign_opt.graphs import Ragged
from codesign_opt.simulation.collectives.pieces import Pieces
from codesign_opt.simulation.collectives.team import Team


def _intervals(pieces: Pieces) -> list[list[tuple[float, float]]]:
    return [list(zip(*(column.tolist() for column in pieces[block]), strict=True)) for block in range(len(pieces))]


def test_lists_are_taken_in_the_order_in_which_they_are_named() -> None:
    lists = Ragged.from_lists([[1, 2], [], [3], [4, 5, 6]])
    taken = lists.take(np.array([3, 1, 0, 3]))
    assert [entry.tolist() for entry in taken] == [[4, 5, 6], [], [1, 2], [4, 5, 6]]
    assert len(lists.take(np.array([], dtype=np.int64))) == 0


def test_blocks_are_united_and_sliced() -> None:
    quarters = Pieces.equal(4)
    united = quarters.unions(Ragged.from_lists([[3, 0], [], [2]]))
    assert _intervals(united) == [[(0.75, 0.25), (0.0, 0.25)], [], [(0.5, 0.25)]]
    assert _intervals(united.slices(2)) == [
        [(0.75, 0.125), (0.0, 0.125)],
        [(0.875, 0.125), (0.125, 0.125)],
        [],
        [],
        [(0.5, 0.125)],
        [(0.625, 0.125)],
    ]


def test_lines_of_a_grid_own_what_their_members_gather_for() -> None:
    """Ranks 0 1 2 over 3 4 5; along rows, a member also answers for the one above or below it."""
    team = Team.whole(range(6), 60.0)
    rows = team.lines(np.arange(6).reshape(2, 3), (1,), free=(0,))
    assert rows.groups.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (rows.size, rows.share) == (60.0, 1.0)
    assert _intervals(rows.blocks)[1] == [(1 / 6, 1 / 6), (4 / 6, 1 / 6)]
    columns = team.lines(np.arange(6).reshape(2, 3), (0,))
    assert columns.groups.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert (columns.size, columns.share) == (20.0, pytest.approx(1 / 3))
    assert _intervals(columns.blocks)[3] == [(4 / 6, 1 / 6)]
