"""Words about systems: which source a value has, and which sources are refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign_opt.catalog import resolve_system, text
from codesign_opt.errors import InputError
from codesign_opt.systems import EfficiencyCurve, Notes, PriceCurve, System
from codesign_opt.systems.files import read_notes, read_system, system_from_dict, system_to_toml
from codesign_opt.systems.notes import values
from codesign_opt.systems.parameters import parameters

BASE = text("systems", "a100-80g")
NOTED = f"""{BASE}
[sources]
memory_tier1 = "data sheet"
"memory_tier1.capacity" = "nvidia-smi"
"matrix.float16.efficiency" = "measured"
network_tiers.1.p2p = "ring"
"""


def read(content: str, tmp_path: Path) -> tuple[System, Notes]:
    path = tmp_path / "mine.toml"
    path.write_text(content, encoding="utf-8")
    return read_system(path), read_notes(path)


def test_the_longest_path_that_covers_a_value_counts(tmp_path: Path) -> None:
    _, notes = read(NOTED, tmp_path)
    assert notes.source.startswith("Calculon systems/a100_80g.json")
    expected = {
        "memory_tier1.capacity": "nvidia-smi",
        "memory_tier1.bandwidth": "data sheet",
        "memory_tier1.efficiency": "data sheet",
        "matrix.float16.efficiency": "measured",
        "network_tiers.1.p2p.scalar": "ring",
    }
    assert {path: notes.source_of(path) for path in expected} == expected
    for path in ("memory_tier2.capacity", "matrix.float16.peak", "network_tiers.1.p2", "memory_tier10"):
        assert notes.own_source(path) is None
        assert notes.source_of(path) == notes.source


def test_words_change_no_machine(tmp_path: Path) -> None:
    noted, _ = read(NOTED, tmp_path)
    assert noted == resolve_system("a100-80g")
    assert repr(noted) == repr(resolve_system("a100-80g"))


def test_values_are_numbers_switches_and_curves() -> None:
    system = resolve_system("h100-price-study")
    found = values(system)
    numbers = {path: value for path, value in found.items() if type(value) in (int, float)}
    # It has no memory overheads and no time of a launch, which may be set all the same.
    named = {path: value for path, (value, _) in parameters(system).items()}
    assert numbers == {
        path: value for path, value in named.items() if not path.startswith(("memory_overheads.", "launch"))
    }
    switches = {path for path, value in found.items() if isinstance(value, bool)}
    assert switches == {"processing", "network_tiers.0.must_be_filled", "network_tiers.1.must_be_filled"}
    curves = {path for path, value in found.items() if isinstance(value, EfficiencyCurve | PriceCurve)}
    # two engines with two formats each, two memory tiers, and their prices
    assert len(curves) == 2 * 2 + 2 + 2
    assert {"matrix.float8.efficiency", "memory_tier2.efficiency", "price.memory_tier1"} <= curves


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (
            '"memory_tier1.capacty" = "x"',
            ["sources: 'a100-80g' has nothing at 'memory_tier1.capacty'", "'memory_tier1.capacity'"],
        ),
        ('"network_tiers.2" = "x"', ["nothing at 'network_tiers.2'", "network_tiers.1"]),
        ('"matrix.float8.peak" = "x"', ["nothing at 'matrix.float8.peak'", "matrix.float16.peak"]),
        ('price = "x"', ["nothing at 'price'"]),
        ('name = "x"', ["nothing at 'name'"]),
        ('memory_tier1 = ""', ["sources.memory_tier1: '' is not allowed", "text in quotes, not empty"]),
        ("memory_tier1 = 7", ["sources.memory_tier1: 7 is not allowed", "text in quotes"]),
        ('memory_tier1 = ["x"]', ["sources.memory_tier1: ['x'] is not allowed"]),
    ],
)
def test_a_source_of_nothing_is_refused(line: str, parts: list[str], tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(f"{BASE}\n[sources]\n{line}\n", tmp_path)
    for part in (f"{tmp_path / 'mine.toml'}: ", *parts):
        assert part in str(caught.value)


def test_sources_are_a_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mine\.toml: sources: 'data sheet' is not allowed \(a table of paths"):
        read(f'sources = "data sheet"\n{BASE}', tmp_path)


DERIVED = """
base = "noted"
source = "mine"
set."memory_tier1.capacity" = "96 GiB"
set."network_tiers.1.p2p.scalar" = 2.0
power = { busy = "500 W", idle = "50 W" }
[sources]
"power.idle" = "wattmeter"
"""


def test_what_a_file_changes_has_its_own_source(tmp_path: Path) -> None:
    _, base = read(NOTED, tmp_path)
    path = tmp_path / "derived.toml"
    path.write_text(DERIVED, encoding="utf-8")
    notes = read_notes(path, resolve_base=lambda name: base)
    expected = {
        "memory_tier1.capacity": "mine",
        "memory_tier1.bandwidth": "data sheet",
        "network_tiers.1.p2p.scalar": "mine",
        "network_tiers.1.p2p.offset": "ring",
        "power.busy": "mine",
        "power.idle": "wattmeter",
        "memory_tier2.capacity": f"mine; the rest as noted: {base.source}",
    }
    assert {path: notes.source_of(path) for path in expected} == expected


def test_a_source_of_nothing_is_refused_beside_a_base() -> None:
    data = tomllib.loads(DERIVED.replace("power.idle", "power.idel"))
    with pytest.raises(InputError, match=r"s\.toml: sources: .* has nothing at 'power\.idel' .*'power\.idle'"):
        system_from_dict(data, where="s.toml", resolve_base=lambda name, *, where: resolve_system("a100-80g"))


def test_a_changed_section_forgets_the_sources_inside_it() -> None:
    notes = Notes(source="all", sources={"price.processor": "shop", "price": "list", "power": "list"})
    assert notes.changed({"price": "new"}).sources == {"power": "list", "price": "new"}


words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(str.strip)
paths = st.sampled_from(
    [
        "processing",
        "matrix",
        "matrix.float16.peak",
        "memory_tier1.efficiency",
        "network_tiers.0",
        "network_tiers.1.size",
    ]
)


@given(st.builds(Notes, description=words, source=words, sources=st.dictionaries(paths, words)))
def test_written_notes_read_back_equal(tmp_path_factory: pytest.TempPathFactory, notes: Notes) -> None:
    path = tmp_path_factory.getbasetemp() / "written.toml"
    path.write_text(system_to_toml(resolve_system("a100-80g"), notes), encoding="utf-8", newline="")
    assert read_notes(path) == notes
    assert read_system(path) == resolve_system("a100-80g")
