"""Statistics of predictions against hand calculations and independent formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from codesign_opt.validation.statistics import (
    Verdicts,
    absolute_errors,
    coverage,
    error_summary,
    rank_correlation,
    regret,
    verdicts,
)

positive = arrays(np.float64, st.integers(3, 30), elements=st.floats(1e-3, 1e3))


def test_errors_by_hand() -> None:
    # 1.1/1, 1.8/2, 4/4, 6/5: errors 0.1, 0.1, 0, 0.2; sorted 0, 0.1, 0.1, 0.2.
    summary = error_summary([1.1, 1.8, 4.0, 6.0], [1.0, 2.0, 4.0, 5.0])
    assert summary.rows == 4
    assert summary.median == pytest.approx(0.1)
    assert summary.mean == pytest.approx(0.1)
    # The 90th percentile lies at 0.9 x 3 = 2.7: 0.1 + 0.7 x (0.2 - 0.1).
    assert summary.percentile90 == pytest.approx(0.17)
    # log ratios 0.0953, -0.1054, 0, 0.1823: the middle of 0 and 0.0953.
    assert summary.bias == pytest.approx(math.log(1.1) / 2)


def test_pairs_without_a_value_are_left_out() -> None:
    summary = error_summary([1.1, math.nan, 3.0], [1.0, 2.0, math.nan])
    assert (summary.rows, summary.median) == (1, pytest.approx(0.1))
    nothing = error_summary([math.nan], [1.0])
    assert nothing.rows == 0
    assert math.isnan(nothing.median)
    assert math.isnan(nothing.bias)


def test_absolute_errors_are_relative_to_the_measurement() -> None:
    assert absolute_errors([50.0, 150.0], [100.0, 100.0]).tolist() == [0.5, 0.5]


def test_verdicts_by_hand() -> None:
    found = verdicts([True, True, False, False, True], [True, False, True, False, True])
    assert found == Verdicts(true_positive=2, true_negative=1, false_positive=1, false_negative=1)
    assert (found.rows, found.accuracy) == (5, 0.6)
    assert math.isnan(verdicts([], []).accuracy)


def test_rank_correlation_by_hand() -> None:
    # Ranks 1 2 3 4 5 against 2 1 4 3 5: d² = 1 + 1 + 1 + 1 + 0; 1 - 6 x 4 / (5 x 24) = 0.8.
    assert rank_correlation([1.0, 2.0, 3.0, 4.0, 5.0], [20.0, 10.0, 40.0, 30.0, 50.0]) == pytest.approx(0.8)
    # Ties share their mean rank: 1.5 1.5 3 against 1 2 3 gives 1.5 / sqrt(1.5 x 2).
    assert rank_correlation([7.0, 7.0, 9.0], [1.0, 2.0, 3.0]) == pytest.approx(1.5 / math.sqrt(3.0))


def test_rank_correlation_where_there_is_none() -> None:
    assert math.isnan(rank_correlation([1.0, 2.0], [1.0, 2.0]))
    assert math.isnan(rank_correlation([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]))
    assert math.isnan(rank_correlation([1.0, 2.0, math.nan], [1.0, 2.0, 3.0]))


@given(positive)
def test_rank_correlation_equals_pearsons_of_ranks(values: np.ndarray) -> None:
    other = np.sin(values) + values[::-1]
    if len(set(values)) == len(values) == len(set(other)):
        ranks = [np.argsort(np.argsort(side)) for side in (values, other)]
        assert rank_correlation(values, other) == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-12)


def test_regret_by_hand() -> None:
    # The second is predicted fastest and took 12 s; the fastest took 10 s.
    assert regret([5.0, 4.0, 6.0], [10.0, 12.0, 11.0]) == pytest.approx(0.2)
    assert regret([4.0, 5.0, 6.0], [10.0, 12.0, 11.0]) == 0.0
    # Among equals the slowest counts.
    assert regret([4.0, 4.0, 6.0], [10.0, 12.0, 11.0]) == pytest.approx(0.2)
    assert regret([math.nan, 5.0, 6.0], [1.0, 12.0, 10.0]) == pytest.approx(0.2)
    assert math.isnan(regret([], []))


@given(positive)
def test_a_perfect_prediction_has_no_error_and_no_regret(values: np.ndarray) -> None:
    assert regret(values, values) == 0.0
    assert regret(3 * values, values) == 0.0
    summary = error_summary(2 * values, values)
    assert summary.median == pytest.approx(1.0)
    assert summary.bias == pytest.approx(math.log(2))


def test_coverage_by_hand() -> None:
    assert coverage([1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0], [0.5, 1.0, 2.0, 3.0]) == 0.5
    assert math.isnan(coverage([], [], []))
