"""The price of a processor of a system."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.systems.parameters import parameter
from codesign_opt.systems.system import System

Array = NDArray[Any]


def processor_price(
    system: System, *, memory_tier1: Array | float | None = None, memory_tier2: Array | float | None = None
) -> Array:
    """$ to buy one processor, with these capacities in bytes instead of the system's own; of their shape.

    The system must have a price.
    """
    price = system.price
    assert price is not None
    total = np.asarray(price.processor)
    for curve, capacity in (
        (price.memory_tier1, system.memory_tier1.capacity if memory_tier1 is None else memory_tier1),
        (price.memory_tier2, system.memory_tier2.capacity if memory_tier2 is None else memory_tier2),
    ):
        if curve is not None:
            total = total + curve.at(capacity)
    for path, curve in price.parameters.items():
        total = total + curve.at(parameter(system, path))
    return total


def processor_hour_price(
    system: System, *, memory_tier1: Array | float | None = None, memory_tier2: Array | float | None = None
) -> Array:
    """$ for an hour of one processor; arguments as for `processor_price`."""
    assert system.price is not None
    if system.price.hourly is not None:
        return np.asarray(system.price.hourly)
    bought = processor_price(system, memory_tier1=memory_tier1, memory_tier2=memory_tier2)
    return np.asarray(bought / system.price.amortisation_hours)
