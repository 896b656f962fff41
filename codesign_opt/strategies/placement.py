"""Which network tier each parallel dimension uses where nothing is said about it."""

from __future__ import annotations

from codesign_opt.systems import NetworkTier, System


def fastest_tiers(tp: int, pp: int, dp: int, system: System) -> dict[str, int]:
    """For tp, then pp, then dp: the first tier that takes its group beside those placed before; 0 where none does."""
    groups = [1] * len(system.network_tiers)
    tiers = {}
    for name, degree in (("tp_tier", tp), ("pp_tier", pp), ("dp_tier", dp)):
        chosen = 0
        if degree > 1:
            fitting = (
                index for index, network in enumerate(system.network_tiers) if _takes(network, groups[index] * degree)
            )
            chosen = next(fitting, 0)
            groups[chosen] *= degree
        tiers[name] = chosen
    return tiers


def _takes(network: NetworkTier, group: int) -> bool:
    return group <= network.size and (not network.must_be_filled or network.size % group == 0)
