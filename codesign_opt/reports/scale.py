"""The axis of a plot: its range, linear or logarithmic, and its ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from codesign_opt.units import format_quantity, parse_quantity

_LOGARITHMIC_RATIO = 100.0
"""Largest over smallest value from which an axis of positive values is logarithmic."""

_MARGIN = 0.05
_EQUAL = 1e-9
_TICKS = 8


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis.

    Attributes:
        low, high: Ends of the axis, in the unit of the values.
        logarithmic: Whether equal ratios, not equal differences, are equally long.
        unit: The unit of the tick labels; "" where there is none or every label names its own.
        ticks: Value and label of each tick, rising.
    """

    low: float
    high: float
    logarithmic: bool
    unit: str
    ticks: tuple[tuple[float, str], ...]

    def position(self, value: float) -> float:
        """Where `value` lies between the ends: 0 at `low`, 1 at `high`."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def scale_for(values: np.ndarray, unit: str) -> Scale:
    """The axis that shows all of `values`, which are finite, at least one, and in `unit`s."""
    low, high = float(values.min()), float(values.max())
    if low > 0 and high / low > _LOGARITHMIC_RATIO:
        return _logarithmic_scale(low, high, unit)
    if high - low <= _EQUAL * max(abs(low), abs(high)):
        margin = 0.1 * max(abs(low), abs(high)) or 1.0
    else:
        margin = _MARGIN * (high - low)
    return _linear_scale(low - margin, high + margin, unit)


def _linear_scale(low: float, high: float, unit: str) -> Scale:
    """Round steps in the unit that a person would choose for the larger end."""
    shown = format_quantity(max(abs(low), abs(high)), unit or "1").partition(" ")[2]
    size = parse_quantity(f"1 {shown}", unit, where="axis") if shown else 1.0
    step = _round_step((high - low) / size / _TICKS)
    decimals = max(0, -math.floor(math.log10(step) + _EQUAL))
    numbers = range(math.ceil(low / size / step), math.floor(high / size / step) + 1)
    ticks = tuple((number * step * size, f"{number * step:,.{decimals}f}") for number in numbers)
    return Scale(low, high, False, shown, ticks)


def _logarithmic_scale(low: float, high: float, unit: str) -> Scale:
    """Powers of ten, or of two for bytes; also two and five times a power of ten where there is room."""
    margin = (high / low) ** _MARGIN
    low, high = low / margin, high * margin
    base = 2 if unit == "B" else 10
    first, last = math.ceil(math.log(low, base)), math.floor(math.log(high, base))
    stride = math.ceil((last - first + 1) / _TICKS)
    factors = (1, 2, 5) if base == 10 and last - first < _TICKS // 2 else (1,)
    powers = range(first - 1 if len(factors) > 1 else first, last + 1, stride)
    candidates = [factor * float(base) ** power for power in powers for factor in factors]
    ticks = tuple((tick, format_quantity(tick, unit or "1")) for tick in candidates if low <= tick <= high)
    return Scale(low, high, True, "", ticks)


def _round_step(step: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below `step`."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= step * (1 - _EQUAL))
