"""Totals of one block, or of an end of the stack, for a microbatch (spec analytical-model section 7), one row a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.hardware import Hardware, hardware_columns
from codesign_opt.analytical.host import held_up
from codesign_opt.analytical.operation_times import (
    ExchangeTimes,
    OperationColumns,
    StageTimes,
    exchange_times,
    over_operations,
    stage_times,
)
from codesign_opt.analytical.parts import OPERATIONS, Part
from codesign_opt.analytical.shapes import BlockShapes, block_shapes, workload_columns
from codesign_opt.analytical.structure import structures
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

Array = NDArray[Any]

BLOCK_KEY = (
    "tp", "microbatch", "datatype", "fused_activation", "attention", "recompute",
    "tp_communication", "tp_overlap", "gather_redo", "training", "tp_tier", "tp_inner",
    "cp", "cp_exchange", "cp_tier", "cp_inner", "ep", "etp", "ep_tier", "ep_inner", "attention_kernel",
    "product_precision",
)  # fmt: skip
"""The strategy columns that a block depends on, and those of `groups.Groups.columns`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTable:
    """Columns over block keys. Suffix `_b` is a base block, `_e` an edge block, which sends the pipeline message.

    Attributes:
        fw_F, re_F, ag_F, wg_F: Flop of the forward pass, recompute, activation and weight gradient.
        fw_f, re_f, ag_f, wg_f: Their flop time, seconds.
        fw_Y, re_Y, ag_Y, wg_Y: Bytes touched; `fw_m` … the time that takes.
        fw_T_b, …: Processing time.
        szf, sza, szr: Tensor-parallel bytes: forward, backward, again.
        lkf, lka, lkr: Link time of the same; `exf`, `exa`, `exr` the exposed part.
        excp, exep: The parts of `exf` and `exa` that are context- and expert-parallel communication.
        tpreq: Bandwidth that would hide all tensor-parallel communication, bytes/s.
    """

    fw_F: Array
    fw_f: Array
    fw_Y: Array
    fw_m: Array
    fw_T_b: Array
    fw_T_e: Array
    re_F: Array
    re_f: Array
    re_Y: Array
    re_m: Array
    re_T_b: Array
    re_T_e: Array
    ag_F: Array
    ag_f: Array
    ag_Y: Array
    ag_m: Array
    ag_T_b: Array
    ag_T_e: Array
    wg_F: Array
    wg_f: Array
    wg_Y: Array
    wg_m: Array
    wg_T_b: Array
    wg_T_e: Array
    szf_b: Array
    szf_e: Array
    sza_b: Array
    sza_e: Array
    szr_b: Array
    szr_e: Array
    lkf_b: Array
    lkf_e: Array
    lka_b: Array
    lka_e: Array
    lkr_b: Array
    lkr_e: Array
    exf_b: Array
    exf_e: Array
    exa_b: Array
    exa_e: Array
    exr_b: Array
    exr_e: Array
    excp: Array
    exep: Array
    tpreq: Array

    def take(self, index: Array) -> BlockTable:
        """Rows at `index`; columns take the shape of `index`."""
        return BlockTable(**{field.name: getattr(self, field.name)[index] for field in fields(self)})


def block_table(
    workloads: Sequence[Workload],
    systems: Sequence[System],
    keys: Mapping[str, Array],
    reproduce: Set[Erratum],
    part: Part = Part.BLOCK,
) -> BlockTable:
    """Totals for every block key, in order; `keys` has the columns of `BLOCK_KEY`, `workload` and `system`.

    Workloads must have blocks of one kind only (`workloads.kinds`).
    """
    result: dict[str, Array] = {}
    for structure, rows, members in structures(workloads, keys):
        s = block_shapes(workload_columns(workloads, members["workload"]), structure, members)
        operations = OperationColumns.stack(OPERATIONS[part](s, reproduce), len(s.t))
        hardware = hardware_columns(systems, members["system"], members["datatype"], reproduce)
        for name, values in block_totals(operations, s, hardware, members, reproduce).items():
            if name not in result:
                result[name] = np.empty(len(keys["tp"]), dtype=values.dtype)
            result[name][rows] = values
    return BlockTable(**result)


