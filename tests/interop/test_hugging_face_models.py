"""Configurations of published and of made-up models, against counts by transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codesign_opt.catalog import resolve_workload
from codesign_opt.interop.hugging_face import ARCHITECTURES, read_config
from codesign_opt.workloads.files import workload_from_dict, workload_to_dict
from codesign_opt.workloads.parameters import active_parameter_count, parameter_count
from codesign_opt.workloads.transformer import Experts, LatentAttention, QueryKeyNorm

DATA = Path(__file__).parents[1] / "data" / "hugging_face"
COUNTS: dict[str, int] = json.loads((DATA / "counts.json").read_text())
SMALL: list[dict[str, Any]] = [json.loads(line) for line in (DATA / "small_models.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", COUNTS)
def test_published_models_have_exactly_their_parameters(name: str) -> None:
    workload = read_config(DATA / f"{name}.json")
    assert workload.name == name
    assert parameter_count(workload) == COUNTS[name]
    assert workload_from_dict(workload_to_dict(workload), where="") == workload


def test_every_configuration_has_a_count() -> None:
    assert sorted(COUNTS) == sorted(path.stem for path in DATA.glob("*.json") if path.stem != "counts")
    assert len(COUNTS) >= 30


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_made_up_models_have_exactly_their_parameters(architecture: str) -> None:
    models = [model for model in SMALL if model["config"]["model_type"] == architecture]
    assert models
    for model in models:
        workload = read_config(model["config"])
        assert parameter_count(workload) == model["parameters"], model["config"]
        if model["windowed_blocks"] is not None:
            assert workload.windowed_blocks == model["windowed_blocks"], model["config"]


@pytest.mark.parametrize(
    ("name", "config", "sequence_length"),
    [
        ("llama3-8b", "llama-3-8b", 8192),
        ("llama3-405b", "llama-3.1-405b", 8192),
        ("mixtral-8x7b", "mixtral-8x7b", 4096),
        ("deepseek-v3", "deepseek-v3", 4096),
        ("gpt-oss-120b", "gpt-oss-120b", 4096),
        ("gemma2-9b", "gemma-2-9b", 4096),
        ("gpt2", "gpt2", 1024),
    ],
)
def test_the_catalogue_has_what_the_configuration_says(name: str, config: str, sequence_length: int) -> None:
    assert resolve_workload(name) == read_config(DATA / f"{config}.json", sequence_length=sequence_length, name=name)


def test_deepseek_v3_is_read_whole() -> None:
    workload = read_config(DATA / "deepseek-v3.json")
    assert workload.latent_attention == LatentAttention(
        query_rank=1536, key_value_rank=512, rotary_size=64, value_size=128
    )
    assert workload.experts == Experts(
        count=256, top_k=8, feedforward=2048, shared_feedforward=2048, leading_dense_blocks=3
    )
    assert (workload.head_size, workload.feedforward, workload.kv_heads) == (128, 18_432, 128)
    assert not workload.tied_embeddings


def test_llama_4_alternates_dense_blocks_and_experts() -> None:
    workload = read_config(DATA / "llama-4-maverick.json")
    assert workload.experts == Experts(count=128, top_k=1, feedforward=8192, shared_feedforward=8192, every=2)
    assert workload.feedforward == 16_384
    assert (workload.window, workload.windowed_blocks) == (8192, 36)
    # Published: 400 billion, 17 billion active.
    assert active_parameter_count(workload) == pytest.approx(17e9, rel=0.02)


def test_shared_experts_behind_a_gate() -> None:
    experts = read_config(DATA / "qwen1.5-moe-a2.7b.json").experts
    assert experts is not None
    assert (experts.count, experts.top_k, experts.feedforward) == (60, 4, 1408)
    assert (experts.shared_feedforward, experts.shared_gate) == (5632, True)


def test_several_shared_experts_are_as_wide_as_all_of_them() -> None:
    experts = read_config(DATA / "deepseek-v2-lite.json").experts
    assert experts is not None
    assert experts.shared_feedforward == 2 * 1408
    assert not experts.shared_gate


@pytest.mark.parametrize(
    ("name", "window", "windowed", "blocks"),
    [
        ("mistral-7b-v0.1", 4096, 32, 32),
        ("gemma-2-9b", 4096, 21, 42),
        ("gemma-3-12b-it", 1024, 40, 48),
        ("olmo-3.1-32b", 4096, 48, 64),
        ("gpt-oss-20b", 128, 12, 24),
        ("qwen2.5-72b", 0, 0, 80),
        ("mixtral-8x7b", 0, 0, 32),
        ("phi-4", 0, 0, 40),
    ],
)
def test_windows(name: str, window: int, windowed: int, blocks: int) -> None:
    workload = read_config(DATA / f"{name}.json")
    assert (workload.window, workload.windowed_blocks, workload.blocks) == (window, windowed, blocks)


def test_an_explicit_head_size_is_not_derived() -> None:
    # Qwen3 4B: 32 heads of 128 in a width of 2560; F3 of the cases is what dividing would give.
    workload = read_config(DATA / "qwen3-4b.json")
    assert (workload.hidden, workload.attention_heads, workload.head_size) == (2560, 32, 128)
    bytes_of_keys_and_values = 2 * 2 * workload.blocks * workload.kv_heads * workload.head_size
    assert bytes_of_keys_and_values == 147_456


def test_traits_that_no_key_names() -> None:
    names = ("gpt2", "opt-125m", "gpt-oss-20b", "olmo-2-7b")
    gpt2, opt, gpt_oss, olmo = (read_config(DATA / f"{name}.json") for name in names)
    assert gpt2.feedforward == 4 * 768
    assert gpt2.learned_positions == 1024
    assert gpt2.dropout
    assert not gpt2.rotary
    assert opt.learned_positions == 2048 + 2
    assert gpt_oss.attention_sinks
    assert gpt_oss.experts is not None
    assert gpt_oss.experts.router_bias
    assert gpt_oss.experts.expert_bias
    assert olmo.query_key_norm is QueryKeyNorm.WIDTH
    assert not olmo.dropout
    assert read_config(DATA / "qwen3-4b.json").query_key_norm is QueryKeyNorm.HEAD
    # Gemma configurations omit tie_word_embeddings: they are tied all the same.
    assert read_config(DATA / "gemma-2-9b.json").tied_embeddings
    assert not read_config(DATA / "llama-2-7b.json").tied_embeddings
