"""DeepSpeed, master of August 2026: what its engines refuse, with its own pipelines, experts and Ulysses attention."""

from __future__ import annotations

from codesign_opt.strategies.options import (
    CpExchange,
    Datatype,
    Placement,
    ProductPrecision,
    Recompute,
    Schedule,
    TpCommunication,
    TpOverlap,
)
from codesign_opt.strategies.rules.rule import Rule, constant, divisors, next_to
from codesign_opt.strategies.targets.available import (
    expert_tp_is_tp,
    only_off,
    only_orders,
    only_value,
    only_words,
)
from codesign_opt.strategies.targets.target import Target

_NAME = "DeepSpeed"

DEEPSPEED = Target(
    name="deepspeed",
    version="master, 2026-08",
    rules=(
        Rule(
            "zero_pp", False,
            lambda f: (f.zero_stage >= 2) & (f["pp"] > 1),
            "ZeRO stage {zero_stage} with pp {pp}: DeepSpeed's pipeline engine takes stage 0 or 1 only",
            constant("use ZeRO stage 1 (gradient_sharding and weight_sharding off), or pp 1"),
        ),
        Rule(
            "zero3_tp", False,
            lambda f: f["weight_sharding"] & (f["tp"] > 1),
            "ZeRO stage 3 with tp {tp}: DeepSpeed's tensor parallelism goes with stages 0 to 2",
            constant("use ZeRO stage 2 (weight_sharding off), or tp 1"),
        ),
        Rule(
            "zero3_experts", False,
            lambda f: f["weight_sharding"] & (f["ep"] > 1),
            "ZeRO stage 3 with ep {ep}: DeepSpeed's experts go with stages 0 to 2",
            constant("use ZeRO stage 2 (weight_sharding off), or ep 1"),
        ),
        Rule(
            "zero_reduction", False,
            lambda f: (f.zero_stage >= 2) & (f.microbatches > 1) & f["training"] & ~f["reduce_each_microbatch"],
            "ZeRO stage {zero_stage} with {microbatches} microbatches and reduce_each_microbatch off: DeepSpeed's "
            "gradient shards take the sums of every microbatch",
            constant("switch reduce_each_microbatch on, or use ZeRO stage 1"),
        ),
        Rule(
            "ep_dp", False,
            lambda f: f["dp"] % f.divisor("ep") != 0,
            "dp {dp} is not a multiple of ep {ep}: DeepSpeed forms expert groups of replicas",
            lambda v: f"ep may be {next_to(v['ep'], divisors(v['dp']))}",
        ),
        Rule(
            "cp_pp", False,
            lambda f: (f["cp"] > 1) & (f["pp"] > 1),
            "cp {cp} with pp {pp}: DeepSpeed's pipelines know no sequence parallelism",
            constant("cp or pp must be 1"),
        ),
        Rule(
            "shard_group_zero3", False,
            lambda f: (f["shard_group"] > 0) & ~f["weight_sharding"],
            "shard_group {shard_group} at ZeRO stage {zero_stage}: DeepSpeed limits it (MiCS) at stage 3 only",
            constant("shard_group must be 0, or weight_sharding on"),
        ),
        only_words(_NAME, "schedule", Schedule.ONE_F_ONE_B),
        only_value(_NAME, "vpp", 1),
        only_value(_NAME, "first_stage_less", 0),
        only_value(_NAME, "last_stage_less", 0),
        only_words(_NAME, "tp_communication", TpCommunication.ALL_REDUCE, when=lambda f: f["tp"] > 1),
        only_words(_NAME, "tp_overlap", TpOverlap.NONE),
        only_off(_NAME, "gather_redo"),
        only_words(_NAME, "cp_exchange", CpExchange.ALL_TO_ALL, when=lambda f: f["cp"] > 1),
        expert_tp_is_tp(_NAME),
        only_words(_NAME, "recompute", Recompute.NONE, Recompute.FULL),
        only_value(_NAME, "recompute_blocks", 0),
        only_words(_NAME, "datatype", Datatype.FLOAT16, Datatype.BFLOAT16, Datatype.FLOAT32),
        only_words(_NAME, "product_precision", ProductPrecision.SAME),
        only_off(
            _NAME, "weight_offload",
            when=lambda f: ~f["weight_sharding"], because="whose offload needs weight_sharding",
        ),
        only_off(
            _NAME, "optimizer_offload",
            when=lambda f: ~f["optimizer_sharding"], because="whose offload needs optimizer_sharding",
        ),
        only_off(
            _NAME, "activation_offload",
            when=lambda f: ~f.is_word("recompute", Recompute.FULL), because="which offloads checkpoints only",
        ),
        only_off(
            _NAME, "dp_overlap", when=lambda f: f["pp"] > 1, because="whose pipelines reduce after the last pass",
        ),
        only_off(
            _NAME, "reduce_each_microbatch",
            when=lambda f: f.zero_stage < 2, because="which reduces once a step below ZeRO stage 2",
        ),
        only_orders(_NAME, Placement.TP_CP_DP_PP),
    ),
)  # fmt: skip
"""Its rules."""
