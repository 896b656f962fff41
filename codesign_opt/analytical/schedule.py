"""Microbatches, stages and chunks: counts, chunk times and the pipeline bubble (spec sections 8.1 to 8.4).

Everything broadcasts: a quantity has the smallest shape that its inputs allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block import BlockTable
from codesign_opt.analytical.block_spaces import BlockSpaces
from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.hardware import Hardware
from codesign_opt.analytical.optimizer import OptimizerSpaces
from codesign_opt.analytical.weight_sharding import WeightExchange
from codesign_opt.strategies import Recompute, Schedule
from codesign_opt.strategies.table import OPTION_CODES

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCounts:
    """m microbatches; N blocks on the fullest stage; R blocks missing on later stages; C blocks a chunk, of which x
    are base blocks and one is an edge block; v chunks a stage, p stages.
    """

    m: Array
    N: Array
    R: Array
    C: Array
    x: Array
    v: Array
    p: Array

    def over_batch(self, base: Array, edge: Array) -> Array:
        """Sum over the batch on one stage of a quantity of base and edge blocks."""
        total: Array = self.m * self.v * (self.x * base + edge)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTimes:
    """Seconds of one microbatch in one block, base (`_b`) and edge (`_e`).

    Attributes:
        cf, cb: Pipeline message, forward and backward.
        fo, bo: Bytes offloaded beside a forward and a backward pass.
        bo_each: Those beside each backward pass; what is more in `bo` is paid in one pass of the step.
        fmm, bmm: Memory-tier-1 time of a forward and a backward pass.
        fn_b, fn_e, bn_b, bn_e: Forward and backward pass without exposed offload.
        fv_b, fv_e, bv_b, bv_e: Exposed offload.
        once_b, once_e: Exposed offload of optimizer state, where it is paid in one pass of the step.
        gathered_b, gathered_e: Exposed exchange of weights and gradients in shards, of both passes.
        chf, chb: Forward and backward pass of one chunk.
    """

    cf: Array
    cb: Array
    fo: Array
    bo: Array
    bo_each: Array
    fmm: Array
    bmm: Array
    fn_b: Array
    fn_e: Array
    bn_b: Array
    bn_e: Array
    fv_b: Array
    fv_e: Array
    bv_b: Array
    bv_e: Array
    once_b: Array
    once_e: Array
    gathered_b: Array
    gathered_e: Array
    f_b: Array
    f_e: Array
    b_b: Array
    b_e: Array
    chf: Array
    chb: Array


def schedule_counts(blocks: Array, strategies: Mapping[str, Array]) -> ScheduleCounts:
    """Counts for workloads of `blocks` blocks; float64, as they enter float arithmetic only.

    Blocks that the first and last stage have less than others count as missing on any later stage.
    """
    p, v = strategies["pp"], strategies["vpp"]
    blocks = blocks + strategies["first_stage_less"] + strategies["last_stage_less"]
    N = np.ceil(blocks / p)
    C = np.floor(N / v)
    rest = blocks % p
    missing = strategies["first_stage_less"] + strategies["last_stage_less"]
    return ScheduleCounts(
        m=(strategies["batch"] // (strategies["dp"] * strategies["microbatch"])).astype(np.float64),
        N=N,
        R=np.where(rest > 0, p - rest, 0.0) + missing,
        C=C,
        x=C - 1,
        v=v.astype(np.float64),
        p=p.astype(np.float64),
    )


def chunk_times(
    strategies: Mapping[str, Array],
    blocks: BlockTable,
    spaces: BlockSpaces,
    state: OptimizerSpaces,
    counts: ScheduleCounts,
    hardware: Hardware,
    reproduce: Set[Erratum],
    weights: WeightExchange | None = None,
) -> ChunkTimes:
    """Times of the parts of a chunk; `weights` is the exchange of weights in shards."""
    training = strategies["training"]
    tr = training.astype(np.float64)
    ppf = np.where(counts.p > 1, spaces.message, 0.0)
    participants = np.array(2.0)
    cf = hardware.transfer_time(strategies["pp_tier"], "p2p", ppf, participants)
    cb = hardware.transfer_time(strategies["pp_tier"], "p2p", tr * ppf, participants)
    if Erratum.E5 not in reproduce:
        cf = np.where(counts.p > 1, cf, 0.0)
        cb = tr * np.where(counts.p > 1, cb, 0.0)
    fmm = blocks.fw_m
    bmm = blocks.ag_m + blocks.wg_m
    if Erratum.E16 not in reproduce:
        bmm = bmm + blocks.re_m
    fn_b = blocks.fw_T_b + blocks.exf_b
    fn_e = blocks.fw_T_e + blocks.exf_e + cf
    bn_b = blocks.re_T_b + blocks.exr_b + blocks.ag_T_b + blocks.wg_T_b + blocks.exa_b
    bn_e = blocks.re_T_e + blocks.exr_e + blocks.ag_T_e + blocks.wg_T_e + blocks.exa_e + cb

    gathered_b = gathered_e = np.array(0.0)
    if weights is not None:
        zf_b, zb_b = (
            weights.exposed(*pair, first=False) for pair in ((weights.gather, fn_b), (weights.backward, bn_b))
        )
        # The edge block stands for the one of a pass that has nothing before it.
        zf_e, zb_e = (weights.exposed(*pair, first=True) for pair in ((weights.gather, fn_e), (weights.backward, bn_e)))
        fn_b, fn_e, bn_b, bn_e = fn_b + zf_b, fn_e + zf_e, bn_b + zb_b, bn_e + zb_e
        gathered_b, gathered_e = zf_b + zb_b, zf_e + zb_e

    full = strategies["recompute"] == OPTION_CODES[Recompute.FULL]
    moved_weights = np.where(strategies["weight_offload"], spaces.spW, 0.0)
    moved_activations = np.where(strategies["activation_offload"], np.where(full, spaces.ckp, spaces.sto), 0.0)
    moved_optimizer = np.where(strategies["optimizer_offload"], state.space, 0.0)
    fo = np.maximum(moved_weights, moved_activations)
    streamed = tr * (moved_weights + moved_activations)
    bo = streamed + tr * moved_optimizer
    each_pass = bo if Erratum.E15 in reproduce else streamed

    offload_forward = hardware.offload_time(fo) + fmm
    offload_backward = tr * hardware.offload_time(each_pass) + bmm
    fv_b = np.maximum(0.0, offload_forward - fn_b)
    fv_e = np.maximum(0.0, offload_forward - fn_e)
    bv_b = np.maximum(0.0, offload_backward - bn_b)
    bv_e = np.maximum(0.0, offload_backward - bn_e)
    if each_pass is bo or not np.any(strategies["optimizer_offload"]):
        once_b = once_e = np.array(0.0)
    else:
        offload_last = tr * hardware.offload_time(bo) + bmm
        once_b = np.maximum(0.0, offload_last - bn_b) - bv_b
        once_e = np.maximum(0.0, offload_last - bn_e) - bv_e
    f_b, f_e, b_b, b_e = fn_b + fv_b, fn_e + fv_e, bn_b + bv_b, bn_e + bv_e
    return ChunkTimes(
        cf=cf, cb=cb, fo=fo, bo=bo, bo_each=each_pass, fmm=fmm, bmm=bmm, fn_b=fn_b, fn_e=fn_e, bn_b=bn_b, bn_e=bn_e,
        fv_b=fv_b, fv_e=fv_e, bv_b=bv_b, bv_e=bv_e, once_b=once_b, once_e=once_e,
        gathered_b=gathered_b, gathered_e=gathered_e,
        f_b=f_b, f_e=f_e, b_b=b_b, b_e=b_e, chf=counts.x * f_b + f_e, chb=counts.x * b_b + b_e,
    )  # fmt: skip


def bubble_time(
    counts: ScheduleCounts, chunk: ChunkTimes, strategies: Mapping[str, Array], blocks: BlockTable
) -> Array:
    """Time that the first stage waits for others over the batch, seconds.

    docs/model.md derives the schedules that split the backward pass: weight gradients of a chunk fill gaps, two
    of them (`zb_1p`, arXiv 2401.10241, ZB-H1) or three (`zb_v`, arXiv 2405.15362); in `dualpipe` (arXiv 2412.19437)
    half as many stages wait, each for a forward and two backward passes less three weight gradients.
    """
    base, edge = chunk.f_b + chunk.b_b, chunk.f_e + chunk.b_e
    cut = np.where(counts.x > 0, counts.R * (base + edge) / 2, counts.R * edge)
    rest = counts.m % counts.p
    short = np.where(rest > 0, counts.p - rest, 0.0)
    bubble: Array = (counts.p - 1 + (counts.v - 1) * short) * (chunk.chf + chunk.chb) - cut
    schedule = strategies["schedule"]
    if not np.any(_is(schedule, Schedule.ZB_1P, Schedule.ZB_V, Schedule.DUALPIPE)):
        return bubble
    weight_gradient = counts.x * blocks.wg_T_b + blocks.wg_T_e
    filled = np.where(_is(schedule, Schedule.ZB_V), 3.0, 2.0) * weight_gradient
    split = np.maximum((counts.p - 1) * (chunk.chf + chunk.chb - filled) - cut, 0.0)
    both_ends = (counts.p / 2 - 1) * (chunk.chf + 2 * chunk.chb - 3 * weight_gradient)
    bubble = np.where(_is(schedule, Schedule.ZB_1P, Schedule.ZB_V), np.minimum(split, bubble), bubble)
    return np.where(_is(schedule, Schedule.DUALPIPE), np.clip(both_ends, 0.0, np.maximum(bubble, 0.0)), bubble)


def _is(schedule: Array, *words: Schedule) -> Array:
    return np.isin(schedule, [OPTION_CODES[word] for word in words])
