"""Which network tier the groups of each parallel dimension use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies.options import Placement
from codesign_opt.systems import NetworkTier, System

Array = NDArray[Any]

DEGREES = ("tp", "pp", "dp", "cp", "ep", "etp")
"""The parallel degrees of a strategy."""


def default_tiers(placement: Placement, degrees: Mapping[str, int], system: System) -> dict[str, int]:
    """The tier of every dimension (`tp_tier` ...) where nothing is said about it.

    In an order they are those that the order leads to. Without one they are the fastest that take their groups.
    """
    if placement is Placement.TIERS:
        return _fastest_tiers(degrees, system)
    reach = {name: np.array(value) for name, value in reaches(placement, degrees).items()}
    sizes = [tier.size for tier in system.network_tiers]
    return {f"{name}_tier": int(tier_of(value, sizes)) for name, value in reach.items()}


def strides(placement: Placement, degrees: Mapping[str, Any]) -> dict[str, Any]:
    """Distance between neighbours in a group of each dimension, in processors, of an order.

    Experts are placed by themselves: their tensor parallelism is innermost, then expert parallelism.
    """
    distance: Any = 1
    result: dict[str, Any] = {}
    for name in placement.value.split("-"):
        result[name] = distance
        distance = distance * degrees[name]
    result["ep"] = degrees["etp"]
    return result


def reaches(placement: Placement, degrees: Mapping[str, Any]) -> dict[str, Any]:
    """Neighbouring processors that a group of each dimension lies within, in an order; 1 where the degree is 1."""
    return {
        name: np.where(np.asarray(degrees[name]) > 1, stride * np.asarray(degrees[name]), 1)
        for name, stride in strides(placement, degrees).items()
    }


def tier_of(reach: Array, sizes: Sequence[int]) -> Array:
    """The first tier that connects so many neighbours; the last where none does."""
    fits = np.stack([np.asarray(reach) <= size for size in [*sizes[:-1], np.inf]])
    return np.asarray(np.argmax(fits, axis=0))


def _fastest_tiers(degrees: Mapping[str, int], system: System) -> dict[str, int]:
    """For tp, cp, pp and dp in turn: the first tier that takes its group beside those before; 0 where none does."""
    groups = [1] * len(system.network_tiers)
    tiers = {}
    for name in ("tp", "cp", "pp", "dp"):
        degree, chosen = degrees[name], 0
        if degree > 1:
            fitting = (
                index for index, network in enumerate(system.network_tiers) if _takes(network, groups[index] * degree)
            )
            chosen = next(fitting, 0)
            groups[chosen] *= degree
        tiers[f"{name}_tier"] = chosen
    experts = degrees["ep"] * degrees["etp"]
    fits = [index for index, network in enumerate(system.network_tiers) if _takes(network, experts)]
    tiers["ep_tier"] = fits[0] if degrees["ep"] > 1 and fits else 0
    return tiers


def _takes(network: NetworkTier, group: int) -> bool:
    return group <= network.size and (not network.must_be_filled or network.size % group == 0)
