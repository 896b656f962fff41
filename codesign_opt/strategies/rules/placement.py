"""Rules for where groups lie on the network, by tiers or by an order of dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.options import Placement
from codesign_opt.strategies.placement import DEGREES, reaches, tier_of
from codesign_opt.strategies.rules.network import DIMENSIONS, outside
from codesign_opt.strategies.rules.rule import Rule, constant, nearest_divisors
from codesign_opt.systems import NetworkTier

Array = NDArray[Any]

_Refused = Callable[[Array, Array, tuple[NetworkTier, ...]], Array]
"""Whether a group is refused, by its tier, how far it reaches, and the tiers that there are."""

ORDERS = tuple(placement for placement in Placement if placement is not Placement.TIERS)
"""Placements that are an order of dimensions."""

_GROUPS = (*DIMENSIONS, "ep")

RULES: tuple[Rule, ...] = (
    Rule(
        "net_tier", True,
        lambda f: outside(f, "cp_tier", "ep_tier"),
        "cp_tier {cp_tier}, ep_tier {ep_tier}: {system} has {tiers} network tier(s)",
        lambda v: f"tiers are numbered 0 to {v['tiers'] - 1}",
    ),
    Rule(
        "network_size", False,
        lambda f: _experts_placed(f) & (_expert_group(f) > _expert_tier(f, "size")),
        "ep {ep} x etp {etp} = {ep_x_etp} processors on network tier {ep_tier}, which connects {expert_tier_size}",
        constant("use a lower ep or another ep_tier"),
    ),
    Rule(
        "network_fill", False,
        lambda f: _experts_placed(f)
        & (_expert_tier(f, "must_be_filled") > 0)
        & (_expert_group(f) <= _expert_tier(f, "size"))
        & (_expert_tier(f, "size") % _expert_group(f) != 0),
        "groups of ep {ep} x etp {etp} = {ep_x_etp} do not fill network tier {ep_tier} of {expert_tier_size}",
        lambda v: f"ep x etp may be {nearest_divisors(v['expert_tier_size'], v['ep_x_etp'])}",
    ),
    Rule(
        "order_tiers", True,
        lambda f: _in_order(f, _on_another_tier),
        "tp_tier {tp_tier}, pp_tier {pp_tier}, dp_tier {dp_tier}, cp_tier {cp_tier}, ep_tier {ep_tier} are not "
        "where the order {placement} leads to",
        lambda v: ", ".join(f"{name} must be {tier}" for name, tier in v["order_tiers"].items() if v[name] != tier),
    ),
    Rule(
        "network_size", False,
        lambda f: _in_order(f, _too_far),
        "the order {placement} needs {product} processors side by side, more than the network connects",
        lambda v: f"the last network tier connects {v['last_tier_size']}",
    ),
)  # fmt: skip
"""In the order in which they are judged."""


def _experts_placed(facts: Facts) -> Array:
    return facts.is_word("placement", Placement.TIERS) & (facts["ep"] > 1)


def _expert_group(facts: Facts) -> Array:
    return facts.divisor("ep") * facts.divisor("etp")


def _expert_tier(facts: Facts, name: str) -> Array:
    """A property of the tier of each row's experts; another rule catches tiers that are not there."""
    values = [facts.of_tier(tier, lambda network: int(getattr(network, name)), 0) for tier in range(facts.tiers)]
    return np.choose(np.clip(facts["ep_tier"], 0, facts.tiers - 1), values)


def _ordered(facts: Facts) -> Iterator[tuple[Array, dict[str, Array]]]:
    """For each order: the rows that have it, and how far their groups reach in it."""
    degrees = {name: facts.divisor(name) for name in DEGREES}
    for order in ORDERS:
        chosen = facts.is_word("placement", order)
        if np.any(chosen):
            yield chosen, reaches(order, degrees)


def _in_order(facts: Facts, refused: _Refused) -> Array:
    """Rows with an order in which a group is refused."""
    result = np.zeros(np.shape(facts["tp"]), dtype=np.bool_)
    for chosen, reach in _ordered(facts):
        for index, machine in enumerate(facts.systems):
            found = [refused(facts[f"{name}_tier"], reach[name], machine.network_tiers) for name in _GROUPS]
            result = result | (chosen & (facts.system == index) & reduce(np.logical_or, found))
    return result


def _on_another_tier(tier: Array, reach: Array, networks: tuple[NetworkTier, ...]) -> Array:
    return np.not_equal(tier, tier_of(reach, [network.size for network in networks]))


def _too_far(tier: Array, reach: Array, networks: tuple[NetworkTier, ...]) -> Array:
    return np.greater(reach, networks[-1].size)
