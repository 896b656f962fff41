"""Derived sizes and flags of a block, as columns over block keys (spec analytical-model section 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.structure import Structure
from codesign_opt.strategies import Datatype, ProductPrecision, Recompute, TpCommunication
from codesign_opt.strategies.options import BYTES
from codesign_opt.strategies.table import OPTION_CODES
from codesign_opt.workloads import Workload

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadColumns:
    """Workload sizes as columns, one entry a row (or a single entry for all rows).

    h hidden, f feedforward, s sequence length, a attention heads, d head size, L blocks; g key and value heads, V
    vocabulary and the multiple to which it is padded, positions of a learned embedding, window (tokens seen at most);
    E experts, of which a token visits k, their inner width fe, and that of the shared experts fs, and tokens that reach
    the busiest processor as a multiple of the mean; ranks and sizes of latent attention.
    """

    h: Array
    f: Array
    s: Array
    a: Array
    d: Array
    L: Array
    g: Array
    V: Array
    vocabulary_multiple: Array
    positions: Array
    window: Array
    prediction_blocks: Array
    E: Array
    k: Array
    fe: Array
    fs: Array
    crowding: Array
    query_rank: Array
    key_value_rank: Array
    rotary_size: Array
    value_size: Array


def workload_columns(workloads: Sequence[Workload], workload: Array) -> WorkloadColumns:
    """Columns for rows that name their workload (index in `workloads`); float64, exact below 2^53."""

    def column(name: str, part: str = "") -> Array:
        owners = [getattr(shape, part) if part else shape for shape in workloads]
        return np.array([getattr(owner, name, 0) for owner in owners], dtype=np.float64)[workload]

    crowding = np.array([_crowding(shape) for shape in workloads])[workload]
    return WorkloadColumns(
        h=column("hidden"),
        f=column("feedforward"),
        s=column("sequence_length"),
        a=column("attention_heads"),
        d=column("head_size"),
        L=column("blocks"),
        g=column("kv_heads"),
        V=column("vocabulary"),
        vocabulary_multiple=column("vocabulary_multiple"),
        positions=column("learned_positions"),
        window=column("window"),
        prediction_blocks=column("prediction_blocks"),
        E=column("count", "experts"),
        k=column("top_k", "experts"),
        fe=column("feedforward", "experts"),
        fs=column("shared_feedforward", "experts"),
        crowding=crowding,
        query_rank=column("query_rank", "latent_attention"),
        key_value_rank=column("key_value_rank", "latent_attention"),
        rotary_size=column("rotary_size", "latent_attention"),
        value_size=column("value_size", "latent_attention"),
    )


def _crowding(workload: Workload) -> float:
    """Tokens of the busiest processor's experts as a multiple of the mean."""
    experts = workload.experts
    if experts is None:
        return 1.0
    return experts.imbalance if experts.capacity_factor is None else experts.capacity_factor


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShapes:
    """Sizes in elements and flags, one entry a block key; the structure is the same for all keys.

    Attributes:
        workload: Workload sizes.
        structure: Which operations there are.
        e: Bytes of one element.
        eight_bit: Whether matrix products compute in 8 bits, with casts.
        t, c, b: Tensor- and context-parallel degrees, and sequences per microbatch.
        ep, etp: Expert-parallel degree, and tensor-parallel degree inside an expert.
        M: Tokens of a microbatch on one processor's group of `t`.
        A: Elements of its residual stream, and `X` the part that one processor holds outside products.
        H: (sequence, head) pairs on one processor.
        rows: Query positions of each such pair.
        kv_heads: Key (or value) heads on one processor.
        kv_width: Their width; `attention_width` is that of all query heads together.
        sequence_parallel, boundary: Whether the collectives are reduce-scatter and all-gather in every block
            (`rs` in the specification), or in edge blocks only (`p2`).
        full, selective: Full recompute; full or selective recompute.
        regather_attention, regather_mlp: Whether the gathered input is gathered again (`GA`, `GM`).
        fused: The MLP activation keeps nothing.
    """

    workload: WorkloadColumns
    structure: Structure
    e: Array
    eight_bit: Array
    t: Array
    c: Array
    b: Array
    ep: Array
    etp: Array
    M: Array
    A: Array
    A_split: Array
    X: Array
    H: Array
    rows: Array
    kv_heads: Array
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

    @property
    def tokens(self) -> Array:
        """Tokens whose residual stream one processor holds outside products."""
        return np.asarray(self.X / self.workload.h)


def block_shapes(workload: WorkloadColumns, structure: Structure, keys: Mapping[str, Array]) -> BlockShapes:
    """Shapes for block keys that share a structure."""
    t = keys["tp"].astype(np.float64)
    c = keys["cp"].astype(np.float64)
    b = keys["microbatch"].astype(np.float64)
    communication = keys["tp_communication"]
    sequence_parallel = communication == OPTION_CODES[TpCommunication.SEQUENCE_PARALLEL]
    full = keys["recompute"] == OPTION_CODES[Recompute.FULL]
    selective = full | (keys["recompute"] == OPTION_CODES[Recompute.SELECTIVE])
    M = b * workload.s / c
    A = M * workload.h
    A_split = np.floor(M / t) * workload.h
    attention_width = workload.a * workload.d
    # Where tp exceeds the key and value heads, each is on several processors.
    kv_heads = np.ones_like(t) if structure.multiquery else np.maximum(workload.g / t, 1.0)
    return BlockShapes(
        workload=workload,
        structure=structure,
        e=np.array([BYTES[word] for word in Datatype], dtype=np.float64)[keys["datatype"]],
        eight_bit=keys["product_precision"] == OPTION_CODES[ProductPrecision.FLOAT8],
        t=t,
        c=c,
        b=b,
        ep=keys["ep"].astype(np.float64),
        etp=keys["etp"].astype(np.float64),
        M=M,
        A=A,
        A_split=A_split,
        X=np.where(sequence_parallel, A_split, A),
        H=b * workload.a / t,
        rows=workload.s / c,
        kv_heads=kv_heads,
        kv_width=kv_heads * workload.d,
        attention_width=attention_width,
        sequence_parallel=sequence_parallel,
        boundary=communication == OPTION_CODES[TpCommunication.STAGE_BOUNDARY],
        full=full,
        selective=selective,
        regather_attention=selective | keys["gather_redo"],
        regather_mlp=full | keys["gather_redo"],
        fused=keys["fused_activation"],
    )
