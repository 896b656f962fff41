"""For each target, what breaks exactly one of its rules and what mends that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codesign_opt.strategies import (
    AttentionKernel,
    CpExchange,
    Datatype,
    GradientPrecision,
    Placement,
    ProductPrecision,
    Recompute,
    Schedule,
    Strategy,
    TpCommunication,
    TpOverlap,
)
from codesign_opt.workloads import Workload
from codesign_opt.workloads.transformer import Experts

DENSE = Workload(
    name="dense",
    hidden=64,
    feedforward=128,
    sequence_length=64,
    attention_heads=8,
    head_size=8,
    blocks=12,
    key_value_heads=4,
    vocabulary=256,
    tied_embeddings=False,
)
EXPERTS = Experts(count=8, top_k=2, feedforward=32)

PLAIN = Strategy(
    processors=16, tp=2, pp=4, dp=2, batch=16, microbatch=1, datatype=Datatype.BFLOAT16, pp_tier=1, dp_tier=1,
    attention_kernel=AttentionKernel.FLASH, optimizer_sharding=False,
)  # fmt: skip
"""Legal everywhere: 8 microbatches on 4 stages of 3 blocks."""

ZERO1: dict[str, Any] = {"optimizer_sharding": True, "gradient_sharding": False}
ZERO2: dict[str, Any] = {"optimizer_sharding": True, "gradient_sharding": True}
ZERO3: dict[str, Any] = {**ZERO2, "weight_sharding": True}
EACH: dict[str, Any] = {"reduce_each_microbatch": True}
NO_PIPELINE: dict[str, Any] = {"pp": 1, "dp": 8}
SEQUENCE: dict[str, Any] = {"tp_communication": TpCommunication.SEQUENCE_PARALLEL, "gather_redo": True}
ONCE: dict[str, Any] = {"tp_communication": TpCommunication.SEQUENCE_PARALLEL}
WITH_EXPERTS: dict[str, Any] = {"experts": EXPERTS}
GATHERED: dict[str, Any] = {"cp": 2, "dp": 1, "cp_exchange": CpExchange.ALL_GATHER}
ULYSSES: dict[str, Any] = {"cp": 2, "dp": 1, "cp_exchange": CpExchange.ALL_TO_ALL}

Case = tuple[dict[str, Any], dict[str, Any], str, tuple[str, ...], dict[str, Any]]

MEGATRON: dict[str, Case] = {
    "uneven stages": (
        {"pp": 5}, {}, "layers_pp",
        ("12 blocks, which is not a multiple of pp 5", "pp may be 4 or 6; or give a layout, such as 3,3,2,2,2"),
        {"pp": 6},
    ),
    "uneven stages with room at the end": (
        {"pp": 5, "last_stage_less": 1}, {}, "layers_pp",
        ("12 blocks + last_stage_less 1 = 13, which is not", "pp may be 1 or 13; or give a layout, such as 3,3,3,2,1"),
        {"first_stage_less": 1, "last_stage_less": 2},
    ),
    "an end without blocks": (
        {"first_stage_less": 4}, {}, "ends_blocks",
        ("first_stage_less 4 and last_stage_less 0", "at most 3"), {"first_stage_less": 2, "last_stage_less": 2},
    ),
    "chunks of an end": (
        {"vpp": 2, "first_stage_less": 1, "last_stage_less": 3}, {}, "ends_vpp",
        ("first stage of 3 and the last of 1 blocks", "vpp 2"), {"first_stage_less": 2, "last_stage_less": 2},
    ),
    "two parts of a sequence each": (
        GATHERED, {"sequence_length": 66}, "sequence_2cp", ("66 is not a multiple of 2 x cp 2", "cp may be 1 or 3"),
        {"cp": 1, "dp": 2},
    ),
    "parts of one sequence": (
        {**SEQUENCE, "microbatch": 2}, {"sequence_length": 33}, "sequence_tp",
        ("33 / cp 1 is not a multiple of tp 2: Megatron-LM", "tp may be 1 or 3"),
        {"tp_communication": TpCommunication.ALL_REDUCE, "gather_redo": False},
    ),
    "few microbatches": (
        {"vpp": 3, "batch": 6}, {}, "microbatch_group", ("3 microbatches with vpp 3", "at least pp 4"), {"batch": 8},
    ),
    "FSDP in a pipeline": (
        ZERO2, {}, "zero_pp", ("ZeRO stage 2 with pp 4", "use ZeRO stage 1"), {"gradient_sharding": False},
    ),
    "experts without sequence parallelism": (
        {}, WITH_EXPERTS, "experts_sequence", ("'all_reduce' with experts and tp 2",), SEQUENCE,
    ),
    "experts in 16-bit floats": (
        {**SEQUENCE, "ep": 4, "datatype": Datatype.FLOAT16}, WITH_EXPERTS, "experts_float16",
        ("'float16' with ep 4", "bfloat16"), {"datatype": Datatype.BFLOAT16},
    ),
    "gathering once": (ONCE, {}, "gather_redo_needed", ("gather_redo is off",), {"gather_redo": True}),
    "overlap of all-reduces": (
        {"tp_overlap": TpOverlap.RING}, {}, "tp_overlap_sequence", ("'ring' with tp_communication 'all_reduce'",),
        SEQUENCE,
    ),
    "collectives at the edges": (
        {"tp_communication": TpCommunication.STAGE_BOUNDARY}, {}, "tp_communication_unavailable",
        ("'stage_boundary' is not available in Megatron-LM", "all_reduce, sequence_parallel"),
        {"tp_communication": TpCommunication.ALL_REDUCE},
    ),
    "schedule": (
        {"schedule": Schedule.DUALPIPE}, {}, "schedule_unavailable",
        ("'dualpipe' is not available in Megatron-LM", "may be 1f1b"), {"schedule": Schedule.ONE_F_ONE_B},
    ),
    "weights of 8 bits": (
        {"datatype": Datatype.FLOAT8}, {}, "datatype_unavailable", ("'float8'", "float16, bfloat16, float32"),
        {"product_precision": ProductPrecision.FLOAT8, "datatype": Datatype.BFLOAT16},
    ),
    "gradients twice": (
        {"gradient_precision": GradientPrecision.BOTH}, {}, "gradient_precision_unavailable", ("'both'",),
        {"gradient_precision": GradientPrecision.FLOAT32},
    ),
    "unfused attention on parts of a sequence": (
        {**GATHERED, "attention_kernel": AttentionKernel.UNFUSED}, {}, "attention_kernel_unavailable",
        ("'unfused' is not available in Megatron-LM, which splits", "may be flash"), {"cp": 1, "dp": 2},
    ),
    "weights elsewhere": (
        {"weight_offload": True}, {}, "weight_offload_unavailable", ("without pipeline and recompute",), NO_PIPELINE,
    ),
    "checkpoints elsewhere": (
        {"activation_offload": True, "recompute": Recompute.FULL}, {}, "activation_offload_unavailable",
        ("where blocks are recomputed",), {"recompute": Recompute.SELECTIVE},
    ),
    "whole optimizer elsewhere": (
        {"optimizer_offload": True}, {}, "optimizer_offload_unavailable", ("needs optimizer_sharding",), ZERO1,
    ),
    "exchange in every microbatch": (
        {**ZERO1, **EACH}, {}, "reduce_each_microbatch_unavailable", ("once a step",), {**ZERO2, **NO_PIPELINE},
    ),
    "gathered weights kept": (
        {**ZERO3, **NO_PIPELINE, "keep_gathered": True}, {}, "keep_gathered_unavailable", ("keep_gathered is not",),
        {"keep_gathered": False},
    ),
    "order": (
        {"placement": Placement.CP_TP_DP_PP, **GATHERED}, {}, "placement_unavailable",
        ("cp-tp-dp-pp", "tp-cp-dp-pp, tp-cp-pp-dp, or tiers"), {"placement": Placement.TP_CP_PP_DP},
    ),
}  # fmt: skip

TITAN: dict[str, Case] = {
    "shared key and value heads": (
        {"tp": 8, "dp": 4}, {}, "kv_heads_whole",
        ("4 key and value heads are not a multiple of tp 8, as TorchTitan needs", "tp may be 4"), {"tp": 4},
    ),
    "shared heads of all to all": (
        {**ULYSSES, "cp": 4}, {}, "kv_heads_cp_whole", ("tp 2 x cp 4 = 8", "all_gather"),
        {"cp_exchange": CpExchange.ALL_GATHER},
    ),
    "parts of one sequence": (
        {**ONCE, "microbatch": 2}, {"sequence_length": 33}, "sequence_tp",
        ("33 / cp 1 is not a multiple of tp 2: TorchTitan",), {"tp_communication": TpCommunication.ALL_REDUCE},
    ),
    "fewer microbatches than stages": (
        {"batch": 6}, {}, "microbatches_pp", ("3 microbatches are fewer than the stages of pp 4", "at most 3"),
        {"schedule": Schedule.GPIPE},
    ),
    "rounds of microbatches": (
        {"vpp": 3, "batch": 18}, {}, "microbatch_rounds", ("9 microbatches", "multiple of 4"), {"batch": 16},
    ),
    "an end with more less than a part has": (
        {"vpp": 2, "first_stage_less": 2, "last_stage_less": 2}, {"blocks": 4}, "stage_parts",
        ("4 blocks + first_stage_less 2 + last_stage_less 2", "vpp 2"),
        {"vpp": 1},
    ),
    "tied embeddings on two stages": ({}, {"tied_embeddings": True}, "tied_pp", ("with pp 4",), NO_PIPELINE),
    "prediction on the last stage": (
        {}, {"prediction_blocks": 1}, "prediction_pp", ("1 prediction block(s) with pp 4",), NO_PIPELINE,
    ),
    "experts split by tensor parallelism": (
        {}, WITH_EXPERTS, "ep_tp", ("ep 1 is less than tp 2", "at least 2"), {"ep": 2},
    ),
    "experts beyond the shards": (
        {**NO_PIPELINE, **ZERO3, "ep": 8, "shard_group": 2}, WITH_EXPERTS, "expert_shards",
        ("ep 8 does not divide", "shard_group 2", "dp 8"), {"ep": 4},
    ),
    "experts of replicas": (
        {"ep": 4}, WITH_EXPERTS, "expert_shards", ("ep 4 does not divide",), ZERO3,
    ),
    "group across parts of a sequence": (
        {**GATHERED, **ZERO3, "cp": 4, "dp": 3, "shard_group": 6, "batch": 48, "cp_tier": 1}, {}, "shard_group_cp",
        ("shard_group 6 is not a multiple of cp 4",), {"shard_group": 4},
    ),
    "ZeRO-1": (ZERO1, {}, "zero_unavailable", ("ZeRO stage 1 is not available in TorchTitan",), ZERO3),
    "ZeRO-2": (ZERO2, {}, "zero_unavailable", ("ZeRO stage 2 is not available in TorchTitan",), ZERO3),
    "overlap of all-reduces": (
        {"tp_overlap": TpOverlap.RING}, {}, "tp_overlap_sequence", ("in TorchTitan it needs",), ONCE,
    ),
    "overlap in a pipe": (
        {**ONCE, "tp_overlap": TpOverlap.PIPE}, {}, "tp_overlap_unavailable", ("'pipe'", "none, ring"),
        {"tp_overlap": TpOverlap.RING},
    ),
    "collectives at the edges": (
        {"tp_communication": TpCommunication.STAGE_BOUNDARY}, {}, "tp_communication_unavailable", ("TorchTitan",), ONCE,
    ),
    "gathering again": (
        SEQUENCE, {}, "gather_redo_unavailable", ("TorchTitan", "switch it off"), {"gather_redo": False},
    ),
    "selective recompute": (
        {"recompute": Recompute.SELECTIVE}, {}, "recompute_unavailable", ("'selective'", "none, full"),
        {"recompute": Recompute.FULL},
    ),
    "some blocks": (
        {"recompute": Recompute.FULL, "recompute_blocks": 2}, {}, "recompute_blocks_unavailable",
        ("recompute_blocks 2", "must be 0"), {"recompute_blocks": 0},
    ),
    "schedule": (
        {"schedule": Schedule.ZB_1P}, {}, "schedule_unavailable", ("'zb_1p'", "1f1b, gpipe, zb_v"),
        {"schedule": Schedule.ONE_F_ONE_B},
    ),
    "tensor parallelism in experts": (
        {"ep": 2, "etp": 2, "dp": 4}, WITH_EXPERTS, "etp_unavailable", ("etp 2", "must be 1"), {"etp": 1},
    ),
    "ring": (
        {**GATHERED, "cp_exchange": CpExchange.RING}, {}, "cp_exchange_unavailable",
        ("'ring'", "all_gather, all_to_all"), {"cp_exchange": CpExchange.ALL_TO_ALL},
    ),
    "16-bit floats": (
        {"datatype": Datatype.FLOAT16}, {}, "datatype_unavailable", ("bfloat16, float32",),
        {"datatype": Datatype.BFLOAT16},
    ),
    "gradients twice": (
        {"gradient_precision": GradientPrecision.BOTH}, {}, "gradient_precision_unavailable", ("same, float32",),
        {"gradient_precision": GradientPrecision.SAME},
    ),
    "attention": (
        {"attention_kernel": AttentionKernel.UNFUSED}, {}, "attention_kernel_unavailable", ("may be flash",),
        {"attention_kernel": AttentionKernel.FLASH},
    ),
    "weights alone elsewhere": (
        {**ZERO3, "weight_offload": True}, {}, "offload_together", ("come together",), {"optimizer_offload": True},
    ),
    "whole weights elsewhere": (
        {"weight_offload": True, "optimizer_offload": True}, {}, "offload_together", ("with weight_sharding",), ZERO3,
    ),
    "activations elsewhere": (
        {"activation_offload": True}, {}, "activation_offload_unavailable", ("TorchTitan",),
        {"activation_offload": False},
    ),
    "order": (
        {"placement": Placement.TP_CP_PP_DP}, {}, "placement_unavailable", ("tp-cp-pp-dp", "tp-cp-dp-pp, or tiers"),
        {"placement": Placement.TP_DP_CP_PP},
    ),
}  # fmt: skip

SPEED: dict[str, Case] = {
    "ZeRO-2 in a pipeline": (
        {**ZERO2, **EACH}, {}, "zero_pp",
        ("ZeRO stage 2 with pp 4: DeepSpeed's pipeline engine takes stage 0 or 1 only", "or pp 1"), NO_PIPELINE,
    ),
    "ZeRO-3 in a pipeline": (
        {**ZERO3, **EACH, "tp": 1, "dp": 4}, {}, "zero_pp", ("ZeRO stage 3 with pp 4",), NO_PIPELINE,
    ),
    "ZeRO-3 and tensor parallelism": (
        {**ZERO3, **NO_PIPELINE, **EACH}, {}, "zero3_tp", ("stage 3 with tp 2",), {"weight_sharding": False},
    ),
    "ZeRO-3 and experts": (
        {**ZERO3, **NO_PIPELINE, **EACH, "tp": 1, "ep": 2}, WITH_EXPERTS, "zero3_experts", ("stage 3 with ep 2",),
        {"ep": 1},
    ),
    "gradient shards of a step": (
        {**ZERO2, **NO_PIPELINE}, {}, "zero_reduction",
        ("ZeRO stage 2 with 2 microbatches and reduce_each_microbatch off",), {"microbatch": 2},
    ),
    "experts beyond the replicas": (
        {"ep": 4}, WITH_EXPERTS, "ep_dp", ("dp 2 is not a multiple of ep 4", "ep may be 2"), {"ep": 2},
    ),
    "context parallelism in a pipeline": (
        ULYSSES, {}, "cp_pp", ("cp 2 with pp 4",), {"pp": 1},
    ),
    "group of replicas": (
        {**ZERO1, "dp": 4, "shard_group": 2}, {}, "shard_group_zero3", ("shard_group 2 at ZeRO stage 1",),
        {**ZERO3, **EACH, "pp": 1, "tp": 1},
    ),
    "schedule": (
        {"schedule": Schedule.GPIPE}, {}, "schedule_unavailable", ("'gpipe' is not available in DeepSpeed",),
        {"schedule": Schedule.ONE_F_ONE_B},
    ),
    "chunks": ({"vpp": 3}, {}, "vpp_unavailable", ("vpp 3 is not available in DeepSpeed", "vpp must be 1"), {"vpp": 1}),
    "first stage": (
        {"first_stage_less": 1}, {}, "first_stage_less_unavailable", ("must be 0",), {"first_stage_less": 0},
    ),
    "last stage": ({"last_stage_less": 1}, {}, "last_stage_less_unavailable", ("must be 0",), {"last_stage_less": 0}),
    "sequence parallelism": (
        ONCE, {}, "tp_communication_unavailable", ("may be all_reduce",), {"tp": 1},
    ),
    "overlap": (
        {"tp_overlap": TpOverlap.RING}, {}, "tp_overlap_unavailable", ("may be none",), {"tp_overlap": TpOverlap.NONE},
    ),
    "gathering again": (
        {"tp": 1, **SEQUENCE}, {}, "gather_redo_unavailable", ("DeepSpeed",), {"gather_redo": False},
    ),
    "ring": (
        {**ULYSSES, "pp": 1, "cp_exchange": CpExchange.RING}, {}, "cp_exchange_unavailable", ("may be all_to_all",),
        {"cp_exchange": CpExchange.ALL_TO_ALL},
    ),
    "half of tensor parallelism in experts": (
        {"tp": 4, "etp": 2}, WITH_EXPERTS, "etp_unavailable", ("tp 4 processors or not at all", "etp may be 1 or 4"),
        {"etp": 4},
    ),
    "selective recompute": (
        {"recompute": Recompute.SELECTIVE}, {}, "recompute_unavailable", ("none, full",), {"recompute": Recompute.NONE},
    ),
    "some blocks": (
        {"recompute": Recompute.FULL, "recompute_blocks": 1}, {}, "recompute_blocks_unavailable", ("must be 0",),
        {"recompute_blocks": 0},
    ),
    "weights of 8 bits": (
        {"datatype": Datatype.FLOAT8}, {}, "datatype_unavailable", ("'float8'",), {"datatype": Datatype.FLOAT16},
    ),
    "products of 8 bits": (
        {"product_precision": ProductPrecision.FLOAT8}, {}, "product_precision_unavailable", ("may be same",),
        {"product_precision": ProductPrecision.SAME},
    ),
    "whole weights elsewhere": (
        {"weight_offload": True, "pp": 2}, {}, "weight_offload_unavailable", ("needs weight_sharding",),
        {**ZERO3, **EACH, "tp": 1, "pp": 1},
    ),
    "whole optimizer elsewhere": (
        {"optimizer_offload": True}, {}, "optimizer_offload_unavailable", ("needs optimizer_sharding",), ZERO1,
    ),
    "activations elsewhere": (
        {"activation_offload": True}, {}, "activation_offload_unavailable", ("checkpoints only",),
        {"recompute": Recompute.FULL},
    ),
    "overlap of gradients in a pipeline": (
        {"dp_overlap": True}, {}, "dp_overlap_unavailable", ("after the last pass",), NO_PIPELINE,
    ),
    "exchange in every microbatch": (
        {**ZERO1, **EACH}, {}, "reduce_each_microbatch_unavailable", ("once a step",),
        {"reduce_each_microbatch": False},
    ),
    "order": (
        {"placement": Placement.TP_CP_PP_DP}, {}, "placement_unavailable", ("DeepSpeed",),
        {"placement": Placement.TP_CP_DP_PP},
    ),
}  # fmt: skip

NANO: dict[str, Case] = {
    "shared key and value heads": (
        {"tp": 8, "dp": 4}, {}, "kv_heads_whole", ("as Nanotron needs", "tp may be 4"), {"tp": 4},
    ),
    "few microbatches": (
        {"batch": 4}, {}, "microbatches_pp", ("2 microbatches are fewer than pp 4 - 1", "at most 3"), {"batch": 6},
    ),
    "ZeRO-2": (ZERO2, {}, "zero_unavailable", ("ZeRO stage 2 is not available in Nanotron",), ZERO1),
    "schedule": (
        {"schedule": Schedule.ZB_1P}, {}, "schedule_unavailable", ("1f1b, gpipe",), {"schedule": Schedule.GPIPE},
    ),
    "chunks": ({"vpp": 3}, {}, "vpp_unavailable", ("vpp 3",), {"vpp": 1}),
    "first stage": (
        {"first_stage_less": 1}, {}, "first_stage_less_unavailable", ("by itself",), {"first_stage_less": 0},
    ),
    "last stage": ({"last_stage_less": 1}, {}, "last_stage_less_unavailable", ("by itself",), {"last_stage_less": 0}),
    "collectives at the edges": (
        {"tp_communication": TpCommunication.STAGE_BOUNDARY}, {}, "tp_communication_unavailable", ("Nanotron",), ONCE,
    ),
    "overlap of all-reduces": (
        {"tp_overlap": TpOverlap.RING}, {}, "tp_overlap_sequence", ("in Nanotron it needs",), SEQUENCE,
    ),
    "overlap in a pipe": (
        {**ONCE, "tp_overlap": TpOverlap.PIPE}, {}, "tp_overlap_unavailable", ("none, ring",),
        {"tp_overlap": TpOverlap.RING},
    ),
    "all to all": (
        ULYSSES, {}, "cp_exchange_unavailable", ("ring, all_gather",), {"cp_exchange": CpExchange.RING},
    ),
    "half of tensor parallelism in experts": (
        {"tp": 4, "etp": 2}, WITH_EXPERTS, "etp_unavailable", ("etp may be 1 or 4",), {"etp": 1},
    ),
    "selective recompute": (
        {"recompute": Recompute.SELECTIVE}, {}, "recompute_unavailable", ("none, full",), {"recompute": Recompute.FULL},
    ),
    "some blocks": (
        {"recompute": Recompute.FULL, "recompute_blocks": 3}, {}, "recompute_blocks_unavailable", ("must be 0",),
        {"recompute_blocks": 0},
    ),
    "attention": (
        {"attention_kernel": AttentionKernel.UNFUSED}, {}, "attention_kernel_unavailable", ("may be flash",),
        {"attention_kernel": AttentionKernel.FLASH},
    ),
    "weights of 8 bits": (
        {"datatype": Datatype.FLOAT8}, {}, "datatype_unavailable", ("'float8'",), {"datatype": Datatype.FLOAT32},
    ),
    "products of 8 bits": (
        {"product_precision": ProductPrecision.FLOAT8}, {}, "product_precision_unavailable", ("may be same",),
        {"product_precision": ProductPrecision.SAME},
    ),
    "gradients of 32 bits alone": (
        {"gradient_precision": GradientPrecision.FLOAT32}, {}, "gradient_precision_unavailable", ("same, both",),
        {"gradient_precision": GradientPrecision.BOTH},
    ),
    "group of replicas": (
        {**ZERO1, "dp": 4, "shard_group": 2}, {}, "shard_group_unavailable", ("must be 0",), {"shard_group": 0},
    ),
    "exchange in every microbatch": (
        EACH, {}, "reduce_each_microbatch_unavailable", ("Nanotron",), {"reduce_each_microbatch": False},
    ),
    "weights elsewhere": (
        {"weight_offload": True}, {}, "weight_offload_unavailable", ("Nanotron",), {"weight_offload": False},
    ),
    "activations elsewhere": (
        {"activation_offload": True}, {}, "activation_offload_unavailable", ("Nanotron",),
        {"activation_offload": False},
    ),
    "optimizer elsewhere": (
        {"optimizer_offload": True}, {}, "optimizer_offload_unavailable", ("Nanotron",), {"optimizer_offload": False},
    ),
    "order": (
        {"placement": Placement.TP_CP_PP_DP}, {}, "placement_unavailable", ("may be tp-cp-dp-pp, or tiers",),
        {"placement": Placement.TP_CP_DP_PP},
    ),
    "order with experts": (
        {"placement": Placement.TP_CP_DP_PP}, WITH_EXPERTS, "placement_unavailable",
        ("may be tp-cp-pp-dp, or tiers",), {"placement": Placement.TP_CP_PP_DP},
    ),
}  # fmt: skip

CASES: Mapping[str, dict[str, Case]] = {
    "megatron-lm": MEGATRON, "torchtitan": TITAN, "deepspeed": SPEED, "nanotron": NANO,
}  # fmt: skip
"""For each target what breaks exactly one rule of it: changes, code, words of its violation, and what mends it."""
