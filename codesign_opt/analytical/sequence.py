"""The operations of one transformer block, in order (spec analytical-model section 5.2)."""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.operations import (
    Array,
    Operation,
    add,
    attention_product,
    collective,
    dropout,
    fork,
    gelu,
    linear,
    norm,
    overlapped_product,
    softmax,
)
from codesign_opt.analytical.shapes import BlockShapes


def block_operations(s: BlockShapes, reproduce: Set[Erratum]) -> list[Operation]:
    """The operations of one block: 24 without overlap, 17 with it, 20 with overlap and multiquery attention."""
    return [
        fork(s, "AttnBlock_Fork", s.X, 2).where(recomputed=s.full),
        norm(s, "AttnBlock_LayerNorm", s.X).where(recomputed=s.full, shared=True, kept=False),
        *_query_key_value(s, reproduce),
        *_attention_core(s, reproduce),
        *_attention_output(s, reproduce),
        dropout(s, "AttnBlock_DropOut", s.X, reproduce).where(recomputed=s.full),
        add(s, "AttnBlock_Residual", s.X).where(recomputed=s.full, shared=True, kept=False),
        fork(s, "MlpBlock_Fork", s.X, 2).where(recomputed=s.full),
        norm(s, "MlpBlock_LayerNorm", s.X).where(recomputed=s.full, shared=True, kept=False),
        *_mlp(s, reproduce),
        dropout(s, "MlpBlock_DropOut", s.X, reproduce).where(recomputed=s.full),
        add(s, "MlpBlock_Residual", s.X).where(recomputed=s.full, shared=True, kept=False),
    ]


def _query_key_value(s: BlockShapes, reproduce: Set[Erratum]) -> list[Operation]:
    h, width = s.workload.h, s.attention_width
    regather = s.regather_attention
    input_kept = ~_attention_input_dropped(s, reproduce)

    def key_or_value(name: str) -> Operation:
        return linear(s, name, h, s.kv_width).where(recomputed=s.full, shared=True, kept=False)

    if not s.overlapped:
        return [
            collective(s, "AttnBlock_F", row_split=False).where(recommunicated=regather),
            fork(s, "AttnBlock_Multihead_Fork", s.A, 3).where(recomputed=regather, kept=input_kept),
            linear(s, "AttnBlock_Query", h, width / s.t).where(recomputed=s.full, shared=True, kept=False),
            key_or_value("AttnBlock_Key"),
            key_or_value("AttnBlock_Value"),
        ]
    name, y = ("AttnBlock_Query_AG", width) if s.multiquery else ("AttnBlock_QKV_AG", 3 * width)
    product = overlapped_product(
        s, name, h, y, row_split=False, reproduce=reproduce, input_kept=input_kept, input_counted=not s.multiquery
    ).where(recomputed=s.full, recommunicated=regather)
    if not s.multiquery:
        return [product]
    return [
        product,
        fork(s, "AttnBlock_KV_Fork", s.A, 2).where(recomputed=regather, kept=input_kept),
        key_or_value("AttnBlock_Key"),
        key_or_value("AttnBlock_Value"),
    ]


def _attention_input_dropped(s: BlockShapes, reproduce: Set[Erratum]) -> Array:
    if Erratum.E13 in reproduce:
        return s.regather_attention
    # Without sequence parallelism there is no gather to redo: only full recompute makes the input again.
    return np.where(s.sequence_parallel, s.regather_attention, s.full)


def _attention_core(s: BlockShapes, reproduce: Set[Erratum]) -> list[Operation]:
    length, d = s.workload.s, s.workload.d
    scores = s.H * length * length
    again = s.selective
    return [
        attention_product(s, "AttnBlock_Multihead_Key_Query", length, d, length, reproduce).where(
            recomputed=again, output_dropped=again
        ),
        softmax(s, "AttnBlock_Multihead_SoftMax", scores).where(recomputed=again, output_dropped=again),
        dropout(s, "AttnBlock_Multihead_DropOut", scores, reproduce).where(recomputed=again, kept=~again),
        attention_product(s, "AttnBlock_Multihead_Attn", length, length, d, reproduce).where(recomputed=s.full),
    ]


def _attention_output(s: BlockShapes, reproduce: Set[Erratum]) -> list[Operation]:
    h, width = s.workload.h, s.attention_width
    if s.overlapped:
        product = overlapped_product(s, "AttnBlock_MLP_RS", width, h, row_split=True, reproduce=reproduce)
        return [product.where(recomputed=s.full, recommunicated=s.full)]
    return [
        linear(s, "AttnBlock_MLP", width / s.t, h).where(recomputed=s.full),
        collective(s, "AttnBlock_G", row_split=True).where(recommunicated=s.full, kept=False),
    ]


def _mlp(s: BlockShapes, reproduce: Set[Erratum]) -> list[Operation]:
    h, f = s.workload.h, s.workload.f
    regather = s.regather_mlp
    activation = gelu(s, "MlpBlock_GeLU", f * s.M / s.t, reproduce).where(recomputed=s.full)
    if not s.overlapped:
        return [
            collective(s, "MlpBlock_F", row_split=False).where(recommunicated=regather),
            linear(s, "MlpBlock_Mlp1", h, f / s.t).where(recomputed=s.full, kept=~regather),
            activation,
            linear(s, "MlpBlock_Mlp2", f / s.t, h).where(recomputed=s.full),
            collective(s, "MlpBlock_G", row_split=True).where(recommunicated=s.full, kept=False),
        ]
    first = overlapped_product(s, "MlpBlock_Mlp1_AG", h, f, row_split=False, reproduce=reproduce, input_kept=~regather)
    second = overlapped_product(s, "MlpBlock_Mlp2_RS", f, h, row_split=True, reproduce=reproduce)
    return [
        first.where(recomputed=s.full, recommunicated=regather),
        activation,
        second.where(recomputed=s.full, recommunicated=s.full),
    ]
