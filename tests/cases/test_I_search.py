"""Cases from practice that concern searching and stored studies."""

from __future__ import annotations

import copy
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event

from codesign_opt import api
from codesign_opt.db import open_database
from codesign_opt.errors import InfeasibleError, StorageError
from codesign_opt.studies import evaluator
from codesign_opt.studies.outcome import Candidate, Outcome
from codesign_opt.studies.points import Point
from codesign_opt.studies.runner import run_study
from codesign_opt.studies.specification import StudySpecification, study_from_dict
from codesign_opt.studies.study_run import Progress

PRELOADED = ["codesign_opt.api.searching", "codesign_opt.studies.runner", "alembic.command", "moocore", "scipy.stats"]
"""What a search needs, so that a child process has it at once."""

MEMORY, NETWORK = "memory_tier1.bandwidth", "network_tiers.0.bandwidth"

SMALL: dict[str, Any] = {
    "name": "small",
    "workload": {
        "name": "two-blocks", "hidden": 256, "feedforward": 1024, "sequence_length": 64, "attention_heads": 4,
        "head_size": 64, "blocks": 2,
    },
    "system": {
        "base": "h100-price-study",
        "free": {
            MEMORY: {"low": "100 GB/s", "high": "3000 GB/s", "scale": "log"},
            NETWORK: {"low": "10 GB/s", "high": "900 GB/s"},
        },
    },
    "processors": 8,
    "batch": 8,
    "strategies": {
        "tp": 2, "pp": 2, "tp_communication": "all_reduce", "tp_overlap": "none", "recompute": "none",
        "optimizer_sharding": False, "dp_overlap": False, "weight_offload": False, "activation_offload": False,
        "optimizer_offload": False, "tp_tier": 0, "pp_tier": 0, "dp_tier": 0,
    },
    "objectives": ["sample_rate", "system_price"],
    "seed": 1,
}  # fmt: skip


def small(*, free: dict[str, Any] | None = None, **changes: Any) -> StudySpecification:
    """A study of two blocks on eight processors; `free` replaces what is free of the system."""
    data = {**copy.deepcopy(SMALL), **changes}
    if free is not None:
        data["system"]["free"] = free
    return study_from_dict(data, where="small.toml")


def cheap(specification: StudySpecification, method: str, point: Point) -> Outcome:
    """An outcome without a model."""
    metrics = {"sample_rate": float(point[MEMORY]) + float(point[NETWORK]), "system_price": float(point[MEMORY])}
    best = Candidate(on_front=True, strategy={"tp": 2}, metrics=metrics)
    return Outcome(state="complete", values=metrics, constraints={"memory_tier1": -0.5}, candidates=(best,))


def start(target: Callable[..., None], *arguments: Any) -> tuple[Any, Connection]:
    """A child process, and a connection to it."""
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    here, there = context.Pipe()
    child = context.Process(target=target, args=(*arguments, there))
    child.start()
    there.close()
    return child, here


def search_fifty(url: str, name: str, connection: Connection) -> None:
    evaluator.evaluate_point = cheap
    study = api.search(small(budget=50, sampler="random"), db=url, name=name)
    connection.send([study.finished, study.trials.rows])


def test_I1_eight_processes_write_one_file(tmp_path: Path) -> None:
    url = str(tmp_path / "studies.db")
    children = [start(search_fifty, url, f"study {number}") for number in range(8)]
    answers = [connection.recv() for _, connection in children]
    for child, _ in children:
        child.join()
    assert answers == [["budget", 50]] * 8
    assert [child.exitcode for child, _ in children] == [0] * 8
    listed = api.list_studies(db=url)
    assert sorted(listed["name"]) == [f"study {number}" for number in range(8)]
    assert listed["trials"].tolist() == [50] * 8
    for name in listed["name"]:
        assert len(api.load_study(str(name), db=url).evaluations) == 50


def search_and_wait(url: str, connection: Connection) -> None:
    evaluator.evaluate_point = cheap

    def wait(progress: Progress) -> None:
        connection.send(progress.trials)
        connection.recv()

    api.search(small(budget=32, sampler="random"), db=url, progress=wait)


def test_I1_a_second_writer_of_a_study_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator, "evaluate_point", cheap)
    url = str(tmp_path / "studies.db")
    child, connection = start(search_and_wait, url)
    assert connection.recv() == 16
    with pytest.raises(StorageError, match=f"study 'small' is being written by .*:{child.pid}:") as caught:
        api.search(small(budget=32, sampler="random"), db=url)
    assert "wait for the other run to end" in caught.value.hint
    connection.send("go on")
    assert connection.recv() == 32
    connection.send("go on")
    child.join()
    assert child.exitcode == 0
    assert api.load_study("small", db=url).trials["trial"].tolist() == list(range(32))


