"""Data-parallel exchange of gradients, and how much of it is exposed (spec analytical-model section 8.5)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block import BlockTable
from codesign_opt.analytical.block_spaces import BlockSpaces
from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.groups import Groups
from codesign_opt.analytical.hardware import Hardware
from codesign_opt.analytical.optimizer import OptimizerTable
from codesign_opt.analytical.schedule import ChunkTimes, ScheduleCounts
from codesign_opt.analytical.weight_sharding import gradient_ratio, replica_seconds, shard_seconds

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientExchange:
    """Attributes:
    size: Bytes of one block's gradients.
    link: Link time over the step, seconds.
    exposed: The part that is not hidden, seconds.
    chunk_requirement, tail_requirement: Bandwidth that would hide it behind the next chunk, and within the last
        chunk, bytes/s; 0 where there is no overlap or no time to hide behind.
    """

    size: Array
    link: Array
    exposed: Array
    chunk_requirement: Array
    tail_requirement: Array


def gradient_exchange(
    strategies: Mapping[str, Array],
    blocks: BlockTable,
    spaces: BlockSpaces,
    optimizer: OptimizerTable,
    counts: ScheduleCounts,
    chunk: ChunkTimes,
    groups: Groups,
    hardware: Hardware,
    reproduce: Set[Erratum],
) -> GradientExchange:
    """The exchange of a step; all zero where no other processor holds the same weights, and without training."""
    alone = (groups.replicas.n == 1) & ((groups.expert_replicas.n == 1) | (spaces.spX == 0))
    active = ~alone & strategies["training"]
    one = block_exchange(strategies, spaces, groups, hardware, reproduce)
    td = np.where(active, one.whole, 0.0)
    after_step = np.where(active, one.after_step, 0.0)
    hideable = td - after_step
    jumps = Erratum.E7 in reproduce
    tier = groups.replicas.tier
    window = _windows(strategies, tier, blocks, optimizer, counts, chunk, hardware, hideable, reproduce, jumps=jumps)
    overlapped = hideable + _exposed_beside(counts, window, jumps=jumps) + counts.N * after_step
    exposed = np.where(active, np.where(strategies["dp_overlap"], overlapped, counts.N * td), 0.0)
    if np.any(strategies["reduce_each_microbatch"]):
        # Weights in shards pay for each microbatch in its passes (`weight_sharding`), the last scatter included.
        once = np.where(active, counts.N * after_step, 0.0)
        each = np.where(strategies["weight_sharding"], 0.0, counts.m * (exposed - once) + once)
        exposed = np.where(strategies["reduce_each_microbatch"], each, exposed)
    size = np.where(active, spaces.spW * one.ratio, 0.0)
    wire = size * _wire_scalar(strategies, tier, hardware, one.gathered_late)
    requirements = _requirements(counts, chunk, window, wire, active & strategies["dp_overlap"], reproduce)
    return GradientExchange(
        size=size,
        link=counts.N * td,
        exposed=exposed,
        chunk_requirement=requirements[0],
        tail_requirement=requirements[1],
    )


@dataclass(frozen=True, slots=True)
class BlockExchange:
    """The exchange of one block, in seconds.

    Attributes:
        whole: Altogether.
        after_step: The part that follows the optimizer's step.
        ratio: Bytes of an exchanged gradient for each byte of its weight.
        gathered_late: Whether updated weights are gathered after the optimizer's step.
    """

    whole: Array
    after_step: Array
    ratio: Array
    gathered_late: Array


def block_exchange(
    strategies: Mapping[str, Array],
    spaces: BlockSpaces,
    groups: Groups,
    hardware: Hardware,
    reproduce: Set[Erratum],
) -> BlockExchange:
    """The exchange of the gradients of one block, or of an end of the stack."""
    sharded = strategies["optimizer_sharding"]
    ratio = gradient_ratio(strategies)
    scatter = shard_seconds(spaces, groups, hardware, "reduce_scatter", ratio)
    gather = shard_seconds(spaces, groups, hardware, "all_gather", 1.0)
    reduce = shard_seconds(spaces, groups, hardware, "all_reduce", ratio)
    across = replica_seconds(spaces, groups, hardware, ratio)
    # Weights in shards are gathered by the passes themselves.
    gathered = np.where(strategies["weight_sharding"], 0.0, gather)
    whole = np.where(sharded, scatter + gathered, reduce) + across
    # Updated weights can be gathered only after the optimizer step.
    late = sharded & (Erratum.E11 not in reproduce)
    return BlockExchange(whole, np.where(late, gathered, 0.0), ratio, late)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Windows:
    """Time in which the network is free for gradients.

    Attributes:
        td: Exchange of one block, `dch` of one chunk, seconds.
        chunk: Window beside the microbatches in flight of the next chunk (`win`).
        messages: Time that pipeline messages on the same tier take from it (`hits` times `cb`).
        tail: Window within the last chunk (`lw`).
        cmpw, cc: Compute time beside which slow-down is charged: of the chunk window, and of the tail.
        ud: Share of compute that a transfer takes.
        same_pp: Whether gradients and pipeline messages share a tier.
    """

    td: Array
    dch: Array
    chunk: Array
    messages: Array
    tail: Array
    cmpw: Array
    cc: Array
    ud: Array
    same_pp: Array


def _windows(
    strategies: Mapping[str, Array],
    tier: Array,
    blocks: BlockTable,
    optimizer: OptimizerTable,
    counts: ScheduleCounts,
    chunk: ChunkTimes,
    hardware: Hardware,
    td: Array,
    reproduce: Set[Erratum],
    *,
    jumps: bool,
) -> _Windows:
    sharded = strategies["optimizer_sharding"]
    same_tp = tier == strategies["tp_tier"]
    same_pp = tier == strategies["pp_tier"]
    clamp = Erratum.E8 not in reproduce
    in_flight = counts.p if Erratum.E10 in reproduce else np.minimum(counts.p, counts.m)

    lm = blocks.ag_m + blocks.wg_m + blocks.re_m
    oph = np.where(sharded, 0.0, optimizer.T - optimizer.m)
    step_each_pass = oph if Erratum.E30 in reproduce else np.array(0.0)
    step_once = oph - step_each_pass
    w_b = chunk.b_b - lm + step_each_pass - np.where(same_tp, blocks.lkr_b + blocks.lka_b, 0.0)
    w_e = chunk.b_e - lm + step_each_pass - np.where(same_tp, blocks.lkr_e + blocks.lka_e, 0.0)
    if clamp:
        w_b, w_e = np.maximum(w_b, 0.0), np.maximum(w_e, 0.0)
    wch = counts.x * w_b + w_e
    # One pass of the step also has the optimizer's step and the offload of its state.
    once_b, once_e = step_once + chunk.once_b, step_once + chunk.once_e
    win = in_flight * wch + counts.x * once_b + once_e
    cc = blocks.ag_f + blocks.wg_f + blocks.re_f + np.where(sharded, 0.0, optimizer.f)
    dch = counts.C * td

    # Every pass of the window has its message, whether the exchange is long enough to meet it or not.
    hits = np.floor(dch / np.where(chunk.chb > 0, chunk.chb, 1.0)) if jumps else in_flight
    if Erratum.E6 in reproduce:
        rest = counts.m % counts.p
        hits = np.minimum(hits, np.where(rest > 0, rest, counts.p))
        tail = wch - chunk.cb - (chunk.b_b + chunk.b_e) / 2 + oph
    else:
        hits = np.minimum(hits, in_flight)
        tail = wch - (w_b + w_e) / 2 - np.where(same_pp, chunk.cb, 0.0)
    tail = np.where(counts.x > 0, tail + counts.x * once_b + once_e - (once_b + once_e) / 2, 0.0)
    messages = np.where(same_pp, hits, 0.0) * chunk.cb
    if clamp:
        tail = np.maximum(tail, 0.0)
        messages = np.minimum(messages, win)
    return _Windows(
        td=td, dch=dch, chunk=win, messages=messages, tail=tail, cmpw=in_flight * counts.C * cc,
        cc=cc if Erratum.E9 in reproduce else counts.x * cc,
        ud=hardware.processor_usage(tier), same_pp=same_pp,
    )  # fmt: skip


def _exposed_beside(counts: ScheduleCounts, w: _Windows, *, jumps: bool) -> Array:
    """What is exposed, or slows compute, beside the next chunks (v - 1 of them) and within the last chunk."""
    free = w.chunk - w.messages
    tail_exchange = counts.x * w.td
    if jumps:
        infl = w.dch - free + w.cmpw * w.ud
        infl2 = tail_exchange + w.cc * w.ud - w.tail
        beside = np.where(infl > 0, infl, w.dch * w.ud)
        within = np.where(infl2 > 0, infl2, tail_exchange * w.ud)
    else:
        beside = _exposed_or_slowed(w.dch, free, w.ud)
        within = _exposed_or_slowed(tail_exchange, w.tail, w.ud)
    return (counts.v - 1) * beside + within


def _exposed_or_slowed(exchange: Array, window: Array, usage: Array) -> Array:
    hidden = np.minimum(exchange, window)
    exposed: Array = exchange - hidden + hidden * usage
    return exposed


def _wire_scalar(strategies: Mapping[str, Array], tier: Array, hardware: Hardware, gathered_late: Array) -> Array:
    """Bytes on the wire that want to be hidden, for each byte of gradients."""
    scatter = hardware.wire_scalar(tier, "reduce_scatter")
    gather = np.where(gathered_late, 0.0, hardware.wire_scalar(tier, "all_gather"))
    return np.where(strategies["optimizer_sharding"], scatter + gather, hardware.wire_scalar(tier, "all_reduce"))


def _requirements(
    counts: ScheduleCounts,
    chunk: ChunkTimes,
    w: _Windows,
    wire: Array,
    overlapped: Array,
    reproduce: Set[Erratum],
) -> tuple[Array, Array]:
    if Erratum.E28 in reproduce:
        beside = (w.chunk + w.cmpw * w.ud - np.where(w.same_pp, chunk.cb, 0.0)) * (counts.v - 1)
        within = w.tail + counts.x * w.td * w.ud
        tail_blocks = counts.C
    else:
        beside = np.where(counts.v > 1, w.chunk - w.messages, 0.0)
        within = w.tail
        tail_blocks = counts.x
    return (
        np.where(overlapped & (beside > 0), counts.C * wire / np.where(beside > 0, beside, 1.0), 0.0),
        np.where(overlapped & (within > 0), tail_blocks * wire / np.where(within > 0, within, 1.0), 0.0),
    )
