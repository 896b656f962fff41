from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workload_strategies import workloads

from codesign_opt.catalog import names, resolve_workload
from codesign_opt.workloads import Workload
from codesign_opt.workloads.parameters import (
    PARTS,
    active_parameter_count,
    padded_vocabulary,
    parameter_count,
    parameter_parts,
)
from codesign_opt.workloads.transformer import QueryKeyNorm

SMALL = Workload(
    name="small", hidden=8, feedforward=16, sequence_length=4, attention_heads=4, head_size=3, blocks=5, vocabulary=50
)


def parts(workload: Workload) -> dict[str, int]:
    return {part.name: part.total for part in parameter_parts(workload)}


PUBLISHED = {
    "llama2-7b": 6_738_415_616,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "llama4-scout": 107_769_861_120,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "deepseek-v3": 671_026_404_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-4b": 4_022_468_096,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "gpt2": 124_439_808,
    "gemma2-9b": 9_241_705_984,
    "mpt-7b": 6_649_286_656,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_have_their_published_parameters(name: str) -> None:
    assert parameter_count(resolve_workload(name)) == PUBLISHED[name]


@pytest.mark.parametrize(
    ("name", "active"),
    [
        ("mixtral-8x7b", 12_879_925_248),
        # Published "37B": without the embedding's 0.93 G, as DeepSeek counts, 36.63 G.
        ("deepseek-v3", 37_552_282_624),
        # Published "3.3B" and "22B".
        ("qwen3-30b-a3b", 3_353_032_704),
        ("qwen3-235b-a22b", 22_190_763_520),
    ],
)
def test_active_parameters_of_experts(name: str, active: int) -> None:
    workload = resolve_workload(name)
    experts = workload.experts
    assert experts is not None
    blocks = (workload.blocks - experts.leading_dense_blocks) // experts.every
    idle = blocks * (experts.count - experts.top_k) * 3 * workload.hidden * experts.feedforward
    assert active_parameter_count(workload) == active == parameter_count(workload) - idle


def test_gpt2_part_by_part() -> None:
    # 12 blocks of width 768: q, k, v and output 4·768², MLP 2·768·3072, with their biases; layer norms 2·768 each.
    assert parts(resolve_workload("gpt2")) == {
        "embedding": 50_257 * 768,
        "positions": 1024 * 768,
        "attention": 12 * (4 * 768**2 + 4 * 768),
        "norms": 12 * 2 * 2 * 768,
        "mlp": 12 * (2 * 768 * 3072 + 3072 + 768),
        "final_norm": 2 * 768,
        "output_projection": 0,
    }


def test_deepseek_v3_part_by_part() -> None:
    h, heads = 7168, 128
    latent = h * 1536 + 1536 * heads * (128 + 64) + h * (512 + 64) + 512 * heads * (128 + 128) + heads * 128 * h
    assert parts(resolve_workload("deepseek-v3")) == {
        "embedding": 129_280 * h,
        "attention": 61 * latent,
        "norms": 61 * (2 * h + 1536 + 512),
        "mlp": 3 * 3 * h * 18_432,
        "router": 58 * 256 * h,
        "experts": 58 * 256 * 3 * h * 2048,
        "shared_experts": 58 * 3 * h * 2048,
        "final_norm": h,
        "output_projection": 129_280 * h,
    }


def test_a_prediction_block_is_a_block_a_joining_product_and_three_norms() -> None:
    with_one = replace(resolve_workload("deepseek-v3"), prediction_blocks=1)
    h = 7168
    block = 187_105_280 + 2 * h + 2048 + 256 * h + 257 * 3 * h * 2048
    assert parts(with_one)["prediction_blocks"] == block + 2 * h * h + 3 * h
    # The published checkpoint has that block with copies of the embedding and the output projection, and corrections of
    # the routers, which have no gradient and do not count here.
    copies, corrections = 2 * 129_280 * h, 59 * 256
    assert parameter_count(with_one) + copies + corrections == 684_489_845_504


def test_small_counts_by_hand() -> None:
    assert parts(SMALL) == {
        "embedding": 50 * 8,
        "attention": 5 * (4 * 8 * 12 + 3 * 12 + 8),
        "norms": 5 * 2 * 2 * 8,
        "mlp": 5 * (2 * 8 * 16 + 16 + 8),
        "final_norm": 16,
        "output_projection": 0,
    }
    untied = replace(SMALL, tied_embeddings=False, output_bias=True, learned_positions=7, final_norm=False)
    assert parts(untied)["output_projection"] == 50 * 8 + 50
    assert parts(untied)["positions"] == 56
    assert "final_norm" not in parts(untied)
    grouped = replace(SMALL, key_value_heads=2, attention_bias=False, attention_output_bias=False, attention_sinks=True)
    assert parts(grouped)["attention"] == 5 * (8 * 12 + 2 * 8 * 6 + 12 * 8 + 4)
    gated = replace(SMALL, gated_mlp=True)
    assert parts(gated)["mlp"] == 5 * (3 * 8 * 16 + 2 * 16 + 8)
    scaled = replace(SMALL, root_mean_square_norm=True, norms=4, query_key_norm=QueryKeyNorm.HEAD)
    assert parts(scaled)["norms"] == 5 * (4 * 8 + 2 * 3)
    wide = replace(scaled, query_key_norm=QueryKeyNorm.WIDTH, key_value_heads=2)
    assert parts(wide)["norms"] == 5 * (4 * 8 + (4 + 2) * 3)


@pytest.mark.parametrize("name", [name for name in names("workloads") if resolve_workload(name).vocabulary == 0])
def test_blocks_alone_count_as_the_published_tool_counts(name: str) -> None:
    workload = resolve_workload(name)
    h, f, width = workload.hidden, workload.feedforward, workload.attention_heads * workload.head_size
    block = 2 * h * f + 4 * h * width + h + f + 3 * width + h + 4 * h
    assert parameter_count(workload) == workload.blocks * block + (51_200 + workload.sequence_length) * h
    assert active_parameter_count(workload) == workload.parameters == parameter_count(workload)


@given(workloads())
def test_parts_make_up_the_whole(workload: Workload) -> None:
    found = parameter_parts(workload)
    assert [part.name for part in found] == [name for name in PARTS if name in {part.name for part in found}]
    assert sum(part.total for part in found) == parameter_count(workload)
    assert sum(part.active for part in found) == active_parameter_count(workload)
    for part in found:
        assert 0 <= part.active <= part.total
        assert part.multiplied <= part.active or part.name in ("output_projection", "prediction_blocks")


@given(workloads())
def test_all_experts_visited_leave_none_idle(workload: Workload) -> None:
    experts = workload.experts
    if experts is None:
        assert active_parameter_count(workload) == parameter_count(workload)
    else:
        everywhere = replace(workload, experts=replace(experts, top_k=experts.count))
        assert active_parameter_count(everywhere) == parameter_count(everywhere) == parameter_count(workload)


@given(workloads())
def test_windows_hold_no_parameters(workload: Workload) -> None:
    assert parameter_count(workload) == parameter_count(replace(workload, window=0, windowed_blocks=0))


@given(st.integers(1, 10**6), st.integers(1, 256), st.integers(1, 64))
def test_a_padded_vocabulary_is_the_next_multiple(vocabulary: int, multiple: int, tp: int) -> None:
    padded = padded_vocabulary(replace(SMALL, vocabulary=vocabulary, vocabulary_multiple=multiple), tp)
    assert padded % (multiple * tp) == 0
    assert vocabulary <= padded < vocabulary + multiple * tp


def test_without_a_vocabulary_there_is_nothing_to_pad() -> None:
    assert padded_vocabulary(replace(SMALL, vocabulary=0), 8) == 0
