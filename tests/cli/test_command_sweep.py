"""`codesign-opt sweep`: the best of a whole space."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow.parquet import read_table

ARGUMENTS = ("sweep", "--workload", "tiny.toml", "--system", "a100-80g", "--processors", "4", "--batch", "4")


def test_the_best_strategies_are_shown_with_what_tells_them_apart(run: Any) -> None:
    result = run(*ARGUMENTS, "--top", "3")
    assert result.status == 0
    assert "combinations covered" in result.out
    assert "in all rows: " in result.out
    lines = result.out.splitlines()
    header = next(index for index, line in enumerate(lines) if line.startswith("rank  step_time"))
    assert [line.split()[0] for line in lines[header + 2 : header + 5]] == ["1", "2", "3"]
    assert max(map(len, lines)) <= 100
    assert "strategies a second" in result.err


def test_json_adds_up(run: Any) -> None:
    result = run(*ARGUMENTS, "--top", "5", "--json", "--quiet")
    document = result.document
    assert result.err == ""
    assert len(document["strategies"]["rows"]) == 5
    left = document["legal"] - sum(count for name, count in document["excluded"].items() if name != "network")
    assert document["feasible"] == left
    times = [row["step_time"] for row in document["strategies"]["rows"]]
    assert times == sorted(times)


def test_the_best_equals_the_best_of_all_estimated_one_by_one(run: Any) -> None:
    from codesign_opt import api
    from codesign_opt.strategies import Strategy

    limits = ["tp=1,2", "recompute=none", "tp_communication=all_reduce", "tp_overlap=none", "gather_redo=false"]
    limits += ["optimizer_sharding=false", "dp_overlap=false", "vpp=1", "tp_tier=0", "pp_tier=0", "dp_tier=0"]
    limits += ["weight_offload=false", "activation_offload=false", "optimizer_offload=false"]
    options = [word for limit in limits for word in ("--limit", limit)]
    found = run(*ARGUMENTS, *options, "--json", "--top", "100").document["strategies"]["rows"]
    one_by_one = []
    for tp, pp, dp in ((1, 1, 4), (1, 2, 2), (1, 4, 1), (2, 1, 2), (2, 2, 1)):
        for microbatch in (b for b in (1, 2, 4) if 4 // dp % b == 0):
            strategy = Strategy(processors=4, tp=tp, pp=pp, dp=dp, batch=4, microbatch=microbatch)
            one_by_one.append(api.estimate("tiny.toml", "a100-80g", strategy).row(0)["step_time"])
    assert len(found) == len(one_by_one)
    assert [row["step_time"] for row in found] == pytest.approx(sorted(one_by_one), rel=1e-12)


def test_the_output_holds_everything(run: Any, folder: Path) -> None:
    printed = run(*ARGUMENTS, "--top", "4", "--output", "best.csv", "--json").document["strategies"]
    with (folder / "best.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [column["name"] for column in printed["columns"]]
    assert [float(row["step_time"]) for row in rows] == [row["step_time"] for row in printed["rows"]]
    assert "wrote best.json: 4 rows" in run(*ARGUMENTS, "--top", "4", "--output", "best.json").err
    assert json.loads((folder / "best.json").read_text()) == printed


def test_several_objectives_give_their_front_as_well(run: Any) -> None:
    result = run(*ARGUMENTS, "--objective", "sample_rate", "--objective", "memory_tier1_used", "--top", "1", "--json")
    rows = result.document["strategies"]["rows"]
    assert len(rows) > 1
    assert all(row["on_front"] for row in rows)


def test_nothing_feasible(run: Any) -> None:
    result = run(*ARGUMENTS, "--constraint", "memory_tier1_used <= 1 kB", "--quiet")
    assert result.status == 1
    assert result.out == ""
    assert "memory_tier1_used <= 1 kB" in result.err
    assert "nearest miss" in result.err


def test_errata_change_numbers(run: Any) -> None:
    corrected = run(*ARGUMENTS, "--json").document["strategies"]["rows"][0]["step_time"]
    reproduced = run(*ARGUMENTS, "--json", "--reproduce", "all").document["strategies"]["rows"][0]["step_time"]
    assert corrected != reproduced


def test_all_strategies_into_parquet(run: Any, folder: Path) -> None:
    result = run(*ARGUMENTS, "--all", "--output", "all.parquet")
    assert result.status == 0
    table = read_table(folder / "all.parquet")
    counted = run(*ARGUMENTS, "--json").document
    assert table.num_rows == counted["legal"]
    assert sum(status == "" for status in table["status"].to_pylist()) == counted["feasible"]
    refused = run(*ARGUMENTS, "--all")
    assert refused.status == 2
    assert "--output all.parquet" in refused.err
