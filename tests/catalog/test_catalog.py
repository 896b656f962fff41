from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from codesign_opt.catalog import describe, names, resolve_system, resolve_workload, study_path, text
from codesign_opt.errors import InputError
from codesign_opt.studies.points import all_points, hardware_dimensions, machine
from codesign_opt.studies.specification import read_study
from codesign_opt.systems import (
    CollectiveCost,
    EfficiencyCurve,
    Engine,
    MemoryTier,
    NetworkTier,
    Price,
    PriceCurve,
    System,
)
from codesign_opt.workloads import Workload

DATA = Path(__file__).parents[1] / "data" / "calculon"
GIB = 1024**3

WORKLOADS = {
    "anthropic-52b": "anthropic-52B",
    "chinchilla": "chinchilla",
    "gopher-280b": "gopher-280B",
    "gpt3-13b": "gpt3-13B",
    "gpt3-175b": "gpt3-175B",
    "lamda": "lamda",
    "megatron-126m": "megatron-126M",
    "megatron-1t": "megatron-1T",
    "megatron-22b": "megatron-22B",
    "megatron-40b": "megatron-40B",
    "megatron-5b": "megatron-5B",
    "palm-540b": "palm-540B",
    "turing-530b": "turing-530B",
}
SYSTEMS = {"a100-80e": "a100_80e", "a100-80g": "a100_80g", "h100-80g-nvl8": "h100_80g_nvl8"}


def test_the_catalogue_holds_what_it_promises() -> None:
    assert set(names("workloads")) >= set(WORKLOADS)
    assert set(names("systems")) >= {*SYSTEMS, "h100-price-study"}
    assert set(names("studies")) >= {"default", "h100-network", "memory-wall", "price-study"}
    for model in ("gpt3-175b", "megatron-1t", "turing-530b"):
        assert {f"price-grid-{model}", f"system-size-{model}"} <= set(names("studies"))


@pytest.mark.parametrize("name", names("studies"))
def test_every_study_can_be_read(name: str) -> None:
    assert read_study(study_path(name)).objectives


@pytest.mark.parametrize(("model", "batch"), [("gpt3-175b", 2340), ("turing-530b", 2520), ("megatron-1t", 3072)])
def test_the_price_grids_are_the_published_ones(model: str, batch: int) -> None:
    study = read_study(study_path(f"price-grid-{model}"))
    points = list(all_points(hardware_dimensions(study)))
    assert (len(points), study.batch, study.method) == (16 * 64, batch, "exact")
    first, last = machine(study, points[0]), machine(study, points[63])
    assert first[1] == 5616
    assert last[1] == 5616 - 63 * 8
    assert machine(study, points[-64])[1] == 2080


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_equals_the_reference_tools(name: str) -> None:
    data = json.loads((DATA / "models" / f"{WORKLOADS[name]}.json").read_text())
    assert resolve_workload(name) == Workload(
        name=name,
        hidden=data["hidden"],
        feedforward=data["feedforward"],
        sequence_length=data["seq_size"],
        attention_heads=data["attn_heads"],
        head_size=data["attn_size"],
        blocks=data["num_blocks"],
    )


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_equals_the_reference_tools(name: str) -> None:
    data = json.loads((DATA / "systems" / f"{SYSTEMS[name]}.json").read_text())
    assert resolve_system(name) == System(
        name=name,
        matrix={word: expected_engine(engine) for word, engine in data["matrix"].items()},
        vector={word: expected_engine(engine) for word, engine in data["vector"].items()},
        memory_tier1=expected_memory(data["mem1"]),
        memory_tier2=expected_memory(data["mem2"]),
        roofline=data["processing_mode"] == "roofline",
        network_tiers=tuple(expected_network(tier) for tier in data["networks"]),
    )


def expected_curve(points: list[list[float]], scale: float) -> EfficiencyCurve:
    return EfficiencyCurve(tuple(size * scale for size, _ in points), tuple(efficiency for _, efficiency in points))


def expected_engine(data: dict[str, Any]) -> Engine:
    return Engine(peak=data["tflops"] * 1e12, efficiency=expected_curve(data["gflops_efficiency"], 1e9))


def expected_memory(data: dict[str, Any]) -> MemoryTier:
    return MemoryTier(
        capacity=data["GiB"] * GIB, bandwidth=data["GBps"] * 1e9, efficiency=expected_curve(data["MB_efficiency"], 1e6)
    )


def expected_network(data: dict[str, Any]) -> NetworkTier:
    costs = {name: CollectiveCost(scalar=scalar, offset=offset or 0) for name, (scalar, offset) in data["ops"].items()}
    names_kept = ("efficiency", "size", "must_be_filled", "latency", "processor_usage")
    return NetworkTier(bandwidth=data["bandwidth"] * 1e9, **{name: data[name] for name in names_kept}, **costs)


