"""Whether groups fit the network tiers on which a strategy places them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.options import Placement
from codesign_opt.systems import System

Array = NDArray[Any]

DIMENSIONS = ("tp", "pp", "dp", "cp")
"""The parallel dimensions that multiply to all processors."""


def placed(facts: Facts) -> list[Array]:
    """For each network tier the product of the degrees above 1 that are placed on it; 1 in an order of dimensions."""
    named = facts.is_word("placement", Placement.TIERS)

    def degree(name: str, tier: int) -> Array:
        return np.where(named & (facts[f"{name}_tier"] == tier) & (facts[name] > 1), facts[name], 1)

    return [reduce(np.multiply, [degree(name, tier) for name in DIMENSIONS]) for tier in range(facts.tiers)]


def refused_tiers(products: list[int], system: System) -> Iterator[tuple[int, int]]:
    """The tiers of a system that cannot take the product placed on them, each with that product."""
    for tier, (product, network) in enumerate(zip(products, system.network_tiers, strict=False)):
        if product > 1 and (product > network.size or (network.must_be_filled and network.size % product)):
            yield tier, product


def network_refusals(facts: Facts) -> tuple[Array, Array]:
    """Rows whose first refused tier is too small, and rows whose first refused tier is not filled."""
    too_large = unfilled = np.zeros(np.shape(facts["tp"]), dtype=np.bool_)
    for tier, product in enumerate(placed(facts)):
        size = facts.of_tier(tier, lambda network: network.size, 1)
        must_fill = facts.of_tier(tier, lambda network: network.must_be_filled, False)
        undecided = ~(too_large | unfilled) & (product > 1)
        exceeds = product > size
        too_large = too_large | (undecided & exceeds)
        unfilled = unfilled | (undecided & ~exceeds & must_fill & (size % np.maximum(product, 1) != 0))
    return too_large, unfilled


def outside(facts: Facts, *names: str) -> Array:
    """Rows in which one of the tiers named does not exist."""
    there = facts.of_system(lambda machine: len(machine.network_tiers))
    return reduce(np.logical_or, [(facts[name] < 0) | (facts[name] >= there) for name in names])
