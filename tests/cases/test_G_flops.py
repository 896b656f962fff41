"""Cases from practice that concern flop, utilisation and the number of collectives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from codesign_opt import api
from codesign_opt.catalog import resolve_system, resolve_workload
from codesign_opt.interop.hugging_face import config_notes, read_config
from codesign_opt.strategies import Recompute, Strategy
from codesign_opt.systems.parameters import with_parameters
from codesign_opt.workloads import Workload
from codesign_opt.workloads.flops import FlopsConvention, flops_per_token
from codesign_opt.workloads.parameters import parameter_count, parameter_parts

H100 = 989.4e12


def mpt(width: int, blocks: int, heads: int) -> dict[str, Any]:
    """A model of llm-foundry's benchmark: learned positions, biases, one matrix for embedding and output."""
    return {
        "model_type": "mpt", "d_model": width, "n_layers": blocks, "n_heads": heads, "expansion_ratio": 4,
        "max_seq_len": 2048, "vocab_size": 50_368, "no_bias": False, "attn_config": {"alibi": False},
    }  # fmt: skip


def test_G3_utilisation_of_a_published_table() -> None:
    model = read_config(mpt(4096, 32, 32))
    assert parameter_count(model) == 6_658_859_008
    needed = flops_per_token(model, FlopsConvention.ALL_PARAMETERS)
    assert needed == 6 * 6_658_859_008 + 12 * 32 * 4096 * 2048
    assert needed == pytest.approx(43.17e9, rel=2e-4)
    assert needed * 10_643 == pytest.approx(459.5e12, rel=2e-4)
    assert needed * 10_643 / H100 == pytest.approx(0.4644, abs=5e-5)


def test_G4_utilisation_with_full_recompute() -> None:
    model = read_config(mpt(8192, 80, 64))
    assert parameter_count(model) == 64_862_437_376
    needed = flops_per_token(model, FlopsConvention.ALL_PARAMETERS)
    done = flops_per_token(model, FlopsConvention.ALL_PARAMETERS_RECOMPUTED)
    assert needed * 1058 == pytest.approx(428.8e12, rel=2e-4)
    assert needed * 1058 / H100 == pytest.approx(0.433, abs=5e-4)
    assert done == pytest.approx(needed * 4 / 3)
    assert done * 1058 / H100 == pytest.approx(0.578, abs=5e-4)


@pytest.mark.parametrize(("recompute", "collectives"), [(Recompute.NONE, 4), (Recompute.FULL, 6)])
def test_G5_all_reduces_of_tensor_parallelism_each_have_their_latency(recompute: Recompute, collectives: int) -> None:
    system = with_parameters(
        resolve_system("a100-80g"), {"network_tiers.0.latency": 1.0, "network_tiers.0.bandwidth": 1e30}
    )
    model = replace(resolve_workload("megatron-126m"), blocks=5)
    plan = Strategy(processors=2, tp=2, pp=1, dp=1, batch=3, microbatch=1, recompute=recompute)
    row = api.estimate(model, system, plan)
    seconds = row["tp_communication_time"].item() + row["recompute_communication_time"].item()
    assert seconds / (model.blocks * 3) == pytest.approx(collectives)


def test_G7_a_name_that_does_not_fit_its_configuration() -> None:
    config = mpt(768, 12, 12)
    assert parameter_count(read_config(config)) == pytest.approx(124e6, rel=0.02)
    (note,) = config_notes(config, name="mpt-7b")
    assert "the name 'mpt-7b' says 7 G parameters" in note
    assert "has 125.3 M" in note
    assert config_notes(config, name="mpt-125m") == config_notes(config, name="mpt") == ()


def test_G8_pipelines_hold_a_tied_embedding_twice_and_count_it_once() -> None:
    model = Workload(
        name="tied", hidden=2048, feedforward=8192, sequence_length=4096, attention_heads=32, head_size=64, blocks=16,
        gated_mlp=True, vocabulary=131_072, tied_embeddings=True, rotary=True, root_mean_square_norm=True,
        attention_bias=False, attention_output_bias=False, mlp_bias=False,
    )  # fmt: skip
    parts = {part.name: part.total for part in parameter_parts(model)}
    assert parameter_count(model) == pytest.approx(1.34e9, abs=5e6)
    assert parts["embedding"] == pytest.approx(0.268e9, abs=1e6)
    assert parts["output_projection"] == 0
    # First and last stage of a pipeline each hold the matrix: as many as if it were untied.
    held = parameter_count(replace(model, tied_embeddings=False))
    assert held == parameter_count(model) + parts["embedding"]
    assert held == pytest.approx(1.61e9, abs=5e6)
