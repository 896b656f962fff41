"""Megatron-LM, main of August 2026: what its argument checks, `TransformerConfig` and Megatron-FSDP refuse.

Stages are even unless it is told otherwise: by the blocks of the first and last stage (`first_stage_less`,
`last_stage_less`), or by a layout of all of them (`Facts.layout`, `--pipeline-model-parallel-layout`).
"""

from __future__ import annotations

import numpy as np

from codesign_opt.strategies.facts import Array, Facts
from codesign_opt.strategies.options import (
    AttentionKernel,
    Datatype,
    GradientPrecision,
    Placement,
    Recompute,
    Schedule,
    TpCommunication,
)
from codesign_opt.strategies.rules.rule import Rule, Values, constant, divisors, next_to
from codesign_opt.strategies.targets.available import (
    only_off,
    only_orders,
    only_words,
    overlap_needs_sequence_parallelism,
    whole_sequence_shards,
)
from codesign_opt.strategies.targets.target import Target

_NAME = "Megatron-LM"
_ENDS = ("first_stage_less", "last_stage_less")


def balanced_layout(blocks: int, stages: int, *, first_less: int = 0, last_less: int = 0) -> list[int]:
    """Blocks of each stage, which sum to `blocks` and differ by one at most before those that the ends have less."""
    each, rest = divmod(blocks + first_less + last_less, stages)
    sizes = [each + (stage < rest) for stage in range(stages)]
    sizes[0] -= first_less
    sizes[-1] -= last_less
    return sizes


def _sequence_parallel(facts: Facts) -> Array:
    return facts.is_word("tp_communication", TpCommunication.SEQUENCE_PARALLEL)


def _gathers_once(facts: Facts) -> Array:
    """Sequence parallelism that would keep the gathered input, which Megatron-LM never does."""
    once: Array = facts["training"] & ~facts["gather_redo"] & ~facts.is_word("recompute", Recompute.FULL)
    return once & _sequence_parallel(facts) & (facts["tp"] > 1)


def _end_chunks_differ(facts: Facts) -> Array:
    vpp, blocks = facts.divisor("vpp"), facts.stage_blocks
    ends: list[Array] = [(facts[less] > 0) & ((blocks - facts[less]) % vpp != 0) for less in _ENDS]
    return np.logical_or(*ends)


def _emptied_end(facts: Facts) -> Array:
    ends: list[Array] = [(facts[less] > 0) & (facts[less] >= facts.stage_blocks) for less in _ENDS]
    return np.logical_or(*ends)


def _even_splits(values: Values) -> str:
    pp, less = values["pp"], (values["first_stage_less"], values["last_stage_less"])
    even = next_to(pp, divisors(values["counted"]))
    blocks, parts = values["blocks"] + values["prediction_blocks"], pp * max(values["vpp"], 1)
    layout = balanced_layout(blocks, parts, first_less=less[0], last_less=less[1])
    explicit = f"; or give a layout, such as {','.join(map(str, layout))}" if min(layout) > 0 else ""
    return f"pp may be {even}{explicit}"


