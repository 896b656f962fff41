"""Money: what a system costs, and what a token costs on it. Everything here needs `system.price`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.objectives.rates import sample_rate, token_rate
from codesign_opt.systems import pricing

if TYPE_CHECKING:
    from codesign_opt.analytical import Estimate

_SECONDS_PER_HOUR = 3600.0


def processor_price(estimate: Estimate) -> NDArray[Any]:
    """$ to buy one processor with its memory."""
    return pricing.processor_price(estimate.system, **_capacities(estimate))


def system_price(estimate: Estimate) -> NDArray[Any]:
    """$ to buy all processors with their memory."""
    return np.asarray(estimate.strategies["processors"] * processor_price(estimate))


def cost_per_million_tokens(estimate: Estimate) -> NDArray[Any]:
    """$ for the processor-hours that a million tokens take."""
    hourly = pricing.processor_hour_price(estimate.system, **_capacities(estimate))
    dollars_per_second = estimate.strategies["processors"] * hourly / _SECONDS_PER_HOUR
    return np.asarray(1e6 * dollars_per_second / token_rate(estimate))


def price_performance(estimate: Estimate) -> NDArray[Any]:
    """Sequences per second for each $ of purchase price."""
    return np.asarray(sample_rate(estimate) / system_price(estimate))


def _capacities(estimate: Estimate) -> dict[str, NDArray[Any]]:
    """Capacities may differ by strategy, where they are chosen to fit it."""
    return {"memory_tier1": estimate.memory_capacity, "memory_tier2": estimate.offload_capacity}
