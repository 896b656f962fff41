"""Capacities that are chosen to fit each strategy: what is not needed costs money and saves no time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedCapacity:
    """A capacity between `low` and `high` bytes, or one of rising `choices`."""

    low: float = 0.0
    high: float = 0.0
    choices: tuple[float, ...] = ()

    @property
    def largest(self) -> float:
        """The largest capacity there may be, bytes."""
        return self.choices[-1] if self.choices else self.high

    def fit(self, need: Array) -> Array:
        """The smallest capacity that holds each need; the largest where none does."""
        if not self.choices:
            return np.clip(need, self.low, self.high)
        at = np.searchsorted(self.choices, need)
        return np.asarray(self.choices)[np.minimum(at, len(self.choices) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedCapacities:
    """The capacities that are fitted; the system's own where there is None."""

    memory_tier1: FittedCapacity | None = None
    memory_tier2: FittedCapacity | None = None

    def __bool__(self) -> bool:
        return self.memory_tier1 is not None or self.memory_tier2 is not None


NOT_FITTED = FittedCapacities()
"""Every strategy has the system's own capacities."""