MEGATRON_LM = Target(
    name="megatron-lm",
    version="main, 2026-08",
    expert_tp_follows_tp=True,
    rules=(
        Rule(
            "layers_pp", True,
            lambda f: (f.counted_blocks % f.divisor("pp") != 0) & (not f.layout),
            "{counted_blocks}, which is not a multiple of pp {pp}: Megatron-LM splits evenly unless a layout is given",
            _even_splits,
        ),
        Rule(
            "ends_blocks", True,
            lambda f: _emptied_end(f) & (not f.layout),
            "first_stage_less {first_stage_less} and last_stage_less {last_stage_less} leave an end without blocks, "
            "which Megatron-LM takes in a layout only",
            lambda v: f"each may be at most {v['stage_blocks'] - 1}",
        ),
        Rule(
            "ends_vpp", True,
            lambda f: _end_chunks_differ(f) & (not f.layout),
            "the first stage of {first_blocks} and the last of {last_blocks} blocks are not multiples of vpp {vpp}",
            constant("choose first_stage_less and last_stage_less as multiples of vpp, or give a layout"),
        ),
        Rule(
            "sequence_2cp", True,
            lambda f: (f["cp"] > 1) & (f.size("sequence_length") % (2 * f.divisor("cp")) != 0),
            "sequence length {sequence_length} is not a multiple of 2 x cp {cp}, by which Megatron-LM balances causal "
            "attention",
            lambda v: f"cp may be {next_to(v['cp'], divisors(v['sequence_length'] // 2))}",
        ),
        whole_sequence_shards(_NAME),
        Rule(
            "microbatch_group", False,
            lambda f: (f["vpp"] > 1) & (f.microbatches < f["pp"]),
            "{microbatches} microbatches with vpp {vpp}: they come in groups of at least pp {pp}",
            constant("use a larger batch, a smaller microbatch, or vpp 1"),
        ),
        Rule(
            "zero_pp", False,
            lambda f: (f.zero_stage >= 2) & (f["pp"] > 1),
            "ZeRO stage {zero_stage} with pp {pp}: Megatron-FSDP, which splits gradients and weights, has no pipeline",
            constant("use ZeRO stage 1 (gradient_sharding and weight_sharding off), or pp 1"),
        ),
        Rule(
            "experts_sequence", False,
            lambda f: f.has_experts & (f["tp"] > 1) & f["training"] & ~_sequence_parallel(f),
            "tp_communication '{tp_communication}' with experts and tp {tp}: Megatron-LM trains them with sequence "
            "parallelism only",
            constant("tp_communication must be sequence_parallel, or tp 1"),
        ),
        Rule(
            "experts_float16", False,
            lambda f: (f["ep"] > 1) & f.is_word("datatype", Datatype.FLOAT16),
            "datatype 'float16' with ep {ep}: Megatron-LM refuses expert parallelism in it",
            constant("datatype may be bfloat16 or float32"),
        ),
        Rule(
            "gather_redo_needed", False,
            lambda f: _gathers_once(f),
            "gather_redo is off with tp_communication 'sequence_parallel': Megatron-LM keeps shards and gathers again",
            constant("switch it on"),
        ),
        overlap_needs_sequence_parallelism(_NAME),
        only_words(
            _NAME, "tp_communication", TpCommunication.ALL_REDUCE, TpCommunication.SEQUENCE_PARALLEL,
            when=lambda f: f["tp"] > 1,
        ),
        only_words(_NAME, "schedule", Schedule.ONE_F_ONE_B),
        only_words(_NAME, "datatype", Datatype.FLOAT16, Datatype.BFLOAT16, Datatype.FLOAT32),
        only_words(_NAME, "gradient_precision", GradientPrecision.SAME, GradientPrecision.FLOAT32),
        only_words(
            _NAME, "attention_kernel", AttentionKernel.FLASH,
            when=lambda f: f["cp"] > 1, because="which splits the sequence for fused attention only",
        ),
        only_off(
            _NAME, "weight_offload",
            when=lambda f: (f["pp"] > 1) | ~f.is_word("recompute", Recompute.NONE),
            because="which offloads weights without pipeline and recompute only",
        ),
        only_off(
            _NAME, "activation_offload",
            when=lambda f: f.is_word("recompute", Recompute.FULL), because="where blocks are recomputed",
        ),
        only_off(
            _NAME, "optimizer_offload",
            when=lambda f: ~f["optimizer_sharding"], because="whose offload needs optimizer_sharding",
        ),
        only_off(
            _NAME, "reduce_each_microbatch",
            when=lambda f: f.zero_stage < 2, because="which reduces once a step below ZeRO stage 2",
        ),
        only_off(_NAME, "keep_gathered"),
        only_orders(_NAME, Placement.TP_CP_DP_PP, Placement.TP_CP_PP_DP),
    ),
)  # fmt: skip
"""Its rules; `etp` is `tp` where it is not set (`--expert-tensor-parallel-size`)."""
