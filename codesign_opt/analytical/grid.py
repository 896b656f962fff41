"""The model over grids of strategies: tables once for each distinct key of a space, the rest by broadcasting."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block import BlockTable
from codesign_opt.analytical.block_cache import shared_block_table
from codesign_opt.analytical.block_spaces import BlockSpaces, block_spaces
from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.estimate import Estimate
from codesign_opt.analytical.hardware import Hardware, hardware_columns
from codesign_opt.analytical.memory import MemoryNeeds, memory_needs
from codesign_opt.analytical.model import Inputs, Tables, completed
from codesign_opt.analytical.optimizer import (
    OptimizerSpaces,
    OptimizerTable,
    optimizer_spaces,
    optimizer_table,
)
from codesign_opt.analytical.schedule import ScheduleCounts, schedule_counts
from codesign_opt.analytical.shapes import WorkloadColumns, workload_columns
from codesign_opt.analytical.space_keys import GridKeys, SpaceKeys
from codesign_opt.strategies.grid import AXES, StrategyGrid
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

Array = NDArray[Any]
Columns = TypeVar("Columns", ScheduleCounts, BlockSpaces, OptimizerSpaces, MemoryNeeds)


@dataclass(frozen=True, slots=True)
class GridMemory:
    """What the strategies of a grid, or of part of it, hold in memory; no speed of the system enters.

    Attributes:
        grid: The strategies.
        layouts: Their layouts' indices in the whole grid.
        keys: Their rows in the space's tables.
        sizes: Workload sizes.
        counts: Schedule counts.
        spaces, state: Of one block: activations and weights, optimizer state.
        needs: Of a processor; the shape has every axis but placement and `dp_overlap`.
    """

    grid: StrategyGrid
    layouts: Array
    keys: GridKeys
    sizes: WorkloadColumns
    counts: ScheduleCounts
    spaces: BlockSpaces
    state: OptimizerSpaces
    needs: MemoryNeeds

    def take(self, layouts: Array, options: Array) -> GridMemory:
        """The part with some of the layouts and options."""
        return GridMemory(
            grid=self.grid.take(layouts, options),
            layouts=self.layouts[layouts],
            keys=self.keys.take(layouts, options),
            sizes=self.sizes,
            counts=_taken(self.counts, layouts, options),
            spaces=_taken(self.spaces, layouts, options),
            state=_taken(self.state, layouts, options),
            needs=_taken(self.needs, layouts, options),
        )


def grid_memories(
    workload: Workload, grids: Sequence[StrategyGrid], keys: SpaceKeys, reproduce: Set[Erratum]
) -> list[GridMemory]:
    """The memory of every grid of a space."""
    all_pairs = np.arange(len(keys.pairs))
    spaces = block_spaces([workload], keys.block_keys(all_pairs, tiers=0), reproduce)
    states = optimizer_spaces([workload], keys.optimizer_keys(), reproduce)
    sizes = workload_columns([workload], np.zeros((1,) * len(AXES), dtype=np.int64))
    memories = []
    for grid, rows in zip(grids, keys.grids, strict=True):
        columns = grid.columns()
        counts = schedule_counts(sizes.L, columns)
        index = rows.option[:, np.newaxis] * len(all_pairs) + rows.pair
        of_block = spaces.take(index.reshape(1, 1, 1, 1, 1, 1, *index.shape))
        of_optimizer = states.take(keys.optimizer_index(rows, grid.optimizer_sharding))
        memories.append(
            GridMemory(
                grid=grid,
                layouts=np.arange(grid.shape[-1]),
                keys=rows,
                sizes=sizes,
                counts=counts,
                spaces=of_block,
                state=of_optimizer,
                needs=memory_needs(columns, of_block, of_optimizer, counts),
            )
        )
    return memories


class GridTimes:
    """Block and optimizer times on one system, for the layouts of some (tp, microbatch) pairs of a space.

    Args:
        workload: The workload.
        system: The system.
        keys: The keys of the space.
        pairs: Rows of `keys.pairs`.
        reproduce: Errata of the published tool to reproduce.
    """

    def __init__(
        self, workload: Workload, system: System, keys: SpaceKeys, pairs: Array, reproduce: Set[Erratum]
    ) -> None:
        self._workload, self._system, self._reproduce = workload, system, reproduce
        self._keys = keys
        self._pairs = np.unique(pairs)
        self._blocks: BlockTable = shared_block_table(
            workload, system, keys.block_keys(self._pairs, len(system.network_tiers)), reproduce
        )
        self._optimizer: OptimizerTable = optimizer_table([workload], [system], keys.optimizer_keys(), reproduce)
        single = np.zeros((1,) * len(AXES), dtype=np.int64)
        self._hardware: Hardware = hardware_columns([system], single, single + keys.datatype, reproduce)

    def blocks(self, part: GridMemory) -> BlockTable:
        """Block times of a part of a grid, whose pairs must be among those of the tables."""
        pair = np.searchsorted(self._pairs, part.keys.pair)
        index = part.grid.tp_tier[:, np.newaxis, np.newaxis] * len(self._keys.options)
        index = (index + part.keys.option[:, np.newaxis]) * len(self._pairs) + pair
        return self._blocks.take(index.reshape(1, 1, 1, 1, 1, *index.shape))

    def estimate(self, part: GridMemory, blocks: BlockTable) -> Estimate:
        """The estimate of a part of a grid with its block times; arrays broadcast to the part's shape."""
        tables = Tables(
            blocks=blocks,
            spaces=part.spaces,
            optimizer=self._optimizer.take(self._keys.optimizer_index(part.keys, part.grid.optimizer_sharding)),
            state=part.state,
        )
        inputs = Inputs(
            strategies=part.grid.columns(), sizes=part.sizes, hardware=self._hardware, reproduce=self._reproduce
        )
        return Estimate(self._workload, self._system, completed(inputs, tables, part.counts, part.needs))


def _taken(columns: Columns, layouts: Array, options: Array) -> Columns:
    """Entries along the last two axes, where an array has them."""
    parts = {}
    for field in fields(columns):
        values: Array = getattr(columns, field.name)
        if values.ndim and values.shape[-1] > 1:
            values = values[..., layouts]
        if values.ndim > 1 and values.shape[-2] > 1:
            values = values[..., options, :]
        parts[field.name] = values
    return type(columns)(**parts)
