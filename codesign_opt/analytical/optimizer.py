"""The optimizer of one block: Adam, with a master copy of the weights below 32 bits (spec section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block import operation_sequence
from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.hardware import hardware_columns
from codesign_opt.analytical.operation_times import OperationColumns, over_operations
from codesign_opt.analytical.sequence import block_operations
from codesign_opt.analytical.shapes import BlockShapes, block_shapes, workload_columns
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

Array = NDArray[Any]

OPTIMIZER_KEY = ("tp", "datatype", "attention", "tp_overlap", "training")
"""The strategy columns that the optimizer depends on, besides the number of shards."""

MOMENT_BYTES = 8.0
"""Two 32-bit moments for each weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerTable:
    """Columns over optimizer keys: `F` flop, `f` flop time, `Y` bytes touched, `m` the time that takes, and `T` the
    time of a step, in seconds.
    """

    F: Array
    f: Array
    Y: Array
    m: Array
    T: Array

    def take(self, index: Array) -> OptimizerTable:
        """Rows at `index`; columns take the shape of `index`."""
        return OptimizerTable(**{field.name: getattr(self, field.name)[index] for field in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSpaces:
    """Bytes, as columns over optimizer keys: optimizer state, and sharded weight gradients."""

    space: Array
    gradient: Array

    def take(self, index: Array) -> OptimizerSpaces:
        """Rows at `index`; columns take the shape of `index`."""
        return OptimizerSpaces(space=self.space[index], gradient=self.gradient[index])


def optimizer_table(
    workloads: Sequence[Workload], systems: Sequence[System], keys: Mapping[str, Array], reproduce: Set[Erratum]
) -> OptimizerTable:
    """The optimizer's work for every key, in order.

    `keys` has the columns of `OPTIMIZER_KEY`, `shards`, `workload` and `system`.
    """
    columns: dict[str, Array] = {}
    for members, part, s, weights in _weights(workloads, keys, reproduce):
        hardware = hardware_columns(systems, part["system"], part["datatype"], reproduce)
        F, Y = optimizer_work(weights, s.e, part["shards"], reproduce)
        f, m = hardware.vector_time(F), hardware.memory_time(Y)
        totals = {"F": F, "f": f, "Y": Y, "m": m, "T": hardware.combine(f, m)}
        _fill(columns, members, part["training"], totals, len(keys["tp"]))
    return OptimizerTable(**columns)


def optimizer_spaces(
    workloads: Sequence[Workload], keys: Mapping[str, Array], reproduce: Set[Erratum]
) -> OptimizerSpaces:
    """The optimizer's memory for every key, in order; `keys` as for `optimizer_table`, without `system`."""
    columns: dict[str, Array] = {}
    for members, part, s, weights in _weights(workloads, keys, reproduce):
        shards = part["shards"]
        totals = {"space": optimizer_state(weights, s.e, shards), "gradient": s.e * weights / shards}
        _fill(columns, members, part["training"], totals, len(keys["tp"]))
    return OptimizerSpaces(**columns)


def optimizer_work(weights: Array, e: Array, shards: Array, reproduce: Set[Erratum]) -> tuple[Array, Array]:
    """Flop and bytes touched for each entry of `weights` (elements of `e` bytes)."""
    state = optimizer_state(weights, e, shards)
    # State is read and written, the gradient read, and the weights written (read as well without a master copy).
    exchanged = 2 * state + (e + np.where(e < 4, e, 2 * e)) * weights / shards
    return 11 * weights / shards, state if Erratum.E17B in reproduce else exchanged


def optimizer_state(weights: Array, e: Array, shards: Array) -> Array:
    """Bytes of state for each entry of `weights`: moments, and a 32-bit master copy of shorter weights."""
    return np.asarray((np.where(e < 4, 4.0, 0.0) + MOMENT_BYTES) * weights / shards)


def _weights(
    workloads: Sequence[Workload], keys: Mapping[str, Array], reproduce: Set[Erratum]
) -> list[tuple[Array, dict[str, Array], BlockShapes, Array]]:
    """For each sequence of operations: its keys' rows, the keys, their shapes, and (operation, key) weights."""
    sequence = operation_sequence(keys)
    parts = []
    for value in np.unique(sequence):
        members = np.flatnonzero(sequence == value)
        part = {name: values[members] for name, values in keys.items()}
        s = block_shapes(workload_columns(workloads, part["workload"]), _with_any_block(part))
        operations = OperationColumns.stack(block_operations(s, reproduce), len(s.t))
        parts.append((members, part, s, operations["weights"]))
    return parts


def _fill(columns: dict[str, Array], members: Array, training: Array, totals: Mapping[str, Array], length: int) -> None:
    for name, values in totals.items():
        columns.setdefault(name, np.empty(length))[members] = training * over_operations(values)


def _with_any_block(keys: Mapping[str, Array]) -> dict[str, Array]:
    """Keys completed to block keys: weights do not depend on what is added."""
    length = len(keys["tp"])
    return {
        "microbatch": np.ones(length, dtype=np.int64),
        "fused_activation": np.ones(length, dtype=np.bool_),
        "gather_redo": np.zeros(length, dtype=np.bool_),
        "recompute": np.zeros(length, dtype=np.int8),
        "tp_communication": np.zeros(length, dtype=np.int8),
        **keys,
    }
