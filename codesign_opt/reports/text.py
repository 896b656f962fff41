"""A table as plain aligned text."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from codesign_opt.reports.values import human, is_numeric, plain_values
from codesign_opt.tables import Table

_GAP = "  "


def format_table(
    table: Table, *, columns: Sequence[str] | None = None, limit: int | None = None, width: int | None = None
) -> str:
    """The table for people: names above columns, numbers to the right and in fitting units, "-" for missing values.

    Where the columns do not fit, a single row turns into lines of name and value, and several rows into blocks of
    columns below each other, each beginning with the first column.

    Args:
        table: What to show.
        columns: Names of the columns to show, in this order; all by default.
        limit: Most rows to show; a last line tells how many are left out.
        width: Most characters a line may have, as long as one column next to the first fits; unlimited by default.

    Raises:
        InputError: An unknown column.
    """
    chosen = table if columns is None else table.select(columns)
    shown = chosen if limit is None else chosen.take(np.arange(min(limit, chosen.rows)))
    if not chosen.rows or not len(chosen):
        footer = ["(no rows)"]
    elif shown.rows < chosen.rows:
        left_out = chosen.rows - shown.rows
        footer = [f"… {left_out} more row{'s' if left_out > 1 else ''}"]
    else:
        footer = []
    columns_of_text = [_column_lines(shown, name) for name in shown]
    if width is not None and shown.rows == 1 and _width(columns_of_text) > width:
        return "\n".join(_name_value_lines(shown) + footer)
    blocks = ["\n".join(_join(block)) for block in _blocks(columns_of_text, width)]
    return "\n".join(["\n\n".join(blocks), *footer] if blocks else footer)


def _column_lines(table: Table, name: str) -> list[str]:
    """One column: its name, a rule and its cells, all padded to the same number of characters."""
    cells = [human(value, table.units[name]) for value in plain_values(table[name])]
    heading = human(name, "")
    size = max(display_width(text) for text in [heading, *cells])
    right = is_numeric(table[name])
    padded = [pad(text, size, right=right) for text in [heading, *cells]]
    return [padded[0], "-" * size, *padded[1:]]


def _name_value_lines(table: Table) -> list[str]:
    """A single row as a line for each column."""
    names = [human(name, "") for name in table]
    size = max(display_width(name) for name in names)
    values = [human(plain_values(table[name])[0], table.units[name]) for name in table]
    return [f"{pad(name, size)}{_GAP}{value}" for name, value in zip(names, values, strict=True)]


def _blocks(columns: list[list[str]], width: int | None) -> list[list[list[str]]]:
    """The columns in groups that fit the width, each group led by the first column."""
    blocks = [columns[:1]] if columns else []
    for column in columns[1:]:
        if width is not None and len(blocks[-1]) > 1 and _width([*blocks[-1], column]) > width:
            blocks.append(columns[:1])
        blocks[-1] = [*blocks[-1], column]
    return blocks


def _join(columns: list[list[str]]) -> list[str]:
    return [_GAP.join(cells).rstrip() for cells in zip(*columns, strict=True)]


def _width(columns: list[list[str]]) -> int:
    return sum(display_width(column[0]) for column in columns) + len(_GAP) * max(0, len(columns) - 1)


def display_width(text: str) -> int:
    """Number of terminal cells that `text` takes: two for wide East Asian characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(mark) else 2 if unicodedata.east_asian_width(mark) in "WF" else 1 for mark in text
    )


def pad(text: str, size: int, *, right: bool = False) -> str:
    """`text` with spaces up to `size` terminal cells, after it or (`right`) before it."""
    spaces = " " * (size - display_width(text))
    return spaces + text if right else text + spaces
