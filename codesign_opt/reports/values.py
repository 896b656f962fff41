"""The values of a table's columns as plain Python values, and as words for people."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from codesign_opt.units import format_quantity

PlainValue = bool | int | float | str | None

MISSING = "-"
"""What people read where there is no value."""


def plain_values(column: np.ndarray) -> list[PlainValue]:
    """The values of a column as JSON knows them; whatever is not finite or not there is None."""
    return [_plain(value) for value in column.tolist()]


def human(value: PlainValue, unit: str) -> str:
    """A plain value in its column's unit, for people: "80 GiB", "4096", "yes", "-"."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in value)
    if isinstance(value, int) and unit in ("", "1"):
        return str(value)
    return format_quantity(value, unit or "1")


def is_numeric(column: np.ndarray) -> bool:
    """True for numbers with or without gaps; booleans and words are not numbers."""
    if column.dtype.kind != "O":
        return column.dtype.kind in "iuf"
    present = [value for value in plain_values(column) if value is not None]
    return bool(present) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in present)


def _plain(value: Any) -> PlainValue:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)
