"""The distinct keys of a space of strategies: what block and optimizer tables have to be computed for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies.grid import StrategyGrid
from codesign_opt.strategies.options import TpOverlap
from codesign_opt.strategies.table import OPTION_CODES

Array = NDArray[Any]

OPTION_NAMES = ("recompute", "tp_communication", "gather_redo", "tp_overlap", "fused_activation", "attention")


@dataclass(frozen=True, slots=True)
class GridKeys:
    """Rows of one grid in the tables of `SpaceKeys`.

    Attributes:
        pair: For each layout its row in `SpaceKeys.pairs`; `shard_pair` in `SpaceKeys.shard_pairs`.
        option: For each option its row in `SpaceKeys.options`; `kind` in `SpaceKeys.kinds`.
    """

    pair: Array
    option: Array
    shard_pair: Array
    kind: Array

    def take(self, layouts: Array, options: Array) -> GridKeys:
        """The rows of some layouts and options."""
        return GridKeys(self.pair[layouts], self.option[options], self.shard_pair[layouts], self.kind[options])


@dataclass(frozen=True, slots=True)
class SpaceKeys:
    """Distinct keys over all grids of a space.

    Attributes:
        pairs: (tp, microbatch), one row each.
        options: Values of `OPTION_NAMES` and whether it is training.
        shard_pairs: (tp, dp).
        kinds: Whether communication is overlapped, attention, and whether it is training.
        datatype: Code of the number format.
        grids: The rows of every grid.
    """

    pairs: Array
    options: Array
    shard_pairs: Array
    kinds: Array
    datatype: int
    grids: tuple[GridKeys, ...]

    @classmethod
    def of(cls, grids: Sequence[StrategyGrid]) -> SpaceKeys:
        """The keys of a space's grids."""
        pairs, of_pair = _distinct([np.stack([grid.layouts["tp"], grid.layouts["microbatch"]], 1) for grid in grids])
        shard_pairs, of_shard = _distinct([np.stack([grid.layouts["tp"], grid.layouts["dp"]], 1) for grid in grids])
        options, of_option = _distinct([_option_rows(grid) for grid in grids])
        kinds, of_kind = _distinct([_kind_rows(grid) for grid in grids])
        return cls(
            pairs,
            options,
            shard_pairs,
            kinds,
            OPTION_CODES[grids[0].datatype],
            tuple(GridKeys(*rows) for rows in zip(of_pair, of_option, of_shard, of_kind, strict=True)),
        )

    def block_keys(self, pairs: Array, tiers: int) -> dict[str, Array]:
        """Flat block keys of (tier, option, pair) for some rows of `pairs`; without tiers if there are 0."""
        shape = (max(tiers, 1), len(self.options), len(pairs))
        keys: dict[str, Array] = {
            **{name: self.options[:, index].reshape(1, -1, 1) for index, name in enumerate(OPTION_NAMES)},
            "training": self.options[:, -1].reshape(1, -1, 1),
            "tp": self.pairs[pairs, 0].reshape(1, 1, -1),
            "microbatch": self.pairs[pairs, 1].reshape(1, 1, -1),
        }
        if tiers:
            keys["tp_tier"] = np.arange(tiers).reshape(-1, 1, 1)
        return self._flat(keys, shape)

    def optimizer_keys(self) -> dict[str, Array]:
        """Flat optimizer keys of (sharded or not, kind, shard pair)."""
        shape = (2, len(self.kinds), len(self.shard_pairs))
        some_overlap = np.where(self.kinds[:, 0], OPTION_CODES[TpOverlap.RING], OPTION_CODES[TpOverlap.NONE])
        keys = {
            "tp": self.shard_pairs[:, 0].reshape(1, 1, -1),
            "tp_overlap": some_overlap.reshape(1, -1, 1),
            "attention": self.kinds[:, 1].reshape(1, -1, 1),
            "training": self.kinds[:, 2].reshape(1, -1, 1),
            "shards": np.where(np.array([False, True]).reshape(-1, 1, 1), self.shard_pairs[:, 1].reshape(1, 1, -1), 1),
        }
        return self._flat(keys, shape)

    def optimizer_index(self, rows: GridKeys, sharding: Array) -> Array:
        """Flat optimizer keys of a grid, in the shape of a grid's arrays."""
        index = np.ravel_multi_index(
            np.ix_(sharding.astype(np.int64), rows.kind, rows.shard_pair), (2, len(self.kinds), len(self.shard_pairs))
        )
        return index.reshape(1, 1, 1, len(sharding), 1, 1, len(rows.kind), len(rows.shard_pair))

    def _flat(self, keys: dict[str, Array], shape: tuple[int, ...]) -> dict[str, Array]:
        flat = {name: np.broadcast_to(values, shape).ravel() for name, values in keys.items()}
        for name in ("gather_redo", "fused_activation", "training"):
            if name in flat:
                flat[name] = flat[name].astype(np.bool_)
        first = np.zeros(len(flat["tp"]), dtype=np.int64)
        return {**flat, "datatype": first + self.datatype, "workload": first, "system": first}


def _option_rows(grid: StrategyGrid) -> Array:
    columns = [grid.options[name].astype(np.int64) for name in OPTION_NAMES]
    return np.stack([*columns, np.full(len(columns[0]), grid.training)], axis=1)


def _kind_rows(grid: StrategyGrid) -> Array:
    overlapped = grid.options["tp_overlap"] != OPTION_CODES[TpOverlap.NONE]
    attention = grid.options["attention"]
    return np.stack([overlapped, attention, np.full(len(attention), grid.training)], axis=1).astype(np.int64)


def _distinct(parts: Sequence[Array]) -> tuple[Array, list[Array]]:
    """The distinct rows of all parts, and for each part the index of its rows in them."""
    rows, index = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
    return rows, np.split(index.ravel(), np.cumsum([len(part) for part in parts])[:-1])
