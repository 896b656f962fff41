"""The model over grids of strategies: tables once for each distinct key of a space, the rest by broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block import BlockTable
from codesign_opt.analytical.block_cache import shared_block_table
from codesign_opt.analytical.block_spaces import SPACE_KEY, BlockSpaces, block_spaces
from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.estimate import Estimate
from codesign_opt.analytical.groups import Groups
from codesign_opt.analytical.hardware import Hardware, hardware_columns
from codesign_opt.analytical.kinds import Kinds
from codesign_opt.analytical.memory import MemoryNeeds, memory_needs
from codesign_opt.analytical.model import Inputs, Tables, completed, with_shards
from codesign_opt.analytical.optimizer import OptimizerSpaces, OptimizerTable, optimizer_spaces, optimizer_table
from codesign_opt.analytical.overheads import OverheadColumns
from codesign_opt.analytical.part_tables import block_keys_of, distinct, end_keys, mean_of, recomputed_share
from codesign_opt.analytical.parts import Part
from codesign_opt.analytical.schedule import ScheduleCounts, schedule_counts
from codesign_opt.analytical.shapes import WorkloadColumns, workload_columns
from codesign_opt.analytical.space_keys import GridKeys, SpaceKeys, grid_groups
from codesign_opt.analytical.stack_ends import Ends, EndsHeld, EndWork, Held
from codesign_opt.strategies.grid import AXES, StrategyGrid
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

Array = NDArray[Any]
Columns = TypeVar("Columns")

_ENDS = (Part.FIRST, Part.LAST)


@dataclass(frozen=True, slots=True)
class GridMemory:
    """What the strategies of a grid, or of part of it, hold in memory; no speed of the system enters.

    Attributes:
        grid: The strategies.
        layouts: Their layouts' indices in the whole grid.
        keys: Their rows in the space's tables.
        sizes: Workload sizes.
        counts: Schedule counts.
        groups: Groups of processors.
        shares: For each kind of blocks its share of a stage.
        recomputed: Share of a stage's blocks that `recompute` concerns; None for all.
        spaces, state: Of one block: activations and weights, optimizer state.
        ends: The same of the ends of the stack; None for blocks alone.
        needs: Of a processor; the shape has every axis but placement and `dp_overlap`.
    """

    grid: StrategyGrid
    layouts: Array
    keys: GridKeys
    sizes: WorkloadColumns
    counts: ScheduleCounts
    groups: Groups
    shares: tuple[Array, ...]
    recomputed: Array | None
    spaces: BlockSpaces
    state: OptimizerSpaces
    ends: EndsHeld | None
    needs: MemoryNeeds

    def take(self, layouts: Array, options: Array) -> GridMemory:
        """The part with some of the layouts and options."""
        part = partial(_taken, layouts=layouts, options=options)
        return GridMemory(
            grid=self.grid.take(layouts, options),
            layouts=self.layouts[layouts],
            keys=self.keys.take(layouts, options),
            sizes=self.sizes,
            counts=part(self.counts),
            groups=part(self.groups),
            shares=part(self.shares),
            recomputed=part(self.recomputed),
            spaces=part(self.spaces),
            state=part(self.state),
            ends=part(self.ends),
            needs=part(self.needs),
        )

    def columns(self) -> dict[str, Array]:
        """Strategy columns as the model takes them."""
        return with_shards(self.grid.columns(), self.groups)


def grid_memories(
    workload: Workload,
    grids: Sequence[StrategyGrid],
    keys: SpaceKeys,
    reproduce: Set[Erratum],
    *,
    sizes: Array,
    overheads: OverheadColumns | None = None,
) -> list[GridMemory]:
    """The memory of every grid of a space, on a system whose network tiers have `sizes` (`groups.tier_sizes`)."""
    tables = _SpaceTables(workload, keys, reproduce)
    columns = workload_columns([workload], np.zeros((1,) * len(AXES), dtype=np.int64))
    return [
        _grid_memory(grid, rows, tables, columns, grid_groups(grid, sizes), overheads)
        for grid, rows in zip(grids, keys.grids, strict=True)
    ]


def _grid_memory(
    grid: StrategyGrid,
    rows: GridKeys,
    tables: _SpaceTables,
    sizes: WorkloadColumns,
    groups: Groups,
    overheads: OverheadColumns | None,
) -> GridMemory:
    strategies = with_shards(grid.columns(), groups)
    counts = schedule_counts(sizes.L + sizes.prediction_blocks, strategies)
    shares = tuple(tables.kinds.shares(np.zeros(1, dtype=np.int64), counts.N))
    recomputed = recomputed_share(strategies, counts.N)

    def mean_spaces(option: Array) -> BlockSpaces:
        return mean_of([one.take(tables.index(rows, option)) for one in tables.spaces], shares)

    spaces = _over_options(mean_spaces, rows, recomputed)
    of_optimizer = tables.keys.optimizer_index(rows, grid.sharding)
    state = mean_of([one.take(of_optimizer) for one in tables.states], shares)
    ends = tables.ends(rows, of_optimizer, strategies)
    return GridMemory(
        grid=grid,
        layouts=np.arange(grid.shape[-1]),
        keys=rows,
        sizes=sizes,
        counts=counts,
        groups=groups,
        shares=shares,
        recomputed=recomputed,
        spaces=spaces,
        state=state,
        ends=ends,
        needs=memory_needs(strategies, spaces, state, counts, ends, overheads),
    )


def _over_options(table: Callable[[Array], Columns], rows: GridKeys, recomputed: Array | None) -> Columns:
    """A table of the options, or its mean with that of the same options without recompute."""
    if recomputed is None:
        return table(rows.option)
    return mean_of([table(rows.option), table(rows.kept)], [recomputed, 1.0 - recomputed])


class _SpaceTables:
    """What blocks and ends of a workload hold, for every key of a space."""

    def __init__(self, workload: Workload, keys: SpaceKeys, reproduce: Set[Erratum]) -> None:
        self.workload, self.keys = workload, keys
        self.kinds = Kinds.all_of([workload])
        every = np.arange(len(keys.splits))
        block, optimizer = keys.block_keys(every, tiers=1), keys.optimizer_keys()
        of_space = {name: block[name] for name in (*SPACE_KEY, "workload")}

        def spaces(kind: Workload, keys: Mapping[str, Array], part: Part = Part.BLOCK) -> BlockSpaces:
            rows, index = distinct(keys)
            return block_spaces([kind], rows, reproduce, part).take(index)

        kinds = self.kinds.workloads
        self.spaces = [spaces(kind, block_keys_of(kind, of_space)) for kind in kinds]
        self.states = [optimizer_spaces([kind], optimizer, reproduce) for kind in kinds]
        self._ends: list[tuple[BlockSpaces, OptimizerSpaces]] = []
        if workload.vocabulary:
            self._ends = [
                (
                    spaces(workload, end_keys(of_space), part),
                    optimizer_spaces([workload], end_keys(optimizer), reproduce, part),
                )
                for part in _ENDS
            ]

    def index(self, rows: GridKeys, option: Array) -> Array:
        """Flat block keys without tiers of a grid with some options, in the shape of its arrays."""
        index = option[:, np.newaxis] * len(self.keys.splits) + rows.split
        return index.reshape(1, 1, 1, 1, 1, 1, *index.shape)

    def ends(self, rows: GridKeys, of_optimizer: Array, strategies: Mapping[str, Array]) -> EndsHeld | None:
        """What the ends hold; None for blocks alone."""
        if not self._ends:
            return None
        index = self.index(rows, rows.option)
        first, last = (Held(spaces=spaces.take(index), state=state.take(of_optimizer)) for spaces, state in self._ends)
        present, tied = np.array(True), np.array(self.workload.tied_embeddings)
        return EndsHeld.of(first, last, strategies, present=present, tied=tied)


class GridTimes:
    """Block and optimizer times on one system, for the layouts of some splits of a space.

    Args:
        workload: The workload.
        system: The system.
        keys: The keys of the space.
        splits: Rows of `keys.splits`.
        reproduce: Errata of the published tool to reproduce.
    """

    def __init__(
        self, workload: Workload, system: System, keys: SpaceKeys, splits: Array, reproduce: Set[Erratum]
    ) -> None:
        self._workload, self._system, self._reproduce = workload, system, reproduce
        self._keys = keys
        self._splits = np.unique(splits)
        block = keys.block_keys(self._splits, len(system.network_tiers) if keys.needs_tiers else 1)
        optimizer = keys.optimizer_keys()
        kinds = Kinds.all_of([workload]).workloads
        self._blocks = [shared_block_table(kind, system, block, reproduce) for kind in kinds]
        self._optimizers = [optimizer_table([kind], [system], optimizer, reproduce) for kind in kinds]
        self._ends: list[tuple[BlockTable, OptimizerTable]] = []
        if workload.vocabulary:
            self._ends = [
                (
                    shared_block_table(workload, system, block, reproduce, part),
                    optimizer_table([workload], [system], end_keys(optimizer), reproduce, part),
                )
                for part in _ENDS
            ]
        single = np.zeros((1,) * len(AXES), dtype=np.int64)
        self._hardware: Hardware = hardware_columns([system], single, single + keys.datatype, reproduce)

    def blocks(self, part: GridMemory) -> BlockTable:
        """Block times of a part of a grid, whose splits must be among those of the tables."""

        def mean_block(option: Array) -> BlockTable:
            index = self._index(part, option)
            return mean_of([table.take(index) for table in self._blocks], part.shares)

        return _over_options(mean_block, part.keys, part.recomputed)

    def estimate(self, part: GridMemory, blocks: BlockTable) -> Estimate:
        """The estimate of a part of a grid with its block times; arrays broadcast to the part's shape."""
        of_optimizer = self._keys.optimizer_index(part.keys, part.grid.sharding)
        tables = Tables(
            blocks=blocks,
            spaces=part.spaces,
            optimizer=mean_of([table.take(of_optimizer) for table in self._optimizers], part.shares),
            state=part.state,
            ends=self._with_work(part, of_optimizer),
        )
        inputs = Inputs(
            strategies=part.columns(),
            sizes=part.sizes,
            groups=part.groups,
            hardware=self._hardware,
            reproduce=self._reproduce,
        )
        return Estimate(self._workload, self._system, completed(inputs, tables, part.counts, part.needs))

    def _with_work(self, part: GridMemory, of_optimizer: Array) -> Ends | None:
        if part.ends is None:
            return None
        index = self._index(part, part.keys.option)
        first, last = (
            EndWork(blocks=blocks.take(index), optimizer=optimizer.take(of_optimizer))
            for blocks, optimizer in self._ends
        )
        return Ends(first=first, last=last, held=part.ends)

    def _index(self, part: GridMemory, option: Array) -> Array:
        """Flat block keys of a part, in the shape of its arrays."""
        split = np.searchsorted(self._splits, part.keys.split)
        tier = np.zeros_like(part.grid.tp_tier) if part.grid.ordered else part.grid.tp_tier
        index = tier[:, np.newaxis, np.newaxis] * len(self._keys.options)
        index = (index + option[:, np.newaxis]) * len(self._splits) + split
        return index.reshape(1, 1, 1, 1, 1, *index.shape)


def _taken(values: Any, *, layouts: Array, options: Array) -> Any:
    """Entries along the last two axes, where an array has them; of dataclasses and tuples those of each part."""
    if values is None:
        return None
    if isinstance(values, np.ndarray):
        if values.ndim and values.shape[-1] > 1:
            values = values[..., layouts]
        if values.ndim > 1 and values.shape[-2] > 1:
            values = values[..., options, :]
        return values
    if isinstance(values, tuple):
        return tuple(_taken(value, layouts=layouts, options=options) for value in values)
    parts = {field.name: getattr(values, field.name) for field in fields(values)}
    return type(values)(**{name: _taken(value, layouts=layouts, options=options) for name, value in parts.items()})
