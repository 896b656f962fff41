from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign_opt.catalog import text
from codesign_opt.errors import InputError
from codesign_opt.studies.specification import read_study, study_from_dict

GOOD: dict[str, Any] = {"workload": "gpt3-13b", "system": "a100-80g", "processors": 64, "batch": 128}


def machine(**tables: Any) -> dict[str, Any]:
    return {"system": {"base": "h100-price-study", **tables}}


def free(path: str, **what: Any) -> dict[str, Any]:
    return machine(free={path: what})


HBM = "memory_tier1.capacity"

BROKEN: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown key": ({"workloads": "gpt3-13b"}, ["workloads: unknown key", "did you mean 'workload'"]),
    "missing workload": ({"workload": None}, ["workload: missing", 'workload = "gpt3-175b"']),
    "missing system": ({"system": None}, ["system: missing"]),
    "missing processors": ({"processors": None}, ["processors: missing"]),
    "missing batch": ({"batch": None}, ["batch: missing", "batch = 512"]),
    "unknown workload": ({"workload": "gpt3-14b"}, ["workload: unknown workload 'gpt3-14b'", "'gpt3-13b'"]),
    "workload of wrong type": ({"workload": 13}, ["workload: 13 is not allowed", "text in quotes"]),
    "workload without sizes": ({"workload": {"name": "x"}}, ["workload.hidden: missing"]),
    "workload with zero": (
        {
            "workload": dict.fromkeys(["hidden", "feedforward", "sequence_length", "attention_heads", "head_size"], 8)
            | {"name": "x", "blocks": 0}
        },
        ["workload.blocks: 0 is not allowed"],
    ),
    "unknown system": ({"system": "a100-80h"}, ["system: unknown system 'a100-80h'", "'a100-80g'"]),
    "missing system file": ({"system": "absent.toml"}, ["absent.toml: no such file"]),
    "foreign system suffix": ({"system": "machine.yaml"}, ["system: 'machine.yaml' is no .toml or .json file"]),
    "unknown base": ({"system": {"base": "h100"}}, ["system.base: unknown system 'h100'"]),
    "system without keys": ({"system": {}}, ["system.name: missing"]),
    "system with a typing error": ({"system": {"base": "a100-80g", "fre": {}}}, ["system.fre: unknown key", "'free'"]),
    "processors zero": ({"processors": 0}, ["processors: 0 is not allowed"]),
    "processors negative": ({"processors": [8, -8]}, ["processors.1: -8 is not allowed"]),
    "processors fractional": ({"processors": 8.5}, ["processors: 8.5 is not allowed", "a whole number"]),
    "processors none": ({"processors": []}, ["processors: [] is not allowed", "at least one value"]),
    "processors text": ({"processors": "64"}, ["processors: '64' is not allowed"]),
    "processors range reversed": (
        {"processors": {"low": 9, "high": 8, "step": 1}},
        ["processors.low: 9 is above high"],
    ),
    "processors range too fine": (
        {"processors": {"low": 1, "high": 1_000_000, "step": 1}},
        ["processors.step: 1000000 counts", "at most 10000"],
    ),
    "processors range without step": ({"processors": {"low": 1, "high": 8}}, ["processors.step: missing"]),
    "money without unit": (machine() | {"processors": {"budget": "125"}}, ["processors.budget: '125' has no unit"]),
    "money negative": (machine() | {"processors": {"budget": "-1 M$"}}, ["processors.budget", "above 0 $"]),
    "money without price": ({"processors": {"budget": "1 M$"}}, ["processors.budget: 'a100-80g' has no price"]),
    "money too little": (
        machine() | {"processors": {"budget": "100 k$", "multiple": 8}},
        ["processors.budget: 100 k$ does not buy 8 processors of 40 k$"],
    ),
    "batch zero": ({"batch": 0}, ["batch: 0 is not allowed"]),
    "batch not finite": ({"batch": float("inf")}, ["batch: inf is not allowed"]),
    "unknown datatype": ({"datatype": "float61"}, ["datatype: 'float61' is not allowed", "'float16'"]),
    "datatype without engine": ({"datatype": "float8"}, ["datatype: 'a100-80g' has no engine for float8", "float16"]),
    "set unknown path": (machine(set={"memory_tier1.capacty": "1 GiB"}), ["system.set", "'memory_tier1.capacity'"]),
    "set without unit": (machine(set={HBM: 80}), ["system.set.memory_tier1.capacity: 80 has no unit"]),
    "set wrong unit": (
        machine(set={HBM: "80 GB/s"}),
        ["system.set.memory_tier1.capacity: '80 GB/s' is not a quantity"],
    ),
    "free unknown path": (free("memory_tier3.capacity", low="1 GiB", high="2 GiB"), ["system.free", "no parameter"]),
    "free and set": (
        machine(set={HBM: "80 GiB"}, free={HBM: {"choices": ["40 GiB", "80 GiB"]}}),
        ["system.free.memory_tier1.capacity: is in [system.set] too", "either set or free"],
    ),
    "range reversed": (
        free(HBM, low="2 GiB", high="1 GiB"),
        ["system.free.memory_tier1.capacity.low: 2 GiB is not below"],
    ),
    "range of one value": (free(HBM, low="1 GiB", high="1 GiB"), ["low: 1 GiB is not below high"]),
    "range without unit": (
        free(HBM, low=20, high="120 GiB"),
        ["system.free.memory_tier1.capacity.low: 20 has no unit"],
    ),
    "range without end": (free(HBM, low="20 GiB"), ["system.free.memory_tier1.capacity.high: missing"]),
    "range below zero": (free(HBM, low="-1 GiB", high="1 GiB"), ["memory_tier1.capacity.low: -1 GiB is not allowed"]),
    "logarithm of zero": (free(HBM, low="0 GiB", high="1 GiB", scale="log"), ["low: 0 B has no logarithm", "linear"]),
    "unknown scale": (free(HBM, low="1 GiB", high="2 GiB", scale="logg"), ["scale: 'logg' is not allowed", "'log'"]),
    "unknown key of a range": (free(HBM, low="1 GiB", high="2 GiB", step="1 GiB"), ["capacity.step: unknown key"]),
    "no choices": (
        free(HBM, choices=[]),
        ["system.free.memory_tier1.capacity.choices: [] is not allowed", "at least one"],
    ),
    "choice twice": (free(HBM, choices=["1 GiB", "1024 MiB"]), ["choices: a value comes twice"]),
    "choice without unit": (free(HBM, choices=["1 GiB", 2]), ["memory_tier1.capacity.choices.1: 2 has no unit"]),
    "choices and range": (free(HBM, choices=["1 GiB"], low="1 GiB"), ["capacity.low: unknown key", "allowed: choices"]),
    "range of whole numbers": (
        free("network_tiers.0.size", low=8, high=64),
        ["only whole numbers", "choices = [8, 16"],
    ),
    "free is no table": (machine(free=3), ["system.free: 3 is not allowed"]),
    "free value is no table": (machine(free={HBM: "1 GiB"}), ["system.free.memory_tier1.capacity: '1 GiB'", "a table"]),
    "unknown dimension": ({"strategies": {"tensor": 8}}, ["strategies.tensor: unknown key", "allowed: tp, pp"]),
    "degree zero": ({"strategies": {"tp": [8, 0]}}, ["strategies.tp.1: 0 is not allowed"]),
    "degree none": ({"strategies": {"tp": []}}, ["strategies.tp: [] is not allowed", "at least one value"]),
    "degree of wrong type": ({"strategies": {"pp": "all"}}, ["strategies.pp: 'all' is not allowed"]),
    "unknown word": ({"strategies": {"recompute": "ful"}}, ["strategies.recompute: 'ful'", "did you mean 'full'"]),
    "flag of wrong type": ({"strategies": {"dp_overlap": 1}}, ["strategies.dp_overlap: 1", "true or false"]),
    "tier out of reach": ({"strategies": {"tp_tier": [0, 3]}}, ["strategies.tp_tier", "no network tier 3", "0 to 1"]),
    "tier negative": ({"strategies": {"dp_tier": -1}}, ["strategies.dp_tier: -1 is not allowed"]),
    "unknown metric": ({"objectives": ["step_tine"]}, ["objectives: unknown metric 'step_tine'", "'step_time'"]),
    "no objective": ({"objectives": []}, ["objectives: [] is not allowed", "at least one value"]),
    "objective twice": ({"objectives": ["step_time", "minimize step_time"]}, ["objectives", "more than once"]),
    "objective of wrong type": ({"objectives": [3]}, ["objectives.0: 3 is not allowed"]),
    "objective without price": (
        {"objectives": "price"},
        ["objectives: 'system_price' needs price", "'a100-80g' lacks"],
    ),
    "objective without power": ({"objectives": "energy_per_step"}, ["objectives: 'energy_per_step' needs power"]),
    "constraint without bound": ({"constraints": "step_time"}, ["constraints: 'step_time' is not a constraint"]),
    "constraint without unit": ({"constraints": "step_time <= 3"}, ["constraints: step_time: '3' has no unit"]),
    "impossible constraint": ({"constraints": "step_time <= -1 s"}, ["constraints: no strategy can satisfy"]),
    "contradiction": (
        {"constraints": ["step_time <= 1 s", "step_time >= 2 s"]},
        ["constraints: no strategy can satisfy"],
    ),
    "constraint without price": ({"constraints": "price <= 1 M$"}, ["constraints: 'system_price' needs price"]),
    "unknown method": ({"method": "exakt"}, ["method: 'exakt' is not allowed", "did you mean 'exact'"]),
    "exact over a range": (
        free(HBM, low="1 GiB", high="2 GiB") | {"method": "exact"},
        ["method: 'exact' cannot try every value of memory_tier1.capacity", "choices"],
    ),
    "unknown sampler": ({"sampler": "nsga"}, ["sampler: 'nsga' is not allowed", "did you mean 'nsga2'"]),
    "cmaes with two objectives": (
        {"sampler": "cmaes", "objectives": ["step_time", "memory_tier1_used"]},
        ["sampler: 'cmaes' takes one objective, not 2"],
    ),
    "seed negative": ({"seed": -1}, ["seed: -1 is not allowed"]),
    "budget zero": ({"budget": 0}, ["budget: 0 is not a number of trials"]),
    "budget no duration": ({"budget": "soon"}, ["budget: 'soon' is not a duration"]),
    "top_k zero": ({"top_k": 0}, ["top_k: 0 is not allowed"]),
    "unknown erratum": ({"reproduce": "E2,E99"}, ["reproduce: unknown erratum 'E99'", "E2"]),
    "name blank": ({"name": " "}, ["name: ' ' is no name"]),
    "name with control characters": ({"name": "a\nb"}, ["name: 'a\\nb' is no name", "printable"]),
    "name too long": ({"name": "x" * 256}, ["is no name", "255"]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_whatever_is_wrong_is_named_with_what_is_allowed(name: str) -> None:
    change, parts = BROKEN[name]
    data = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(InputError) as caught:
        study_from_dict(data, where="s.toml")
    for part in parts:
        assert part in str(caught.value)
    assert str(caught.value).startswith(("s.toml: ", "absent.toml: "))
    assert caught.value.hint


ODD_VALUES = [0, -1, 1.5, float("nan"), float("inf"), "", "x", "1 GiB", "1e400 B", "9" * 5000, True, 10**40]
ODD_VALUES += [
    [],
    [[]],
    {},
    {"a": 1},
    {"": {}},
    {"low": 1},
    {"choices": {}},
    [{}],
    {"<a": 1},
    date(2020, 1, 1),
    "\ud800",
]


def full_study() -> dict[str, Any]:
    study = tomllib.loads(text("studies", "default"))
    return {**study, "name": "full", "constraints": ["step_time <= 10 s"], "reproduce": "E2", "processors": [8, 16]}


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, value in items for place in [(*path, key), *places(value, (*path, key))]]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(places(full_study())), st.sampled_from(ODD_VALUES))
def test_an_odd_value_anywhere_is_taken_or_refused_by_name(place: tuple[Any, ...], value: Any) -> None:
    data = full_study()
    node: Any = data
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    message = refusal(data)
    assert message is None or str(place[0]) in message


def refusal(data: dict[str, Any]) -> str | None:
    try:
        study_from_dict(data, where="s.toml")
    except InputError as error:
        return str(error)
    return None


def test_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text("workload = 'gpt3-13b'\n")
    with pytest.raises(InputError) as caught:
        read_study(path)
    assert str(caught.value).startswith(f"{path}: system: missing")