@pytest.mark.parametrize("method", ["exact", "bilevel"])
def test_I3_better_but_infeasible_points_are_never_on_the_front(tmp_path: Path, method: str) -> None:
    bandwidths = [f"{number * 100} GB/s" for number in range(1, 9)]
    free = {MEMORY: {"choices": bandwidths}}
    one_strategy = {**SMALL["strategies"], "microbatch": 1}
    changes: dict[str, Any] = {"free": free, "budget": 8, "strategies": one_strategy, "sampler": "random"}
    unlimited = api.search(small(**changes, name="all"), db=str(tmp_path / "studies.db"))
    rates = np.sort(unlimited.trials["sample_rate"])
    limit = f"sample_rate <= {float(rates[3] + rates[4]) / 2!r} samples/s"
    study = api.search(small(**changes, method=method, constraints=limit), db=str(tmp_path / "studies.db"))
    first = [evaluation for evaluation in study.evaluations if evaluation.repeat_of is None]
    assert Counter(evaluation.state for evaluation in first) == {"complete": 4, "infeasible": 4}
    worst_infeasible = min(row.values["sample_rate"] or 0 for row in first if row.state == "infeasible")
    assert study.front.rows == 1
    assert study.front["sample_rate"][0] == rates[3] < worst_infeasible
    assert set(study.candidates["trial"]) == {row.number for row in first if row.state == "complete"}


@pytest.mark.parametrize("sampler", ["auto", "nsga2"])
def test_I5_a_trial_without_a_number_fails_and_the_study_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampler: str
) -> None:
    def broken(specification: StudySpecification, point: Point) -> Outcome:
        if float(point[NETWORK]) > 6e11:
            raise ValueError("step_time is nan")
        return cheap(specification, "bilevel", point)

    monkeypatch.setattr(evaluator, "evaluate_machine", broken)
    study = api.search(small(sampler=sampler, budget=40), db=str(tmp_path / "studies.db"))
    assert (study.finished, study.trials.rows) == ("budget", 40)
    failed = study.trials["state"] == "failed"
    assert 0 < np.count_nonzero(failed) < 40
    assert set(study.trials["reason"][failed]) == {"step_time is nan"}
    assert (study.trials[NETWORK][failed] > 6e11).all()
    assert np.isnan(study.trials["sample_rate"][failed]).all()
    assert (study.front[NETWORK] <= 6e11).all()
    assert not set(study.candidates["trial"]) & set(study.trials["trial"][failed])


@pytest.mark.parametrize("method", ["auto", "bilevel"])
def test_I7_six_configurations_are_evaluated_six_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    evaluated: list[Point] = []

    def counted(specification: StudySpecification, method: str, point: Point) -> Outcome:
        evaluated.append(point)
        return cheap(specification, method, point)

    monkeypatch.setattr(evaluator, "evaluate_point", counted)
    free = {MEMORY: {"choices": ["1 TB/s", "2 TB/s", "3 TB/s"]}, NETWORK: {"choices": ["100 GB/s", "400 GB/s"]}}
    study = api.search(small(free=free, budget=30, method=method), db=str(tmp_path / "studies.db"))
    assert study.finished == "exhausted"
    assert len(evaluated) == len({tuple(point.values()) for point in evaluated}) == 6
    assert np.count_nonzero(study.trials["repeat_of"] < 0) == 6


def search_and_hang(url: str, connection: Connection) -> None:
    evaluated = []

    def hang(specification: StudySpecification, method: str, point: Point) -> Outcome:
        evaluated.append(point)
        if len(evaluated) == 20:
            connection.send(point)
            time.sleep(60)
        return cheap(specification, method, point)

    evaluator.evaluate_point = hang
    api.search(small(budget=32), db=url)


def test_I9_a_killed_study_leaves_no_running_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = str(tmp_path / "studies.db")
    child, connection = start(search_and_hang, url)
    interrupted = connection.recv()
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    left = api.load_study("small", db=url)
    assert [evaluation.state for evaluation in left.evaluations] == ["complete"] * 16
    evaluated: list[Point] = []

    def counted(specification: StudySpecification, method: str, point: Point) -> Outcome:
        evaluated.append(point)
        return cheap(specification, method, point)

    monkeypatch.setattr(evaluator, "evaluate_point", counted)
    study = api.search(small(budget=32), db=url)
    assert study.trials["trial"].tolist() == list(range(32))
    assert evaluated == [evaluation.point for evaluation in study.evaluations[16:]]
    assert evaluated.count(interrupted) == 1
    assert study.record.lease_owner is None


