from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign_opt.errors import InputError
from codesign_opt.workloads import Workload
from codesign_opt.workloads.files import read_workload, workload_from_dict, workload_to_toml

SIZES = ("hidden", "feedforward", "sequence_length", "attention_heads", "head_size", "blocks")
GOOD: dict[str, Any] = {"name": "small", **dict(zip(SIZES, (512, 2048, 1024, 8, 64, 4), strict=True))}

workloads = st.builds(
    Workload,
    name=st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=100),
    **{name: st.integers(1, 100_000_000) for name in SIZES},
)


@given(workloads)
def test_a_written_workload_reads_back_equal(workload: Workload) -> None:
    assert workload_from_dict(tomllib.loads(workload_to_toml(workload)), where="x.toml") == workload


def test_a_file_becomes_a_workload(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(workload_to_toml(Workload(**GOOD)) + 'source = "nowhere"\n')
    assert read_workload(path) == Workload(**GOOD)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"hiden": 1}, ["w.toml: hiden: unknown key", "did you mean 'hidden'"]),
        ({"vocabulary": 1}, ["w.toml: vocabulary: unknown key", "allowed: name, hidden"]),
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
