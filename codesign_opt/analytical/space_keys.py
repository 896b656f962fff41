"""The distinct keys of a space of strategies: what block and optimizer tables have to be computed for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.groups import Groups, groups
from codesign_opt.strategies.grid import OPTION_COLUMNS, StrategyGrid
from codesign_opt.strategies.options import Recompute, TpOverlap
from codesign_opt.strategies.table import FLAG_COLUMNS, OPTION_CODES

Array = NDArray[Any]

SPLIT_COLUMNS = (
    "tp", "microbatch", "cp", "ep", "etp", "tp_tier", "tp_inner", "cp_tier", "cp_inner", "ep_tier", "ep_inner",
)  # fmt: skip
"""What of a layout a block depends on; `tp_tier` is -1 where the grid has an axis of its own for it."""

SHARD_COLUMNS = ("tp", "ep", "etp", "shards", "expert_shards")
"""What of a layout the optimizer depends on."""

KIND_COLUMNS = ("overlapped", "attention", "training", "gradient_precision")
"""What of an option and a grid the optimizer depends on."""

_SHARDINGS = ((False, True), (True, False), (True, True))
"""Whether optimizer state and gradients are in shards: the cases that differ."""


@dataclass(frozen=True, slots=True)
class GridKeys:
    """Rows of one grid in the tables of `SpaceKeys`.

    Attributes:
        split: For each layout its row in `SpaceKeys.splits`; `shard` in `SpaceKeys.shards`.
        option: For each option its row in `SpaceKeys.options`; `kept` that of the same without recompute, where the
            grid recomputes some blocks only; `kind` its row in `SpaceKeys.kinds`.
    """

    split: Array
    option: Array
    kept: Array
    shard: Array
    kind: Array

    def take(self, layouts: Array, options: Array) -> GridKeys:
        """The rows of some layouts and options."""
        return GridKeys(
            self.split[layouts], self.option[options], self.kept[options], self.shard[layouts], self.kind[options]
        )


@dataclass(frozen=True, slots=True)
class SpaceKeys:
    """Distinct keys over all grids of a space.

    Attributes:
        splits: Values of `SPLIT_COLUMNS`.
        options: Values of `OPTION_COLUMNS` and whether it is training.
        shards: Values of `SHARD_COLUMNS`.
        kinds: Values of `KIND_COLUMNS`.
        datatype: Code of the number format.
        grids: The rows of every grid.
    """

    splits: Array
    options: Array
    shards: Array
    kinds: Array
    datatype: int
    grids: tuple[GridKeys, ...]

    @classmethod
    def of(cls, grids: Sequence[StrategyGrid], sizes: Array) -> SpaceKeys:
        """The keys of a space's grids on a system whose network tiers have `sizes` (`groups.tier_sizes`)."""
        placed = [grid_groups(grid, sizes) for grid in grids]
        pairs = list(zip(grids, placed, strict=True))
        splits, of_split = _distinct([_split_rows(grid, of) for grid, of in pairs])
        shards, of_shard = _distinct([_shard_rows(grid, of) for grid, of in pairs])
        rows = [_option_rows(grid) for grid in grids]
        kept = [_without_recompute(grid, of) for grid, of in zip(grids, rows, strict=True)]
        options, of_either = _distinct([*rows, *kept])
        of_option, of_kept = of_either[: len(grids)], of_either[len(grids) :]
        kinds, of_kind = _distinct([_kind_rows(grid) for grid in grids])
        return cls(
            splits,
            options,
            shards,
            kinds,
            grids[0].fixed["datatype"],
            tuple(GridKeys(*rows) for rows in zip(of_split, of_option, of_kept, of_shard, of_kind, strict=True)),
        )

    @property
    def needs_tiers(self) -> bool:
        """Whether any grid has an axis of its own for the tier of tensor parallelism."""
        return bool((self.splits[:, SPLIT_COLUMNS.index("tp_tier")] < 0).any())

    def block_keys(self, splits: Array, tiers: int) -> dict[str, Array]:
        """Flat block keys of (tier, option, split) for some rows of `splits`."""
        shape = (tiers, len(self.options), len(splits))
        keys: dict[str, Array] = {
            **{name: self.options[:, index].reshape(1, -1, 1) for index, name in enumerate(OPTION_COLUMNS)},
            "training": self.options[:, -1].reshape(1, -1, 1),
            **{name: self.splits[splits, index].reshape(1, 1, -1) for index, name in enumerate(SPLIT_COLUMNS)},
        }
        own = keys["tp_tier"]
        keys["tp_tier"] = np.where(own < 0, np.arange(tiers).reshape(-1, 1, 1), own)
        return self._flat(keys, shape)

    def optimizer_keys(self) -> dict[str, Array]:
        """Flat optimizer keys of (sharding, kind, shards)."""
        shape = (len(_SHARDINGS), len(self.kinds), len(self.shards))
        kinds = {name: self.kinds[:, index].reshape(1, -1, 1) for index, name in enumerate(KIND_COLUMNS)}
        shards = {name: self.shards[:, index].reshape(1, 1, -1) for index, name in enumerate(SHARD_COLUMNS)}
        optimizer, gradients = (np.array(flags).reshape(-1, 1, 1) for flags in zip(*_SHARDINGS, strict=True))
        overlap = np.where(kinds.pop("overlapped"), OPTION_CODES[TpOverlap.RING], OPTION_CODES[TpOverlap.NONE])
        keys = {
            **kinds,
            "tp_overlap": overlap,
            "tp": shards["tp"],
            "ep": shards["ep"],
            "etp": shards["etp"],
            "gradient_sharding": gradients,
            **{name: np.where(optimizer, shards[name], 1) for name in ("shards", "expert_shards")},
        }
        return self._flat(keys, shape)

    def optimizer_index(self, rows: GridKeys, sharding: Mapping[str, Array]) -> Array:
        """Flat optimizer keys of a grid, in the shape of a grid's arrays."""
        flags = zip(sharding["optimizer_sharding"].tolist(), sharding["gradient_sharding"].tolist(), strict=True)
        number = np.array([_SHARDINGS.index((optimizer, gradients or not optimizer)) for optimizer, gradients in flags])
        shape = (len(_SHARDINGS), len(self.kinds), len(self.shards))
        index = np.ravel_multi_index(np.ix_(number, rows.kind, rows.shard), shape)
        return index.reshape(1, 1, 1, len(number), 1, 1, len(rows.kind), len(rows.shard))

    def _flat(self, keys: dict[str, Array], shape: tuple[int, ...]) -> dict[str, Array]:
        flat = {name: np.broadcast_to(values, shape).ravel() for name, values in keys.items()}
        flat = {name: values.astype(np.bool_) if name in FLAG_COLUMNS else values for name, values in flat.items()}
        first = np.zeros(len(flat["tp"]), dtype=np.int64)
        return {**flat, "datatype": first + self.datatype, "workload": first, "system": first}


