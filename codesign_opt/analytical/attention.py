"""The operations of attention: queries, keys and values; scores; output (spec analytical-model section 5.2).

docs/model.md derives what the specification does not have: grouped heads, attention in one pass, latent attention, and
context parallelism.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.operations import (
    Array,
    Kind,
    Operation,
    attention_product,
    collective,
    dropout,
    elementwise,
    fork,
    linear,
    norm,
    overlapped_product,
    softmax,
)
from codesign_opt.analytical.peers import Collective, Peer
from codesign_opt.analytical.shapes import BlockShapes
from codesign_opt.strategies import CpExchange
from codesign_opt.workloads.transformer import QueryKeyNorm


def attention_operations(s: BlockShapes, reproduce: Set[Erratum]) -> list[Operation]:
    """Attention of one block, from the gathered input to the reduced output."""
    inputs = _latent_inputs(s, reproduce) if s.structure.workload.latent else _inputs(s, reproduce)
    return [*inputs, *_around(s, _core(s, reproduce)), *_output(s, reproduce)]


def _inputs(s: BlockShapes, reproduce: Set[Erratum]) -> list[Operation]:
    h, width = s.workload.h, s.attention_width
    regather = s.regather_attention
    input_kept = ~_input_dropped(s, reproduce)

    def key_or_value(name: str) -> Operation:
        return linear(s, name, h, s.kv_width).where(recomputed=s.full, shared=True, kept=False)

    if not s.structure.overlapped:
        return [
            collective(s, "AttnBlock_F", row_split=False).where(recommunicated=regather),
            fork(s, "AttnBlock_Multihead_Fork", s.A, 3).where(recomputed=regather, kept=input_kept),
            linear(s, "AttnBlock_Query", h, width / s.t).where(recomputed=s.full, shared=True, kept=False),
            key_or_value("AttnBlock_Key"),
            key_or_value("AttnBlock_Value"),
            *_turned(s, width / s.t + s.kv_width),
        ]
    multiquery = s.structure.multiquery
    y = width if multiquery else width + 2 * s.kv_width * s.t
    product = overlapped_product(
        s, "AttnBlock_Query_AG" if multiquery else "AttnBlock_QKV_AG", h, y, row_split=False, reproduce=reproduce,
        input_kept=input_kept, input_counted=not multiquery,
    ).where(recomputed=s.full, recommunicated=regather)  # fmt: skip
    if not multiquery:
        return [product, *_turned(s, width / s.t + s.kv_width)]
    return [
        product,
        fork(s, "AttnBlock_KV_Fork", s.A, 2).where(recomputed=regather, kept=input_kept),
        key_or_value("AttnBlock_Key"),
        key_or_value("AttnBlock_Value"),
        *_turned(s, width / s.t + s.kv_width),
    ]


def _input_dropped(s: BlockShapes, reproduce: Set[Erratum]) -> Array:
    if Erratum.E13 in reproduce:
        return s.regather_attention
    # Without sequence parallelism there is no gather to redo: only full recompute makes the input again.
    return np.where(s.sequence_parallel, s.regather_attention, s.full)


def _latent_inputs(s: BlockShapes, reproduce: Set[Erratum]) -> list[Operation]:
    """Queries, keys and values by way of latent vectors, which every processor of a tensor-parallel group makes."""
    w, t = s.workload, s.t
    regather = s.regather_attention
    queries = w.a * (w.d + w.rotary_size) / t
    keys_and_values = w.a * (w.d + w.value_size) / t
    compressed = s.structure.workload.compressed_queries
    gathered = collective(s, "AttnBlock_F", row_split=False).where(recommunicated=regather)
    fork_kept = ~_input_dropped(s, reproduce)
    operations = [
        gathered,
        fork(s, "AttnBlock_Multihead_Fork", s.A, 2).where(recomputed=regather, kept=fork_kept),
    ]
    again = s.full
    if compressed:
        operations += [
            linear(s, "AttnBlock_Query_Down", w.h, w.query_rank).where(recomputed=again, shared=True, kept=False),
            norm(s, "AttnBlock_Query_Norm", s.M * w.query_rank, w.query_rank).where(recomputed=again),
            linear(s, "AttnBlock_Query_Up", w.query_rank, queries).where(recomputed=again),
        ]
    else:
        operations.append(linear(s, "AttnBlock_Query", w.h, queries).where(recomputed=again, shared=True, kept=False))
    rank = w.key_value_rank
    return [
        *operations,
        linear(s, "AttnBlock_KV_Down", w.h, rank + w.rotary_size).where(recomputed=again, shared=True, kept=False),
        norm(s, "AttnBlock_KV_Norm", s.M * rank, rank).where(recomputed=again),
        linear(s, "AttnBlock_KV_Up", rank, keys_and_values).where(recomputed=again),
        _rotated(s, w.a * w.rotary_size / t + w.rotary_size),
    ]


def _turned(s: BlockShapes, width: Array) -> list[Operation]:
    """Norm and rotation of queries and keys of some width, where the workload has them."""
    kind, w = s.structure.workload.query_key_norm, s.workload
    operations = []
    if kind is not QueryKeyNorm.NONE:
        normed = 2 * w.d if kind is QueryKeyNorm.HEAD else (w.a + w.g) * w.d / s.t
        operations.append(norm(s, "AttnBlock_QueryKeyNorm", s.M * width, normed).where(recomputed=s.full))
    if s.structure.workload.rotary:
        operations.append(_rotated(s, width))
    return operations


def _rotated(s: BlockShapes, width: Array) -> Operation:
    """Rotation by position: two products and a sum for each element; in place, so that it keeps nothing."""
    return elementwise(s, "AttnBlock_Rotary", s.M * width, flops=3).where(recomputed=s.full)


def _core(s: BlockShapes, reproduce: Set[Erratum]) -> list[Operation]:
    if s.structure.flash:
        return [_flash(s)]
    length, again = s.workload.s, s.selective
    key_size, value_size = _head_sizes(s)
    scores = s.H * s.rows * length
    dropped = [dropout(s, "AttnBlock_Multihead_DropOut", scores, reproduce).where(recomputed=again, kept=~again)]
    return [
        attention_product(s, "AttnBlock_Multihead_Key_Query", s.rows, key_size, length, reproduce).where(
            recomputed=again, output_dropped=again
        ),
        softmax(s, "AttnBlock_Multihead_SoftMax", scores).where(recomputed=again, output_dropped=again),
        *(dropped if s.structure.workload.dropout else []),
        attention_product(s, "AttnBlock_Multihead_Attn", s.rows, length, value_size, reproduce).where(
            recomputed=s.full
        ),
    ]


def _head_sizes(s: BlockShapes) -> tuple[Array, Array]:
    """Width of a key and of a value in one head."""
    w = s.workload
    return (w.d + w.rotary_size, w.value_size) if s.structure.workload.latent else (w.d, w.d)


def attended(s: BlockShapes) -> Array:
    """Keys that a query meets, in the mean over a sequence.

    A causal one meets half the sequence, and within a window w of a sequence s: w - w² / 2s.
    """
    length = s.workload.s
    window = np.minimum(s.workload.window, length) if s.structure.workload.windowed else length
    if not s.structure.workload.causal:
        return np.minimum(2 * window, length) if s.structure.workload.windowed else length
    return np.asarray(window - window * window / (2 * length))


def _flash(s: BlockShapes) -> Operation:
    """Attention in one pass over blocks of scores (arXiv 2205.14135).

    Forward it is two products; backward five, one of which makes the scores again. It reads queries, keys and values,
    writes the output, and keeps the former and one 32-bit number for each query. The output is what the product behind
    it keeps, unless that gets it by way of an all-to-all.
    """
    key_size, value_size = _head_sizes(s)
    pairs = s.H * s.rows * attended(s)
    F = 2 * pairs * (key_size + value_size)
    Fa = 2 * pairs * (3 * key_size + 2 * value_size)
    # By all-to-all a processor has whole sequences of fewer heads: as many keys and values as it made.
    whole = s.structure.context in (CpExchange.RING, CpExchange.ALL_GATHER)
    queries, outputs = s.H * s.rows * key_size, s.H * s.rows * value_size
    made = _key_value_heads(s) * s.rows * (key_size + value_size)
    I, O = queries + made * np.where(whole, s.c, 1.0), outputs
    statistics = 4 * s.H * s.rows
    output_kept = outputs if s.structure.context is CpExchange.ALL_TO_ALL else 0.0
    kept = s.e * (queries + made + output_kept) + statistics
    return Operation(
        name="AttnBlock_Flash", matrix=True, head_size=(key_size + value_size) / 2, Ff=F, Fa=Fa, I=I, O=O, K=I, G=O,
        Yf=s.e * (I + O) + statistics, Ya=2 * s.e * (I + O) + statistics, Kb=kept, Gb=s.e * O, stored=kept,
    ).where(recomputed=s.selective)  # fmt: skip


def _key_value_heads(s: BlockShapes) -> Array:
    """(sequence, key or value head) pairs on one processor; in latent attention each head has keys of its own."""
    return s.H if s.structure.workload.latent else s.b * s.kv_heads


def _around(s: BlockShapes, core: list[Operation]) -> list[Operation]:
    """The core with what context parallelism exchanges before, beside or after it."""
    exchange = s.structure.context
    if exchange is None:
        return core
    key_size, value_size = _head_sizes(s)
    own = s.e * _key_value_heads(s) * s.rows * (key_size + value_size)

    def peer(name: str, forward: Collective, backward: Collective, qf: Array, qa: Array) -> Operation:
        exchanged = Peer(group="cp", forward=forward, backward=backward, q_forward=qf, q_backward=qa)
        # What was gathered is not kept: the backward pass gathers it again. What goes round passes once more wherever
        # attention is computed again; what an all-to-all brought is kept until a block is.
        of_ring = s.selective if exchange is CpExchange.RING else s.full
        again = of_ring | (exchange is CpExchange.ALL_GATHER)
        return Operation(name=name, kind=Kind.PEER, peer=exchanged).where(recommunicated=again)

    if exchange is CpExchange.RING:
        # Backward, keys and values go round once more, and their gradients with them.
        return [*core, peer("AttnBlock_ContextRing", "ring", "ring", own, 2 * own)]
    if exchange is CpExchange.ALL_GATHER:
        return [peer("AttnBlock_ContextGather", "all-gather", "reduce-scatter", own * s.c, own * s.c), *core]
    queries = s.e * s.H * s.rows * key_size
    outputs = s.e * s.H * s.rows * value_size
    return [
        peer("AttnBlock_ContextHeads", "all-to-all", "all-to-all", queries + own, queries + own),
        *core,
        peer("AttnBlock_ContextRows", "all-to-all", "all-to-all", outputs, outputs),
    ]


def _output(s: BlockShapes, reproduce: Set[Erratum]) -> list[Operation]:
    h = s.workload.h
    width = s.workload.a * s.workload.value_size if s.structure.workload.latent else s.attention_width
    if s.structure.overlapped:
        product = overlapped_product(s, "AttnBlock_MLP_RS", width, h, row_split=True, reproduce=reproduce)
        return [product.where(recomputed=s.full, recommunicated=s.full)]
    return [
        linear(s, "AttnBlock_MLP", width / s.t, h).where(recomputed=s.full),
        collective(s, "AttnBlock_G", row_split=True).where(recommunicated=s.full, kept=False),
    ]
