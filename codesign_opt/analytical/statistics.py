"""The 96 statistics of the published tool, under its own names (spec analytical-model sections 10 and 11)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.model import Model
from codesign_opt.analytical.schedule import ScheduleCounts
from codesign_opt.strategies import Recompute
from codesign_opt.strategies.table import OPTION_CODES

Array = NDArray[Any]


def statistics(model: Model) -> dict[str, Array]:
    """All statistics, in the published order; seconds, bytes, flop, bytes/s.

    A requirement is infinite where there is no time at all to hide behind (and 0 where there is nothing to hide).
    `act_checkpoint_size_with_offload` is NaN in inference where erratum E18 is reproduced.
    """
    columns = {**_block(model), **_space(model), **_batch(model), **_requirements(model)}
    shape = model.inputs.strategies["tp"].shape
    return {name: np.broadcast_to(columns[name], shape) for name in NAMES}


def _block(model: Model) -> dict[str, Array]:
    b, o = model.tables.blocks, model.tables.optimizer
    spaces = model.tables.spaces
    training = model.inputs.strategies["training"]
    message = np.where(model.counts.p > 1, spaces.message, 0.0)
    return {
        "block_fw_flops": b.fw_F, "block_fw_flops_time": b.fw_f, "block_fw_mem_accessed": b.fw_Y,
        "block_fw_mem_time": b.fw_m, "block_fw_time": b.fw_T_b,
        "baseblock_fw_tp_time": b.lkf_b, "edgeblock_fw_tp_time": b.lkf_e,
        "baseblock_fw_tp_time_exposed": b.exf_b, "edgeblock_fw_tp_time_exposed": b.exf_e,
        "block_re_flops": b.re_F, "block_re_flops_time": b.re_f, "block_re_mem_accessed": b.re_Y,
        "block_re_mem_time": b.re_m, "block_re_time": b.re_T_b,
        "baseblock_recomm_time": b.lkr_b, "edgeblock_recomm_time": b.lkr_e,
        "baseblock_recomm_time_exposed": b.exr_b, "edgeblock_recomm_time_exposed": b.exr_e,
        "block_agrad_flops": b.ag_F, "block_agrad_flops_time": b.ag_f, "block_agrad_mem_accessed": b.ag_Y,
        "block_agrad_mem_time": b.ag_m, "block_agrad_time": b.ag_T_b,
        "baseblock_agrad_tp_time": b.lka_b, "edgeblock_agrad_tp_time": b.lka_e,
        "baseblock_agrad_tp_time_exposed": b.exa_b, "edgeblock_agrad_tp_time_exposed": b.exa_e,
        "block_wgrad_flops": b.wg_F, "block_wgrad_flops_time": b.wg_f, "block_wgrad_mem_accessed": b.wg_Y,
        "block_wgrad_mem_time": b.wg_m, "block_wgrad_time": b.wg_T_b,
        "block_optim_flops": o.F, "block_optim_flops_time": o.f, "block_optim_mem_accessed": o.Y,
        "block_optim_mem_time": o.m, "block_optim_time": o.T,
        "baseblock_fw_tp_size": b.szf_b, "edgeblock_fw_tp_size": b.szf_e,
        "baseblock_bw_tp_size": b.sza_b, "edgeblock_bw_tp_size": b.sza_e,
        "baseblock_recomm_size": b.szr_b, "edgeblock_recomm_size": b.szr_e,
        "block_fw_pp_size": message, "block_bw_pp_size": np.where(training, message, 0.0),
        "block_dp_size": model.exchange.size, "tp_bw_overlap_req": b.tpreq,
        "dp_bw_overlap_req_chunk": model.exchange.chunk_requirement,
        "dp_bw_overlap_req_tail": model.exchange.tail_requirement,
    }  # fmt: skip


def _space(model: Model) -> dict[str, Array]:
    b, o, memory = model.tables.spaces, model.tables.state, model.memory
    checkpoint_min = memory.checkpoint_min
    if Erratum.E18 in model.inputs.reproduce:
        checkpoint_min = np.where(model.inputs.strategies["training"], checkpoint_min, np.nan)
    return {
        "block_weight_space": b.spW, "block_act_working_space": b.wrk, "block_act_storage_space": b.sto,
        "block_act_checkpoint_size": b.ckp, "block_weight_grad_space": o.gradient,
        "block_weight_grad_space_no_sharding": b.wgu, "block_act_grad_space": b.agr,
        "block_optimizer_space": o.space,
        "weight_space_with_offload": memory.weight_min, "act_space_with_offload": memory.activation_min,
        "act_checkpoint_size_with_offload": checkpoint_min, "act_grad_space_with_offload": b.agr,
        "weight_grad_space_with_offload": memory.weight_gradient_min,
        "optimizer_space_with_offload": memory.optimizer_min,
        "weight_space": memory.all_weight, "act_space": memory.all_activation,
        "act_checkpoint_size": memory.all_checkpoint, "act_grad_space": b.agr,
        "weight_grad_space": memory.all_weight_gradient, "optimizer_space": memory.all_optimizer,
        "proc_mem_tier1_cap_req": memory.tier1, "proc_mem_tier2_cap_req": memory.tier2,
    }  # fmt: skip


def _batch(model: Model) -> dict[str, Array]:
    b, counts, times = model.tables.blocks, model.counts, model.times
    useful = b.fw_F + b.ag_F + b.wg_F + model.tables.optimizer.F
    ideal = _ideal_flops(model, useful, counts) / model.inputs.hardware.matrix_peak
    compute = times.forward + times.backward + times.optimizer
    return {
        "fw_time": times.forward, "bw_time": times.backward, "optim_step_time": times.optimizer,
        "recompute_time": times.recompute,
        "recomm_link_time": counts.over_batch(b.lkr_b, b.lkr_e),
        "recomm_exposed_time": times.recompute_communication, "bubble_time": times.bubble,
        "tp_comm_link_time": counts.over_batch(b.lkf_b + b.lka_b, b.lkf_e + b.lka_e),
        "pp_comm_link_time": times.pp_communication, "dp_comm_link_time": model.exchange.link,
        "tp_comm_exposed_time": times.tp_communication, "pp_comm_exposed_time": times.pp_communication,
        "dp_comm_exposed_time": times.dp_communication, "fw_offload_exposed_time": times.forward_offload,
        "bw_offload_exposed_time": times.backward_offload, "total_time": times.total,
        "useful_flops": useful, "compute_efficiency": ideal / compute,
        "system_efficiency": compute / times.total, "total_efficiency": ideal / times.total,
        "sample_rate": model.inputs.strategies["batch"] / times.total,
    }  # fmt: skip


def _ideal_flops(model: Model, useful: Array, counts: ScheduleCounts) -> Array:
    if Erratum.E24 in model.inputs.reproduce:
        return np.asarray(counts.m * counts.N * useful)
    # The mean stage of the machine, and one optimizer step a batch.
    blocks = model.inputs.sizes.L / counts.p
    return np.asarray(blocks * (counts.m * (useful - model.tables.optimizer.F) + model.tables.optimizer.F))


def _requirements(model: Model) -> dict[str, Array]:
    """Tier-2 bandwidth that would hide each stream of offload."""
    b, o, chunk = model.tables.spaces, model.tables.state, model.chunk
    training = model.inputs.strategies["training"]
    full = model.inputs.strategies["recompute"] == OPTION_CODES[Recompute.FULL]
    fslack = np.minimum(chunk.fn_b - chunk.fmm, chunk.fn_e - chunk.fmm)
    bslack = np.minimum(chunk.bn_b - chunk.bmm, chunk.bn_e - chunk.bmm)
    backward = np.where(training, _rate(chunk.bo, bslack), 0.0)
    return {
        "act_offload_bw_req": _rate(np.where(full, b.ckp, b.sto), fslack),
        "weight_offload_bw_req": _rate(b.spW, fslack),
        "optim_offload_bw_req": np.where(training, _rate(o.gradient + o.space, bslack), 0.0),
        "offload_mem_bw_req": np.maximum(_rate(chunk.fo, fslack), backward),
    }


def _rate(size: Array, time: Array) -> Array:
    size, time = np.broadcast_arrays(size, time)
    rate = np.divide(size, time, out=np.full(size.shape, np.inf), where=time != 0)
    return np.where((size == 0) & (time == 0), 0.0, rate)


NAMES = (
    "block_fw_flops", "block_fw_flops_time", "block_fw_mem_accessed", "block_fw_mem_time", "block_fw_time",
    "baseblock_fw_tp_time", "edgeblock_fw_tp_time", "baseblock_fw_tp_time_exposed",
    "edgeblock_fw_tp_time_exposed",
    "block_re_flops", "block_re_flops_time", "block_re_mem_accessed", "block_re_mem_time", "block_re_time",
    "baseblock_recomm_time", "edgeblock_recomm_time", "baseblock_recomm_time_exposed",
    "edgeblock_recomm_time_exposed",
    "block_agrad_flops", "block_agrad_flops_time", "block_agrad_mem_accessed", "block_agrad_mem_time",
    "block_agrad_time", "baseblock_agrad_tp_time", "edgeblock_agrad_tp_time",
    "baseblock_agrad_tp_time_exposed", "edgeblock_agrad_tp_time_exposed",
    "block_wgrad_flops", "block_wgrad_flops_time", "block_wgrad_mem_accessed", "block_wgrad_mem_time",
    "block_wgrad_time",
    "block_optim_flops", "block_optim_flops_time", "block_optim_mem_accessed", "block_optim_mem_time",
    "block_optim_time",
    "baseblock_fw_tp_size", "edgeblock_fw_tp_size", "baseblock_bw_tp_size", "edgeblock_bw_tp_size",
    "baseblock_recomm_size", "edgeblock_recomm_size", "block_fw_pp_size", "block_bw_pp_size", "block_dp_size",
    "tp_bw_overlap_req", "dp_bw_overlap_req_chunk", "dp_bw_overlap_req_tail",
    "block_weight_space", "block_act_working_space", "block_act_storage_space", "block_act_checkpoint_size",
    "block_weight_grad_space", "block_weight_grad_space_no_sharding", "block_act_grad_space",
    "block_optimizer_space",
    "weight_space_with_offload", "act_space_with_offload", "act_checkpoint_size_with_offload",
    "act_grad_space_with_offload", "weight_grad_space_with_offload", "optimizer_space_with_offload",
    "weight_space", "act_space", "act_checkpoint_size", "act_grad_space", "weight_grad_space", "optimizer_space",
    "fw_time", "bw_time", "optim_step_time", "recompute_time", "recomm_link_time", "recomm_exposed_time",
    "bubble_time", "tp_comm_link_time", "pp_comm_link_time", "dp_comm_link_time", "tp_comm_exposed_time",
    "pp_comm_exposed_time", "dp_comm_exposed_time", "fw_offload_exposed_time", "bw_offload_exposed_time",
    "total_time", "act_offload_bw_req", "weight_offload_bw_req", "optim_offload_bw_req", "offload_mem_bw_req",
    "proc_mem_tier1_cap_req", "proc_mem_tier2_cap_req", "useful_flops", "compute_efficiency",
    "system_efficiency", "total_efficiency", "sample_rate",
)  # fmt: skip
"""Names in the published order."""
