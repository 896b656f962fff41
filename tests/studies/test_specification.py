from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest

from codesign_opt.catalog import resolve_system, resolve_workload, study_path
from codesign_opt.errors import InputError
from codesign_opt.objectives import Constraint, Objective
from codesign_opt.strategies import Attention, Datatype, Recompute
from codesign_opt.strategies.space import LIMITABLE, StrategySpace
from codesign_opt.studies.budget import Budget, parse_budget
from codesign_opt.studies.free_parameters import FreeParameter
from codesign_opt.studies.processors import ProcessorBudget
from codesign_opt.studies.schema import StrategiesFile
from codesign_opt.studies.specification import StudySpecification, read_study, study_from_dict
from codesign_opt.systems.files import system_to_toml
from codesign_opt.systems.parameters import with_parameters
from codesign_opt.workloads.files import workload_to_toml

GIB = 1024**3
SMALL: dict[str, Any] = {"workload": "gpt3-13b", "system": "a100-80g", "processors": 64, "batch": 128}


def study(**changes: Any) -> StudySpecification:
    return study_from_dict({**SMALL, **changes}, where="s.toml")


def test_four_keys_make_a_study() -> None:
    assert study() == StudySpecification(
        name="study",
        workload=resolve_workload("gpt3-13b"),
        system=resolve_system("a100-80g"),
        free=(),
        processors=(64,),
        batch=128,
        datatype=Datatype.FLOAT16,
        strategies=StrategySpace(),
        objectives=(Objective("step_time", "minimize"),),
        constraints=(),
        method="auto",
        sampler="auto",
        seed=0,
        budget=Budget(trials=100),
        top_k=10,
        reproduce=(),
    )


def test_every_other_key_arrives() -> None:
    made = study(
        name="my study: 2",
        description="ignored by the search",
        datatype="float8",
        system={
            "base": "h100-price-study",
            "name": "bigger",
            "set": {"network_tiers.1.bandwidth": "100 GB/s"},
            "free": {
                "memory_tier1.capacity": {"low": "20 GiB", "high": "120 GiB"},
                "memory_tier2": {"bandwidth": {"low": "10 GB/s", "high": "1 TB/s", "scale": "log"}},
                "network_tiers.0.size": {"choices": [8, 72]},
            },
        },
        strategies={"tp": 8, "pp": [2, 4, 2], "recompute": ["none", "full"], "dp_overlap": True, "uneven_stages": True},
        objectives=["maximize sample_rate", "min price"],
        constraints="memory_tier1_used <= 70 GiB",
        method="bilevel",
        sampler="nsga2",
        seed=7,
        budget="10m",
        top_k=3,
        reproduce="E7, E2",
    )
    base = with_parameters(resolve_system("h100-price-study"), {"network_tiers.1.bandwidth": 100e9})
    assert made == StudySpecification(
        name="my study: 2",
        workload=resolve_workload("gpt3-13b"),
        system=dataclasses.replace(base, name="bigger"),
        free=(
            FreeParameter(path="memory_tier1.capacity", unit="B", low=20 * GIB, high=120 * GIB),
            FreeParameter(path="memory_tier2.bandwidth", unit="B/s", low=10e9, high=1e12, scale="log"),
            FreeParameter(path="network_tiers.0.size", unit="1", choices=(8, 72)),
        ),
        processors=(64,),
        batch=128,
        datatype=Datatype.FLOAT8,
        strategies=StrategySpace(
            limits={
                "tp": (8,),
                "pp": (2, 4),
                "recompute": (Recompute.NONE, Recompute.FULL),
                "dp_overlap": (True,),
            },
            uneven_stages=True,
        ),
        objectives=(Objective("sample_rate", "maximize"), Objective("system_price", "minimize")),
        constraints=(Constraint("memory_tier1_used", "<=", 70 * GIB),),
        method="bilevel",
        sampler="nsga2",
        seed=7,
        budget=Budget(seconds=600.0),
        top_k=3,
        reproduce=("E2", "E7"),
    )


def test_every_dimension_of_a_space_can_be_limited() -> None:
    switches = {"uneven_stages", "all_divisors", "target"}
    assert set(StrategiesFile.model_fields) - switches == set(LIMITABLE)


def test_words_become_the_options_themselves() -> None:
    limits = study(strategies={"attention": ["multiquery"], "recompute": "selective"}).strategies.limits
    assert limits["attention"][0] is Attention.MULTIQUERY
    assert limits["recompute"][0] is Recompute.SELECTIVE


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        (64, (64,)),
        ([64, 8, 64], (8, 64)),
        ({"low": 8, "high": 30, "step": 8}, (8, 16, 24)),
        ({"low": 8, "high": 8, "step": 1}, (8,)),
    ],
)
def test_processors_are_a_number_a_list_or_a_range(given: Any, counts: tuple[int, ...]) -> None:
    assert study(processors=given).processors == counts


