"""Mapped runs that are evaluated many times on systems that differ in their speeds alone.

What a run computes, touches, sends and keeps does not depend on these speeds: it is made once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block import BLOCK_KEY, BlockTable, block_totals
from codesign_opt.analytical.block_spaces import SPACE_KEY, BlockSpaces, block_spaces
from codesign_opt.analytical.errata import NONE, Erratum
from codesign_opt.analytical.hardware import Hardware, hardware_columns
from codesign_opt.analytical.model import Model, model
from codesign_opt.analytical.operation_times import OperationColumns
from codesign_opt.analytical.optimizer import (
    OPTIMIZER_KEY,
    OptimizerSpaces,
    OptimizerTable,
    optimizer_spaces,
    optimizer_totals,
    optimizer_weights,
    optimizer_work,
)
from codesign_opt.analytical.part_tables import PartTables, distinct
from codesign_opt.analytical.parts import OPERATIONS, Part
from codesign_opt.analytical.shapes import BlockShapes, block_shapes, workload_columns
from codesign_opt.analytical.structure import structures
from codesign_opt.strategies import Datatype, StrategyTable
from codesign_opt.systems import System
from codesign_opt.validation.mapping import MappedRun
from codesign_opt.workloads import Workload

Array = NDArray[Any]


class PreparedRows:
    """Runs whose operations are kept between evaluations.

    Attributes:
        systems: The different systems of the runs, in the order of their first runs.
        system: For each run the index of its system.
    """

    def __init__(self, runs: Sequence[MappedRun]) -> None:
        self._workloads, self._workload = _numbered([run.workload for run in runs])
        self.systems, self.system = _numbered([run.system for run in runs])
        self._strategies = StrategyTable.from_strategies(run.strategy for run in runs)
        self._parts = _Parts()

    def evaluate(self, systems: Sequence[System]) -> Model:
        """The model's result for every run, on versions of `systems` of the same sizes, in their order."""
        self._parts.begin(systems)
        return model(
            self._workloads,
            systems,
            self._strategies,
            workload=self._workload,
            system=self.system,
            reproduce=NONE,
            source=self._parts,
        )

    def seconds(self, systems: Sequence[System]) -> Array:
        """Time of a step of every run."""
        return np.broadcast_to(self.evaluate(systems).times.total, self.system.shape)


def _numbered(things: Sequence[Any]) -> tuple[list[Any], Array]:
    """The different ones, and for each its number among them; what prints alike is alike."""
    numbers: dict[str, int] = {}
    kinds: list[Any] = []
    places = np.empty(len(things), dtype=np.int64)
    for place, thing in enumerate(things):
        words = repr(thing)
        if words not in numbers:
            numbers[words] = len(kinds)
            kinds.append(thing)
        places[place] = numbers[words]
    return kinds, places


class _Parts:
    """A source of tables for `analytical.model`, which asks for the same parts in the same order every time."""

    def __init__(self) -> None:
        self._made: list[_Work] = []
        self._next = 0
        self._hardware: Hardware | None = None

    def begin(self, systems: Sequence[System]) -> None:
        """The next tables are for these systems."""
        formats = np.arange(len(Datatype))
        every = np.repeat(np.arange(len(systems)), len(formats))
        self._hardware = hardware_columns(systems, every, np.tile(formats, len(systems)), NONE)
        self._next = 0

    def __call__(
        self,
        workloads: Sequence[Workload],
        systems: Sequence[System],
        rows: Mapping[str, Array],
        reproduce: Set[Erratum],
        part: Part,
    ) -> PartTables:
        if self._next == len(self._made):
            self._made.append(_work(workloads, rows, reproduce, part))
        work = self._made[self._next]
        self._next += 1
        assert self._hardware is not None
        return work.timed(self._hardware, reproduce)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Operations of the keys at `rows`, which share a structure."""

    rows: Array
    keys: Mapping[str, Array]
    shapes: BlockShapes
    operations: OperationColumns


@dataclass(frozen=True, slots=True)
class _Steps:
    """(operation, key) flop and bytes of the optimizer for the keys at `rows`."""

    rows: Array
    keys: Mapping[str, Array]
    F: Array
    Y: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What one part of the stack does, whatever the speeds: by key, and the key of each row."""

    blocks: Sequence[_Blocks]
    of_block: Array
    steps: Sequence[_Steps]
    of_step: Array
    spaces: BlockSpaces
    state: OptimizerSpaces

    def timed(self, hardware: Hardware, reproduce: Set[Erratum]) -> PartTables:
        """The tables on some hardware, which has a row for every system and format."""
        block: dict[str, Array] = {}
        for blocks in self.blocks:
            own = hardware.take(_place(blocks.keys))
            _fill(block, blocks.rows, block_totals(blocks.operations, blocks.shapes, own, blocks.keys, reproduce))
        step: dict[str, Array] = {}
        for steps in self.steps:
            own = hardware.take(_place(steps.keys))
            _fill(step, steps.rows, optimizer_totals(steps.F, steps.Y, steps.keys["training"], own))
        return PartTables(
            blocks=BlockTable(**_whole(block)).take(self.of_block),
            spaces=self.spaces,
            optimizer=OptimizerTable(**_whole(step)).take(self.of_step),
            state=self.state,
        )


def _place(keys: Mapping[str, Array]) -> Array:
    return np.asarray(keys["system"] * len(Datatype) + keys["datatype"])


def _fill(columns: dict[str, Any], rows: Array, values: Mapping[str, Array]) -> None:
    for name, part in values.items():
        columns.setdefault(name, []).append((rows, part))


def _whole(columns: Mapping[str, Any]) -> dict[str, Array]:
    whole = {}
    for name, pieces in columns.items():
        values = np.empty(sum(len(rows) for rows, _ in pieces))
        for rows, part in pieces:
            values[rows] = part
        whole[name] = values
    return whole


def _work(workloads: Sequence[Workload], rows: Mapping[str, Array], reproduce: Set[Erratum], part: Part) -> _Work:
    block, of_block = distinct({name: rows[name] for name in (*BLOCK_KEY, "workload", "system")})
    space, of_space = distinct({name: rows[name] for name in (*SPACE_KEY, "workload")})
    names = (*OPTIMIZER_KEY, "shards", "expert_shards", "workload", "system")
    step, of_step = distinct({name: rows[name] for name in names})
    blocks = []
    for structure, places, keys in structures(workloads, block):
        shapes = block_shapes(workload_columns(workloads, keys["workload"]), structure, keys)
        operations = OperationColumns.stack(OPERATIONS[part](shapes, reproduce), len(shapes.t))
        blocks.append(_Blocks(places, keys, shapes, operations))
    steps = []
    for places, keys, weights in optimizer_weights(workloads, step, reproduce, part):
        F, Y = optimizer_work(weights.elements, weights.e, weights.shards, weights.gradient_bytes, reproduce)
        steps.append(_Steps(places, keys, F, Y))
    return _Work(
        blocks=blocks,
        of_block=of_block,
        steps=steps,
        of_step=of_step,
        spaces=block_spaces(workloads, space, reproduce, part).take(of_space),
        state=optimizer_spaces(workloads, step, reproduce, part).take(of_step),
    )
