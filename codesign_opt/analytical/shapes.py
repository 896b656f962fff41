"""Derived sizes and flags of a block, as columns over block keys (spec analytical-model section 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies import Attention, Datatype, Recompute, TpCommunication, TpOverlap
from codesign_opt.strategies.options import BYTES
from codesign_opt.strategies.table import OPTION_CODES
from codesign_opt.workloads import Workload

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadColumns:
    """Workload sizes as columns, one entry a row (or a single entry for all rows).

    h hidden, f feedforward, s sequence length, a attention heads, d head size, L blocks.
    """

    h: Array
    f: Array
    s: Array
    a: Array
    d: Array
    L: Array


def workload_columns(workloads: Sequence[Workload], workload: Array) -> WorkloadColumns:
    """Columns for rows that name their workload (index in `workloads`); float64, exact below 2^53."""

    def column(name: str) -> Array:
        return np.array([getattr(shape, name) for shape in workloads], dtype=np.float64)[workload]

    return WorkloadColumns(
        h=column("hidden"),
        f=column("feedforward"),
        s=column("sequence_length"),
        a=column("attention_heads"),
        d=column("head_size"),
        L=column("blocks"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShapes:
    """Sizes in elements and flags, one entry a block key; attention and overlap are the same for all keys.

    Attributes:
        workload: Workload sizes.
        e: Bytes of one element.
        multiquery, overlapped: Which of the four operation sequences the keys share.
        t, b: Tensor-parallel degree and sequences per microbatch.
        M: Tokens of a microbatch.
        A: Elements of its residual stream, and `X` the part that one processor holds outside products.
        H: (sequence, head) pairs on one processor.
        kv_width: Key (or value) width on one processor; `attention_width` is that of all heads together.
        sequence_parallel, boundary: Whether the collectives are reduce-scatter and all-gather in every block
            (`rs` in the specification), or in edge blocks only (`p2`).
        full, selective: Full recompute; full or selective recompute.
        regather_attention, regather_mlp: Whether the gathered input is gathered again (`GA`, `GM`).
        fused: The MLP activation keeps nothing.
    """

    workload: WorkloadColumns
    e: Array
    multiquery: bool
    overlapped: bool
    t: Array
    b: Array
    M: Array
    A: Array
    A_split: Array
    X: Array
    H: Array
    kv_width: Array
    attention_width: Array
    sequence_parallel: Array
    boundary: Array
    full: Array
    selective: Array
    regather_attention: Array
    regather_mlp: Array
    fused: Array

    @property
    def reduction_flops(self) -> Array:
        """Additions of one reduction among t processors (`red`)."""
        return np.asarray(self.A * (self.t - 1) / self.t)


def block_shapes(workload: WorkloadColumns, keys: Mapping[str, Array]) -> BlockShapes:
    """Shapes for block keys that share attention and whether communication is overlapped."""
    t = keys["tp"].astype(np.float64)
    b = keys["microbatch"].astype(np.float64)
    multiquery = int(keys["attention"][0]) == OPTION_CODES[Attention.MULTIQUERY]
    communication = keys["tp_communication"]
    sequence_parallel = communication == OPTION_CODES[TpCommunication.SEQUENCE_PARALLEL]
    full = keys["recompute"] == OPTION_CODES[Recompute.FULL]
    selective = full | (keys["recompute"] == OPTION_CODES[Recompute.SELECTIVE])
    M = b * workload.s
    A = M * workload.h
    A_split = np.floor(M / t) * workload.h
    attention_width = workload.a * workload.d
    return BlockShapes(
        workload=workload,
        e=np.array([BYTES[word] for word in Datatype], dtype=np.float64)[keys["datatype"]],
        multiquery=multiquery,
        overlapped=int(keys["tp_overlap"][0]) != OPTION_CODES[TpOverlap.NONE],
        t=t,
        b=b,
        M=M,
        A=A,
        A_split=A_split,
        X=np.where(sequence_parallel, A_split, A),
        H=b * workload.a / t,
        kv_width=workload.d + np.zeros_like(t) if multiquery else attention_width / t,
        attention_width=attention_width,
        sequence_parallel=sequence_parallel,
        boundary=communication == OPTION_CODES[TpCommunication.STAGE_BOUNDARY],
        full=full,
        selective=selective,
        regather_attention=selective | keys["gather_redo"],
        regather_mlp=full | keys["gather_redo"],
        fused=keys["fused_activation"],
    )
