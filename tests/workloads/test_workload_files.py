from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from workload_strategies import workloads

from codesign_opt.errors import InputError
from codesign_opt.workloads import Workload
from codesign_opt.workloads.files import read_workload, workload_from_dict, workload_to_dict, workload_to_toml

SIZES = ("hidden", "feedforward", "sequence_length", "attention_heads", "head_size", "blocks")
GOOD: dict[str, Any] = {"name": "small", **dict(zip(SIZES, (512, 2048, 1024, 8, 64, 4), strict=True))}


@given(workloads())
def test_a_written_workload_reads_back_equal(workload: Workload) -> None:
    assert workload_from_dict(tomllib.loads(workload_to_toml(workload)), where="x.toml") == workload


@given(workloads())
def test_a_written_workload_holds_no_defaults_but_the_sizes(workload: Workload) -> None:
    plain = {field.name: field.default for field in dataclasses.fields(Workload)}
    written = workload_to_dict(workload)
    assert all(written.get(name, plain[name]) != plain[name] for name in written)
    assert set(GOOD) <= set(written)


def test_a_file_becomes_a_workload(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(workload_to_toml(Workload(**GOOD)) + 'source = "nowhere"\n')
    assert read_workload(path) == Workload(**GOOD)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"hiden": 1}, ["w.toml: hiden: unknown key", "did you mean 'hidden'"]),
        ({"xyzzy": 1}, ["w.toml: xyzzy: unknown key", "allowed: name, hidden"]),
        ({"hidden": None}, ["w.toml: hidden: missing", "hidden = 12288"]),
        ({"hidden": 0}, ["w.toml: hidden: 0 is not allowed", "greater than or equal to 1"]),
        ({"blocks": -4}, ["w.toml: blocks: -4 is not allowed"]),
        ({"blocks": 2.5}, ["w.toml: blocks: 2.5 is not allowed", "a whole number"]),
        ({"blocks": float("nan")}, ["w.toml: blocks: nan is not allowed"]),
        ({"blocks": True}, ["w.toml: blocks: True is not allowed", "a whole number"]),
        ({"blocks": "4"}, ["w.toml: blocks: '4' is not allowed", "a whole number"]),
        ({"blocks": [4]}, ["w.toml: blocks: [4] is not allowed"]),
        ({"hidden": 10**30}, ["w.toml: hidden: 1000000000000000000000000000000 is not allowed", "100000000"]),
        ({"name": 3}, ["w.toml: name: 3 is not allowed", "text in quotes"]),
        ({"name": ""}, ["w.toml: name: '' is not allowed", "not be empty"]),
        ({"hidden": 0, "blocks": 0}, ["w.toml: hidden: 0", "also wrong: blocks"]),
    ],
)
def test_whatever_is_wrong_is_named(change: dict[str, Any], parts: list[str]) -> None:
    data = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(InputError) as caught:
        workload_from_dict(data, where="w.toml")
    for part in parts:
        assert part in str(caught.value)


EXPERTS = {"count": 8, "top_k": 2, "feedforward": 512}
LATENT = {"query_rank": 0, "key_value_rank": 64, "rotary_size": 16, "value_size": 32}


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"key_value_heads": 3}, ["key_value_heads: 3 does not divide attention_heads = 8", "2 or 4"]),
        ({"key_value_heads": 9}, ["key_value_heads: 9 does not divide", "as many attention heads: 8"]),
        ({"key_value_heads": 4, "latent_attention": LATENT}, ["key_value_heads: 4 beside latent_attention"]),
        ({"query_key_norm": "head", "latent_attention": LATENT}, ["query_key_norm: 'head' beside latent_attention"]),
        ({"query_key_norm": "heads"}, ["query_key_norm: 'heads' is not allowed", "did you mean 'head'"]),
        ({"latent_attention": {**LATENT, "value_size": 0}}, ["latent_attention.value_size: 0 is not allowed"]),
        ({"latent_attention": {"query_rank": 0}}, ["latent_attention.key_value_rank: missing"]),
        ({"experts": {**EXPERTS, "top_k": 9}}, ["experts.top_k: 9 is more than experts.count = 8"]),
        ({"experts": {**EXPERTS, "leading_dense_blocks": 4}}, ["experts.leading_dense_blocks: 4", "blocks = 4"]),
        ({"experts": {**EXPERTS, "leading_dense_blocks": 2, "every": 3}}, ["experts.every: 3 is more than the 2"]),
        ({"experts": {**EXPERTS, "shared_gate": True}}, ["experts.shared_gate: true without shared experts"]),
        ({"experts": {**EXPERTS, "capacity_factor": 1.0, "imbalance": 1.5}}, ["experts.imbalance: 1.5 beside"]),
        ({"experts": {**EXPERTS, "capacity_factor": 0.0}}, ["experts.capacity_factor: 0.0 is not allowed"]),
        (
            {"experts": {**EXPERTS, "imbalance": 0.5}},
            ["experts.imbalance: 0.5 is not allowed"],
        ),
        ({"experts": {**EXPERTS, "topk": 2}}, ["experts.topk: unknown key", "did you mean 'top_k'"]),
        ({"window": 64}, ["window: 64 without windowed_blocks"]),
        ({"windowed_blocks": 2}, ["windowed_blocks: 2 without window"]),
        ({"window": 64, "windowed_blocks": 5}, ["windowed_blocks: 5 is more than blocks = 4"]),
        (
            {"vocabulary": 99, "learned_positions": 1000},
            ["learned_positions: 1000 is less than sequence_"],
        ),
        ({"tied_embeddings": False}, ["tied_embeddings: false without vocabulary"]),
        ({"prediction_blocks": 1}, ["prediction_blocks: 1 without vocabulary", "blocks alone"]),
    ],
)
def test_contradictions_are_explained(change: dict[str, Any], parts: list[str]) -> None:
    for where in ("w.toml: ", "s.toml: workload."):
        with pytest.raises(InputError) as caught:
            workload_from_dict({**GOOD, **change}, where=where.rstrip(": ."))
        assert str(caught.value).startswith(where)
        for part in parts:
            assert part in str(caught.value)
