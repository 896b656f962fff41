from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign_opt.objectives import METRICS
from codesign_opt.reports.scale import Scale, scale_for


def _labels(scale: Scale) -> list[str]:
    return [label for _, label in scale.ticks]


def test_linear_ticks_are_round_in_the_unit_that_people_use() -> None:
    scale = scale_for(np.array([41e6, 119e6]), "$")
    assert (scale.unit, scale.logarithmic) == ("M$", False)
    assert _labels(scale) == ["40", "60", "80", "100", "120"]
    assert scale.ticks[0][0] == pytest.approx(40e6)


def test_bytes_are_counted_in_binary_units() -> None:
    scale = scale_for(np.array([20.0, 80.0]) * 2**30, "B")
    assert (scale.unit, _labels(scale)) == ("GiB", ["20", "30", "40", "50", "60", "70", "80"])
    assert scale.ticks[-1][0] == 80 * 2**30


def test_numbers_without_unit() -> None:
    scale = scale_for(np.array([1000, 5000]), "")
    assert (scale.unit, _labels(scale)) == ("", ["1,000", "2,000", "3,000", "4,000", "5,000"])
    assert _labels(scale_for(np.array([0.30, 0.35]), "1")) == ["0.30", "0.31", "0.32", "0.33", "0.34", "0.35"]


def test_a_range_of_more_than_a_hundred_is_logarithmic() -> None:
    assert not scale_for(np.array([1.0, 100.0]), "s").logarithmic
    scale = scale_for(np.array([1e-5, 1.0]), "s")
    assert scale.logarithmic
    assert _labels(scale) == ["10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s"]
    assert scale.position(np.sqrt(scale.low * scale.high)) == pytest.approx(0.5)


def test_a_short_logarithmic_axis_has_ticks_between_the_decades() -> None:
    assert _labels(scale_for(np.array([1.0, 150.0]), "s")) == [
        "1 s", "2 s", "5 s", "10 s", "20 s", "50 s", "100 s",
    ]  # fmt: skip


def test_logarithmic_bytes_have_powers_of_two() -> None:
    scale = scale_for(np.array([1.0, 1024.0]) * 2**30, "B")
    assert _labels(scale) == ["1 GiB", "4 GiB", "16 GiB", "64 GiB", "256 GiB", "1 TiB"]


@pytest.mark.parametrize("values", [[0.0], [5.0], [5.0, 5.0], [-3.0], [0.0, 1e9], [7.0, 7.0 * (1 + 1e-15)]])
def test_points_equal_values_and_zero_have_an_axis(values: list[float]) -> None:
    scale = scale_for(np.array(values), "s")
    assert not scale.logarithmic
    assert scale.low < min(values) <= max(values) < scale.high
    assert len(set(_labels(scale))) == len(scale.ticks) >= 2


@given(st.lists(st.floats(-1e15, 1e15).filter(lambda value: value == 0 or abs(value) > 1e-15), min_size=1))
def test_every_value_and_tick_lies_on_the_axis(values: list[float]) -> None:
    scale = scale_for(np.array(values), "s")
    for value in [*values, *(tick for tick, _ in scale.ticks)]:
        assert -1e-6 <= scale.position(value) <= 1 + 1e-6
    ticks = [tick for tick, _ in scale.ticks]
    assert ticks == sorted(set(ticks))
    assert 2 <= len(ticks) <= 12


@pytest.mark.parametrize("name", sorted(METRICS))
def test_every_metric_has_an_axis(name: str) -> None:
    for values in (np.array([2.0, 3.0]), np.array([0.001, 3000.0])):
        assert len(scale_for(values, METRICS[name].unit).ticks) >= 2
