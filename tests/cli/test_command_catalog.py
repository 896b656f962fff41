"""`codesign-opt catalog`: what is shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codesign_opt.catalog import names

SHELVES = ("workloads", "systems", "studies")


def test_list_has_everything(run: Any) -> None:
    result = run("catalog", "list")
    listed = [line.split()[0] for line in result.out.splitlines() if line.startswith("  ") and line[2] != " "]
    assert listed == [name for shelf in SHELVES for name in names(shelf)]  # type: ignore[arg-type]
    assert max(map(len, result.out.splitlines())) <= 100


def test_list_of_one_shelf(run: Any) -> None:
    document = run("catalog", "list", "systems", "--json").document
    assert list(document) == ["systems"]
    assert list(document["systems"]) == names("systems")
    assert all(document["systems"].values())


def test_no_name_is_on_two_shelves() -> None:
    everything = [name for shelf in SHELVES for name in names(shelf)]  # type: ignore[arg-type]
    assert len(everything) == len(set(everything))


def test_a_shown_file_can_be_used(run: Any, folder: Path) -> None:
    (folder / "mine.toml").write_text(run("catalog", "show", "gpt3-13b").out)
    arguments = ("--system", "a100-80g", "--tp", "1", "--batch", "1", "--json")
    from_file = run("estimate", "--workload", "mine.toml", *arguments)
    from_name = run("estimate", "--workload", "gpt3-13b", *arguments)
    assert from_file.document["metrics"] == from_name.document["metrics"]


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("gpt3-175b", ("workload", "hidden", 12288)),
        ("a100-80g", ("parameters", "memory_tier1.capacity", {"value": 80 * 2**30, "unit": "B"})),
        ("price-study", ("specification", "batch", 2340)),
    ],
)
def test_json_has_si_numbers(run: Any, name: str, keys: tuple[str, str, object]) -> None:
    document = run("catalog", "show", name, "--json").document
    assert document["name"] == name
    assert document[keys[0]][keys[1]] == keys[2]


def test_systems_are_listed_under_headings(run: Any) -> None:
    lines = run("catalog", "list", "systems").out.splitlines()
    assert lines[0].split() == ["systems:", "memory", "16-bit", "peak", "what"]
    listed = {line.split()[0]: line for line in lines[1:] if line[2] != " "}
    assert list(listed) == names("systems")
    assert "  79.65 GiB  989.4 Tflop/s  NVIDIA H100 SXM5 80 GB; 8 a node" in listed["h100-sxm"]
    assert "  15.75 GiB    197 Tflop/s  Google TPU v5e" in listed["tpu-v5e"]
    assert "     80 GiB    312 Tflop/s  Calculon systems/a100_80g.json" in listed["a100-80g"]
    assert max(map(len, lines)) <= 100


def test_values_are_shown_beside_their_sources(run: Any) -> None:
    out = run("catalog", "show", "h100-sxm").out
    comments = " ".join(line.removeprefix("#").strip() for line in out.splitlines() if line.startswith("#"))
    assert "memory_tier1.capacity = 79.6475 GiB nvidia-smi, reported in modal-labs/modal-client#2797" in comments
    assert "matrix.float8.peak = 1.9789 Pflop/s matrix.bfloat16.peak = 989.4 Tflop/s" in comments
    assert "network_tiers.0.bandwidth = 450 GB/s NVIDIA H100 Tensor Core GPU data sheet (2023)" in comments
    assert "memory_tier1.efficiency = 0.9 from 100 MB, 0.75 from 10 MB" in comments
    assert "processing = no_overlap assumed: " in comments
    assert "network_tiers.0.must_be_filled = true" in comments


def test_a_shown_system_can_be_used(run: Any, folder: Path) -> None:
    (folder / "mine.toml").write_text(run("catalog", "show", "h100-sxm").out, encoding="utf-8")
    arguments = ("--workload", "gpt3-13b", "--tp", "4", "--batch", "1", "--datatype", "bfloat16", "--json")
    from_file = run("estimate", "--system", "mine.toml", *arguments)
    from_name = run("estimate", "--system", "h100-sxm", *arguments)
    assert from_file.document["metrics"] == from_name.document["metrics"]


def test_json_has_sources_beside_values(run: Any) -> None:
    document = run("catalog", "show", "h100-sxm", "--json").document
    capacity = document["parameters"]["memory_tier1.capacity"]
    assert (capacity["value"], capacity["unit"]) == (81559 * 2**20, "B")
    assert capacity["source"].startswith("nvidia-smi, reported in ")
    for part in ("parameters", "switches", "curves"):
        assert all(entry["source"] for entry in document[part].values())
    assert document["switches"]["processing"]["value"] == "no_overlap"
    curve = document["curves"]["memory_tier1.efficiency"]
    assert (curve["points"][0], curve["unit"]) == ([100e6, 0.9], "B")
    published = run("catalog", "show", "a100-80g", "--json").document
    assert published["source"].startswith("Calculon systems/a100_80g.json")
    assert "source" not in published["curves"]["matrix.float16.efficiency"]
