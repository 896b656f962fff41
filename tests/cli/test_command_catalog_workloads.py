"""`codesign-opt catalog show` of workloads: their parameters, and model configurations as workload files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from codesign_opt.catalog import resolve_workload
from codesign_opt.interop.hugging_face import read_config
from codesign_opt.workloads.files import read_workload

CONFIGS = Path(__file__).parents[1] / "data" / "hugging_face"


def test_parameters_are_shown_exactly(run: Any) -> None:
    lines = run("catalog", "show", "mixtral-8x7b").out.splitlines()
    rows = {line.split()[1]: line.split()[2:] for line in lines if line.startswith("# ") and line.split()[2:]}
    assert rows["together"] == ["46,702,792,704", "12,879,925,248"]
    assert rows["experts"] == ["45,097,156,608", "11,274,289,152"]
    assert rows["embedding"] == rows["output_projection"] == ["131,072,000", "131,072,000"]
    assert max(map(len, lines)) <= 100


def test_the_convention_of_flop_is_named(run: Any) -> None:
    out = run("catalog", "show", "llama3-8b").out
    assert "# training a token takes 57.91 Gflop with full attention, 51.47 Gflop with causal attention" in out
    assert "without a vocabulary" not in out
    assert "without a vocabulary: an embedding of 51,200 words is assumed" in run("catalog", "show", "gpt3-175b").out


def test_json_has_parameters_and_flop_by_convention(run: Any) -> None:
    document = run("catalog", "show", "deepseek-v3", "--json").document
    assert document["parameters"]["total"] == 671_026_404_352
    assert document["parameters"]["active"] == 37_552_282_624
    assert document["parameters"]["parts"]["router"] == {"total": 106_430_464, "active": 106_430_464}
    assert document["flops_per_token"]["causal_attention"] < document["flops_per_token"]["full_attention"]
    assert document["workload"]["experts"]["top_k"] == 8
    assert document["workload"]["query_key_norm"] == "none"
    assert document["notes"] == []


def test_a_configuration_becomes_a_workload_file(run: Any, folder: Path) -> None:
    config = CONFIGS / "deepseek-v3.json"
    result = run("catalog", "show", str(config))
    (folder / "mine.toml").write_text(result.out)
    assert read_workload(folder / "mine.toml") == read_config(config)
    assert "# note: 1 block for multi-token prediction" in result.out
    again = run("catalog", "show", "mine.toml").out
    assert "671,026,404,352" in again
    assert "note" not in again
    assert len(run("catalog", "show", str(config), "--json").document["notes"]) == 3


def test_a_broken_path_is_explained(run: Any, folder: Path) -> None:
    result = run("catalog", "show", "absent.toml")
    assert result.status == 2
    assert "absent.toml: no such file" in result.err
    (folder / "config.json").write_text('{"model_type": "warp"}')
    result = run("catalog", "show", "config.json")
    assert result.status == 2
    assert "config.json: model_type: 'warp' is not known; missing key 'hidden_size'" in result.err


def test_a_configuration_may_stand_where_a_workload_may(run: Any) -> None:
    config = str(CONFIGS / "gpt2.json")
    arguments = ("--system", "a100-80g", "--tp", "1", "--batch", "1", "--json")
    from_config = run("estimate", "--workload", config, *arguments).document
    from_name = run("estimate", "--workload", "gpt2", *arguments).document
    assert from_config["metrics"] == from_name["metrics"]
    assert resolve_workload("gpt2") == resolve_workload(config)
