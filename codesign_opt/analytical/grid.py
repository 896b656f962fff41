"""The model over a grid of strategies: block tables once for each distinct key, the rest by broadcasting."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block import BLOCK_KEY, BlockTable, block_table
from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.estimate import Estimate
from codesign_opt.analytical.hardware import Hardware, hardware_columns
from codesign_opt.analytical.memory import MemoryNeeds, memory_needs
from codesign_opt.analytical.model import Inputs, Tables, completed
from codesign_opt.analytical.optimizer import OptimizerTable, optimizer_table
from codesign_opt.analytical.schedule import ScheduleCounts, schedule_counts
from codesign_opt.analytical.shapes import workload_columns
from codesign_opt.strategies.grid import AXES, StrategyGrid
from codesign_opt.strategies.options import TpOverlap
from codesign_opt.strategies.table import OPTION_CODES
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

Array = NDArray[Any]

CHUNK_STRATEGIES = 1 << 17
"""Strategies evaluated at once, so that a column of them stays in the processor's cache."""


@dataclass(frozen=True, slots=True)
class GridPart:
    """Some layouts of a grid with their tables and memory needs, ready to be estimated.

    `first` is the index of the first layout within the whole grid; layouts are consecutive.
    """

    grid: StrategyGrid
    first: int
    workload: Workload
    system: System
    inputs: Inputs
    tables: Tables
    counts: ScheduleCounts
    memory: MemoryNeeds

    def estimate(self) -> Estimate:
        """Times and everything that depends on them; arrays broadcast to the part's shape."""
        return Estimate(
            self.workload, self.system, completed(self.inputs, self.tables, self.counts, self.memory)
        )


def grid_parts(
    workload: Workload, system: System, grid: StrategyGrid, reproduce: Set[Erratum]
) -> Iterator[GridPart]:
    """The grid in parts of about `CHUNK_STRATEGIES` strategies, in the order of its layouts."""
    tables = _GridTables.of(workload, system, grid, reproduce)
    sizes = workload_columns([workload], np.zeros((1,) * len(AXES), dtype=np.int64))
    layouts = grid.shape[-1]
    step = max(1, CHUNK_STRATEGIES * layouts // grid.size)
    for first in range(0, layouts, step):
        members = slice(first, first + step)
        part = grid.take_layouts(members)
        columns = part.columns()
        part_tables = tables.take(members)
        counts = schedule_counts(sizes.L, columns)
        # Memory does not depend on network tiers: its tables leave that axis out.
        memory = memory_needs(columns, tables.placeless(members), part_tables.optimizer, counts)
        inputs = Inputs(strategies=columns, sizes=sizes, hardware=tables.hardware, reproduce=reproduce)
        yield GridPart(part, first, workload, system, inputs, part_tables, counts, memory)


@dataclass(frozen=True, slots=True)
class _GridTables:
    """Block and optimizer tables of a grid, with the index of every layout's row in them."""

    blocks: BlockTable
    block_index: Array
    optimizer: OptimizerTable
    optimizer_index: Array
    hardware: Hardware

    @classmethod
    def of(cls, workload: Workload, system: System, grid: StrategyGrid, reproduce: Set[Erratum]) -> _GridTables:
        single = np.zeros((1,) * len(AXES), dtype=np.int64)
        columns = grid.columns()
        blocks, block_index = _block_keys(grid, columns)
        optimizer, optimizer_index = _optimizer_keys(grid, columns)
        return cls(
            block_table([workload], [system], _on_first(blocks), reproduce),
            block_index,
            optimizer_table([workload], [system], _on_first(optimizer), reproduce),
            optimizer_index,
            hardware_columns([system], single, columns["datatype"], reproduce),
        )

    def take(self, layouts: slice) -> Tables:
        return Tables(
            blocks=self.blocks.take(self.block_index[..., layouts]),
            optimizer=self.optimizer.take(self.optimizer_index[..., layouts]),
        )

    def placeless(self, layouts: slice) -> BlockTable:
        return self.blocks.take(self.block_index[:, :, :, :, :, :1, :, layouts])


def _block_keys(grid: StrategyGrid, columns: dict[str, Array]) -> tuple[dict[str, Array], Array]:
    """Distinct block keys as flat columns, and the index of each (tp_tier, option, layout) in them."""
    pairs, of_layout = np.unique(
        np.stack([grid.layouts["tp"], grid.layouts["microbatch"]]), axis=1, return_inverse=True
    )
    tiers, options, distinct = len(grid.tp_tier), len(grid.options["recompute"]), pairs.shape[1]
    shape = (tiers, options, distinct)
    keys = {
        **{name: columns[name].reshape(1, -1, 1) for name in grid.options},
        **{name: columns[name].reshape(1, 1, 1) for name in ("datatype", "training")},
        "tp": pairs[0].reshape(1, 1, -1),
        "microbatch": pairs[1].reshape(1, 1, -1),
        "tp_tier": grid.tp_tier.reshape(-1, 1, 1),
    }
    index = np.arange(tiers * options * distinct).reshape(shape)[..., of_layout.ravel()]
    flat = {name: np.broadcast_to(keys[name], shape).ravel() for name in BLOCK_KEY}
    return flat, index.reshape(1, 1, 1, 1, 1, *index.shape)


def _optimizer_keys(grid: StrategyGrid, columns: dict[str, Array]) -> tuple[dict[str, Array], Array]:
    """Distinct optimizer keys as flat columns, and the index of each (sharding, option, layout) in them."""
    pairs, of_layout = np.unique(np.stack([grid.layouts["tp"], grid.layouts["dp"]]), axis=1, return_inverse=True)
    overlapped = grid.options["tp_overlap"] != OPTION_CODES[TpOverlap.NONE]
    kinds, of_option = np.unique(
        np.stack([overlapped, grid.options["attention"]]).astype(np.int64), axis=1, return_inverse=True
    )
    sharding, distinct = len(grid.optimizer_sharding), pairs.shape[1]
    shape = (sharding, kinds.shape[1], distinct)
    some_overlap = OPTION_CODES[TpOverlap.RING]
    keys = {
        "tp": pairs[0].reshape(1, 1, -1),
        "datatype": columns["datatype"].reshape(1, 1, 1),
        "training": columns["training"].reshape(1, 1, 1),
        "attention": kinds[1].reshape(1, -1, 1),
        "tp_overlap": np.where(kinds[0], some_overlap, OPTION_CODES[TpOverlap.NONE]).reshape(1, -1, 1),
        "shards": np.where(grid.optimizer_sharding.reshape(-1, 1, 1), pairs[1].reshape(1, 1, -1), 1),
    }
    index = np.arange(sharding * kinds.shape[1] * distinct).reshape(shape)
    index = index[:, of_option.ravel()][..., of_layout.ravel()]
    flat = {name: np.broadcast_to(values, shape).ravel() for name, values in keys.items()}
    return flat, index.reshape(1, 1, 1, sharding, 1, 1, *index.shape[1:])


def _on_first(keys: dict[str, Array]) -> dict[str, Array]:
    first = np.zeros(len(keys["tp"]), dtype=np.int64)
    return {**keys, "workload": first, "system": first}
