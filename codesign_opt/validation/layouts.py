"""The strategy of a measured run: what its columns say, and what its software adds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from codesign_opt.strategies import (
    AttentionKernel,
    Datatype,
    Placement,
    ProductPrecision,
    Recompute,
    Schedule,
    Strategy,
    TpCommunication,
    TpOverlap,
)
from codesign_opt.strategies.placement import DEGREES, default_tiers
from codesign_opt.systems import System
from codesign_opt.validation.pipeline_split import blocks_less
from codesign_opt.validation.recipes import Recipe
from codesign_opt.validation.runs import MeasuredRun
from codesign_opt.validation.unmapped import Unmapped
from codesign_opt.workloads import Workload

_PLACEMENT = Placement.TP_CP_DP_PP
"""Neighbours share a tensor-parallel group first, and stages lie farthest apart, in all software of the table."""

_SCHEDULES: Mapping[str, Schedule | None] = {
    "v-half": None,
    "v-min": None,
    "zbv": Schedule.ZB_V,
    "zero-bubble": Schedule.ZB_1P,
    "dualpipe": Schedule.DUALPIPE,
    "gpipe": Schedule.GPIPE,
}
"""Schedules by a word of the software's name; None for those that strategies do not have."""


def strategy_of(run: MeasuredRun, workload: Workload, system: System, recipe: Recipe) -> tuple[Strategy, list[str]]:
    """The strategy, and what had to be assumed about it, in words.

    Raises:
        Unmapped: Where the degrees or the batch are missing or contradict each other, or for a number format, a
            schedule or a recompute that strategies or the system do not have.
    """
    assumed: list[str] = []
    degrees = _degrees(run, assumed)
    microbatch, batch = _batches(run, degrees, assumed)
    recompute = _recompute(run, recipe, assumed)
    shorter = blocks_less(
        recipe.split,
        workload,
        pp=degrees["pp"],
        vpp=degrees["vpp"],
        ties_move_on="after_pp_fix=False" not in (run.notes or ""),
    )
    columns: dict[str, Any] = {
        **degrees,
        **recompute,
        **_formats(run, recipe, system, assumed),
        **_tensor_parallelism(run, recipe, degrees, recompute["recompute"], assumed),
        **_sharding(run, recipe, degrees, assumed),
        **default_tiers(_PLACEMENT, {name: degrees[name] for name in DEGREES}, system),
    }
    strategy = Strategy(
        processors=run.processors,
        batch=batch,
        microbatch=microbatch,
        schedule=_schedule(run.software or ""),
        first_stage_less=shorter[0],
        last_stage_less=shorter[1],
        attention_kernel=_attention(run, recipe, assumed),
        placement=_PLACEMENT,
        **columns,
    )
    return strategy, assumed + _left_out(run.notes or "")


def _left_out(notes: str) -> list[str]:
    """What the notes say of a run that strategies do not have, in words."""
    words = []
    if offloaded := re.search(r"activation CPU offload (\d+) layers", notes):
        words.append(f"activations of {offloaded[1]} blocks offloaded: left out")
    if optimizer := re.search(r"(8-bit|Muon|SGD)\b.* optimizer", notes):
        words.append(f"{optimizer[1]} optimizer: counted as Adam in 32 bits")
    if "after_pp_fix=False" in notes:
        words.append("run before the software's pipelines were corrected")
    return words


def _degrees(run: MeasuredRun, assumed: list[str]) -> dict[str, int]:
    needed = {"tp": run.tp, "pp": run.pp, "dp": run.dp, **({"ep": run.ep} if run.experts else {})}
    missing = [name for name, value in needed.items() if value is None]
    if run.tp is None or run.pp is None or run.dp is None or missing:
        raise Unmapped("no-layout", f"missing: {', '.join(missing)}")
    if run.vpp is None and run.pp > 1:
        assumed.append("interleaving not stated: none")
    return {
        "tp": run.tp,
        "pp": run.pp,
        "dp": run.dp,
        "cp": run.cp or 1,
        "ep": run.ep or 1,
        "etp": run.etp or 1,
        "vpp": (run.vpp or 1) if run.pp > 1 else 1,
    }


