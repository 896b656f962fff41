"""`codesign-opt estimate`: one strategy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = ("estimate", "--workload", "gpt3-175b", "--system", "a100-80g")
LAYOUT = ("--tp", "8", "--pp", "8", "--dp", "8", "--batch", "512")


def test_breakdowns_and_key_numbers(run: Any) -> None:
    result = run(*ARGUMENTS, *LAYOUT, "--recompute", "full")
    assert result.status == 0
    assert result.err == ""
    lines = result.out.splitlines()
    assert lines[0] == "gpt3-175b on 512 × a100-80g"
    assert lines[1].startswith("tp 8 pp 8 dp 8 vpp 1 batch 512 microbatch 1, recompute full")
    for words in ("step time", "  backward", "memory tier 1", "  optimizer", "mfu", "token_rate"):
        assert any(line.startswith(words) for line in lines)


def test_json_has_every_metric_with_its_unit(run: Any) -> None:
    from codesign_opt.objectives import METRICS

    document = run(*ARGUMENTS, *LAYOUT, "--recompute", "full", "--json").document
    assert document["status"] == ""
    assert document["strategy"]["processors"] == 512
    assert document["strategy"]["recompute"] == "full"
    metrics = document["metrics"]
    available = {name for name, metric in METRICS.items() if metric.needs in ("", "memory_tier2")}
    assert set(metrics) == available - {"processors"}  # which is one of the strategy's
    assert metrics["step_time"]["unit"] == "s"
    assert metrics["sample_rate"]["value"] == pytest.approx(512 / metrics["step_time"]["value"])


def test_the_published_tools_files_and_errata_give_its_numbers(run: Any, folder: Path) -> None:
    data = Path(__file__).parents[1] / "data" / "calculon"
    example = json.loads((data / "worked_examples.json").read_text())["shipped"]
    (folder / "execution.json").write_text(json.dumps(example["execution"]))
    files = {
        "--workload": str(data / "models" / f"{example['workload']}.json"),
        "--system": str(data / "systems" / f"{example['system']}.json"),
        "--strategy": "execution.json",
    }
    options = [word for pair in files.items() for word in pair]
    reproduced = run("estimate", *options, "--reproduce", "all", "--json").document
    published = example["statistics"]
    for ours, theirs in (("step_time", "total_time"), ("memory_tier1_used", "proc_mem_tier1_cap_req")):
        assert reproduced["metrics"][ours]["value"] == pytest.approx(published[theirs], rel=1e-6)
    corrected = run("estimate", *options, "--json").document
    assert corrected["reproduce"] == []
    assert corrected["metrics"]["step_time"]["value"] != reproduced["metrics"]["step_time"]["value"]


def test_processors_and_dp_follow_from_each_other(run: Any) -> None:
    base = (*ARGUMENTS, "--tp", "8", "--pp", "8", "--batch", "512", "--recompute", "full", "--json")
    assert run(*base, "--processors", "512").document["strategy"]["dp"] == 8
    assert run(*base, "--dp", "4").document["strategy"]["processors"] == 256
    assert run(*base).document["strategy"]["processors"] == 64


def test_options_change_what_a_file_says(run: Any, folder: Path) -> None:
    (folder / "s.toml").write_text('tp = 8\npp = 8\ndp = 8\nprocessors = 512\nbatch = 512\nrecompute = "full"\n')
    base = (*ARGUMENTS, "--strategy", "s.toml", "--json")
    assert run(*base).document["strategy"]["dp"] == 8
    changed = run(*base, "--dp", "16", "--optimizer-sharding").document["strategy"]
    assert (changed["dp"], changed["processors"], changed["recompute"]) == (16, 1024, "full")
    assert changed["optimizer_sharding"] is True


def test_operations_of_a_block(run: Any) -> None:
    listed = (*ARGUMENTS, *LAYOUT, "--recompute", "full", "--operations")
    operations = run(*listed, "--json").document["operations"]
    assert {column["unit"] for column in operations["columns"]} >= {"flop", "B", "s"}
    text = run(*listed).out
    assert all(row["name"] in text for row in operations["rows"])
    assert max(map(len, text.splitlines())) <= 100


def test_what_does_not_fit_is_shown_and_the_overflow_named(run: Any) -> None:
    result = run(*ARGUMENTS, *LAYOUT)
    assert result.status == 1
    assert "missing" in result.out
    assert result.err.startswith("error: does not fit: memory_tier1 needs 91.")
    assert "has 80 GiB" in result.err
    assert run(*ARGUMENTS, *LAYOUT, "--json").document["status"] == "memory_tier1"


def test_an_illegal_strategy_is_refused_with_every_rule_and_the_nearest_values(run: Any) -> None:
    result = run(*ARGUMENTS, "--tp", "7", "--pp", "8", "--dp", "8", "--batch", "511", "--gather-redo")
    assert result.status == 2
    assert result.out == ""
    for words in ("511 is not a multiple of dp 8", "gather_redo", "96 attention heads are not a multiple of tp 7"):
        assert words in result.err
    assert "tp may be 6 or 8" in result.err
    assert "batch may be 504 or 512" in result.err
