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
from codesign_opt.analytical.operation_times import OperationColumns
from codesign_opt.analytical.sequence import block_operations
from codesign_opt.analytical.shapes import block_shapes, workload_columns
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

Array = NDArray[Any]

OPTIMIZER_KEY = ("tp", "datatype", "attention", "tp_overlap", "training")
"""The strategy columns that the optimizer depends on, besides the number of shards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerTable:
    """Columns over optimizer keys: `F` flop, `f` flop time, `Y` bytes touched, `m` the time that takes, `T` step time
    in seconds; `space` bytes of optimizer state, `gradient` bytes of sharded weight gradients.
    """

    F: Array
    f: Array
    Y: Array
    m: Array
    T: Array
    space: Array
    gradient: Array

    def take(self, index: Array) -> OptimizerTable:
        """Rows at `index`; columns take the shape of `index`."""
        return OptimizerTable(**{field.name: getattr(self, field.name)[index] for field in fields(self)})


def optimizer_table(
    workloads: Sequence[Workload], systems: Sequence[System], keys: Mapping[str, Array], reproduce: Set[Erratum]
) -> OptimizerTable:
    """The optimizer for every key, in order; `keys` has the columns of `OPTIMIZER_KEY`, `shards`, `workload` and
    `system`.
    """
    sequence = operation_sequence(keys)
    result: dict[str, Array] = {}
    for value in np.unique(sequence):
        members = np.flatnonzero(sequence == value)
        part = {name: values[members] for name, values in keys.items()}
        for name, values in _totals(workloads, systems, part, reproduce).items():
            result.setdefault(name, np.empty(len(sequence)))[members] = values
    return OptimizerTable(**result)


def optimizer_operations(
    weights: Array, element_bytes: Array, shards: Array, reproduce: Set[Erratum]
) -> tuple[Array, Array, Array]:
    """Flop, bytes touched and bytes of state of the optimizer, for each entry of `weights` (elements)."""
    W, e, S = weights, element_bytes, shards
    moments = 8.0
    master = np.where(e < 4, 4.0, 0.0)
    state = (master + moments) * W / S
    # State is read and written, the gradient read, and the weights written (read as well without a master copy).
    exchanged = (2 * (master + moments) + e + np.where(e < 4, e, 2 * e)) * W / S
    touched = state if Erratum.E17B in reproduce else exchanged
    return 11 * W / S, touched, state


def _totals(
    workloads: Sequence[Workload], systems: Sequence[System], keys: Mapping[str, Array], reproduce: Set[Erratum]
) -> dict[str, Array]:
    hardware = hardware_columns(systems, keys["system"], keys["datatype"], reproduce)
    s = block_shapes(workload_columns(workloads, keys["workload"]), _with_any_block(keys))
    shards = keys["shards"]
    operations = OperationColumns.stack(block_operations(s, reproduce), len(s.t))
    F, Y, space = optimizer_operations(operations["weights"], s.e, shards, reproduce)
    f = hardware.vector_time(F)
    m = hardware.memory_time(Y)
    training = keys["training"].astype(np.float64)
    columns = {"F": F, "f": f, "Y": Y, "m": m, "T": hardware.combine(f, m), "space": space}
    columns["gradient"] = s.e * operations["weights"] / shards
    return {name: training * values.sum(axis=0) for name, values in columns.items()}


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
