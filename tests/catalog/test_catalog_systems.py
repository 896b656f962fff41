"""The systems of today: every number has a source, and is one that such a machine can have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from codesign_opt import api
from codesign_opt.catalog import describe, names, resolve_system, system_notes, text
from codesign_opt.systems import System
from codesign_opt.systems.files import read_notes, read_system, system_to_toml
from codesign_opt.systems.notes import values
from codesign_opt.units import parse_quantity

GIB = 2**30
PUBLISHED = {"a100-80e", "a100-80g", "h100-80g-nvl8", "h100-price-study"}


@dataclass(frozen=True)
class Expected:
    """What is known of a machine: memory that its maker names, GiB, processors of a node, and bits of its formats."""

    memory: float
    node: int
    formats: str = "8 b16 f16 32"


EXPECTED = {
    "v100-16g-sxm": Expected(16, 8, "f16 32"),
    "v100-32g-sxm": Expected(32, 8, "f16 32"),
    "a100-40g-sxm": Expected(40, 8, "b16 f16 32"),
    "a100-80g-sxm": Expected(80, 8, "b16 f16 32"),
    "a100-40g-pcie": Expected(40, 8, "b16 f16 32"),
    "a100-80g-pcie": Expected(80, 8, "b16 f16 32"),
    "h100-sxm": Expected(80, 8),
    "h100-pcie": Expected(80, 8),
    "h200": Expected(141, 8),
    "b200": Expected(180, 8),
    "b300": Expected(270, 8),
    "gb200-nvl72": Expected(186, 72),
    "gb300-nvl72": Expected(288, 72),
    "mi250x": Expected(64, 8, "b16 f16 32"),
    "mi300x": Expected(192, 8),
    "mi325x": Expected(256, 8),
    "mi355x": Expected(288, 8),
    "tpu-v4": Expected(32, 4096, "b16"),
    "tpu-v5e": Expected(16, 256, "b16"),
    "tpu-v5p": Expected(96, 8960, "8 b16"),
    "tpu-v6e": Expected(32, 256, "8 b16"),
    "trainium1": Expected(16, 32),
    "trainium2": Expected(12, 128),
    "gaudi2": Expected(96, 8, "8 b16"),
}
FORMATS = {"8": "float8", "b16": "bfloat16", "f16": "float16", "32": "float32"}
NO_GAIN_FROM_8_BITS = {"tpu-v5p", "tpu-v6e", "trainium1"}

all_new = pytest.mark.parametrize("name", EXPECTED)


def test_the_machines_of_today_are_there() -> None:
    fitted = {name for name in names("systems") if name.endswith("-calibrated")}
    assert {name.removesuffix("-calibrated") for name in fitted} < set(EXPECTED)
    assert set(names("systems")) - fitted == {*EXPECTED, *PUBLISHED}


@all_new
def test_every_value_has_a_source(name: str) -> None:
    system, notes = resolve_system(name), system_notes(name)
    assert [path for path in values(system) if notes.own_source(path) is None] == []
    assert notes.description
    # A fact is named itself, not with its section: what covers a section speaks of assumptions.
    facts = [path for path in values(system) if path.rpartition(".")[2] in ("peak", "capacity", "bandwidth", "size")]
    assert [path for path in facts if path not in notes.sources] == []
    for path in values(system):
        if path not in facts:
            assert notes.source_of(path).startswith("assumed: "), path


@all_new
def test_memory_is_what_the_device_reports(name: str) -> None:
    capacity = resolve_system(name).memory_tier1.capacity / GIB
    assert 0.94 * EXPECTED[name].memory <= capacity <= EXPECTED[name].memory


@all_new
def test_peaks_are_dense_and_in_proportion(name: str) -> None:
    matrix = resolve_system(name).matrix
    assert sorted(matrix) == sorted(FORMATS[word] for word in EXPECTED[name].formats.split())
    half = matrix[half_precision(name)].peak
    if "float16" in matrix:
        assert matrix["float16"].peak == half
    if "float8" in matrix:
        expected = 1 if name in NO_GAIN_FROM_8_BITS else 2
        assert matrix["float8"].peak / half == pytest.approx(expected, rel=0.03)
    if "float32" in matrix:
        assert matrix["float32"].peak < half / 3.5
    for word, engine in resolve_system(name).vector.items():
        assert 0 < engine.peak < matrix[word].peak or word == "float32"
        assert engine.peak <= matrix[word].peak


def test_dense_peaks_by_hand() -> None:
    # Tensor cores × flop a cycle × clock, from the vendors' papers.
    assert peak("a100-80g-sxm", "float16") == pytest.approx(432 * 512 * 1.41e9, rel=1e-3)
    assert peak("v100-32g-sxm", "float16") == pytest.approx(640 * 128 * 1.53e9, rel=1e-2)
    assert peak("h100-sxm", "bfloat16") == pytest.approx(528 * 1024 * 1.83e9, rel=1e-3)
    assert peak("h100-pcie", "bfloat16") == pytest.approx(456 * 1024 * 1.62e9, rel=1e-3)
    # Compute units × flop a cycle × clock.
    assert peak("mi250x", "bfloat16") == pytest.approx(110 * 1024 * 1.7e9, rel=1e-3)
    assert peak("mi300x", "bfloat16") == peak("mi325x", "bfloat16") == pytest.approx(304 * 2048 * 2.1e9, rel=1e-3)
    assert peak("mi355x", "float8") == pytest.approx(256 * 8192 * 2.4e9, rel=1e-3)


@all_new
def test_link_rates_are_one_way(name: str) -> None:
    system, notes = resolve_system(name), system_notes(name)
    for index, tier in enumerate(system.network_tiers):
        source = notes.source_of(f"network_tiers.{index}.bandwidth")
        for both, one in both_and_one_way(source):
            assert one == both / 2
            assert tier.bandwidth <= one
    for both, one in both_and_one_way(notes.source_of("memory_tier2.bandwidth")):
        assert one == both / 2
        assert system.memory_tier2.bandwidth <= one


def test_the_bidirectional_figures_are_named() -> None:
    named = {
        name: both_and_one_way(system_notes(name).source_of("network_tiers.0.bandwidth"))[0][0] / 1e9
        for name in EXPECTED
        if both_and_one_way(system_notes(name).source_of("network_tiers.0.bandwidth"))
    }
    assert named["a100-40g-sxm"] == named["a100-80g-sxm"] == 600
    assert named["h100-sxm"] == named["h200"] == 900
    assert named["v100-16g-sxm"] == named["v100-32g-sxm"] == 300
    assert named["b200"] == named["b300"] == named["gb200-nvl72"] == named["gb300-nvl72"] == 1800
    assert named["mi300x"] == named["mi325x"] == 896
    assert (named["tpu-v5e"], named["tpu-v5p"], named["tpu-v6e"]) == (400, 1200, 800)


@all_new
def test_tiers_follow_the_cluster(name: str) -> None:
    tiers = resolve_system(name).network_tiers
    assert len(tiers) == (3 if name == "mi250x" else 2)
    assert tiers[-2].size == EXPECTED[name].node
    for inner, outer in pairwise(tiers):
        assert inner.bandwidth > outer.bandwidth
        assert inner.size < outer.size
        assert inner.latency <= outer.latency


@all_new
def test_memory_is_faster_than_links_and_compute_faster_than_memory(name: str) -> None:
    system = resolve_system(name)
    assert system.memory_tier1.bandwidth > system.network_tiers[0].bandwidth
    assert system.memory_tier1.bandwidth > system.memory_tier2.bandwidth
    assert 80 < system.matrix[half_precision(name)].peak / system.memory_tier1.bandwidth < 600


@all_new
def test_a_strategy_runs_on_it(name: str) -> None:
    limits = {"tp": 4, "pp": 8, "microbatch": 1, "recompute": "full", "tp_overlap": "none", "vpp": 1}
    word = half_precision(name)
    best = api.sweep("gpt3-13b", name, processors=64, batch=64, datatype=word, limits=limits, top=1).table
    assert 0.05 < best["mfu"].item() < 0.95
    assert best["memory_tier1_used"].item() <= resolve_system(name).memory_tier1.capacity


@all_new
def test_a_written_system_keeps_its_notes(name: str, tmp_path: Path) -> None:
    path = tmp_path / "copy.toml"
    path.write_text(system_to_toml(resolve_system(name), system_notes(name)), encoding="utf-8")
    assert read_system(path) == resolve_system(name)
    assert read_notes(path) == system_notes(name)


def test_a_base_hands_its_sources_on() -> None:
    notes = system_notes("h100-price-study")
    assert notes.source_of("memory_tier2.bandwidth") == "price study of Calculon: doi 10.1145/3581784.3607102"
    assert notes.source_of("price.memory_tier1").startswith("price study of Calculon")
    assert "the rest as h100-80g-nvl8: Calculon systems/h100_80g_nvl8.json" in notes.source_of("matrix.float16.peak")


def test_a_description_stands_before_the_numbers() -> None:
    line = describe("systems", "gb200-nvl72")
    assert line.startswith("NVIDIA GB200 NVL72 (one GPU, 186 GB); 72 a rack")
    assert "72 at 900 GB/s, 65536 at 50 GB/s" in line


def test_the_published_systems_are_as_they_were() -> None:
    for name in PUBLISHED:
        assert "[sources]" not in text("systems", name)
        assert "description" not in text("systems", name)


def half_precision(name: str) -> str:
    """The 16-bit format that a strategy on the machine uses; a V100 has no bfloat16."""
    return "bfloat16" if "b16" in EXPECTED[name].formats.split() else "float16"


def peak(name: str, word: str) -> float:
    system: System = resolve_system(name)
    return system.matrix[word].peak


def both_and_one_way(source: str) -> list[tuple[float, float]]:
    """Pairs of the rate of both directions and the rate of one that a text names, B/s."""
    pattern = r"([\d.]+ [GT]B/s) in both directions together, ([\d.]+ [GT]B/s) one way"
    return [
        (parse_quantity(both, "B/s", where="source"), parse_quantity(one, "B/s", where="source"))
        for both, one in re.findall(pattern, source)
    ]
