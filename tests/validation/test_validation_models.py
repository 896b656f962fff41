"""Workloads of measured runs: parameters against an independent count, and what names and notes add to the columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from codesign_opt.catalog import resolve_workload
from codesign_opt.validation import MappedRun, MeasuredRun, Skipped
from codesign_opt.workloads import Workload
from codesign_opt.workloads.transformer import QueryKeyNorm


def attention(run: MeasuredRun) -> int:
    """Weights of queries, keys, values and output, from the columns."""
    assert run.hidden
    assert run.heads
    assert run.kv_heads
    size = run.head_size or run.hidden // run.heads
    return run.hidden * size * (2 * run.heads + 2 * run.kv_heads)


def gpt(run: MeasuredRun) -> int:
    """12 h² + 13 h a block (4 h² + 4 h of attention, 8 h² + 5 h of the MLP, 4 h of norms); both embeddings; 2 h."""
    h, v, s = run.hidden or 0, run.vocabulary or 0, run.sequence_length or 0
    return (run.layers or 0) * (12 * h * h + 13 * h) + (v + s) * h + 2 * h


def llama(run: MeasuredRun, *, tied: bool = False, biases: int = 0) -> int:
    """Attention, three matrices of the MLP and two norms a block; one or two embeddings; the last norm."""
    h, v = run.hidden or 0, run.vocabulary or 0
    block = attention(run) + 3 * h * (run.feedforward or 0) + 2 * h + biases
    return (run.layers or 0) * block + v * h * (1 if tied else 2) + h


def experts(run: MeasuredRun, *, norms: int = 0, biases: int = 0, router_bias: bool = False) -> int:
    """As Llama's, with a router and experts in place of the MLP."""
    h, v, e, f = run.hidden or 0, run.vocabulary or 0, run.experts or 0, run.expert_feedforward or 0
    block = attention(run) + 2 * h + norms + biases + h * e + router_bias * e + 3 * h * f * e
    return (run.layers or 0) * block + 2 * v * h + h


def latent(run: MeasuredRun) -> int:
    """DeepSeek-V3 and Kimi K2: latent attention (1536, 512, 64, 128 with 128), shared expert, leading plain blocks."""
    h, v, a, e = run.hidden or 0, run.vocabulary or 0, run.heads or 0, run.experts or 0
    queries = h * 1536 + 1536 + 1536 * a * (128 + 64)
    keys = h * (512 + 64) + 512 + 512 * a * (128 + 128)
    block = queries + keys + a * 128 * h + 2 * h
    expert = 3 * h * (run.expert_feedforward or 0)
    sparse = h * e + expert * e + 3 * h * (run.shared_feedforward or 0)
    dense = 3 * h * (run.feedforward or 0)
    with_experts = run.expert_blocks or 0
    plain = (run.layers or 0) - with_experts
    return with_experts * (block + sparse) + plain * (block + dense) + 2 * v * h + h


# InternLM: biases of queries, keys, values (3 h) and output (h). GPT-OSS: those of 64 + 2 x 8 heads of 64 and of the
# output, 64 sinks, and of experts 2 x 2880 + 2880 each.
COUNTS: dict[str, tuple[Callable[[MeasuredRun], int], float]] = {
    "nanotron_ultrascale-0001": (lambda run: llama(run, tied=True), 1.34e9),
    "nanotron_ultrascale-0285": (lambda run: llama(run, tied=True), 3.57e9),
    "nanotron_ultrascale-0125": (llama, 8.86e9),
    "vtrain_a100-0010": (gpt, 3.6e9),
    "llm_foundry_mpt-0037": (gpt, 6.684e9),
    "llm_foundry_mpt-0078": (gpt, 64_862_437_376),
    "korthikanti_2205_05198-0004": (gpt, 174_615_846_912),
    "internevo_a100-0018": (lambda run: llama(run, biases=4 * 4096), 7.3e9),
    "maxtext_tpu-0048": (llama, 6_738_415_616),
    "primus_amd-0016": (llama, 8_030_261_248),
    "megatron_bridge-0054": (llama, 70_553_706_496),
    "megatron_bridge-0178": (lambda run: experts(run, norms=2 * 128), 235_093_634_560),
    "megatron_bridge-0034": (lambda run: experts(run, norms=2 * 128), 30.53e9),
    "primus_amd-0020": (experts, 140.63e9),
    "megatron_bridge-0067": (
        lambda run: experts(run, biases=(64 + 2 * 8) * 64 + 2880 + 64 + 128 * 3 * 2880, router_bias=True), 116.83e9,
    ),
    "automodel_h100-0001": (latent, 671_026_404_352),
    "megatron_bridge-0037": (latent, 1.0264e12),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_parameters_equal_an_independent_count(name: str, mapped: dict[str, MappedRun]) -> None:
    count, known = COUNTS[name]
    run = mapped[name]
    assert run.workload.parameters == count(run.run)
    assert run.workload.parameters == pytest.approx(known, rel=2e-2 if known < 1e10 else 5e-3)


def test_parameters_are_those_of_the_names(mapped: dict[str, MappedRun]) -> None:
    """Names are rounded: within 3 %, but for MaxText, whose names are nominal, and variants of another's name."""
    for name, run in mapped.items():
        grouped_variant = run.run.family == "nanotron_ultrascale" and run.workload.key_value_heads is not None
        if run.run.parameters is None or run.run.family == "maxtext_tpu" or grouped_variant:
            continue
        whole = dataclasses.replace(run.workload, prediction_blocks=0)
        assert whole.parameters == pytest.approx(run.run.parameters, rel=0.03), name


def test_variants_with_grouped_heads_go_by_the_whole_models_name(mapped: dict[str, MappedRun]) -> None:
    """Llama-3's shapes under the names of the same with as many key and value heads as query heads."""
    sizes = {
        (run.run.model, run.workload.parameters // 10**8 / 10)
        for run in mapped.values()
        if run.run.family == "nanotron_ultrascale" and run.workload.key_value_heads == 8
    }
    assert sizes == {("Llama-like 80G", 70.5), ("Llama-like 469G", 405.9)}


def test_embedding_and_output_share_a_matrix_where_the_row_says_so(mapped: dict[str, MappedRun]) -> None:
    tied: dict[tuple[int | None, bool], set[bool]] = {}
    for run in mapped.values():
        if run.run.family == "nanotron_ultrascale":
            tied.setdefault((run.run.layers, run.out_of_memory), set()).add(run.workload.tied_embeddings)
    # Runs out of memory have no such note; the size that names the model says it.
    assert tied == {
        (layers, failed): {layers in (16, 28)} for layers in (16, 28, 32, 80, 126) for failed in (False, True)
    }


def test_deepseek_v3_has_its_public_shape(mapped: dict[str, MappedRun]) -> None:
    workload = mapped["megatron_bridge-0009"].workload
    assert workload.latent_attention
    assert workload.experts
    assert (workload.head_size, workload.key_value_heads, workload.feedforward) == (128, None, 18432)
    assert dataclasses.astuple(workload.latent_attention) == (1536, 512, 64, 128)
    assert (workload.experts.leading_dense_blocks, workload.experts.shared_feedforward) == (3, 2048)
    assert workload.experts.capacity_factor is None


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("automodel_h100-0001", "deepseek-v3"),
        ("megatron_bridge-0037", "kimi-k2"),
        ("megatron_bridge-0067", "gpt-oss-120b"),
        ("megatron_bridge-0178", "qwen3-235b-a22b"),
        ("megatron_bridge-0034", "qwen3-30b-a3b"),
        ("megatron_bridge-0054", "llama3-70b"),
        ("megatron_bridge-0017", "llama3-405b"),
        ("primus_amd-0016", "llama3-8b"),
        ("maxtext_tpu-0048", "llama2-7b"),
        ("maxtext_tpu-0058", "llama2-70b"),
    ],
)
def test_rows_and_the_catalogue_agree_on_well_known_models(name: str, entry: str, mapped: dict[str, MappedRun]) -> None:
    known, workload = resolve_workload(entry), mapped[name].workload
    # The width of a plain MLP says nothing where every block has experts.
    unused = known.experts is not None and known.experts.leading_dense_blocks == 0
    assert workload == dataclasses.replace(
        known,
        name=workload.name,
        sequence_length=workload.sequence_length,
        vocabulary_multiple=workload.vocabulary_multiple,
        feedforward=workload.feedforward if unused else known.feedforward,
    )


