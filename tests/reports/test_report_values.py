from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codesign_opt.reports.values import PlainValue, human, is_numeric, plain_values


def test_plain_values_are_python_values_and_gaps_are_none() -> None:
    assert plain_values(np.array([1.5, np.nan, np.inf, -np.inf])) == [1.5, None, None, None]
    assert plain_values(np.array([True, False])) == [True, False]
    assert plain_values(np.array(["a", ""])) == ["a", ""]
    mixed = plain_values(np.array([np.int64(3), None, np.float64("nan"), Path("a")], dtype=object))
    assert mixed == [3, None, None, "a"]
    assert type(mixed[0]) is int


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (80 * 2**30, "B", "80 GiB"),
        (4.5e11, "B/s", "450 GB/s"),
        (0.0125, "s", "12.5 ms"),
        (125e6, "$", "125 M$"),
        (0.4512, "1", "0.4512"),
        (0.4512, "", "0.4512"),
        (1048576, "", "1048576"),
        (1048576, "1", "1048576"),
        (0, "s", "0 s"),
        (True, "", "yes"),
        (False, "", "no"),
        (None, "s", "-"),
        ("full", "", "full"),
        ("two\nlines\x1b[31m", "", "two\\nlines\\x1b[31m"),
    ],
)
def test_human(value: PlainValue, unit: str, text: str) -> None:
    assert human(value, unit) == text


def test_only_columns_of_numbers_are_numeric() -> None:
    assert is_numeric(np.array([1, 2]))
    assert is_numeric(np.array([1.0, np.nan]))
    assert is_numeric(np.array([1, None], dtype=object))
    assert not is_numeric(np.array([True, False]))
    assert not is_numeric(np.array([1, True], dtype=object))
    assert not is_numeric(np.array(["1"]))
    assert not is_numeric(np.array([None], dtype=object))
