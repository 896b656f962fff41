from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from codesign_opt.catalog import names, resolve_system, study_path
from codesign_opt.errors import InputError
from codesign_opt.studies.budget import Budget
from codesign_opt.studies.canonical import (
    difference,
    specification_from_dict,
    specification_hash,
    specification_to_dict,
)
from codesign_opt.studies.specification import StudySpecification, read_study, study_from_dict
from codesign_opt.systems import Power
from codesign_opt.systems.parameters import with_parameters

EVERYTHING: dict[str, Any] = {
    "name": "everything",
    "workload": "megatron-126m",
    "system": {
        "base": "h100-price-study",
        "free": {
            "memory_tier1.capacity": {"low": "20 GiB", "high": "120 GiB", "scale": "log"},
            "network_tiers.0.size": {"choices": [8, 72]},
        },
        "power": {"busy": "700 W", "idle": "100.3 W"},
    },
    "processors": {"low": 8, "high": 64, "step": 8},
    "batch": 64,
    "datatype": "float8",
    "strategies": {
        "tp": [1, 2],
        "recompute": "full",
        "tp_overlap": ["none", "ring"],
        "training": True,
        "all_divisors": True,
    },
    "objectives": ["sample_rate", "energy_per_step"],
    "constraints": ["memory_tier1_used <= 70.1 GiB", "mfu >= 33.3 %"],
    "sampler": "tpe",
    "budget": "2.5h",
    "reproduce": "all",
}


def everything() -> StudySpecification:
    return study_from_dict(EVERYTHING, where="s.toml")


@pytest.mark.parametrize("specification", [everything(), *(read_study(study_path(name)) for name in names("studies"))])
def test_a_study_can_be_rebuilt_from_its_stored_form(specification: StudySpecification) -> None:
    stored = json.loads(json.dumps(specification_to_dict(specification), allow_nan=False))
    rebuilt = specification_from_dict(stored)
    assert rebuilt == specification
    assert specification_hash(rebuilt) == specification_hash(specification)
    assert difference(rebuilt, specification) == []
    # options are compared by identity where strategies are enumerated
    for name, values in specification.strategies.limits.items():
        assert [type(value) for value in rebuilt.strategies.limits[name]] == [type(value) for value in values]


def test_the_stored_form_is_resolved_and_in_si_units() -> None:
    stored = specification_to_dict(everything())
    assert stored["workload"]["blocks"] == 12
    assert stored["system"]["memory_tier1"]["bandwidth"] == 3072e9
    assert stored["system"]["power"]["idle"] == 100.3
    assert stored["processors"] == [8, 16, 24, 32, 40, 48, 56, 64]
    assert stored["free"][0]["low"] == 20 * 1024**3
    assert stored["strategies"] == {
        "tp": [1, 2],
        "recompute": ["full"],
        "tp_overlap": ["none", "ring"],
        "training": [True],
        "uneven_stages": False,
        "all_divisors": True,
    }
    assert stored["objectives"] == ["maximize sample_rate", "minimize energy_per_step"]
    assert stored["budget"] == {"trials": None, "seconds": 9000.0}


def test_name_and_budget_make_no_other_study() -> None:
    first = everything()
    second = dataclasses.replace(first, name="other", budget=Budget(trials=5))
    assert specification_hash(first) == specification_hash(second)
    assert difference(first, second) == []
    assert len(specification_hash(first)) == 64


def test_whole_floats_and_integers_hash_the_same() -> None:
    first = everything()
    tier = dataclasses.replace(first.system.memory_tier1, capacity=80 * 1024**3)
    assert isinstance(tier.capacity, int)
    second = dataclasses.replace(first, system=dataclasses.replace(first.system, memory_tier1=tier))
    assert second == first
    assert specification_hash(second) == specification_hash(first)


