from __future__ import annotations

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from codesign_opt.objectives import hypervolume, pareto_front, reference_point

POINTS = st.integers(1, 4).flatmap(
    lambda objectives: st.integers(0, 12).flatmap(
        lambda rows: arrays(np.float64, (rows, objectives), elements=st.integers(0, 4).map(float))
    )
)


@settings(deadline=None)
@given(POINTS)
def test_front_is_what_no_row_dominates(values: np.ndarray) -> None:
    dominated = [any((other <= row).all() and (other < row).any() for other in values) for row in values]
    assert pareto_front(values).tolist() == [index for index, is_worse in enumerate(dominated) if not is_worse]


def test_front_keeps_equal_rows_in_order() -> None:
    values = [[2, 2], [1, 3], [2, 2], [3, 1], [2, 3], [1, 3]]
    front = pareto_front(values)
    assert front.tolist() == [0, 1, 2, 3, 5]
    assert np.issubdtype(front.dtype, np.integer)


def test_front_of_one_objective_is_every_minimum() -> None:
    assert pareto_front([[2], [1], [3], [1]]).tolist() == [1, 3]


@pytest.mark.parametrize("empty", [np.empty((0, 2)), np.empty((0, 3)), []])
def test_front_of_nothing_is_empty_and_can_index(empty: np.ndarray) -> None:
    front = pareto_front(empty)
    assert front.tolist() == []
    assert np.asarray(empty)[front].shape[0] == 0
    assert hypervolume(empty, [1.0, 1.0]) == 0.0


def test_infinite_rows_are_compared_like_any_other() -> None:
    assert pareto_front([[math.inf, 1.0], [2.0, 3.0], [math.inf, 4.0]]).tolist() == [0, 1]


@pytest.mark.parametrize("call", [pareto_front, reference_point, lambda values: hypervolume(values, [9.0, 9.0])])
def test_nan_is_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match="NaN"):
        call([[1.0, 2.0], [math.nan, 0.0]])


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(rows, objectives\), not \(3,\)"):
        pareto_front([1, 2, 3])
    with pytest.raises(ValueError, match="2 objectives, but a reference of 3"):
        hypervolume([[1, 2]], [3, 3, 3])
    with pytest.raises(ValueError, match="finite"):
        hypervolume([[1, 2]], [3, math.inf])
    with pytest.raises(ValueError, match="one finite value"):
        hypervolume([[1, 2]], 3)


def test_hypervolume_in_two_dimensions() -> None:
    # Steps at (1, 3), (2, 2), (4, 1) below (5, 5): 1·2 + 2·3 + 1·4.
    assert hypervolume([[1, 3], [2, 2], [4, 1]], [5, 5]) == pytest.approx(12)
    assert hypervolume([[1, 3], [2, 2], [4, 1], [4, 4], [2, 2]], [5, 5]) == pytest.approx(12)


def test_hypervolume_in_three_dimensions() -> None:
    # Boxes below (3, 3, 3) of 2·2·1 and 1·1·3, which share 1·1·1.
    assert hypervolume([[1, 1, 2], [2, 2, 0]], [3, 3, 3]) == pytest.approx(4 + 3 - 1)


def test_rows_beyond_the_reference_add_nothing() -> None:
    assert hypervolume([[1.0, 9.0], [2.0, 3.0], [math.inf, 0.0]], [5, 5]) == pytest.approx(6)
    assert hypervolume([[6, 6]], [5, 5]) == 0
    assert hypervolume([[5, 1]], [5, 5]) == 0


@settings(deadline=None)
@given(POINTS)
def test_hypervolume_of_whole_numbers_counts_unit_boxes(values: np.ndarray) -> None:
    objectives = values.shape[1]
    corners = np.array(list(itertools.product(range(5), repeat=objectives)))
    boxes = sum(bool((values <= corner).all(axis=1).any()) for corner in corners)
    assert hypervolume(values, [5.0] * objectives) == pytest.approx(boxes)


def test_reference_lies_a_tenth_of_the_extent_beyond_the_front() -> None:
    # (9, 9) is dominated and does not count; the front spans 1…3 and 10…30.
    assert reference_point([[1, 30], [3, 10], [9, 99]]).tolist() == pytest.approx([3.2, 32])
    assert reference_point([[1, 30], [3, 10]], margin=0.5).tolist() == pytest.approx([4, 40])


def test_reference_of_a_front_without_extent() -> None:
    assert reference_point([[-4, 0, 10]]).tolist() == pytest.approx([-3.6, 0.1, 11])
    with pytest.raises(ValueError, match="at least one row"):
        reference_point(np.empty((0, 2)))
    with pytest.raises(ValueError, match="finite"):
        reference_point([[math.inf, 1.0], [2.0, 3.0]])


@settings(deadline=None)
@given(POINTS.filter(len))
def test_every_row_of_the_front_has_a_volume_below_the_reference(values: np.ndarray) -> None:
    reference = reference_point(values)
    for row in values[pareto_front(values)]:
        assert hypervolume([row], reference) > 0


def test_moocore_is_loaded_only_when_used() -> None:
    code = "import sys, codesign_opt.objectives; print('moocore' in sys.modules, 'scipy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "False"]
