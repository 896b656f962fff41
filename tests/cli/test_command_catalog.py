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