def test_I11_one_more_choice_is_another_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator, "evaluate_point", cheap)
    url = str(tmp_path / "studies.db")
    network = {"low": "10 GB/s", "high": "900 GB/s"}
    before = api.search(small(free={MEMORY: {"choices": ["1 TB/s", "2 TB/s"]}, NETWORK: network}, budget=16), db=url)
    more = small(free={MEMORY: {"choices": ["1 TB/s", "2 TB/s", "4 TB/s"]}, NETWORK: network}, budget=32)
    with pytest.raises(StorageError, match="'small' with another specification is stored already") as caught:
        api.search(more, db=url)
    assert [line.strip() for line in caught.value.message.splitlines()[1:]] == ["free[0].choices[2]: absent → 4 TB/s"]
    assert caught.value.hint == "give the new study another name, or delete the stored one"
    assert api.load_study("small", db=url).evaluations == before.evaluations
    assert api.search(more, db=url, name="with 4 TB/s").trials.rows == 32


def test_I13_the_database_is_asked_by_the_batch_not_by_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluator, "evaluate_point", cheap)
    statements = Counter[str]()
    with open_database(str(tmp_path / "studies.db")) as database:

        @event.listens_for(database.engine, "before_cursor_execute")
        def count(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
            statements[statement.split()[0]] += 1

        run_study(small(sampler="random", budget=640), database)
    batches = 640 // 16
    # Two transactions a batch, and a handful around the run.
    assert 2 * batches <= statements["BEGIN"] <= 2 * batches + 10
    assert statements["INSERT"] == 3 * batches + 1
    assert statements.total() <= 12 * batches + 40


def test_I15_a_study_of_which_nothing_fits_says_what_is_missing(tmp_path: Path) -> None:
    data = copy.deepcopy(SMALL)
    data["system"]["set"] = {"memory_tier1.capacity": "1 MiB"}
    specification = study_from_dict({**data, "budget": 8}, where="small.toml")
    study = api.search(specification, db=str(tmp_path / "studies.db"))
    assert study.trials["state"].tolist() == ["infeasible"] * 8
    assert study.front.rows == study.candidates.rows == 0
    # Which bandwidths are tried makes no difference to the need of memory.
    (reason,) = set(study.trials["reason"])
    need = min_memory(specification)
    assert reason == f"memory_tier1: the nearest strategy misses it by {need / 2**20 - 1:.2%}"


def test_I15_a_sweep_of_which_nothing_fits_counts_the_reasons(tmp_path: Path) -> None:
    data = copy.deepcopy(SMALL)
    data["system"] = {"base": "h100-price-study", "set": {"memory_tier1.capacity": "1 MiB"}}
    specification = study_from_dict(data, where="small.toml")
    with pytest.raises(InfeasibleError) as caught:
        api.sweep(specification.workload, specification.system, processors=8, batch=8, limits=SMALL["strategies"])
    # tp 2, pp 2, dp 2: microbatches of 1, 2 and 4.
    assert caught.value.message == "none of 3 strategies is feasible: memory_tier1 3"
    missing = min_memory(specification) - 2**20
    assert f"the nearest miss of memory_tier1 lacks {missing / 2**20:.3f}"[:45] in caught.value.hint
    assert "tp 2, pp 2, dp 2, microbatch 1" in caught.value.hint


def min_memory(specification: StudySpecification) -> float:
    """The smallest need of memory tier 1 in the space, from strategies one by one."""
    limits = {**SMALL["strategies"], "dp": 2, "batch": 8}
    tables = [
        api.estimate(specification.workload, specification.system, {**limits, "microbatch": microbatch})
        for microbatch in (1, 2, 4)
    ]
    return min(float(table["memory_tier1_used"][0]) for table in tables)


def test_I17_equal_points_stand_in_one_row_with_a_note(tmp_path: Path) -> None:
    # Nothing is placed on the second network tier, so that its latency makes no difference.
    free = {"network_tiers.1.latency": {"choices": ["3 us", "1 us", "2 us"]}}
    fronts = []
    for number in range(2):
        study = api.search(small(free=free, budget=3), db=str(tmp_path / f"{number}.db"))
        assert len(set(study.trials["sample_rate"])) == 1
        fronts.append(study.front.to_dicts())
    (row,) = fronts[0]
    assert (row["trial"], row["ties"], row["network_tiers.1.latency"]) == (0, 2, pytest.approx(1e-6))
    assert fronts[1] == fronts[0]
    # What the row stands for is still there.
    assert np.count_nonzero(study.candidates["on_front"]) == 3
