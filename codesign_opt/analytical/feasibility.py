"""Whether strategies fit in memory, with the published reason codes (spec section 3, rules 29 and 30)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.model import Model

MEMORY_CODES = ("memory_tier1", "memory_tier2")
"""Reason codes of strategies whose need exceeds a tier's capacity, in the order in which they are judged."""


def overflowing_tier(model: Model) -> NDArray[Any]:
    """For each row the reason code of the memory tier that it overflows, or an empty word."""
    hardware = model.inputs.hardware
    tier1 = model.memory.tier1 > hardware.memory_capacity
    tier2 = model.memory.tier2 > hardware.offload_capacity
    return np.where(tier1, MEMORY_CODES[0], np.where(tier2, MEMORY_CODES[1], ""))
