"""How one cell of a measured-runs file becomes a typed value, and which column a field of `MeasuredRun` comes from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

Parser = Callable[[str], Any]
"""Gives the value of a cell that is not empty; raises a ValueError that says what is allowed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of the file.

    Attributes:
        field: The field of `MeasuredRun` that it fills.
        name: Its name in the header.
        parse: Reads a cell.
        required: Whether a file without it is refused.
        filled: Whether an empty cell is refused; else it gives None.
    """

    field: str
    name: str
    parse: Parser
    required: bool
    filled: bool


def column(name: str, parse: Parser, *, required: bool = True, filled: bool = False) -> Any:
    """A dataclass field that the column `name` fills; for the arguments see `Column`."""
    return dataclasses.field(metadata={"column": (name, parse, required, filled)})


def columns_of(record: type) -> Iterator[Column]:
    """The columns of a dataclass whose fields were made by `column`, in order; other fields are left out."""
    for field in dataclasses.fields(record):
        if "column" in field.metadata:
            yield Column(field.name, *field.metadata["column"])


def text(cell: str) -> str:
    """The cell itself."""
    return cell


def whole(cell: str) -> int:
    """A whole number of at least 1."""
    value = _number(cell)
    if value != int(value) or value < 1:
        raise ValueError("a whole number of at least 1")
    return int(value)


def quantity(scale: float) -> Parser:
    """A number of at least 0, times `scale`."""

    def parse(cell: str) -> float:
        value = _number(cell)
        if value < 0:
            raise ValueError("a number of at least 0")
        return value * scale

    return parse


def flag(cell: str) -> bool:
    """`y` or `n`."""
    if cell not in ("y", "n"):
        raise ValueError("y or n")
    return cell == "y"


def word(*allowed: str) -> Parser:
    """One of the words."""

    def parse(cell: str) -> str:
        if cell not in allowed:
            raise ValueError(", ".join(allowed))
        return cell

    return parse


def _number(cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        raise ValueError("a number") from None
    if not math.isfinite(value):
        raise ValueError("a finite number")
    return value
