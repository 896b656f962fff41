from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign_opt.errors import InputError
from codesign_opt.reports import format_table
from codesign_opt.tables import Table

TABLE = Table(
    {
        "tp": [8, 16, 1],
        "step_time": [12.5, np.nan, 0.25],
        "recompute": ["full", "none", "attention"],
        "sequence_parallel": [True, False, True],
        "memory": [80 * 2.0**30, 1.5 * 2**40, 0.0],
    },
    {"step_time": "s", "memory": "B"},
)


def test_numbers_stand_right_and_words_left() -> None:
    assert format_table(TABLE).split("\n") == [
        "tp  step_time  recompute  sequence_parallel   memory",
        "--  ---------  ---------  -----------------  -------",
        " 8     12.5 s  full       yes                 80 GiB",
        "16          -  none       no                 1.5 TiB",
        " 1     250 ms  attention  yes                    0 B",
    ]


def test_columns_are_chosen_and_ordered() -> None:
    assert format_table(TABLE, columns=["recompute", "tp"]).split("\n") == [
        "recompute  tp",
        "---------  --",
        "full        8",
        "none       16",
        "attention   1",
    ]
    with pytest.raises(InputError, match=r"no column 'recomput'.*did you mean 'recompute'"):
        format_table(TABLE, columns=["recomput"])


def test_limit_tells_how_many_rows_are_left_out() -> None:
    assert format_table(TABLE, columns=["tp"], limit=1).split("\n") == ["tp", "--", " 8", "… 2 more rows"]
    assert format_table(TABLE, columns=["tp"], limit=2).split("\n")[-1] == "… 1 more row"
    assert format_table(TABLE, columns=["tp"], limit=3) == format_table(TABLE, columns=["tp"])
    assert format_table(TABLE, columns=["tp"], limit=0).split("\n") == ["tp", "--", "… 3 more rows"]


def test_columns_that_do_not_fit_go_below_with_the_first_column_again() -> None:
    assert format_table(TABLE, width=24).split("\n") == [
        "tp  step_time  recompute",
        "--  ---------  ---------",
        " 8     12.5 s  full",
        "16          -  none",
        " 1     250 ms  attention",
        "",
        "tp  sequence_parallel",
        "--  -----------------",
        " 8  yes",
        "16  no",
        " 1  yes",
        "",
        "tp   memory",
        "--  -------",
        " 8   80 GiB",
        "16  1.5 TiB",
        " 1      0 B",
    ]


def test_a_single_row_that_does_not_fit_is_written_as_names_and_values() -> None:
    row = TABLE.take([0])
    assert format_table(row, width=40).split("\n") == [
        "tp                 8",
        "step_time          12.5 s",
        "recompute          full",
        "sequence_parallel  yes",
        "memory             80 GiB",
    ]
    assert format_table(row, width=80).count("\n") == 2


def test_tables_without_rows_or_columns() -> None:
    assert format_table(Table({"tp": np.array([], dtype=int)})) == "tp\n--\n(no rows)"
    assert format_table(Table({})) == "(no rows)"


def test_wide_characters_take_two_cells() -> None:
    assert format_table(Table({"名": ["模型", "ab"], "n": [1, 22]})).split("\n") == [
        "名     n",
        "----  --",
        "模型   1",
        "ab    22",
    ]


def test_control_characters_cannot_break_the_lines() -> None:
    text = format_table(Table({"na\nme": ["a\nb", "\x1b[2J"]}))
    assert text.split("\n")[0] == "na\\nme"
    assert "\x1b" not in text
    assert text.count("\n") == 3


@given(
    st.dictionaries(st.from_regex("[a-z]{1,12}", fullmatch=True), st.integers(-(10**12), 10**12), min_size=2),
    st.integers(30, 90),
)
def test_no_line_is_wider_than_allowed_and_nothing_is_lost(values: dict[str, int], width: int) -> None:
    table = Table({name: [value, value] for name, value in values.items()})
    text = format_table(table, width=width)
    assert all(len(line) <= width for line in text.split("\n"))
    words = text.split()
    for name, value in values.items():
        assert name in words
        assert str(value) in words