CHANGES: list[tuple[dict[str, Any], list[str]]] = [
    ({"seed": 3}, ["seed: 0 → 3"]),
    ({"batch": 65}, ["batch: 64 → 65"]),
    ({"top_k": 1}, ["top_k: 10 → 1"]),
    ({"workload": "megatron-5b"}, ["workload.name: 'megatron-126m' → 'megatron-5b'", "workload.hidden: 768 → 4096"]),
    ({"objectives": ["step_time"]}, ["objectives[0]: 'maximize sample_rate' → 'minimize step_time'"]),
    ({"objectives": ["step_time"]}, ["objectives[1]: 'minimize energy_per_step' → absent"]),
    ({"constraints": []}, ["constraints[0]: 'memory_tier1_used <= 70.1 GiB' → absent"]),
    ({"method": "flat"}, ["method: 'auto' → 'flat'"]),
    ({"datatype": "float16"}, ["datatype: 'float8' → 'float16'"]),
    ({"strategies": {}}, ["strategies.tp[0]: 1 → absent", "strategies.all_divisors: True → False"]),
    ({"processors": [8]}, ["processors[1]: 16 → absent"]),
    ({"reproduce": "none"}, ["reproduce[0]: 'E1' → absent"]),
    (
        {"system": {"base": "h100-price-study", "power": {"busy": "700 W", "idle": "50 W"}}},
        ["free[0].low: 20 GiB → absent", "system.power.idle: 100.3 W → 50 W"],
    ),
]


@pytest.mark.parametrize(("change", "lines"), CHANGES)
def test_every_other_change_makes_another_study(change: dict[str, Any], lines: list[str]) -> None:
    first, second = everything(), study_from_dict({**EVERYTHING, **change}, where="s.toml")
    assert specification_hash(first) != specification_hash(second)
    for line in lines:
        assert line in difference(first, second)


def test_differences_of_a_system_have_units() -> None:
    first = everything()
    changed = with_parameters(first.system, {"memory_tier1.capacity": 96 * 1024**3, "network_tiers.1.latency": 1e-5})
    changed = dataclasses.replace(changed, power=Power(busy=650.0, idle=100.3))
    assert difference(first, dataclasses.replace(first, system=changed)) == [
        "system.memory_tier1.capacity: 80 GiB → 96 GiB",
        "system.network_tiers[1].latency: 20 us → 10 us",
        "system.power.busy: 700 W → 650 W",
    ]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"format": 2}, "format: 2 is not 1"),
        ({"format": None}, "format: None is not 1"),
        ({"workload": {"name": "x"}}, "not a stored study"),
        ({"system": None}, "not a stored study"),
        ({"datatype": "float61"}, "not a stored study"),
        ({"objectives": ["nothing"]}, "unknown metric 'nothing'"),
        ({"strategies": {"tensor": [1]}}, "strategies.tensor: unknown key"),
        ({"colour": "red"}, "not a stored study"),
    ],
)
def test_anything_else_is_refused(change: dict[str, Any], part: str) -> None:
    stored = {**specification_to_dict(everything()), **change}
    with pytest.raises(InputError) as caught:
        specification_from_dict(stored, where="study 'x'")
    assert part in str(caught.value)
    assert str(caught.value).startswith("study 'x': ")


def test_a_stored_study_without_a_key_is_refused() -> None:
    stored = specification_to_dict(everything())
    del stored["seed"]
    with pytest.raises(InputError, match="not a stored study"):
        specification_from_dict(stored)


def test_a_study_of_a_foreign_system_is_stored_as_well() -> None:
    first = everything()
    foreign = dataclasses.replace(first, system=resolve_system("a100-80e"))
    assert specification_from_dict(json.loads(json.dumps(specification_to_dict(foreign)))) == foreign


def test_a_study_stored_before_fields_were_added_is_the_same_study() -> None:
    # What it was before workloads had a vocabulary and systems memory overheads.
    stored = "ecc03043d7e6e4b4a8ebf11893f8c5cacde6ad4314fb53463dbd8c328ea784b4"
    assert specification_hash(read_study(study_path("default"))) == stored


def test_a_field_that_was_added_counts_where_it_says_something() -> None:
    study = read_study(study_path("default"))
    worded = dataclasses.replace(study.workload, vocabulary=50_257)
    with_words = dataclasses.replace(study, workload=worded)
    assert specification_hash(with_words) != specification_hash(study)
    assert specification_from_dict(specification_to_dict(with_words)) == with_words
