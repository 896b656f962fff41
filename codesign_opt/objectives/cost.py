"""Money: what a system costs, and what a token costs on it. Everything here needs `system.price`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.objectives.rates import sample_rate, token_rate

if TYPE_CHECKING:
    from codesign_opt.analytical import Estimate

_SECONDS_PER_HOUR = 3600.0


def processor_price(estimate: Estimate) -> float:
    """$ to buy one processor with its memory."""
    system = estimate.system
    assert system.price is not None
    return system.price.per_processor(system.memory_tier1.capacity, system.memory_tier2.capacity)


def system_price(estimate: Estimate) -> NDArray[Any]:
    """$ to buy all processors with their memory."""
    return np.asarray(estimate.strategies["processors"] * processor_price(estimate))


def cost_per_million_tokens(estimate: Estimate) -> NDArray[Any]:
    """$ for the processor-hours that a million tokens take."""
    system = estimate.system
    assert system.price is not None
    hourly = system.price.per_processor_hour(system.memory_tier1.capacity, system.memory_tier2.capacity)
    dollars_per_second = estimate.strategies["processors"] * hourly / _SECONDS_PER_HOUR
    return np.asarray(1e6 * dollars_per_second / token_rate(estimate))


def price_performance(estimate: Estimate) -> NDArray[Any]:
    """Sequences per second for each $ of purchase price."""
    return np.asarray(sample_rate(estimate) / system_price(estimate))
