"""What a system costs to buy, and to use by the hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class PriceCurve:
    """Piecewise-linear price over a capacity, a bandwidth or another parameter.

    Attributes:
        points: Values of the parameter, SI, strictly rising.
        prices: $ at each point.
    """

    points: tuple[float, ...]
    prices: tuple[float, ...]

    def at(self, value: ArrayLike) -> NDArray[np.float64]:
        """Price in $ of each value; beyond the last point the last segment's slope goes on."""
        wanted = np.asarray(value, dtype=np.float64)
        price = np.interp(wanted, self.points, self.prices)
        if len(self.points) > 1:
            slope = (self.prices[-1] - self.prices[-2]) / (self.points[-1] - self.points[-2])
            price = price + slope * np.maximum(wanted - self.points[-1], 0.0)
        return np.asarray(price)


FOUR_YEARS_IN_HOURS = 4 * 365.25 * 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price of one processor with its memory and network, in $.

    Attributes:
        processor: Without what is priced below.
        memory_tier1, memory_tier2: Over the capacity of each tier, or None where it costs nothing extra.
        parameters: Over any other parameter of the system, by dotted path.
        hourly: $ for an hour of one processor, or None: the purchase price spread over `amortisation_hours`.
        amortisation_hours: Hours of use that the purchase price pays for.
    """

    processor: float
    memory_tier1: PriceCurve | None = None
    memory_tier2: PriceCurve | None = None
    parameters: Mapping[str, PriceCurve] = field(default_factory=dict)
    hourly: float | None = None
    amortisation_hours: float = FOUR_YEARS_IN_HOURS