def test_the_price_studys_machine_is_an_h100_with_slow_ddr_and_prices() -> None:
    system, base = resolve_system("h100-price-study"), resolve_system("h100-80g-nvl8")
    assert system.price == Price(
        processor=20000.0,
        memory_tier1=PriceCurve((20 * GIB, 40 * GIB, 80 * GIB, 120 * GIB), (2250.0, 5000.0, 10000.0, 20000.0)),
        memory_tier2=PriceCurve((0.0, 256 * GIB, 512 * GIB, 1024 * GIB), (0.0, 2500.0, 10000.0, 20000.0)),
    )
    assert system.memory_tier1.bandwidth == 3072e9
    assert system.memory_tier2.bandwidth == 100e9
    slow = dataclasses.replace(base.memory_tier2, bandwidth=100e9)
    assert system == dataclasses.replace(base, name="h100-price-study", memory_tier2=slow, price=system.price)


@pytest.mark.parametrize(
    ("shelf", "name"), [(shelf, name) for shelf in ("workloads", "systems") for name in names(shelf)]
)
def test_every_entry_has_a_name_and_a_source(shelf: Any, name: str) -> None:
    data = tomllib.loads(text(shelf, name))
    assert data["name"] == name
    assert data["source"]


@pytest.mark.parametrize("name", names("studies"))
def test_every_study_loads(name: str) -> None:
    assert read_study(study_path(name)).name == name
    assert describe("studies", name) == tomllib.loads(text("studies", name))["description"]


def test_the_default_study_is_small() -> None:
    study = read_study(study_path("default"))
    assert study.processors == (16, 32, 64)
    assert study.hardware_is_free
    assert [str(objective) for objective in study.objectives] == ["maximize sample_rate", "minimize system_price"]


def test_entries_are_described_in_one_line() -> None:
    assert describe("workloads", "gpt3-175b") == (
        "174.6 G parameters: 96 blocks, hidden 12288, 96 heads of 128, sequences of 2048 tokens"
    )
    line = describe("systems", "h100-price-study")
    # 20,000 $ and 10,000 $ each for 80 GiB of HBM and 512 GiB of DDR
    for part in ("float16 1 Pflop/s", "80 GiB at 3.072 TB/s", "offload 512 GiB at 100 GB/s", "40 k$ a processor"):
        assert part in line


def test_files_may_stand_where_names_stand(tmp_path: Path) -> None:
    copy = tmp_path / "mine.toml"
    copy.write_text(text("systems", "h100-price-study").replace('"h100-price-study"', '"mine"'))
    assert resolve_system(str(copy)) == dataclasses.replace(resolve_system("h100-price-study"), name="mine")
    foreign = resolve_workload(str(DATA / "models" / "gpt3-175B.json"))
    assert dataclasses.replace(foreign, name="gpt3-175b") == resolve_workload("gpt3-175b")
    foreign_system = resolve_system(str(DATA / "systems" / "a100_80g.json"))
    assert dataclasses.replace(foreign_system, name="a100-80g") == resolve_system("a100-80g")
    assert study_path("some/study.toml") == Path("some/study.toml")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("gpt3-175", ["unknown workload 'gpt3-175'", "did you mean 'gpt3-175b'", "path of a .toml or .json file"]),
        ("GPT3-175B", ["unknown workload 'GPT3-175B'", "did you mean 'gpt3-175b'"]),
        ("zzz", ["unknown workload 'zzz'", "allowed: anthropic-52b"]),
        ("", ["unknown workload ''"]),
        ("x" * 5000, ["unknown workload 'xxx"]),
        ("./folder/model", ["'./folder/model' is no .toml or .json file"]),
        ("model.yaml", ["'model.yaml' is no .toml or .json file"]),
    ],
)
def test_unknown_names_get_the_near_ones(name: str, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        resolve_workload(name, where="s.toml: workload")
    for part in ("s.toml: workload: ", *parts):
        assert part in str(caught.value)


def test_unknown_entries_are_named() -> None:
    with pytest.raises(InputError, match=r"unknown study 'price-studdy'.*did you mean 'price-study'"):
        study_path("price-studdy")
    with pytest.raises(InputError, match="unknown system 'a100'"):
        text("systems", "a100")
    with pytest.raises(InputError, match=r"missing\.toml: no such file"):
        resolve_system("missing.toml")


def test_a_file_starts_from_the_catalogue_and_from_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "loop.toml"
    path.write_text(f"base = '{path}'\n")
    with pytest.raises(InputError, match=r"loop\.toml: base: unknown system"):
        resolve_system(str(path))


def test_names_need_no_heavy_library() -> None:
    code = "import sys; from codesign_opt.catalog import names; names('systems'); print('pydantic' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
