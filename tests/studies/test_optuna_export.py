"""The copy of a study that Optuna and its dashboard open."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

from codesign_opt import api
from codesign_opt.db import open_database
from codesign_opt.errors import MissingExtraError, StorageError
from codesign_opt.studies.flat import COORDINATES
from codesign_opt.studies.optuna_export import export_optuna
from codesign_opt.studies.runner import begin_study
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.studies.study import Study

MEMORY, NETWORK = "memory_tier1.bandwidth", "network_tiers.0.bandwidth"

Finished = Callable[..., Study]


@pytest.fixture(scope="module")
def exported(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small study as an Optuna storage."""
    path = tmp_path_factory.mktemp("exported") / "optuna.db"
    assert export_optuna(finished(), str(path)) == 24
    return path


def opened(path: Path, name: str = "tiny") -> optuna.Study:
    return optuna.load_study(study_name=name, storage=f"sqlite:///{path}")


def test_optuna_reads_every_trial(finished: Finished, exported: Path) -> None:
    study, copy = finished(), opened(exported)
    assert [direction.name for direction in copy.directions] == ["MAXIMIZE", "MINIMIZE"]
    assert copy.metric_names == ["sample_rate", "system_price"]
    assert copy.user_attrs == {"specification_hash": study.record.specification_hash}
    trials = copy.get_trials()
    assert [trial.number for trial in trials] == [evaluation.number for evaluation in study.evaluations]
    assert {evaluation.state for evaluation in study.evaluations} == {"complete", "infeasible", "failed"}
    for ours, theirs in zip(study.evaluations, trials, strict=True):
        assert theirs.params == ours.point
        assert theirs.distributions == {
            MEMORY: optuna.distributions.FloatDistribution(1e11, 3e12, log=True),
            NETWORK: optuna.distributions.FloatDistribution(1e10, 9e11),
        }
        if ours.state == "failed":
            assert (theirs.state.name, theirs.values) == ("FAIL", None)
        else:
            assert (theirs.state.name, theirs.values) == ("COMPLETE", list(ours.values.values()))
            assert theirs.constraints == ours.constraints
        assert theirs.user_attrs.get("reason", "") == ours.reason
        assert ("tp" in theirs.user_attrs) == (ours.state == "complete")


def test_both_name_the_same_best_points(finished: Finished, exported: Path) -> None:
    best = {tuple(trial.values) for trial in opened(exported).best_trials}
    front = finished().front
    assert best == set(zip(front["sample_rate"].tolist(), front["system_price"].tolist(), strict=True))


def test_choices_processors_and_coordinates_are_parameters(finished: Finished, tmp_path: Path) -> None:
    free = {MEMORY: {"choices": ["2 TB/s", "1 TB/s"]}, NETWORK: {"low": "10 GB/s", "high": "900 GB/s"}}
    system = {"base": "h100-price-study", "free": free}
    flat = {"method": "flat", "sampler": "random", "budget": 4}
    study = finished(system=system, processors=[8, 4], objectives="step_time", **flat)
    export_optuna(study, str(tmp_path / "optuna.db"))
    copy = opened(tmp_path / "optuna.db")
    assert copy.direction.name == "MINIMIZE"
    assert {trial.params["processors"] for trial in copy.trials} == {4, 8}
    distributions = copy.trials[0].distributions
    assert distributions["processors"] == optuna.distributions.CategoricalDistribution((4, 8))
    assert distributions[MEMORY] == optuna.distributions.CategoricalDistribution((1e12, 2e12))
    assert set(distributions) == {MEMORY, NETWORK, "processors", *COORDINATES}


def test_a_study_without_trials_is_exported_too(
    tiny: Callable[..., StudySpecification], url: str, tmp_path: Path
) -> None:
    with open_database(url) as database:
        begin_study(tiny(name="odd 'name' – ü"), database)
    assert api.export_optuna("odd 'name' – ü", str(tmp_path / "optuna.db"), db=url) == 0
    assert opened(tmp_path / "optuna.db", "odd 'name' – ü").trials == []


def test_an_existing_file_is_refused_and_left_alone(finished: Finished, exported: Path, tmp_path: Path) -> None:
    study = finished()
    own, text = tmp_path / "studies.db", tmp_path / "notes.txt"
    open_database(str(own)).close()
    text.write_text("mine")
    for path in (exported, own, text):
        before = path.read_bytes()
        for output in (str(path), f"sqlite:///{path}"):
            with pytest.raises(StorageError, match=f"{path.name} exists already") as caught:
                export_optuna(study, output)
            assert caught.value.hint == "choose another file"
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("{here}", "is a directory"),
        ("{here}/missing/optuna.db", "the directory .*missing does not exist"),
        ("/proc/optuna.db", "/proc/optuna.db"),
        ("mysql://somewhere/optuna", "unknown database scheme 'mysql'"),
        ("postgresql://me:secret@127.0.0.1:1/optuna", r"cannot connect to postgresql://me:\*\*\*@127.0.0.1:1/optuna"),
        ("", "not a database path or URL"),
    ],
)
def test_where_nothing_can_be_written_the_reason_is_said(
    finished: Finished, tmp_path: Path, output: str, message: str
) -> None:
    if output.startswith("postgresql"):
        pytest.importorskip("psycopg")
    with pytest.raises(StorageError, match=message) as caught:
        export_optuna(finished(), output.format(here=tmp_path))
    assert "secret" not in str(caught.value)


def test_a_server_that_holds_the_study_already_is_refused(
    finished: Finished, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = finished()

    # What Optuna says of a server's database; here there is none.
    def create_study(**_: Any) -> None:
        raise optuna.exceptions.DuplicatedStudyError

    monkeypatch.setattr(optuna, "create_study", create_study)
    with pytest.raises(StorageError, match=r"optuna.db holds an Optuna study named 'tiny' already"):
        export_optuna(study, str(tmp_path / "optuna.db"))


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (optuna.exceptions.StorageInternalError("lost the connection"), StorageError, "optuna.db: lost the connection"),
        (RuntimeError("too old a table"), StorageError, "optuna.db: too old a table"),
        (sqlite3.OperationalError("database or disk is full"), StorageError, "optuna.db"),
        (ImportError("psycopg"), MissingExtraError, "needs the package psycopg"),
    ],
)
def test_what_goes_wrong_in_optuna_is_no_traceback(
    finished: Finished, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, kind: Any, message: str
) -> None:
    study = finished()

    def create_study(**_: Any) -> None:
        raise error

    monkeypatch.setattr(optuna, "create_study", create_study)
    with pytest.raises(kind, match=message):
        export_optuna(study, str(tmp_path / "optuna.db"))
