"""`codesign-opt studies`: list, show, delete, export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def stored(run: Any) -> None:
    """A database with two studies."""
    run("search", "study.toml", "--budget", "2", "--quiet")
    run("search", "study.toml", "--budget", "3", "--name", "second", "--seed", "9", "--quiet")


def test_list(run: Any) -> None:
    rows = run("studies", "list", "--json").document["rows"]
    assert [(row["name"], row["trials"], row["seed"]) for row in rows] == [("study", 2, 1), ("second", 3, 9)]
    lines = run("studies", "list").out.splitlines()
    assert lines[0].split()[:3] == ["name", "created", "trials"]
    assert [line.split()[0] for line in lines[2:]] == ["study", "second"]


def test_show(run: Any) -> None:
    shown = run("studies", "show", "second")
    assert shown.status == 0
    for words in ("study          second", "workload       tiny", "seed           9", "Pareto front of"):
        assert words in shown.out
    document = run("studies", "show", "second", "--json").document
    assert document["specification"]["seed"] == 9
    assert document["trials"] == 3


def test_delete_asks_first(run: Any) -> None:
    refused = run("studies", "delete", "study")
    assert refused.status == 2
    assert "study 'study' with 2 trials" in refused.err
    assert "--yes" in refused.err
    assert len(run("studies", "list", "--json").document["rows"]) == 2


def test_delete(run: Any) -> None:
    assert run("studies", "delete", "study", "--yes").err == "deleted study 'study'\n"
    assert [row["name"] for row in run("studies", "list", "--json").document["rows"]] == ["second"]
    again = run("studies", "delete", "study", "--yes")
    assert again.status == 2
    assert "no study 'study'" in again.err


def test_export_to_json(run: Any, folder: Path) -> None:
    result = run("studies", "export", "second", "--output", "second.json", "--format", "json")
    assert (result.status, result.out) == (0, "")
    document = json.loads((folder / "second.json").read_text())
    assert len(document["evaluations"]["rows"]) == document["trials"] == 3
    assert document["specification"]["name"] == "second"
    assert "optuna" in document["versions"]
    trials = {row["trial"] for row in document["candidates"]["rows"]}
    assert trials == {0, 1, 2}


@pytest.mark.filterwarnings("default")
def test_export_to_an_optuna_storage(run: Any, folder: Path) -> None:
    import optuna

    result = run("studies", "export", "second", "--output", "copy.db")
    assert (result.status, result.out) == (0, "")
    assert "wrote 3 trials to copy.db" in result.err
    copy = optuna.load_study(study_name="second", storage="sqlite:///copy.db")
    assert len(copy.trials) == 3
    assert [direction.name for direction in copy.directions] == ["MAXIMIZE", "MINIMIZE"]
    again = run("studies", "export", "second", "--output", "copy.db")
    assert again.status == 2


def test_best_by_columns(run: Any, folder: Path) -> None:
    document = run("studies", "best", "second", "--by", "processors", "--json").document
    candidates = json.loads(run("pareto", "second", "--format", "json").out)["rows"]
    for row in document["rows"]:
        same = [c["sample_rate"] for c in candidates if c["processors"] == row["processors"]]
        assert row["sample_rate"] == max(same)
    assert len({row["processors"] for row in document["rows"]}) == len(document["rows"])
    shown = run("studies", "best", "second", "--by", "processors").out
    assert shown.split()[:3] == ["processors", "sample_rate", "system_price"]
    assert run("studies", "best", "second", "--by", "processors", "--output", "best.html").status == 0
    assert "<svg" in (folder / "best.html").read_text()
    unknown = run("studies", "best", "second", "--by", "procesors")
    assert unknown.status == 2
    assert "'procesors'" in unknown.err


def test_sensitivity_of_the_best_point(run: Any) -> None:
    document = run("studies", "show", "second", "--sensitivity", "--json").document
    changes = {(row["parameter"], round(row["change"], 9)) for row in document["sensitivity"]["rows"]}
    assert ("network_tiers.0.bandwidth", -0.1) in changes
    assert len(document["binding"]["rows"]) == 1
    assert "parameter" in run("studies", "show", "second", "--sensitivity").out


def test_sensitivity_of_several_points(run: Any) -> None:
    front = run("pareto", "second", "--format", "json").document
    trials = list(dict.fromkeys(row["trial"] for row in front["rows"][:2]))
    document = run("studies", "show", "second", "--sensitivity", "--top", "2", "--json").document
    assert [row["trial"] for row in document["binding"]["rows"]] == [row["trial"] for row in front["rows"][:2]]
    assert list(dict.fromkeys(row["trial"] for row in document["sensitivity"]["rows"])) == trials


def test_top_without_sensitivity_is_refused(run: Any) -> None:
    result = run("studies", "show", "second", "--top", "2")
    assert result.status == 2
    assert "add --sensitivity" in result.err