def test_prediction_blocks_follow_the_notes(runs: dict[str, MeasuredRun], mapped: dict[str, MappedRun]) -> None:
    for name, run in mapped.items():
        notes = runs[name].notes or ""
        expected = 1 if "MTP setting not stated" in notes or "w/ MTP" in notes else 0
        assert run.workload.prediction_blocks == expected
        assert ("multi-token prediction not stated: one block" in run.assumptions) == ("MTP setting not" in notes)


def test_dropped_tokens_are_a_capacity_of_one(mapped: dict[str, MappedRun]) -> None:
    factors = {
        "tokendrop" in (run.run.notes or ""): run.workload.experts.capacity_factor
        for run in mapped.values()
        if run.workload.experts
    }
    assert factors == {True: 1.0, False: None}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llm_foundry_mpt-0013", {"learned_positions": 2048, "rotary": False, "mlp_bias": True, "dropout": False}),
        ("vtrain_a100-0010", {"learned_positions": 2048, "vocabulary_multiple": 128, "dropout": True}),
        ("internevo_a100-0018", {"attention_bias": True, "attention_output_bias": True, "mlp_bias": False}),
        ("megatron_bridge-0034", {"query_key_norm": QueryKeyNorm.HEAD, "attention_bias": False, "key_value_heads": 4}),
        ("megatron_bridge-0067", {"window": 128, "windowed_blocks": 18, "attention_sinks": True, "head_size": 64}),
        ("megatron_bridge-0054", {"root_mean_square_norm": True, "gated_mlp": True, "key_value_heads": 8}),
        ("nanotron_ultrascale-0001", {"vocabulary_multiple": 1, "rotary": True, "learned_positions": 0}),
    ],
)
def test_architectures_by_name(name: str, expected: dict[str, Any], mapped: dict[str, MappedRun]) -> None:
    workload = mapped[name].workload
    assert {trait: getattr(workload, trait) for trait in expected} == expected


@pytest.mark.parametrize(
    ("gated", "kind", "rotary"), [(True, "Llama", True), (None, "Llama", True), (False, "GPT-3", False)]
)
def test_an_unknown_model_is_like_llama_or_gpt3(
    gated: bool | None, kind: str, rotary: bool, varied: Callable[..., MappedRun | Skipped]
) -> None:
    outcome = varied(model="Own-70B", gated_mlp=gated)
    assert isinstance(outcome, MappedRun)
    assert outcome.workload.rotary is rotary
    assert f"norms, biases and positions not stated: those of {kind}" in outcome.assumptions


def test_columns_overrule_the_architecture(varied: Callable[..., MappedRun | Skipped]) -> None:
    outcome = varied(gated_mlp=False, kv_heads=None, head_size=None, notes="tied embeddings")
    assert isinstance(outcome, MappedRun)
    workload: Workload = outcome.workload
    assert (workload.gated_mlp, workload.key_value_heads, workload.head_size) == (False, None, 128)
    assert workload.tied_embeddings
