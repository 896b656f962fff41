"""A grid of strategies: the full product of a few axes, as columns that broadcast against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies.options import Placement
from codesign_opt.strategies.placement import reaches
from codesign_opt.strategies.table import DEFAULT_COLUMNS, OPTION_CODES, StrategyTable
from codesign_opt.systems import System

Array = NDArray[Any]

AXES = ("dp_overlap", "dp_tier", "pp_tier", "sharding", "offload", "tp_tier", "option", "layout")
"""The axes of every array over a grid. The long ones stand last, where arithmetic runs along contiguous memory."""

LAYOUT_COLUMNS = ("tp", "pp", "dp", "vpp", "microbatch", "batch", "cp", "ep", "etp")
OPTION_COLUMNS = (
    "recompute", "tp_communication", "gather_redo", "tp_overlap", "fused_activation", "attention",
    "attention_kernel", "cp_exchange", "product_precision",
)  # fmt: skip
OFFLOAD_COLUMNS = ("weight_offload", "activation_offload", "optimizer_offload", "schedule")
SHARDING_COLUMNS = ("optimizer_sharding", "gradient_sharding", "weight_sharding")
TIER_COLUMNS = ("tp_tier", "pp_tier", "dp_tier")

FIXED_COLUMNS = (
    "training", "gradient_precision", "first_stage_less", "last_stage_less", "recompute_blocks", "shard_group",
    "prefetch", "keep_gathered", "reduce_each_microbatch", "cp_tier", "ep_tier", "placement",
)  # fmt: skip
"""Columns that are the same for a whole grid (in an order, the tiers follow from the layout)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyGrid:
    """The product of layouts, options and placements.

    Attributes:
        layouts: `LAYOUT_COLUMNS` along the layout axis; in an order of dimensions, the tiers of all dimensions as well.
        options: `OPTION_COLUMNS` (codes) along the option axis.
        offloads: `OFFLOAD_COLUMNS`.
        sharding: `SHARDING_COLUMNS`.
        dp_overlap, tp_tier, pp_tier, dp_tier: Values along their axes.
        fixed: `FIXED_COLUMNS` (codes), and datatype and processors: the same for the whole grid.
        considered: Strategies that the published search counts here, among them ones that no rule allows.
    """

    layouts: Mapping[str, Array]
    options: Mapping[str, Array]
    offloads: Mapping[str, Array]
    sharding: Mapping[str, Array]
    dp_overlap: Array
    tp_tier: Array
    pp_tier: Array
    dp_tier: Array
    fixed: Mapping[str, Any]
    considered: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of every axis, in the order of `AXES`."""
        return (
            len(self.dp_overlap),
            len(self.dp_tier),
            len(self.pp_tier),
            len(self.sharding["optimizer_sharding"]),
            len(self.offloads["weight_offload"]),
            len(self.tp_tier),
            len(self.options["recompute"]),
            len(self.layouts["tp"]),
        )

    @property
    def size(self) -> int:
        """Number of strategies."""
        return int(np.prod(self.shape))

    @property
    def ordered(self) -> bool:
        """Whether an order of dimensions decides the tiers."""
        return bool(self.fixed["placement"] != OPTION_CODES[Placement.TIERS])

    def take(self, layouts: Array, options: Array) -> StrategyGrid:
        """The grid of some of its layouts and options."""
        return replace(
            self,
            layouts={name: values[layouts] for name, values in self.layouts.items()},
            options={name: values[options] for name, values in self.options.items()},
            considered=0,
        )

    def columns(self) -> dict[str, Array]:
        """Strategy columns, each along its own axis, to broadcast to `shape`."""
        single = (1,) * len(AXES)
        columns = {name: np.full(single, value) for name, value in {**DEFAULT_COLUMNS, **self.fixed}.items()}
        placed = {
            **{name: (getattr(self, name), name) for name in ("dp_overlap", *TIER_COLUMNS)},
            **{name: (values, "layout") for name, values in self.layouts.items()},
            **{name: (values, "option") for name, values in self.options.items()},
            **{name: (values, "offload") for name, values in self.offloads.items()},
            **{name: (values, "sharding") for name, values in self.sharding.items()},
        }
        return {**columns, **{name: values.reshape(_along(axis)) for name, (values, axis) in placed.items()}}

    def table(self, flat: Array) -> StrategyTable:
        """The strategies at flat indices into the grid's shape."""
        index = dict(zip(AXES, np.unravel_index(flat, self.shape), strict=True))
        columns = {
            name: np.broadcast_to(values, self.shape)[tuple(index[axis] for axis in AXES)]
            for name, values in self.columns().items()
        }
        return StrategyTable(columns)

    def order(self, flat: Array) -> Array:
        """Rank within the grid for breaking ties: by layout, then option, offload, sharding and placement."""
        index = np.unravel_index(flat, self.shape)
        return np.ravel_multi_index(index[::-1], self.shape[::-1])

    def network_allows(self, system: System) -> Array:
        """Which placements fit the network tiers, to broadcast to `shape` (spec section 3, rule 19).

        In an order every group must lie within what the last tier connects.
        """
        columns = self.columns()
        allowed = np.ones((1,) * len(AXES), dtype=np.bool_)
        if self.ordered:
            placement = list(Placement)[self.fixed["placement"]]
            for reach in reaches(placement, columns).values():
                allowed = allowed & (reach <= system.network_tiers[-1].size)
            return allowed
        for index, network in enumerate(system.network_tiers):
            group: Array = np.ones((1,) * len(AXES), dtype=np.int64)
            for name in ("tp", "pp", "dp", "cp"):
                group = group * np.where(columns[f"{name}_tier"] == index, columns[name], 1)
            fits = group <= network.size
            if network.must_be_filled:
                fits &= network.size % group == 0
            allowed = allowed & fits
        network = system.network_tiers[self.fixed["ep_tier"]]
        experts = columns["ep"] * columns["etp"]
        fits = experts <= network.size
        if network.must_be_filled:
            fits &= network.size % experts == 0
        return np.asarray(allowed & (fits | (columns["ep"] == 1)))


def _along(axis: str) -> tuple[int, ...]:
    return tuple(-1 if name == axis else 1 for name in AXES)
