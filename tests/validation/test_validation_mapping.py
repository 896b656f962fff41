"""What measured runs stand for: every row is used or skipped for a reason, and strategies by hand."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from codesign_opt.strategies import (
    AttentionKernel,
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
from codesign_opt.strategies.legality import violations
from codesign_opt.validation import MappedRun, Skipped, map_run
from codesign_opt.validation.unmapped import REASONS

GIB = 2**30
Outcomes = list[MappedRun | Skipped]


def test_every_row_is_used_or_skipped_for_a_known_reason(outcomes: Outcomes) -> None:
    assert len(outcomes) == 1572
    skipped = [outcome for outcome in outcomes if isinstance(outcome, Skipped)]
    assert {skip.reason for skip in skipped} <= set(REASONS)
    assert all(skip.sentence for skip in skipped)


def test_rows_used_of_each_family_and_tier(outcomes: Outcomes) -> None:
    used = Counter((run.run.family, run.run.tier) for run in outcomes if isinstance(run, MappedRun))
    assert used == {
        ("automodel_h100", "B"): 4,
        ("bigscience_v100", "A"): 72,
        ("bigscience_v100", "B"): 3,
        ("internevo_a100", "A"): 54,
        ("jax_toolbox_pax", "A"): 1,
        ("jax_toolbox_pax", "B"): 23,
        ("korthikanti_2205_05198", "A"): 8,
        ("llm_foundry_mpt", "A"): 216,
        ("maxtext_tpu", "B"): 54,
        ("megatron_bridge", "A"): 156,
        ("megatron_bridge", "B"): 54,
        ("megatron_sc21", "A"): 13,
        ("megatron_sc21", "B"): 22,
        ("nanotron_ultrascale", "A"): 384,
        ("primus_amd", "C"): 6,
        ("training_reports", "C"): 3,
        ("vtrain_a100", "B"): 400,
    }
    # The promise is 85 % of tier A: 904 of 925 are 97.7 %.
    assert sum(count for (_, tier), count in used.items() if tier == "A") == 904


def test_rows_skipped_for_each_reason(outcomes: Outcomes) -> None:
    skipped = Counter((skip.run.family, skip.reason) for skip in outcomes if isinstance(skip, Skipped))
    assert skipped == {
        ("automodel_h100", "adapters"): 1,
        ("automodel_h100", "no-layout"): 2,
        ("bigscience_v100", "no-shape"): 5,
        ("internevo_a100", "no-sequence"): 11,
        ("internevo_a100", "no-shape"): 5,
        ("jax_toolbox_pax", "adapters"): 3,
        ("korthikanti_2205_05198", "no-microbatch"): 2,
        ("maxtext_tpu", "no-layout"): 5,
        ("maxtext_tpu", "no-measurement"): 3,
        ("maxtext_tpu", "no-shape"): 3,
        ("megatron_bridge", "adapters"): 5,
        ("megatron_bridge", "batch-mismatch"): 3,
        ("megatron_bridge", "illegal"): 1,
        ("megatron_bridge", "number-format"): 18,
        ("nemo_launcher_a100", "no-layout"): 12,
        ("primus_amd", "no-sequence"): 14,
        ("training_reports", "no-layout"): 1,
        ("training_reports", "no-microbatch"): 5,
    }


def test_degrees_and_batches_multiply_as_in_the_rows(mapped: dict[str, MappedRun]) -> None:
    for name, run in mapped.items():
        s = run.strategy
        assert s.tp * s.pp * s.dp * s.cp == s.processors == run.run.processors, name
        assert s.batch % (s.dp * s.microbatch) == 0, name
        assert run.run.accumulation in (None, s.batch // (s.dp * s.microbatch)), name
        assert (s.tp * s.dp * s.cp) % (s.ep * s.etp) == 0, name
        assert s.placement is Placement.TP_CP_DP_PP, name
        assert run.system.network_tiers[-2].size <= s.processors, name


def test_a_sample_of_strategies_is_legal_by_itself(mapped: dict[str, MappedRun]) -> None:
    for run in list(mapped.values())[::25]:
        assert violations(run.strategy, run.workload, run.system) == []


def test_a_run_out_of_memory_has_no_time(mapped: dict[str, MappedRun]) -> None:
    failed = [run for run in mapped.values() if run.out_of_memory]
    assert Counter(run.run.family for run in failed) == {
        "nanotron_ultrascale": 119, "bigscience_v100": 5, "megatron_sc21": 1,
    }  # fmt: skip
    assert all(run.measured_seconds is None and run.peak_memory is None for run in failed)
    assert all(run.measured_seconds for run in mapped.values() if not run.out_of_memory)


def test_memory_of_nanotron_is_peak_and_resident(mapped: dict[str, MappedRun]) -> None:
    run = mapped["nanotron_ultrascale-0001"]
    assert run.peak_memory == pytest.approx(20.84 * GIB)
    assert run.resident_memory == pytest.approx(11.32 * GIB)
    measured = mapped["bigscience_v100-0048"]
    assert (measured.peak_memory, measured.resident_memory) == (16 * GIB, None)


COMMON: dict[str, Any] = {
    "datatype": Datatype.BFLOAT16,
    "fused_activation": False,
    "attention_kernel": AttentionKernel.FLASH,
    "placement": Placement.TP_CP_DP_PP,
}
FP16: dict[str, Any] = {
    "datatype": Datatype.FLOAT16, "fused_activation": False, "placement": Placement.TP_CP_DP_PP,
}  # fmt: skip
SEQUENCE: dict[str, Any] = {"tp_communication": TpCommunication.SEQUENCE_PARALLEL, "gather_redo": True}

BY_HAND = {
    # 16 blocks and an output projection that costs 4 more: stages of 5, 5, 5 and 1 blocks.
    "nanotron_ultrascale-0001": Strategy(
        processors=8, tp=1, pp=4, dp=2, batch=256, microbatch=1, dp_overlap=True, last_stage_less=4,
        gradient_precision=GradientPrecision.BOTH, **COMMON,
    ),
    "nanotron_ultrascale-0002": Strategy(
        processors=32, tp=2, pp=1, dp=16, batch=256, microbatch=1, dp_overlap=True, dp_tier=1,
        gradient_precision=GradientPrecision.BOTH, **COMMON, **SEQUENCE,
    ),
    # Memory and precision are not stated: 80 GB and float16 assumed, which `assumptions` says.
    "vtrain_a100-0010": Strategy(
        processors=64, tp=4, pp=1, dp=16, batch=512, microbatch=8, recompute=Recompute.FULL, dp_tier=1, **FP16,
    ),
    # 126 blocks and one for the embedding and for the projection each make 8 x 16.
    "megatron_bridge-0017": Strategy(
        processors=256, tp=4, pp=8, dp=8, vpp=4, batch=1536, microbatch=1, optimizer_sharding=True,
        gradient_sharding=False, dp_overlap=True, tp_overlap=TpOverlap.RING, first_stage_less=1, last_stage_less=1,
        product_precision=ProductPrecision.FLOAT8, pp_tier=1, **COMMON, **SEQUENCE,
    ),
    # 61 blocks and one that predicts a further token on 16 chunks of 4, the last of which has two.
    "megatron_bridge-0009": Strategy(
        processors=256, tp=1, pp=2, dp=128, ep=32, vpp=8, batch=4096, microbatch=1, optimizer_sharding=True,
        gradient_sharding=False, dp_overlap=True, last_stage_less=2, product_precision=ProductPrecision.FLOAT8,
        pp_tier=1, dp_tier=1, **COMMON,
    ),
    # Experts: no overlap of the few tensor-parallel collectives.
    "megatron_bridge-0178": Strategy(
        processors=256, tp=2, pp=8, dp=16, ep=32, vpp=4, batch=8192, microbatch=1, optimizer_sharding=True,
        gradient_sharding=False, dp_overlap=True, first_stage_less=1, last_stage_less=1,
        product_precision=ProductPrecision.FLOAT8, pp_tier=1, dp_tier=1, ep_tier=1, **COMMON, **SEQUENCE,
    ),
    # Megatron-FSDP in 8 bits, five blocks recomputed.
    "megatron_bridge-0205": Strategy(
        processors=8, tp=1, pp=1, dp=8, batch=128, microbatch=1, optimizer_sharding=True, weight_sharding=True,
        reduce_each_microbatch=True, dp_overlap=True, recompute=Recompute.FULL, recompute_blocks=5,
        product_precision=ProductPrecision.FLOAT8, **COMMON,
    ),
    # FSDP that keeps the gathered weights; gradients exchanged in 32 bits.
    "llm_foundry_mpt-0013": Strategy(
        processors=512, tp=1, pp=1, dp=512, batch=4096, microbatch=8, optimizer_sharding=True, weight_sharding=True,
        keep_gathered=True, reduce_each_microbatch=True, dp_overlap=True, dp_tier=1,
        gradient_precision=GradientPrecision.FLOAT32, **COMMON,
    ),
    # The same in 16 bits ("PURE").
    "llm_foundry_mpt-0078": Strategy(
        processors=64, tp=1, pp=1, dp=64, batch=2048, microbatch=8, optimizer_sharding=True, weight_sharding=True,
        reduce_each_microbatch=True, dp_overlap=True, dp_tier=1, recompute=Recompute.FULL, **COMMON,
    ),
    "bigscience_v100-0030": Strategy(
        processors=64, tp=4, pp=8, dp=2, batch=1024, microbatch=4, optimizer_sharding=True, gradient_sharding=False,
        recompute=Recompute.FULL, tp_communication=TpCommunication.STAGE_BOUNDARY, pp_tier=1, dp_tier=1, **FP16,
    ),
    # Optimizer state split among the 4 processors of a node that have the same weights.
    "internevo_a100-0030": Strategy(
        processors=256, tp=2, pp=1, dp=128, batch=2048, microbatch=4, optimizer_sharding=True, gradient_sharding=False,
        shard_group=4, dp_overlap=True, dp_tier=1, **COMMON,
    ),
    "korthikanti_2205_05198-0004": Strategy(
        processors=64, tp=8, pp=8, dp=1, vpp=3, batch=64, microbatch=1, recompute=Recompute.SELECTIVE, pp_tier=1,
        **FP16, **SEQUENCE,
    ),
    # Two slices of 64 chips: sharded inside, replicated across the data-centre network.
    "maxtext_tpu-0002": Strategy(
        processors=128, tp=1, pp=1, dp=128, batch=1664, microbatch=13, optimizer_sharding=True, weight_sharding=True,
        shard_group=64, reduce_each_microbatch=True, dp_overlap=True, dp_tier=1, recompute=Recompute.FULL, **COMMON,
    ),
    "automodel_h100-0001": Strategy(
        processors=1024, tp=1, pp=4, dp=256, ep=64, vpp=8, batch=8192, microbatch=1, optimizer_sharding=True,
        weight_sharding=True, dp_overlap=True, last_stage_less=3, gradient_precision=GradientPrecision.FLOAT32,
        pp_tier=1, dp_tier=1, ep_tier=1, **COMMON,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_strategies_by_hand(name: str, mapped: dict[str, MappedRun]) -> None:
    assert mapped[name].strategy == BY_HAND[name]


def test_assumptions_are_named(mapped: dict[str, MappedRun]) -> None:
    assert mapped["nanotron_ultrascale-0001"].assumptions == ()
    assert mapped["vtrain_a100-0010"].assumptions == (
        "memory not stated: 80 GB", "precision not stated: float16", "sharding not stated: none",
    )  # fmt: skip
    assert "run before the software's pipelines were corrected" in mapped["nanotron_ultrascale-0056"].assumptions
    assert "interleaving not stated: none" in mapped["megatron_sc21-0007"].assumptions
    assert "Muon optimizer: counted as Adam in 32 bits" in mapped["megatron_bridge-0037"].assumptions
    assert "recompute of mla_up_proj left out" in mapped["megatron_bridge-0037"].assumptions
    assert "8-bit optimizer: counted as Adam in 32 bits" in mapped["bigscience_v100-0075"].assumptions


def test_a_rate_gives_batch_and_time(mapped: dict[str, MappedRun]) -> None:
    # cases K9: 2 sequences of 8,192 tokens on each of 64 processors at 16,186 tokens/s.
    run = mapped["primus_amd-0016"]
    assert run.strategy.batch == 128
    assert run.measured_seconds == pytest.approx(2 * 8192 / 16186)
    # Four stages get four microbatches, which is the batch of 128 that the source names elsewhere.
    pipeline = mapped["primus_amd-0020"]
    assert pipeline.strategy.batch == 128
    assert pipeline.measured_seconds == pytest.approx(128 * 8192 / (64 * 3534))


def test_a_whole_row_is_used(varied: Callable[..., MappedRun | Skipped]) -> None:
    outcome = varied()
    assert isinstance(outcome, MappedRun)
    assert outcome.strategy.tp_overlap is TpOverlap.RING


@pytest.mark.parametrize(
    ("changes", "reason", "part"),
    [
        ({"train_type": "lora"}, "adapters", "Llama3-70B"),
        ({"layers": None}, "no-shape", "missing: layers"),
        ({"vocabulary": None, "feedforward": None}, "no-shape", "missing: vocabulary, feedforward"),
        ({"experts": 8, "ep": 8}, "no-shape", "top_k and expert_feedforward"),
        ({"latent_attention": True}, "unknown-attention", "hidden 8192, 64 heads"),
        ({"sequence_length": None}, "no-sequence", "sequence length"),
        ({"tp": None, "dp": None}, "no-layout", "missing: tp, dp"),
        ({"experts": 8, "top_k": 2, "expert_feedforward": 4096, "ep": None}, "no-layout", "missing: ep"),
        ({"microbatch": None}, "no-microbatch", "microbatch"),
        ({"batch": None, "rate": None}, "no-batch", "batch"),
        ({"accumulation": 7}, "batch-mismatch", "microbatch 1 x dp 2 x 7 microbatches = 14, but the batch is 256"),
        ({"accumulation": None, "batch": 255}, "batch-mismatch", "but the batch is 255"),
        ({"precision": "nvfp4"}, "number-format", "h100-sxm has no nvfp4 engine"),
        ({"processor": "A100", "precision": "fp8"}, "number-format", "a100-80g-sxm has no fp8 engine"),
        ({"recompute": "partial"}, "unknown-recompute", "no number of layers"),
        ({"processor": "H100x"}, "unknown-processor", "'H100x' is none of V100, A100"),
        ({"processor_memory": 96.0}, "unknown-processor", "H100 with 96 GB; known: 80"),
        ({"inter_network": "carrier pigeons"}, "unknown-network", "carrier pigeons"),
        ({"software": "Primus (Megatron), v-half"}, "unknown-schedule", "v-half"),
        ({"step_seconds": None, "rate": None}, "no-measurement", "time of a step"),
        ({"dp": 4, "accumulation": None}, "illegal", "[procs_product]"),
        ({"hidden": 8190}, "illegal", "[hidden_split]"),
    ],
)
def test_rows_are_skipped_for_their_reason(
    changes: dict[str, Any], reason: str, part: str, varied: Callable[..., MappedRun | Skipped]
) -> None:
    outcome = varied(**changes)
    assert isinstance(outcome, Skipped)
    assert outcome.reason == reason
    assert part in outcome.sentence


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"precision": "fp16"}, {"datatype": Datatype.FLOAT16, "product_precision": ProductPrecision.SAME}),
        ({"precision": "mxfp8"}, {"datatype": Datatype.BFLOAT16, "product_precision": ProductPrecision.FLOAT8}),
        ({"attention": "memory-efficient"}, {"attention_kernel": AttentionKernel.FLASH}),
        ({"attention": "non-flash"}, {"attention_kernel": AttentionKernel.UNFUSED}),
        ({"recompute": "full"}, {"recompute": Recompute.FULL, "gather_redo": False}),
        ({"recompute": "selective"}, {"recompute": Recompute.SELECTIVE, "fused_activation": False}),
        (
            {"recompute": "selective", "notes": "recompute modules layernorm+moe_act; details"},
            {"recompute": Recompute.NONE, "fused_activation": True},
        ),
        (
            {"recompute": "selective", "notes": "recompute modules core_attn; details"},
            {"recompute": Recompute.SELECTIVE, "fused_activation": False},
        ),
        ({"recompute": "offload"}, {"recompute": Recompute.FULL}),
        ({"recompute": None}, {"recompute": Recompute.NONE}),
        ({"recompute": None, "notes": "recipe: activations offloaded"}, {"recompute": Recompute.FULL}),
        ({"sequence_parallel": False}, {"tp_communication": TpCommunication.ALL_REDUCE, "tp_overlap": TpOverlap.NONE}),
        (
            {"sequence_parallel": False, "software": "Megatron-LM 2021"},
            {"tp_communication": TpCommunication.STAGE_BOUNDARY, "dp_overlap": False},
        ),
        ({"sharding": "none"}, {"optimizer_sharding": False, "dp_overlap": True}),
        ({"sharding": "zero2"}, {"optimizer_sharding": True, "gradient_sharding": True, "weight_sharding": False}),
        ({"sharding": "zero2", "shard_implementation": "FSDP"}, {"weight_sharding": True, "keep_gathered": True}),
        ({"sharding": "zero3"}, {"weight_sharding": True, "keep_gathered": False, "shard_group": 0}),
        ({"sharding": "zero3", "shard_group": 2}, {"shard_group": 0}),
        ({"software": "Primus (Megatron), zero-bubble", "vpp": 1}, {"schedule": Schedule.ZB_1P}),
        ({"software": "something new"}, {"gradient_precision": GradientPrecision.FLOAT32}),
    ],
)
def test_columns_become_options(
    changes: dict[str, Any], expected: dict[str, Any], varied: Callable[..., MappedRun | Skipped]
) -> None:
    outcome = varied(**changes)
    assert isinstance(outcome, MappedRun), outcome
    assert {name: getattr(outcome.strategy, name) for name in expected} == expected


def test_context_parallel_processors_share_state(runs: dict[str, Any]) -> None:
    # 8 x 2 processors hold the same weights: a group of 8 is a part of them.
    run = dataclasses.replace(runs["megatron_bridge-0018"], shard_group=8)
    outcome = map_run(run)
    assert isinstance(outcome, MappedRun)
    assert (outcome.strategy.dp, outcome.strategy.cp, outcome.strategy.shard_group) == (8, 2, 8)
