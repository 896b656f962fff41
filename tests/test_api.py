"""The Python interface: every name, every kind of argument, and what is said of wrong ones."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codesign_opt
from codesign_opt import Strategy, Table
from codesign_opt.catalog import resolve_system, resolve_workload
from codesign_opt.errors import CodesignError, InfeasibleError, InputError, StorageError, StrategyError
from codesign_opt.strategies import StrategyTable
from codesign_opt.strategies.files import strategy_to_toml
from codesign_opt.studies.specification import study_from_dict
from codesign_opt.systems.files import system_to_toml
from codesign_opt.workloads.files import workload_to_toml

JSON = Path(__file__).parent / "data" / "calculon"
GPT3, A100 = resolve_workload("gpt3-13b"), resolve_system("a100-80g")

STRATEGY = Strategy(processors=8, tp=4, pp=2, dp=1, batch=8, microbatch=1)
LIMITS: dict[str, Any] = {
    "tp": [4, 8], "recompute": ["none", "full"], "tp_communication": "all_reduce", "tp_overlap": "none",
    "weight_offload": False, "activation_offload": False, "optimizer_offload": False, "tp_tier": 0, "pp_tier": 0,
}  # fmt: skip
STUDY: dict[str, Any] = {
    "name": "small",
    "workload": "gpt3-13b",
    "system": {"base": "a100-80g", "free": {"memory_tier1.bandwidth": {"low": "1 TB/s", "high": "4 TB/s"}}},
    "processors": 8,
    "batch": 8,
    "strategies": {**LIMITS, "tp": 4},
    "budget": 2,
    "top_k": 2,
}


@pytest.fixture
def db(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'studies.db'}"


def test_importing_the_package_loads_neither_numpy_nor_optuna() -> None:
    script = (
        "import sys, codesign_opt; before = set(sys.modules); assert dir(codesign_opt);"
        "print([name for name in ('numpy', 'optuna', 'scipy', 'sqlalchemy', 'pydantic', 'typer') if name in before])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("name", codesign_opt.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(codesign_opt, name).__doc__
    assert name in dir(codesign_opt)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'simulate_everything'"):
        codesign_opt.simulate_everything  # noqa: B018


# --- estimate ---


def test_a_strategy_may_be_given_in_every_form(tmp_path: Path) -> None:
    toml = tmp_path / "strategy.toml"
    toml.write_text(strategy_to_toml(STRATEGY))
    data = {"tp": 4, "pp": 2, "batch": 8, "microbatch": 1, "tp_tier": 0, "pp_tier": 0, "dp_tier": 0}
    forms: list[Any] = [[STRATEGY], StrategyTable.from_strategies([STRATEGY]), data, toml, str(toml)]
    expected = codesign_opt.estimate("gpt3-13b", "a100-80g", STRATEGY).to_dicts()
    assert len(expected) == 1
    assert (expected[0]["status"], expected[0]["tp"], expected[0]["recompute"]) == ("", 4, "none")
    for form in forms:
        assert codesign_opt.estimate("gpt3-13b", "a100-80g", form).to_dicts() == expected


def test_workloads_and_systems_may_be_given_in_every_form(tmp_path: Path) -> None:
    (tmp_path / "workload.toml").write_text(workload_to_toml(GPT3))
    (tmp_path / "system.toml").write_text(system_to_toml(A100))
    expected = codesign_opt.estimate("gpt3-13b", "a100-80g", STRATEGY)
    workloads: list[Any] = [GPT3, tmp_path / "workload.toml", JSON / "models" / "gpt3-13B.json"]
    systems: list[Any] = [A100, tmp_path / "system.toml", str(JSON / "systems" / "a100_80g.json")]
    for workload, system in zip(workloads, systems, strict=True):
        table = codesign_opt.estimate(workload, system, STRATEGY)
        assert table["step_time"] == pytest.approx(expected["step_time"], rel=1e-12)
        assert table["memory_tier1_used"] == pytest.approx(expected["memory_tier1_used"], rel=1e-12)
        swept = codesign_opt.sweep(workload, system, processors=8, batch=8, limits=LIMITS, top=1)
        assert swept.table["step_time"][0] <= expected["step_time"][0]


def test_several_strategies_say_what_forbids_each() -> None:
    illegal = dataclasses.replace(STRATEGY, tp=3, pp=1, dp=1)
    too_large = dataclasses.replace(STRATEGY, tp=1, pp=8)
    table = codesign_opt.estimate("gpt3-175b", "a100-80g", [STRATEGY, illegal, too_large])
    assert table["status"].tolist() == ["memory_tier1", "procs_product", "memory_tier1"]
    assert table["tp"].tolist() == [4, 3, 1]
    assert np.isnan(table["step_time"]).tolist() == [False, True, False]
    assert table.units["step_time"] == "s"
    only_illegal = codesign_opt.estimate("gpt3-175b", "a100-80g", [illegal, illegal])
    assert list(only_illegal) == list(table)
    assert only_illegal["status"].tolist() == ["procs_product"] * 2
    assert np.isnan(only_illegal["mfu"]).all()


def test_a_single_illegal_strategy_is_explained() -> None:
    with pytest.raises(StrategyError, match="is not the number of processors, 8") as caught:
        codesign_opt.estimate("gpt3-13b", "a100-80g", dataclasses.replace(STRATEGY, tp=3))
    assert caught.value.code == "procs_product"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gpt3-13", "a100-80g", STRATEGY), r"workload: .*'gpt3-13'.*gpt3-13b"),
        (("gpt3-13b", "a100-80", STRATEGY), r"system: .*'a100-80'.*a100-80g"),
        (("gpt3-13b", "a100-80g", []), "strategies: none given"),
        (("gpt3-13b", "a100-80g", {"tp": 8, "batch": 8, "microbatches": 1}), r"microbatches.*microbatch"),
        (("gpt3-13b", "a100-80g", "missing.toml"), "missing.toml: no such file"),
    ],
)
def test_wrong_arguments_of_estimate(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        codesign_opt.estimate(*arguments)


def test_errata_change_the_estimate() -> None:
    sharded = dataclasses.replace(STRATEGY, tp=4, pp=1, dp=2, recompute=next(iter(type(STRATEGY.recompute))))
    plain = codesign_opt.estimate("gpt3-13b", "a100-80g", sharded)
    same = codesign_opt.estimate("gpt3-13b", "a100-80g", sharded, reproduce="none")
    published = codesign_opt.estimate("gpt3-13b", "a100-80g", sharded, reproduce=["all"])
    assert plain["step_time"] == same["step_time"]
    assert plain["step_time"] != published["step_time"]
    with pytest.raises(InputError, match="E999"):
        codesign_opt.estimate("gpt3-13b", "a100-80g", STRATEGY, reproduce="E999")


# --- sweep ---


def test_a_sweep_ranks_and_counts() -> None:
    result = codesign_opt.sweep("gpt3-13b", "a100-80g", processors=8, batch=8, limits=LIMITS, top=5)
    table = result.table
    assert table["rank"].tolist() == [1, 2, 3, 4, 5]
    assert table["on_front"].tolist() == [True] + [False] * 4
    assert table["step_time"].tolist() == sorted(table["step_time"])
    assert set(table["tp"]) <= {4, 8}
    assert result.considered >= result.legal >= result.feasible > 5
    others = sum(count for reason, count in result.excluded.items() if reason != "network")
    assert result.legal - result.feasible == others
    best = StrategyTable.from_strategies([STRATEGY])
    assert table["step_time"][0] <= codesign_opt.estimate("gpt3-13b", "a100-80g", best)["step_time"][0]
    assert table.units["memory_tier1_used"] == "B"


def test_a_sweep_keeps_constraints_and_several_objectives() -> None:
    result = codesign_opt.sweep(
        "gpt3-13b", "a100-80g", processors=8, batch=8, limits=LIMITS, top=1,
        objectives=["step_time", "memory_tier1_used"], constraints="memory_tier1_used <= 60 GiB",
    )  # fmt: skip
    assert (result.table["memory_tier1_used"] <= 60 * 2**30).all()
    front = result.table.take(np.flatnonzero(result.table["on_front"]))
    order = np.argsort(front["step_time"])
    assert (np.diff(front["memory_tier1_used"][order]) < 0).all()
    assert front.rows > 1
    assert result.excluded["memory_tier1_used <= 60 GiB"] > 0


def test_where_nothing_fits_the_reasons_are_counted_and_the_nearest_miss_is_named() -> None:
    with pytest.raises(InfeasibleError, match=r"none of [\d,]+ strategies is feasible: memory_tier1 [\d,]+") as caught:
        codesign_opt.sweep("gpt3-175b", "a100-80g", processors=8, batch=8, limits=LIMITS)
    assert caught.value.exit_status == 1
    assert "the nearest miss of memory_tier1 lacks" in caught.value.hint
    assert "GiB" in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"processors": [8, 16]}, r"processors: \[8, 16\] is not one number"),
        ({"processors": 0}, "processors: 0"),
        ({"batch": -1}, "batch: -1"),
        ({"datatype": "float17"}, r"datatype: 'float17'.*float16"),
        ({"objectives": "step_tim"}, "step_tim.*step_time"),
        ({"constraints": ["memory_tier1_used <= 60"]}, "memory_tier1_used.*60"),
        ({"limits": {"tensor": 8}}, "strategies.tensor: unknown key"),
        ({"limits": {"recompute": "some"}}, "recompute.*'some'"),
        ({"reproduce": "E999"}, "E999"),
        ({"top": 0}, "top"),
    ],
)
def test_wrong_arguments_of_sweep(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"processors": 8, "batch": 8, "limits": LIMITS, **changes}
    with pytest.raises(InputError, match=message):
        codesign_opt.sweep("gpt3-13b", "a100-80g", **arguments)


# --- studies ---


def test_a_study_may_be_given_in_every_form(tmp_path: Path, db: str) -> None:
    path = tmp_path / "from-file.toml"
    path.write_text(
        'workload = "gpt3-13b"\nprocessors = 8\nbatch = 8\nbudget = 2\ntop_k = 2\n'
        '[system]\nbase = "a100-80g"\nfree."memory_tier1.bandwidth" = {low = "1 TB/s", high = "4 TB/s"}\n'
        '[strategies]\nrecompute = ["none", "full"]\ntp = 4\ntp_communication = "all_reduce"\ntp_overlap = "none"\n'
        "weight_offload = false\nactivation_offload = false\noptimizer_offload = false\ntp_tier = 0\npp_tier = 0\n"
    )
    forms: list[Any] = [STUDY, study_from_dict(STUDY, where="dict"), str(path), path]
    studies = [codesign_opt.search(form, db=db, name=f"form {number}") for number, form in enumerate(forms)]
    assert [study.name for study in studies] == [f"form {number}" for number in range(4)]
    assert {study.finished for study in studies} == {"budget"}
    trials = [study.trials.to_dicts() for study in studies]
    assert len(trials[0]) == 2
    assert all(other == trials[0] for other in trials[1:])
    assert codesign_opt.search(path, db=db).name == "from-file"


def test_without_a_study_the_shipped_one_runs(db: str) -> None:
    study = codesign_opt.search(db=db, budget=1)
    assert (study.name, study.trials.rows) == ("default", 1)
    assert study.front.rows >= 1


def test_arguments_replace_what_the_study_says(db: str) -> None:
    changes: dict[str, Any] = {
        "name": "changed", "budget": 1, "seed": 9, "method": "bilevel", "sampler": "random", "top_k": 1,
        "reproduce": "E2,E7",
    }  # fmt: skip
    forms: list[Any] = [STUDY, study_from_dict(STUDY, where="dict")]
    for number, form in enumerate(forms):
        study = codesign_opt.search(form, db=db, **{**changes, "name": f"changed {number}"})
        assert study.specification == dataclasses.replace(
            study_from_dict(STUDY, where="dict"),
            name=f"changed {number}", budget=study.specification.budget, seed=9, method="bilevel", sampler="random",
            top_k=1, reproduce=("E2", "E7"),
        )  # fmt: skip
        assert (study.trials.rows, study.candidates.rows) == (1, 1)


@pytest.mark.parametrize("form", [dict, lambda study: study_from_dict(study, where="dict")])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "name: ''"),
        ({"budget": 0}, "budget: 0"),
        ({"budget": "soon"}, "budget: 'soon'"),
        ({"seed": -1}, "seed: -1"),
        ({"method": "guess"}, r"method: 'guess'.*exact"),
        ({"method": "exact"}, "cannot try every value of memory_tier1.bandwidth"),
        ({"sampler": "tpo"}, r"sampler: 'tpo'.*tpe"),
        ({"top_k": 0}, "top_k: 0"),
        ({"reproduce": "E999"}, "E999"),
        ({"workers": 0}, "workers: 0"),
    ],
)
def test_wrong_arguments_of_search(db: str, form: Callable[[Any], Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        codesign_opt.search(form(STUDY), db=db, **changes)
    with suppress(StorageError):
        assert codesign_opt.list_studies(db=db).rows == 0


def test_stored_studies_are_listed_loaded_and_deleted(db: str) -> None:
    study = codesign_opt.search(STUDY, db=db)
    codesign_opt.search(STUDY, db=db, name="other", seed=2, budget=1)
    listed = codesign_opt.list_studies(db=db)
    assert listed["name"].tolist() == ["small", "other"]
    assert listed["trials"].tolist() == [2, 1]
    assert listed["seed"].tolist() == [0, 2]
    loaded = codesign_opt.load_study("small", db=db)
    assert loaded.finished == ""
    assert (loaded.record, loaded.evaluations) == (study.record, study.evaluations)
    assert loaded.trials.to_dicts() == study.trials.to_dicts()
    assert codesign_opt.delete_study("other", db=db)
    assert not codesign_opt.delete_study("other", db=db)
    assert codesign_opt.list_studies(db=db)["name"].tolist() == ["small"]


def test_the_front_of_a_study_or_of_its_name(db: str) -> None:
    study = codesign_opt.search(STUDY, db=db)
    front = codesign_opt.pareto_front(study)
    assert isinstance(front, Table)
    assert front.to_dicts() == codesign_opt.pareto_front("small", db=db).to_dicts() == study.front.to_dicts()
    best = study.candidates["step_time"].min()
    assert front["step_time"].tolist() == [best]
    assert front.units["memory_tier1.bandwidth"] == "B/s"


def test_a_study_is_exported_by_name_or_as_it_is(db: str, tmp_path: Path) -> None:
    study = codesign_opt.search(STUDY, db=db)
    assert codesign_opt.export_optuna("small", str(tmp_path / "1.db"), db=db) == 2
    assert codesign_opt.export_optuna(study, f"sqlite:///{tmp_path / '2.db'}") == 2


def test_the_database_is_in_the_working_directory_or_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CODESIGN_OPT_DB", raising=False)
    codesign_opt.search(STUDY, budget=1)
    assert (tmp_path / "codesign-opt.db").is_file()
    monkeypatch.setenv("CODESIGN_OPT_DB", str(tmp_path / "elsewhere.db"))
    with pytest.raises(StorageError, match=r"elsewhere\.db"):
        codesign_opt.load_study("small")
    codesign_opt.search(STUDY, budget=1, name="there")
    assert codesign_opt.list_studies()["name"].tolist() == ["there"]
    assert codesign_opt.list_studies(db="codesign-opt.db")["name"].tolist() == ["small"]


def test_an_unknown_name_is_answered_with_the_near_ones(db: str) -> None:
    codesign_opt.search(STUDY, db=db, budget=1)
    for ask in (codesign_opt.load_study, codesign_opt.pareto_front):
        with pytest.raises(CodesignError, match=r"no study 'smal'.*did you mean 'small'"):
            ask("smal", db=db)
    with pytest.raises(CodesignError, match="no study 'smal'"):
        codesign_opt.export_optuna("smal", "nowhere.db", db=db)
