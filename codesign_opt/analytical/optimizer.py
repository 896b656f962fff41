"""The optimizer of one block: Adam, with a master copy of the weights below 32 bits (spec section 5.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.hardware import Hardware, hardware_columns
from codesign_opt.analytical.operation_times import OperationColumns, over_operations
from codesign_opt.analytical.parts import OPERATIONS, Part
from codesign_opt.analytical.shapes import BlockShapes, block_shapes, workload_columns
from codesign_opt.analytical.structure import structures
from codesign_opt.strategies import GradientPrecision
from codesign_opt.strategies.table import DEFAULT_COLUMNS, OPTION_CODES
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

Array = NDArray[Any]

OPTIMIZER_KEY = (
    "tp", "datatype", "attention", "tp_overlap", "training", "ep", "etp", "gradient_precision", "gradient_sharding",
)  # fmt: skip
"""The strategy columns that the optimizer depends on, besides the numbers of shards."""

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
    """Bytes, as columns over optimizer keys: optimizer state, and weight gradients, which may be in shards."""

    space: Array
    gradient: Array

    def take(self, index: Array) -> OptimizerSpaces:
        """Rows at `index`; columns take the shape of `index`."""
        return OptimizerSpaces(space=self.space[index], gradient=self.gradient[index])


def optimizer_table(
    workloads: Sequence[Workload],
    systems: Sequence[System],
    keys: Mapping[str, Array],
    reproduce: Set[Erratum],
    part: Part = Part.BLOCK,
) -> OptimizerTable:
    """The optimizer's work for every key, in order.

    `keys` has the columns of `OPTIMIZER_KEY`, `shards` and `expert_shards`, `workload` and `system`.
    """
    columns: dict[str, Array] = {}
    for rows, members, w in optimizer_weights(workloads, keys, reproduce, part):
        hardware = hardware_columns(systems, members["system"], members["datatype"], reproduce)
        F, Y = optimizer_work(w.elements, w.e, w.shards, w.gradient_bytes, reproduce)
        _fill(columns, rows, optimizer_totals(F, Y, members["training"], hardware), len(keys["tp"]))
    return OptimizerTable(**columns)


def optimizer_totals(F: Array, Y: Array, training: Array, hardware: Hardware) -> dict[str, Array]:
    """The columns of an `OptimizerTable`, given the (operation, key) flop and bytes of a step."""
    f, m = hardware.vector_time(F), hardware.memory_time(Y)
    totals = {"F": F, "f": f, "Y": Y, "m": m, "T": hardware.combine(f, m)}
    return {name: training * over_operations(values) for name, values in totals.items()}


def optimizer_spaces(
    workloads: Sequence[Workload], keys: Mapping[str, Array], reproduce: Set[Erratum], part: Part = Part.BLOCK
) -> OptimizerSpaces:
    """The optimizer's memory for every key, in order; `keys` as for `optimizer_table`, without `system`."""
    columns: dict[str, Array] = {}
    for rows, members, w in optimizer_weights(workloads, keys, reproduce, part):
        in_shards = np.where(members["gradient_sharding"], w.shards, 1)
        totals = {
            "space": optimizer_state(w.elements, w.e, w.shards),
            "gradient": w.gradient_bytes * w.elements / in_shards,
        }
        held = {name: members["training"] * over_operations(values) for name, values in totals.items()}
        _fill(columns, rows, held, len(keys["tp"]))
    return OptimizerSpaces(**columns)


def optimizer_work(
    weights: Array, e: Array, shards: Array, gradient_bytes: Array, reproduce: Set[Erratum]
) -> tuple[Array, Array]:
    """Flop and bytes touched for each entry of `weights` (elements of `e` bytes)."""
    state = optimizer_state(weights, e, shards)
    # State is read and written, the gradient read, and the weights written (read as well without a master copy).
    exchanged = 2 * state + (gradient_bytes + np.where(e < 4, e, 2 * e)) * weights / shards
    return 11 * weights / shards, state if Erratum.E17B in reproduce else exchanged


def optimizer_state(weights: Array, e: Array, shards: Array) -> Array:
    """Bytes of state for each entry of `weights`: moments, and a 32-bit master copy of shorter weights."""
    return np.asarray((np.where(e < 4, 4.0, 0.0) + MOMENT_BYTES) * weights / shards)


def gradient_bytes(e: Array, precision: Array) -> Array:
    """Bytes that the gradient of a weight of `e` bytes takes, for codes of `GradientPrecision`."""
    single = np.where(precision == OPTION_CODES[GradientPrecision.FLOAT32], 4.0, e)
    return np.where(precision == OPTION_CODES[GradientPrecision.BOTH], e + 4.0, single)


@dataclass(frozen=True, slots=True)
class OptimizerWeights:
    """(operation, key) weights, the shards of each, and bytes of an element and of its gradient."""

    elements: Array
    shards: Array
    e: Array
    gradient_bytes: Array


def optimizer_weights(
    workloads: Sequence[Workload], keys: Mapping[str, Array], reproduce: Set[Erratum], part: Part
) -> Iterator[tuple[Array, dict[str, Array], OptimizerWeights]]:
    """For each structure: its keys' rows, the keys, and their weights."""
    for structure, rows, members in structures(workloads, _with_any_block(keys)):
        s: BlockShapes = block_shapes(workload_columns(workloads, members["workload"]), structure, members)
        operations = OperationColumns.stack(OPERATIONS[part](s, reproduce), len(s.t))
        shards = np.where(operations.expert, members["expert_shards"], members["shards"])
        bytes_ = gradient_bytes(s.e, members["gradient_precision"])
        yield rows, members, OptimizerWeights(operations["weights"], shards, s.e, bytes_)


def _fill(columns: dict[str, Array], rows: Array, totals: Mapping[str, Array], length: int) -> None:
    for name, values in totals.items():
        columns.setdefault(name, np.empty(length))[rows] = values


def _with_any_block(keys: Mapping[str, Array]) -> dict[str, Array]:
    """Keys completed to block keys: weights do not depend on what is added."""
    added = (
        "fused_activation", "gather_redo", "recompute", "tp_communication", "cp", "cp_exchange", "attention_kernel",
        "product_precision",
    )  # fmt: skip
    ones = np.ones(len(keys["tp"]), dtype=np.int64)
    return {"microbatch": ones, **{name: ones * DEFAULT_COLUMNS[name] for name in added}, **keys}
