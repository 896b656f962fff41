"""The tables of one part of the stack, and their mean over kinds of blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block import BlockTable
from codesign_opt.analytical.block_spaces import BlockSpaces
from codesign_opt.analytical.optimizer import OptimizerSpaces, OptimizerTable
from codesign_opt.strategies import Recompute
from codesign_opt.strategies.table import DEFAULT_COLUMNS, OPTION_CODES
from codesign_opt.workloads import Workload

Array = NDArray[Any]
Columns = TypeVar("Columns")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTables:
    """Passes, optimizer, and what they hold, of one part of the stack."""

    blocks: BlockTable
    spaces: BlockSpaces
    optimizer: OptimizerTable
    state: OptimizerSpaces


def mean_of(parts: Sequence[Columns], shares: Sequence[Array]) -> Columns:
    """The mean of tables with the same columns, by shares that add up to 1; a single one as it is."""
    if len(parts) == 1:
        return parts[0]
    first: Any = parts[0]
    mixed = {}
    for field in fields(first):
        values = [getattr(part, field.name) for part in parts]
        flags = values[0].dtype == np.bool_
        mixed[field.name] = (
            np.logical_or.reduce(np.broadcast_arrays(*values))
            if flags
            else sum(share * value for share, value in zip(shares, values, strict=True))
        )
    result: Columns = type(first)(**mixed)
    return result


def mean_of_tables(parts: Sequence[PartTables], shares: Sequence[Array]) -> PartTables:
    """The same for all tables of a part."""
    means: dict[str, Any] = {
        field.name: mean_of([getattr(part, field.name) for part in parts], shares) for field in fields(PartTables)
    }
    return PartTables(**means)


def partly_recomputed(
    rows: Mapping[str, Array], stage_blocks: Array, tables: Callable[[Mapping[str, Array]], PartTables]
) -> PartTables:
    """The mean block of rows of which some recompute the first `recompute_blocks` blocks of a stage only.

    Args:
        rows: Strategy columns and the rest of their keys.
        stage_blocks: Blocks of the fullest stage.
        tables: Gives the tables of rows, as if `recompute` concerned all blocks.
    """
    share = recomputed_share(rows, stage_blocks)
    if share is None:
        return tables(rows)
    none = np.full_like(rows["recompute"], OPTION_CODES[Recompute.NONE])
    kept = tables({**rows, "recompute": np.where(rows["recompute_blocks"] > 0, none, rows["recompute"])})
    every, shares = tables(rows), [share, 1.0 - share]
    return PartTables(
        blocks=mean_of([every.blocks, kept.blocks], shares),
        spaces=mean_of([every.spaces, kept.spaces], shares),
        # Neither weights nor their optimizer depend on it.
        optimizer=every.optimizer,
        state=every.state,
    )


def recomputed_share(strategies: Mapping[str, Array], stage_blocks: Array) -> Array | None:
    """Share of a stage's blocks that `recompute` concerns; None where it concerns all of every strategy."""
    some = strategies["recompute_blocks"] > 0
    if not np.any(some):
        return None
    return np.where(some, np.minimum(strategies["recompute_blocks"] / stage_blocks, 1.0), 1.0)


_END_COLUMNS = frozenset(
    {
        "tp", "microbatch", "cp", "datatype", "tp_communication", "training", "tp_tier", "tp_inner",
        "product_precision", "shards", "gradient_precision", "gradient_sharding", "workload", "system",
    }
)  # fmt: skip

_PLAIN = {**DEFAULT_COLUMNS, "tp_inner": 1, "cp_inner": 1, "ep_inner": 1, "expert_shards": 1}


def end_keys(keys: Mapping[str, Array]) -> dict[str, Array]:
    """Keys of blocks as keys of the ends: what these do not depend on is the same for all."""
    return {
        name: values if name in _END_COLUMNS or name not in _PLAIN else np.full_like(values, _PLAIN[name])
        for name, values in keys.items()
    }


def block_keys_of(workload: Workload, keys: Mapping[str, Array]) -> dict[str, Array]:
    """Keys of a workload's blocks, equal where they differ in nothing that these blocks depend on."""
    without = {
        ("cp_exchange", "cp_tier", "cp_inner"): keys["cp"] == 1,
        ("ep", "etp", "ep_tier", "ep_inner", "expert_shards"): np.full(len(keys["cp"]), workload.experts is None),
        # Without tensor parallelism there is nothing that could be hidden.
        ("tp_overlap", "tp_tier", "tp_inner"): keys["tp"] == 1,
    }
    same = {
        name: np.where(where, _PLAIN[name], keys[name]).astype(keys[name].dtype)
        for names, where in without.items()
        for name in names
        if name in keys
    }
    return {**keys, **same}


def distinct(keys: Mapping[str, Array]) -> tuple[dict[str, Array], Array]:
    """The distinct rows of some columns, and for each row the index of its distinct row."""
    packed = np.ascontiguousarray(np.stack([values.astype(np.int64) for values in keys.values()], axis=1))
    rows = packed.view(np.dtype((np.void, packed.dtype.itemsize * packed.shape[1]))).ravel()
    _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    return {name: values[first] for name, values in keys.items()}, inverse.ravel()
