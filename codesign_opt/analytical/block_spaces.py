"""What one block holds in memory (spec analytical-model section 7), one row a key; no speed of the system enters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.operation_times import OperationColumns, over_operations
from codesign_opt.analytical.parts import OPERATIONS, Part
from codesign_opt.analytical.shapes import BlockShapes, block_shapes, workload_columns
from codesign_opt.analytical.structure import structures
from codesign_opt.workloads import Workload

Array = NDArray[Any]

SPACE_KEY = (
    "tp", "microbatch", "datatype", "fused_activation", "attention", "recompute",
    "tp_communication", "tp_overlap", "gather_redo", "training",
    "cp", "cp_exchange", "ep", "etp", "attention_kernel", "product_precision",
)  # fmt: skip
"""The strategy columns that a block's spaces depend on: those of a block without network tiers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSpaces:
    """Bytes, as columns over space keys.

    Attributes:
        spW: Weights, of which `spX` are those of routed experts.
        wrk: Activations of the block at work.
        sto: Activations stored from forward to backward pass.
        ckp: Checkpoint of full recompute.
        wgu: Weight gradients, not sharded.
        agr: Activation gradients.
        message: A pipeline message, forward; backward the same in training.
        keeps_activations: Whether activations outlive the forward pass, so that offload moves them.
    """

    spW: Array
    spX: Array
    wrk: Array
    sto: Array
    ckp: Array
    wgu: Array
    agr: Array
    message: Array
    keeps_activations: Array

    def take(self, index: Array) -> BlockSpaces:
        """Rows at `index`; columns take the shape of `index`."""
        return BlockSpaces(**{field.name: getattr(self, field.name)[index] for field in fields(self)})


def block_spaces(
    workloads: Sequence[Workload], keys: Mapping[str, Array], reproduce: Set[Erratum], part: Part = Part.BLOCK
) -> BlockSpaces:
    """Spaces for every key, in order; `keys` has the columns of `SPACE_KEY`, and `workload`.

    Workloads must have blocks of one kind only (`workloads.kinds`).
    """
    result: dict[str, Array] = {}
    for structure, rows, members in structures(workloads, keys):
        s = block_shapes(workload_columns(workloads, members["workload"]), structure, members)
        operations = OperationColumns.stack(OPERATIONS[part](s, reproduce), len(s.t))
        for name, values in _totals(operations, s, members["training"], reproduce).items():
            if name not in result:
                result[name] = np.empty(len(keys["tp"]), dtype=values.dtype)
            result[name][rows] = values
    return BlockSpaces(**result)


def _totals(operations: OperationColumns, s: BlockShapes, training: Array, reproduce: Set[Erratum]) -> dict[str, Array]:
    e, weights = s.e, operations["weights"]
    keeps = training if Erratum.E12 not in reproduce else np.ones_like(training)
    held = over_operations(operations["Kb"])
    dropped = over_operations(np.where(operations["output_dropped"], e * operations["O"], 0.0))
    stored = np.where(training, over_operations(operations["stored"]) - dropped, np.where(keeps, held, 0.0))
    checkpoint = s.A if Erratum.E22 in reproduce else s.X
    split_message = s.sequence_parallel | s.boundary
    return {
        "spW": e * over_operations(weights),
        "spX": e * over_operations(np.where(operations.expert, weights, 0.0)),
        "wrk": over_operations(np.where(operations["shared"], 0.0, operations["Kb"])),
        "sto": np.where(s.full, 0.0, stored),
        "ckp": np.where(training & s.full, e * checkpoint, 0.0),
        "wgu": training * 4 * over_operations(weights),
        "agr": training * over_operations(operations["Gb"]),
        "message": e * np.where(split_message, s.A_split, s.A),
        "keeps_activations": keeps,
    }
