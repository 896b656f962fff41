from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workload_strategies import workloads

from codesign_opt.catalog import names, resolve_workload
from codesign_opt.workloads import Workload
from codesign_opt.workloads.flops import FlopsConvention, attended_tokens, flops_per_token
from codesign_opt.workloads.parameters import active_parameter_count, parameter_parts
from codesign_opt.workloads.transformer import Experts, LatentAttention

RUNS = Path(__file__).parents[1] / "data" / "measured_runs" / "flops.csv"

CONVENTIONS = {
    "model,full-attn": FlopsConvention.FULL_ATTENTION,
    "model,causal-attn": FlopsConvention.CAUSAL_ATTENTION,
    "hw-recompute,full-attn": FlopsConvention.FULL_ATTENTION_RECOMPUTED,
    "model,6(P+embed),full-attn": FlopsConvention.EMBEDDING_AS_PRODUCT,
    "model,6P-no-attn": FlopsConvention.PRODUCTS_ALONE,
    "hw-recompute,8P-no-attn": FlopsConvention.PRODUCTS_ALONE_RECOMPUTED,
}
"""What the definitions of the measured runs mean."""

PEAKS = {"A100": 312e12, "H100": 989.4e12, "TPU v6e": 918e12, "TPU v5p": 459e12}


def measured_runs() -> list[dict[str, str]]:
    with RUNS.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("run", measured_runs(), ids=lambda run: f"{run['row_id']}-{run['checked']}")
def test_flop_of_measured_models_agree_with_the_recomputed_columns(run: Mapping[str, str]) -> None:
    rate = float(run["tokens_per_s_per_gpu"] or 0)
    if not rate:
        rate = int(run["gbs"]) * int(run["seq_len"]) / float(run["step_time_s_best"]) / int(run["num_gpus"])
    definition = run["chk_tflops_def"]
    if run["checked"] == "tflops":
        recomputed = float(run["tflops_per_gpu"]) * 1e12 / float(run["chk_tflops_ratio"]) / rate
    else:
        used = float(run["mfu_pct"]) / 100 / float(run["chk_mfu_ratio"])
        recomputed = used * PEAKS[run["gpu"]] / rate
        definition = next((name for name in CONVENTIONS if f"({name})" in run["consistency_note"]), definition)
    assert flops_per_token(measured(run), CONVENTIONS[definition]) == pytest.approx(recomputed, rel=0.01)


def measured(run: Mapping[str, str]) -> Workload:
    """The model of a run; what the columns do not have comes from its published configuration."""
    number = {key: int(value) for key, value in run.items() if value.isdigit()}
    experts = None
    if "experts" in number:
        experts = Experts(
            count=number["experts"], top_k=number["topk"], feedforward=number["moe_ffn"],
            shared_feedforward=number.get("shared_expert_ffn", 0),
            leading_dense_blocks=number["layers"] - number["moe_layers"],
        )  # fmt: skip
    latent = run["mla"] == "y"
    windowed = number["layers"] // 2 if run["model"].startswith("GPT-OSS") else 0
    return Workload(
        name=run["model"],
        hidden=number["hidden"],
        feedforward=number.get("ffn", 1),
        sequence_length=number["seq_len"],
        attention_heads=number["heads"],
        head_size=128 if latent else number["head_dim"],
        blocks=number["layers"],
        key_value_heads=None if latent else number["kv_heads"],
        latent_attention=LatentAttention(query_rank=1536, key_value_rank=512, rotary_size=64, value_size=128)
        if latent
        else None,
        gated_mlp=run["gated_mlp"] == "y",
        experts=experts,
        vocabulary=number["vocab"],
        window=128 if windowed else 0,
        windowed_blocks=windowed,
    )


def test_every_definition_and_every_kind_of_model_is_measured() -> None:
    runs = measured_runs()
    assert {run["chk_tflops_def"] for run in runs} == set(CONVENTIONS)
    assert {"DeepSeek-V3", "Kimi-K2", "Qwen3-235B-A22B", "GPT-OSS-120B", "Llama3-70B"} <= {run["model"] for run in runs}