def _batches(run: MeasuredRun, degrees: Mapping[str, int], assumed: list[str]) -> tuple[int, int]:
    """Microbatch and batch, sequences."""
    if run.microbatch is None:
        raise Unmapped("no-microbatch", "missing: microbatch")
    replicas = run.microbatch * degrees["dp"]
    if run.batch is None:
        if not run.rate:
            raise Unmapped("no-batch", "missing: batch, and a rate from which to take the time of a step")
        assumed.append(f"batch not stated: {degrees['pp']} microbatch(es) of every replica")
        return run.microbatch, replicas * degrees["pp"]
    steps = run.accumulation or max(run.batch // replicas, 1)
    if replicas * steps != run.batch:
        raise Unmapped(
            "batch-mismatch",
            f"microbatch {run.microbatch} x dp {degrees['dp']} x {steps} microbatches = {replicas * steps}, "
            f"but the batch is {run.batch}",
        )
    return run.microbatch, run.batch


def _formats(run: MeasuredRun, recipe: Recipe, system: System, assumed: list[str]) -> dict[str, Any]:
    """Number formats of weights, products and gradients."""
    if run.precision is None:
        assumed.append(f"precision not stated: {recipe.datatype.value}")
    datatype = recipe.datatype if run.precision is None else Datatype.BFLOAT16
    if run.precision == "fp16":
        datatype = Datatype.FLOAT16
    eight_bits = run.precision in ("fp8", "mxfp8")
    if run.precision == "nvfp4" or (eight_bits and "float8" not in system.matrix):
        raise Unmapped("number-format", f"{system.name} has no {run.precision} engine")
    return {
        "datatype": datatype,
        "product_precision": ProductPrecision.FLOAT8 if eight_bits else ProductPrecision.SAME,
        "gradient_precision": recipe.gradients,
    }


def _recompute(run: MeasuredRun, recipe: Recipe, assumed: list[str]) -> dict[str, Any]:
    """What is computed again, and whether the activation of the MLP is."""
    notes = run.notes or ""
    stated = run.recompute
    if stated is None and "activations offloaded" in notes:
        stated = "offload"
    if stated is None:
        assumed.append(f"recompute not stated: {recipe.recompute.value}")
        return {"recompute": recipe.recompute, "fused_activation": False}
    if stated == "selective" and (modules := re.search(r"recompute modules (\S+?)(;|$)", notes)):
        # Megatron-LM names the modules; of those named here, strategies have the activation of the MLP alone.
        names = modules[1].split("+")
        if "core_attn" not in names:
            left_out = ", ".join(name for name in names if name != "moe_act")
            assumed.append(f"recompute of {left_out} left out")
            return {"recompute": Recompute.NONE, "fused_activation": "moe_act" in names}
    if stated == "partial":
        blocks = re.search(r"recompute detail: (\d+) layers", notes)
        if blocks is None:
            raise Unmapped("unknown-recompute", "recompute is partial, and the notes name no number of layers")
        return {"recompute": Recompute.FULL, "recompute_blocks": int(blocks[1]), "fused_activation": False}
    if stated == "offload":
        assumed.append("what is offloaded counts as recomputed")
        return {"recompute": Recompute.FULL, "fused_activation": False}
    return {"recompute": Recompute(stated), "fused_activation": False}


def _attention(run: MeasuredRun, recipe: Recipe, assumed: list[str]) -> AttentionKernel:
    if run.attention is None:
        assumed.append(f"attention not stated: {recipe.attention.value}")
        return recipe.attention
    return AttentionKernel.UNFUSED if run.attention == "non-flash" else AttentionKernel.FLASH


def _tensor_parallelism(
    run: MeasuredRun, recipe: Recipe, degrees: Mapping[str, int], recompute: Recompute, assumed: list[str]
) -> dict[str, Any]:
    """Collectives of tensor parallelism, and how they hide."""
    if degrees["tp"] == 1:
        return {}
    if run.sequence_parallel:
        return {
            "tp_communication": TpCommunication.SEQUENCE_PARALLEL,
            "gather_redo": recompute is not Recompute.FULL,
            "tp_overlap": TpOverlap.NONE if run.experts else recipe.dense_tp_overlap,
        }
    if run.sequence_parallel is None:
        assumed.append("sequence parallelism not stated: none")
    scattered = recipe.scattered_stage_messages and degrees["pp"] > 1
    return {"tp_communication": TpCommunication.STAGE_BOUNDARY if scattered else TpCommunication.ALL_REDUCE}


def _sharding(run: MeasuredRun, recipe: Recipe, degrees: Mapping[str, int], assumed: list[str]) -> dict[str, Any]:
    """What is sharded over the processors with the same weights, and how gradients are exchanged."""
    replicas = degrees["dp"] * degrees["cp"]
    if replicas == 1:
        return {}
    if run.sharding is None:
        assumed.append("sharding not stated: none")
    stage = {"zero1": 1, "zero2": 2, "zero3": 3, "hsdp_zero3": 3}.get(run.sharding or "none", 0)
    # FSDP that keeps gathered weights from the forward to the backward pass goes by the name of the second stage.
    kept = stage == 2 and "FSDP" in (run.shard_implementation or "")
    weights = stage == 3 or kept
    group = run.shard_group or replicas
    return {
        "optimizer_sharding": stage > 0,
        "gradient_sharding": stage != 1,
        "weight_sharding": weights,
        "keep_gathered": kept,
        "shard_group": group if stage > 0 and group < replicas else 0,
        "reduce_each_microbatch": weights and recipe.reduce_each_microbatch,
        "dp_overlap": weights or recipe.dp_overlap,
    }


def _schedule(software: str) -> Schedule:
    for name, schedule in _SCHEDULES.items():
        if name in software:
            if schedule is None:
                raise Unmapped("unknown-schedule", f"strategies have no schedule '{name}'")
            return schedule
    return Schedule.ONE_F_ONE_B