def grid_groups(grid: StrategyGrid, sizes: Array) -> Groups:
    """The groups of a grid's strategies, to broadcast to its shape."""
    columns = grid.columns()
    return groups(columns, sizes, np.zeros((1,) * len(grid.shape), dtype=np.int64))


def _split_rows(grid: StrategyGrid, of: Groups) -> Array:
    columns = {**grid.columns(), **of.columns()}
    if not grid.ordered:
        columns["tp_tier"] = np.array(-1)
    return _layout_rows([columns[name] for name in SPLIT_COLUMNS], grid)


def _shard_rows(grid: StrategyGrid, of: Groups) -> Array:
    columns = {**grid.layouts, "shards": of.shards.n, "expert_shards": of.expert_shards.n}
    return _layout_rows([columns[name] for name in SHARD_COLUMNS], grid)


def _layout_rows(columns: Sequence[Array], grid: StrategyGrid) -> Array:
    """Values that depend on the layout alone, one row a layout."""
    layouts = len(grid.layouts["tp"])
    return np.stack([np.broadcast_to(values.ravel(), (layouts,)) for values in columns], axis=1).astype(np.int64)


def _option_rows(grid: StrategyGrid) -> Array:
    columns = [grid.options[name].astype(np.int64) for name in OPTION_COLUMNS]
    return np.stack([*columns, np.full(len(columns[0]), grid.fixed["training"])], axis=1)


def _without_recompute(grid: StrategyGrid, rows: Array) -> Array:
    if not grid.fixed["recompute_blocks"]:
        return rows
    kept = rows.copy()
    kept[:, OPTION_COLUMNS.index("recompute")] = OPTION_CODES[Recompute.NONE]
    return kept


def _kind_rows(grid: StrategyGrid) -> Array:
    overlapped = grid.options["tp_overlap"] != OPTION_CODES[TpOverlap.NONE]
    attention = grid.options["attention"]
    same = [np.full(len(attention), grid.fixed[name]) for name in KIND_COLUMNS[2:]]
    return np.stack([overlapped, attention, *same], axis=1).astype(np.int64)


def _distinct(parts: Sequence[Array]) -> tuple[Array, list[Array]]:
    """The distinct rows of all parts, and for each part the index of its rows in them."""
    rows, index = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
    return rows, np.split(index.ravel(), np.cumsum([len(part) for part in parts])[:-1])