def test_conventions_by_hand() -> None:
    # Llama 3 8B: each block has 4096·(4096 + 2·1024 + 4096) + 3·4096·14336 weights in products.
    workload = resolve_workload("llama3-8b")
    blocks, head = 32 * (4096 * 10_240 + 3 * 4096 * 14_336), 128_256 * 4096
    scores = 12 * 32 * 4096 * 8192
    expected = {
        FlopsConvention.FULL_ATTENTION: 6 * (blocks + head) + scores,
        FlopsConvention.CAUSAL_ATTENTION: 6 * (blocks + head) + scores / 2,
        FlopsConvention.FULL_ATTENTION_RECOMPUTED: 8 * blocks + 6 * head + scores * 4 / 3,
        FlopsConvention.CAUSAL_ATTENTION_RECOMPUTED: 8 * blocks + 6 * head + scores * 2 / 3,
        FlopsConvention.ALL_PARAMETERS: 6 * workload.parameters + scores,
        FlopsConvention.ALL_PARAMETERS_RECOMPUTED: 8 * workload.parameters + scores * 4 / 3,
        FlopsConvention.EMBEDDING_AS_PRODUCT: 6 * (blocks + 2 * head) + scores,
        FlopsConvention.PRODUCTS_ALONE: 6 * (blocks + head),
        FlopsConvention.PRODUCTS_ALONE_RECOMPUTED: 8 * (blocks + head),
    }
    assert {convention: flops_per_token(workload, convention) for convention in FlopsConvention} == expected
    assert workload.model_flops_per_token == expected[FlopsConvention.FULL_ATTENTION]


def test_latent_attention_has_its_own_widths() -> None:
    workload = resolve_workload("deepseek-v3")
    per_token = flops_per_token(workload) - flops_per_token(workload, FlopsConvention.PRODUCTS_ALONE)
    # Scores from 128 + 64 elements of each head, values of 128: two flop each, three passes.
    assert per_token == 61 * 3 * 2 * 4096 * 128 * (192 + 128)


def test_a_prediction_block_takes_the_output_projection_again() -> None:
    workload = resolve_workload("deepseek-v3")
    more = replace(workload, prediction_blocks=1)
    h = 7168
    weights = 187_105_280 + 256 * h + 9 * 3 * h * 2048 + 2 * h * h + 129_280 * h
    added = flops_per_token(more) - flops_per_token(workload)
    assert added == 6 * weights + 6 * 4096 * 128 * (192 + 128)
    # Runs that have the block take about 4 % more flop than the main model.
    assert added / flops_per_token(workload) == pytest.approx(0.04, abs=0.003)


@pytest.mark.parametrize("window", [1, 2, 5, 12])
def test_attended_tokens_are_the_area_of_the_band(window: int) -> None:
    workload = replace(resolve_workload("gpt2"), sequence_length=12)
    places = [(step + 0.5) / 1000 for step in range(12_000)]
    area = sum(min(place, window) for place in places) / len(places)
    assert attended_tokens(workload, window=window) == pytest.approx(area, rel=1e-5)
    assert attended_tokens(workload, window=window, causal=False) == window


def test_a_window_as_long_as_the_sequence_is_none() -> None:
    workload = resolve_workload("gpt2")
    assert attended_tokens(workload) == attended_tokens(workload, window=1024) == attended_tokens(workload, window=9999)
    assert attended_tokens(workload) == 512
    assert attended_tokens(replace(workload, causal=False)) == 1024


@pytest.mark.parametrize("name", [name for name in names("workloads") if resolve_workload(name).vocabulary == 0])
def test_blocks_alone_take_what_the_published_tool_says(name: str) -> None:
    workload = resolve_workload(name)
    width = workload.attention_heads * workload.head_size
    full = 6 * workload.parameters + 12 * workload.blocks * width * workload.sequence_length
    assert workload.model_flops_per_token == flops_per_token(workload) == full


@given(workloads())
def test_conventions_are_ordered(workload: Workload) -> None:
    def flops(convention: FlopsConvention) -> float:
        return flops_per_token(workload, convention)

    alone, causal, full = (
        flops(convention)
        for convention in (
            FlopsConvention.PRODUCTS_ALONE,
            FlopsConvention.CAUSAL_ATTENTION,
            FlopsConvention.FULL_ATTENTION,
        )
    )
    assert 0 < alone < causal <= full
    # Of a window's scores, causality hides the corner at the start of the sequence: half at most.
    assert (full - alone) / 2 <= (causal - alone) * (1 + 1e-12)
    assert full < flops(FlopsConvention.FULL_ATTENTION_RECOMPUTED) <= full * 4 / 3 * (1 + 1e-12)
    assert flops(FlopsConvention.ALL_PARAMETERS_RECOMPUTED) == pytest.approx(
        flops(FlopsConvention.ALL_PARAMETERS) * 4 / 3, rel=1e-12
    )


@given(workloads(), st.integers(1, 4))
def test_flop_grow_with_the_experts_that_a_token_visits(workload: Workload, times: int) -> None:
    if workload.experts is None or workload.vocabulary == 0 or workload.prediction_blocks:
        return
    experts = replace(workload.experts, top_k=1, count=4)
    few, more = replace(workload, experts=experts), replace(workload, experts=replace(experts, top_k=times))
    one = next(part for part in parameter_parts(few) if part.name == "experts")
    assert flops_per_token(more) - flops_per_token(few) == pytest.approx(6 * (times - 1) * one.multiplied, abs=1)
    assert active_parameter_count(more) - active_parameter_count(few) == (times - 1) * one.active