def test_a_budget_buys_multiples_at_the_systems_price() -> None:
    made = study(system="h100-price-study", processors={"budget": "125 M$", "multiple": 8})
    assert made.processors == ProcessorBudget(budget=125e6, multiple=8, lowest=8)
    # 20,000 $ + 10,000 $ of HBM + 10,000 $ of DDR: 3,125 processors, 390 groups of eight
    assert made.processors.count(made.system) == 3120
    # 20,000 + 2,250 $: 5,617.98
    cheap = with_parameters(made.system, {"memory_tier1.capacity": 20 * GIB, "memory_tier2.capacity": 0.0})
    assert made.processors.count(cheap) == 5616
    # 20,000 + 20,000 + 20,000 $: 2,083.3
    dear = with_parameters(made.system, {"memory_tier1.capacity": 120 * GIB, "memory_tier2.capacity": 1024 * GIB})
    assert made.processors.count(dear) == 2080
    assert dataclasses.replace(made.processors, lowest=2088).count(dear) == 0


def test_default_objectives_follow_what_is_free() -> None:
    free = {"free": {"memory_tier1.capacity": {"choices": ["40 GiB", "80 GiB"]}}}
    two = ["maximize sample_rate", "minimize system_price"]
    assert [str(o) for o in study(system={"base": "h100-price-study", **free}).objectives] == two
    assert [str(o) for o in study(system="h100-price-study", processors=[8, 16]).objectives] == two
    assert [str(o) for o in study(system="h100-price-study").objectives] == ["minimize step_time"]
    assert [str(o) for o in study(system={"base": "a100-80g", **free}).objectives] == ["minimize step_time"]


def test_paths_are_relative_to_the_study(tmp_path: Path) -> None:
    folder = tmp_path / "studies"
    folder.mkdir()
    (folder / "model.toml").write_text(workload_to_toml(resolve_workload("gpt3-13b")))
    (folder / "machine.toml").write_text(system_to_toml(resolve_system("a100-80g")))
    path = folder / "my study.toml"
    keys = "workload = 'model.toml'\nprocessors = 64\nbatch = 128\n"
    path.write_text(f"system = 'machine.toml'\n{keys}")
    assert read_study(path) == study(name="my study")
    path.write_text(f"{keys}[system]\nbase = 'machine.toml'\nset.memory_tier1.capacity = '40 GiB'\n")
    assert read_study(path).system.memory_tier1.capacity == 40 * GIB


def test_workload_and_system_may_be_written_out() -> None:
    system = tomllib.loads(system_to_toml(resolve_system("a100-80g")))
    system["free"] = {"memory_tier1": {"capacity": {"low": "1 GiB", "high": "2 GiB"}}}
    made = study(workload=tomllib.loads(workload_to_toml(resolve_workload("gpt3-13b"))), system=system)
    assert made.workload == resolve_workload("gpt3-13b")
    assert made.system == resolve_system("a100-80g")
    assert made.free == (FreeParameter(path="memory_tier1.capacity", unit="B", low=GIB, high=2 * GIB),)


def test_the_published_price_study() -> None:
    made = read_study(study_path("price-study"))
    assert made.workload == resolve_workload("gpt3-175b")
    assert made.batch == 2340
    assert made.processors == ProcessorBudget(budget=125e6, multiple=8, lowest=8)
    assert [(p.path, p.low, p.high) for p in made.free] == [
        ("memory_tier1.capacity", 20 * GIB, 120 * GIB),
        ("memory_tier2.capacity", 0.0, 1024 * GIB),
    ]


@pytest.mark.parametrize(
    ("given", "budget"),
    [
        (60, Budget(trials=60)),
        ("60", Budget(trials=60)),
        ("10m", Budget(seconds=600.0)),
        ("1.5 h", Budget(seconds=5400.0)),
        ("90s", Budget(seconds=90.0)),
    ],
)
def test_a_budget_is_a_number_of_trials_or_a_time(given: int | str, budget: Budget) -> None:
    assert parse_budget(given, where="--budget") == budget


@pytest.mark.parametrize("given", [0, -1, "0", "-3", "+0", "0s", "soon", "", "10 parsecs", 2.5, True, None, "9" * 5000])
def test_no_budget_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match="--budget: "):
        parse_budget(given, where="--budget")
