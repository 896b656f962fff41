"""What a legality rule is, and words for the values that it would allow."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import isqrt
from typing import Any

from numpy.typing import NDArray

from codesign_opt.strategies.facts import Facts

Values = Mapping[str, Any]
"""The values of one strategy by name: its columns, and sizes of its workload and system (`rules.sentences`)."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: its reason `code`, a `sentence` with the values, and what the nearest legal values are."""

    code: str
    sentence: str
    nearest: str

    def __str__(self) -> str:
        return f"{self.sentence} [{self.code}]" + (f"; {self.nearest}" if self.nearest else "")


@dataclass(frozen=True, slots=True)
class Rule:
    """A legality rule.

    Attributes:
        code: Reason code.
        malformed: Whether breaking it makes the strategy meaningless, rather than one that does not fit.
        broken: For columns: which rows break it.
        sentence: What is wrong; `{name}` stands for one of the `Values`.
        nearest: For the values of one strategy: what would be legal.
    """

    code: str
    malformed: bool
    broken: Callable[[Facts], NDArray[Any]]
    sentence: str
    nearest: Callable[[Values], str] = field(default=lambda values: "")


def constant(words: str) -> Callable[[Values], str]:
    """The same words for every strategy."""
    return lambda values: words


def divides(number: str, by: str) -> Callable[[Values], str]:
    """Which values of one column divide a number."""
    return lambda values: f"{by} may be {nearest_divisors(values[number], values[by])}"


def multiples(of: str, column: str) -> Callable[[Values], str]:
    """Which values of one column are multiples of a number."""
    return lambda values: f"{column} may be {' or '.join(map(str, nearest_multiples(values[of], values[column])))}"


def nearest_divisors(number: int, value: int) -> str:
    """The divisors of `number` next to `value`, in words."""
    return next_to(value, divisors(number))


def next_to(value: int, allowed: Iterable[int]) -> str:
    """The next smaller and the next larger of the allowed numbers, in words; "" where there is none."""
    ordered = sorted(allowed)
    below, above = bisect_left(ordered, value), bisect_right(ordered, value)
    return " or ".join(str(number) for number in (*ordered[:below][-1:], *ordered[above:][:1]))


def divisors(number: int) -> list[int]:
    """All divisors of a number of at least 1, in rising order."""
    small = [d for d in range(1, isqrt(max(number, 0)) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def nearest_multiples(number: int, value: int) -> list[int]:
    """The positive multiples of `number` around `value`."""
    below = value // number * number
    return [multiple for multiple in (below, below + number) if multiple > 0]


def words(options: Iterable[Enum]) -> str:
    """The words of options, in order."""
    return ", ".join(str(option.value) for option in options)
