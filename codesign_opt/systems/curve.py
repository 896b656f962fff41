"""Efficiency as a step function of size."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EfficiencyCurve:
    """Step function: a size has the efficiency of the first threshold that is ≤ the size.

    Attributes:
        thresholds: Sizes in bytes or flop, falling; the last is 0.
        efficiencies: One per threshold, 0 < efficiency ≤ 1.
    """

    thresholds: tuple[float, ...]
    efficiencies: tuple[float, ...]
