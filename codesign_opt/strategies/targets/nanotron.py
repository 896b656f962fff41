"""Nanotron, main as of September 2026: what its configuration has, and what its checks and pipeline engines refuse."""

from __future__ import annotations

from codesign_opt.strategies.options import (
    AttentionKernel,
    CpExchange,
    Datatype,
    GradientPrecision,
    Placement,
    ProductPrecision,
    Recompute,
    Schedule,
    TpCommunication,
    TpOverlap,
)
from codesign_opt.strategies.rules.rule import Rule, constant
from codesign_opt.strategies.targets.available import (
    expert_tp_is_tp,
    only_off,
    only_orders,
    only_value,
    only_words,
    overlap_needs_sequence_parallelism,
    whole_kv_heads,
)
from codesign_opt.strategies.targets.target import Target

_NAME = "Nanotron"

NANOTRON = Target(
    name="nanotron",
    version="main, 2026-09",
    choices={"gradient_precision": (GradientPrecision.BOTH,)},
    rules=(
        whole_kv_heads(_NAME),
        Rule(
            "microbatches_pp", False,
            lambda f: f.is_word("schedule", Schedule.ONE_F_ONE_B) & f["training"] & (f.microbatches < f["pp"] - 1),
            "{microbatches} microbatches are fewer than pp {pp} - 1, which 1F1B in Nanotron refuses",
            lambda v: f"pp may be at most {v['microbatches'] + 1}, or schedule gpipe",
        ),
        Rule(
            "zero_unavailable", False,
            lambda f: f.zero_stage >= 2,
            "ZeRO stage {zero_stage} is not available in Nanotron",
            constant("use ZeRO stage 1 (gradient_sharding and weight_sharding off) or 0"),
        ),
        only_words(_NAME, "schedule", Schedule.ONE_F_ONE_B, Schedule.GPIPE),
        only_value(_NAME, "vpp", 1),
        only_value(_NAME, "first_stage_less", 0, because="which balances stages by itself"),
        only_value(_NAME, "last_stage_less", 0, because="which balances stages by itself"),
        only_words(
            _NAME, "tp_communication", TpCommunication.ALL_REDUCE, TpCommunication.SEQUENCE_PARALLEL,
            when=lambda f: f["tp"] > 1,
        ),
        overlap_needs_sequence_parallelism(_NAME),
        only_words(_NAME, "tp_overlap", TpOverlap.NONE, TpOverlap.RING),
        only_words(_NAME, "cp_exchange", CpExchange.RING, CpExchange.ALL_GATHER, when=lambda f: f["cp"] > 1),
        expert_tp_is_tp(_NAME),
        only_words(_NAME, "recompute", Recompute.NONE, Recompute.FULL),
        only_value(_NAME, "recompute_blocks", 0),
        only_words(_NAME, "attention_kernel", AttentionKernel.FLASH),
        only_words(_NAME, "datatype", Datatype.FLOAT16, Datatype.BFLOAT16, Datatype.FLOAT32),
        only_words(_NAME, "product_precision", ProductPrecision.SAME),
        only_words(_NAME, "gradient_precision", GradientPrecision.SAME, GradientPrecision.BOTH),
        only_value(_NAME, "shard_group", 0),
        only_off(_NAME, "reduce_each_microbatch"),
        only_off(_NAME, "weight_offload"),
        only_off(_NAME, "activation_offload"),
        only_off(_NAME, "optimizer_offload"),
        only_orders(_NAME, Placement.TP_CP_DP_PP, when=lambda f: ~f.has_experts),
        only_orders(_NAME, Placement.TP_CP_PP_DP, when=lambda f: f.has_experts),
    ),
)  # fmt: skip
"""Its rules."""
