"""What a system costs to buy, and to use by the hour."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class PriceCurve:
    """Piecewise-linear price over capacity.

    Attributes:
        capacities: Bytes, strictly rising.
        prices: $ at each capacity.
    """

    capacities: tuple[float, ...]
    prices: tuple[float, ...]

    def at(self, capacity: float) -> float:
        """Price in $ of `capacity` bytes; beyond the last point the last segment's slope goes on."""
        if capacity > self.capacities[-1] and len(self.capacities) > 1:
            slope = (self.prices[-1] - self.prices[-2]) / (self.capacities[-1] - self.capacities[-2])
            return self.prices[-1] + slope * (capacity - self.capacities[-1])
        return float(np.interp(capacity, self.capacities, self.prices))


FOUR_YEARS_IN_HOURS = 4 * 365.25 * 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price of one processor with its memory, in $.

    Attributes:
        processor: Without memory.
        memory_tier1, memory_tier2: Over the capacity of each tier, or None where it costs nothing extra.
        hourly: $ for an hour of one processor, or None: the purchase price spread over `amortisation_hours`.
        amortisation_hours: Hours of use that the purchase price pays for.
    """

    processor: float
    memory_tier1: PriceCurve | None = None
    memory_tier2: PriceCurve | None = None
    hourly: float | None = None
    amortisation_hours: float = FOUR_YEARS_IN_HOURS

    def per_processor(self, memory_tier1: float, memory_tier2: float) -> float:
        """Price in $ of one processor with these capacities in bytes."""
        total = self.processor
        if self.memory_tier1 is not None:
            total += self.memory_tier1.at(memory_tier1)
        if self.memory_tier2 is not None:
            total += self.memory_tier2.at(memory_tier2)
        return total

    def per_processor_hour(self, memory_tier1: float, memory_tier2: float) -> float:
        """Price in $ of an hour of one processor with these capacities in bytes."""
        if self.hourly is not None:
            return self.hourly
        return self.per_processor(memory_tier1, memory_tier2) / self.amortisation_hours