def block_totals(
    operations: OperationColumns,
    s: BlockShapes,
    hardware: Hardware,
    keys: Mapping[str, Array],
    reproduce: Set[Erratum],
) -> dict[str, Array]:
    """The columns of a `BlockTable` for block keys that share a structure, given their operations."""
    stages = stage_times(operations, s, hardware)
    alone = exchange_times(operations, stages, s, keys, hardware, reproduce)
    base, edge = (held_up(times, operations, hardware.launch) for times in alone)
    training = keys["training"].astype(np.float64)
    return {
        **_compute_totals(operations, stages, training, reproduce),
        **_exchange_totals(operations, base, training, "_b"),
        **_exchange_totals(operations, edge, training, "_e"),
        **_peer_totals(operations, base, training),
        "tpreq": _overlap_requirement(operations, stages, edge, keys, hardware, training),
    }


def _compute_totals(
    operations: OperationColumns, stages: StageTimes, training: Array, reproduce: Set[Erratum]
) -> dict[str, Array]:
    RC = operations["recomputed"]

    def again(values: Array) -> Array:
        own = np.cumsum(values, axis=0) if running_totals else values
        total: Array = training * over_operations(np.where(RC, own, 0.0))
        return total

    running_totals = Erratum.E1 in reproduce
    forward = {"F": operations["Ff"], "f": stages.ff, "Y": operations["Yf"], "m": stages.fm}
    activation = {"F": operations["Fa"], "f": stages.af, "Y": operations["Ya"], "m": stages.am}
    weight = {"F": operations["Fw"], "f": stages.wf, "Y": operations["Yw"], "m": stages.wm}
    return {
        **{f"fw_{name}": over_operations(values) for name, values in forward.items()},
        **{f"re_{name}": again(values) for name, values in forward.items()},
        **{f"ag_{name}": training * over_operations(values) for name, values in activation.items()},
        **{f"wg_{name}": training * over_operations(values) for name, values in weight.items()},
    }


def _exchange_totals(
    operations: OperationColumns, exchange: ExchangeTimes, training: Array, suffix: str
) -> dict[str, Array]:
    totals = {
        "fw_T": over_operations(exchange.Tf),
        "re_T": training * over_operations(np.where(operations["recomputed"], exchange.Tf, 0.0)),
        "ag_T": training * over_operations(exchange.Ta),
        "wg_T": training * over_operations(exchange.Tw),
        "szf": over_operations(exchange.qf),
        "sza": training * over_operations(exchange.qa),
        "szr": training * over_operations(exchange.qr),
        "lkf": over_operations(exchange.lf),
        "lka": training * over_operations(exchange.la),
        "lkr": training * over_operations(exchange.lr),
        "exf": over_operations(exchange.Ef),
        "exa": training * over_operations(exchange.Ea),
        "exr": training * over_operations(exchange.Er),
    }
    return {name + suffix: values for name, values in totals.items()}


def _peer_totals(operations: OperationColumns, exchange: ExchangeTimes, training: Array) -> dict[str, Array]:
    totals = {"excp": np.zeros_like(training), "exep": np.zeros_like(training)}
    for row, peer in operations.peers:
        exposed = exchange.Ef[row] + training * exchange.Ea[row]
        totals["excp" if peer.group == "cp" else "exep"] += exposed
    return totals


def _overlap_requirement(
    operations: OperationColumns,
    stages: StageTimes,
    edge: ExchangeTimes,
    keys: Mapping[str, Array],
    hardware: Hardware,
    training: Array,
) -> Array:
    U = hardware.processor_usage(keys["tp_tier"])
    bytes_ = np.maximum(edge.qf, training * edge.qa) * (1 - U)
    products = operations.overlapped
    required: Array = np.where(products, bytes_ / np.where(products, stages.ff, 1.0), 0.0).max(axis=0)
    return required
