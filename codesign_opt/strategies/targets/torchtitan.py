"""TorchTitan, main of September 2026: what its configuration checks and PyTorch's pipeline schedules refuse.

State is split by FSDP, which splits weights too; without it, replicas are kept by data parallelism.
"""

from __future__ import annotations

import numpy as np

from codesign_opt.strategies.facts import Array, Facts
from codesign_opt.strategies.options import (
    AttentionKernel,
    CpExchange,
    Datatype,
    GradientPrecision,
    Placement,
    Recompute,
    Schedule,
    TpCommunication,
    TpOverlap,
)
from codesign_opt.strategies.rules.rule import Rule, constant, divisors, next_to
from codesign_opt.strategies.targets.available import (
    only_off,
    only_orders,
    only_value,
    only_words,
    overlap_needs_sequence_parallelism,
    whole_kv_heads,
    whole_sequence_shards,
)
from codesign_opt.strategies.targets.target import Target

_NAME = "TorchTitan"


def _shards(facts: Facts) -> Array:
    """Processors among which FSDP and context parallelism split weights."""
    everywhere: Array = np.where(facts["optimizer_sharding"], facts.replicas, facts.divisor("cp"))
    return np.where(facts["shard_group"] > 0, facts["shard_group"], everywhere)


def _chunks(facts: Facts) -> Array:
    """Model parts on one processor of a pipeline."""
    chunks: Array = np.where(facts.is_word("schedule", Schedule.ZB_V), 2, facts.divisor("vpp"))
    return chunks


def _ends_exceed_part(facts: Facts) -> Array:
    """The ends have more blocks less than the smallest part has."""
    least: Array = facts.counted_blocks // (facts.divisor("pp") * _chunks(facts))
    less: Array = np.maximum(facts["first_stage_less"], facts["last_stage_less"])
    return np.logical_and(facts["pp"] > 1, (less > least) | (least < 1))


def _rounds(facts: Facts) -> Array:
    rounds: Array = np.maximum(facts.microbatches // facts.divisor("pp"), 1)
    return rounds


TORCHTITAN = Target(
    name="torchtitan",
    version="main, 2026-09-22",
    rules=(
        whole_kv_heads(_NAME),
        Rule(
            "kv_heads_cp_whole", True,
            lambda f: (f["cp"] > 1)
            & f.is_word("cp_exchange", CpExchange.ALL_TO_ALL)
            & (f.kv_heads % (f.divisor("tp") * f.divisor("cp")) != 0),
            "{kv_heads} key and value heads are not a multiple of tp {tp} x cp {cp} = {tp_x_cp}, as Ulysses attention "
            "in TorchTitan needs",
            constant("cp_exchange may be all_gather, or cp smaller"),
        ),
        whole_sequence_shards(_NAME),
        Rule(
            "microbatches_pp", False,
            lambda f: f.is_word("schedule", Schedule.ONE_F_ONE_B) & (f["vpp"] == 1) & (f.microbatches < f["pp"]),
            "{microbatches} microbatches are fewer than the stages of pp {pp}, which 1F1B in TorchTitan refuses",
            lambda v: f"pp may be at most {v['microbatches']}, or schedule gpipe",
        ),
        Rule(
            "microbatch_rounds", False,
            lambda f: (f["vpp"] > 1) & (f.microbatches % _rounds(f) != 0),
            "{microbatches} microbatches do not come in whole rounds of at least pp {pp}, as interleaving needs",
            lambda v: f"the number of microbatches may be a multiple of {v['pp']}",
        ),
        Rule(
            "stage_parts", False,
            lambda f: _ends_exceed_part(f),
            "{counted_blocks} leave nothing for one of the model parts of pp {pp} (schedule {schedule}, vpp {vpp})",
            constant("use a smaller pp or vpp, or fewer blocks less at the ends"),
        ),
        Rule(
            "tied_pp", False,
            lambda f: (f["pp"] > 1) & f.of_workload(lambda w: w.vocabulary > 0 and w.tied_embeddings),
            "tied embeddings with pp {pp}: TorchTitan keeps embedding and output projection on one stage only",
            constant("pp must be 1, or embeddings untied"),
        ),
        Rule(
            "prediction_pp", False,
            lambda f: (f["pp"] > 1) & (f.size("prediction_blocks") > 0),
            "{prediction_blocks} prediction block(s) with pp {pp}: TorchTitan has them without pipelines only",
            constant("pp must be 1"),
        ),
        Rule(
            "ep_tp", False,
            lambda f: f.has_experts & (f["ep"] < f["tp"]),
            "ep {ep} is less than tp {tp}: TorchTitan does not split experts by tensor parallelism",
            lambda v: f"ep must be at least {v['tp']}",
        ),
        Rule(
            "expert_shards", False,
            lambda f: f.has_experts & (f.divisor("tp") * _shards(f) % f.divisor("ep") != 0),
            "ep {ep} does not divide the processors among which weights are split (shard_group {shard_group}, dp {dp}, "
            "cp {cp}, tp {tp})",
            lambda v: f"with all of them, ep may be {next_to(v['ep'], divisors(v['stage_processors']))}",
        ),
        Rule(
            "shard_group_cp", False,
            lambda f: (f["shard_group"] > 0) & (f["shard_group"] % f.divisor("cp") != 0),
            "shard_group {shard_group} is not a multiple of cp {cp}, over which FSDP always splits",
            lambda v: f"shard_group may be 0 (all) or a multiple of {v['cp']}",
        ),
        Rule(
            "zero_unavailable", False,
            lambda f: (f.zero_stage == 1) | (f.zero_stage == 2),
            "ZeRO stage {zero_stage} is not available in TorchTitan: FSDP splits weights as well",
            constant("use ZeRO stage 3 (weight_sharding; keep_gathered spares the second gather) or 0"),
        ),
        overlap_needs_sequence_parallelism(_NAME),
        only_words(_NAME, "tp_overlap", TpOverlap.NONE, TpOverlap.RING),
        only_words(
            _NAME, "tp_communication", TpCommunication.ALL_REDUCE, TpCommunication.SEQUENCE_PARALLEL,
            when=lambda f: f["tp"] > 1,
        ),
        only_off(_NAME, "gather_redo"),
        only_words(_NAME, "recompute", Recompute.NONE, Recompute.FULL),
        only_value(_NAME, "recompute_blocks", 0),
        only_words(
            _NAME, "schedule", Schedule.ONE_F_ONE_B, Schedule.GPIPE, Schedule.ZB_V,
            because="whose zero-bubble schedules need two chunks a stage",
        ),
        only_value(_NAME, "etp", 1),
        only_words(
            _NAME, "cp_exchange", CpExchange.ALL_GATHER, CpExchange.ALL_TO_ALL, when=lambda f: f["cp"] > 1,
        ),
        only_words(_NAME, "datatype", Datatype.BFLOAT16, Datatype.FLOAT32),
        only_words(_NAME, "gradient_precision", GradientPrecision.SAME, GradientPrecision.FLOAT32),
        only_words(_NAME, "attention_kernel", AttentionKernel.FLASH),
        Rule(
            "offload_together", False,
            lambda f: (f["weight_offload"] | f["optimizer_offload"])
            & ~(f["weight_offload"] & f["optimizer_offload"] & f["weight_sharding"]),
            "weight_offload and optimizer_offload come together in TorchTitan, with weight_sharding",
            constant("switch on all three, or the offloads off"),
        ),
        only_off(_NAME, "activation_offload"),
        only_orders(_NAME, Placement.TP_CP_DP_PP),
    ),
)  # fmt: skip
"""Its rules."""
