"""Groups of processors: how many, on which network tier, and how many of them share its links.

In an order of dimensions (`Placement`) a group that reaches over several groups of the tier below has some members in
each; otherwise every member counts by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies import Placement
from codesign_opt.strategies.placement import strides
from codesign_opt.strategies.table import OPTION_CODES
from codesign_opt.systems import System

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """n members, the index of the tier that connects them, and the members in one group of the tier below."""

    n: Array
    tier: Array
    inner: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The groups of a strategy. `replicas` hold the same weights, `expert_replicas` the same routed experts;
    `shards` and `expert_shards` are those among which state is split (`shard_group`).
    """

    tp: Group
    cp: Group
    ep: Group
    replicas: Group
    expert_replicas: Group
    shards: Group
    expert_shards: Group

    def columns(self) -> dict[str, Array]:
        """What block keys say of them: tiers and inner members of tp, cp and ep."""
        named = {"tp": self.tp, "cp": self.cp, "ep": self.ep}
        return {
            **{f"{name}_tier": group.tier for name, group in named.items()},
            **{f"{name}_inner": group.inner for name, group in named.items()},
        }


def tier_sizes(systems: Sequence[System]) -> Array:
    """(system, tier) processors that each network tier connects; a system with fewer tiers repeats its last."""
    most = max(len(machine.network_tiers) for machine in systems)
    rows = [[tier.size for tier in machine.network_tiers] for machine in systems]
    return np.array([row + row[-1:] * (most - len(row)) for row in rows])


def groups(strategies: Mapping[str, Array], sizes: Array, system: Array) -> Groups:
    """The groups of every strategy; `sizes` is from `tier_sizes`, and `system` the index of each strategy's system."""
    place = _Places(strategies, sizes, system)
    degrees = {name: strategies[name] for name in ("tp", "pp", "dp", "cp", "ep", "etp")}
    replicas = degrees["dp"] * degrees["cp"]
    expert_replicas = np.maximum(degrees["tp"] * replicas // np.maximum(degrees["ep"] * degrees["etp"], 1), 1)
    with_cp = np.maximum(strategies["cp_tier"], _used(strategies, "dp"))
    both = np.where(degrees["cp"] > 1, with_cp, strategies["dp_tier"])
    limit = strategies["shard_group"]
    shards = np.where(limit > 0, np.minimum(limit, replicas), replicas)
    expert_shards = np.where(limit > 0, np.minimum(limit, expert_replicas), expert_replicas)
    expert_stride = place.stride("ep") * degrees["ep"]
    return Groups(
        tp=place.group(degrees["tp"], strategies["tp_tier"], place.stride("tp")),
        cp=place.group(degrees["cp"], strategies["cp_tier"], place.stride("cp")),
        ep=place.group(degrees["ep"], strategies["ep_tier"], place.stride("ep")),
        replicas=place.replica_group(replicas, both),
        expert_replicas=place.group(expert_replicas, both, expert_stride),
        shards=place.replica_group(shards, place.within(both, place.replica_reach(shards))),
        expert_shards=place.group(expert_shards, place.within(both, expert_shards * expert_stride), expert_stride),
    )


def _used(strategies: Mapping[str, Array], name: str) -> Array:
    return np.where(strategies[name] > 1, strategies[f"{name}_tier"], 0)


class _Places:
    """Where the groups of strategies lie on their systems."""

    def __init__(self, strategies: Mapping[str, Array], sizes: Array, system: Array) -> None:
        self._strategies, self._sizes, self._system = strategies, sizes, system
        self._placement = strategies["placement"]
        self._ordered = self._placement != OPTION_CODES[Placement.TIERS]
        self._strides = {
            OPTION_CODES[placement]: strides(placement, strategies)
            for placement in Placement
            if placement is not Placement.TIERS and np.any(self._placement == OPTION_CODES[placement])
        }

    def stride(self, name: str) -> Array:
        """Distance between neighbours of a group; 1 where there is no order."""
        result: Array = np.array(1)
        for code, distances in self._strides.items():
            result = np.where(self._placement == code, distances[name], result)
        return result

    def group(self, n: Array, tier: Array, stride: Array) -> Group:
        """The group of n processors at some distance from each other on a tier."""
        if not np.any(self._ordered):
            return Group(n=n, tier=tier, inner=np.ones_like(n))
        return self._group(n, tier, self._members(n, tier, stride))

    def replica_group(self, n: Array, tier: Array) -> Group:
        """The same of n processors with the same weights: neighbours along data and context parallelism together.

        Other dimensions may stand between these two, so that members are counted along each.
        """
        if not np.any(self._ordered):
            return Group(n=n, tier=tier, inner=np.ones_like(n))
        (near, near_stride), (far, far_stride) = self._replicas(n)
        return self._group(n, tier, self._members(near, tier, near_stride) * self._members(far, tier, far_stride))

    def replica_reach(self, n: Array) -> Array:
        """Neighbouring processors that n of them lie within."""
        (near, near_stride), (far, far_stride) = self._replicas(n)
        return np.where(far > 1, far * far_stride, near * near_stride)

    def within(self, tier: Array, reach: Array) -> Array:
        """The first tier up to `tier` that connects so many neighbours, where there is an order."""
        result = tier
        if not np.any(self._ordered):
            return result
        for lower in range(self._sizes.shape[1] - 1, -1, -1):
            fits = self._ordered & (lower < tier) & (reach <= self._sizes[self._system, lower])
            result = np.where(fits, lower, result)
        return result

    def _replicas(self, n: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """How many of n processors with the same weights there are along the inner dimension, and how far apart; and
        along the other one.
        """
        dp, cp = self.stride("dp"), self.stride("cp")
        dp_inner = dp < cp
        near = np.minimum(n, np.where(dp_inner, self._strategies["dp"], self._strategies["cp"]))
        return (near, np.where(dp_inner, dp, cp)), (-(-n // near), np.where(dp_inner, cp, dp))

    def _members(self, n: Array, tier: Array, stride: Array) -> Array:
        """Those of n at some distance from each other that are in one group of the tier below."""
        below = self._sizes[self._system, np.maximum(tier - 1, 0)]
        return np.asarray(np.clip(below // np.maximum(stride, 1), 1, n))

    def _group(self, n: Array, tier: Array, members: Array) -> Group:
        inner = np.where(self._ordered & (tier > 0), np.minimum(members, n), 1)
        return Group(n=n, tier=tier, inner=inner)
