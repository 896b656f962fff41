"""`codesign-opt validate`: what it prints, writes and refuses."""

from __future__ import annotations

import csv
import gzip
import io
import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

LINE = 100
"""Characters of the longest line where the output goes into a file."""


@pytest.fixture
def few_runs(folder: Path) -> Path:
    """A file of one's own with eight shipped rows: five that ran, one of adapters, two that ran out of memory."""
    shipped = resources.files("codesign_opt.catalog").joinpath("measurements", "measured_runs.csv.gz").read_bytes()
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(shipped).decode())))
    chosen = [row for row in rows if row["family"] == "nanotron_ultrascale"][:5]
    chosen += [row for row in rows if row["train_type"] == "lora" and row["tier"] == "A"][:1]
    chosen += [row for row in rows if row["oom"] == "y" and row["family"] == "nanotron_ultrascale"][:2]
    path = folder / "own.csv"
    write_rows(path, chosen)
    return path


def write_rows(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_tables_for_people(run: Any, few_runs: Path) -> None:
    result = run("validate", "--data", str(few_runs), "--rows", "2")
    assert (result.status, result.err) == (0, "")
    assert result.out.startswith("own.csv: 8 rows, 7 used, 5 timed; ")
    for title in ("step time", "peak memory", "verdicts on running out of memory", "rows that were not used"):
        assert f"\n{title}" in result.out
    assert "only low-rank adapters are trained" in result.out
    assert "2 of 5; --json shows all" in result.out
    assert max(map(len, result.out.splitlines())) <= LINE


def test_json_says_it_in_numbers(run: Any, few_runs: Path) -> None:
    document = run("validate", "--data", str(few_runs), "--json").document
    assert set(document) == {
        "predictions", "slow", "families", "skipped", "verdicts", "groups", "coverage", "rows"
    }  # fmt: skip
    everything = document["families"]["rows"][-1]
    assert (everything["rows"], everything["used"], everything["timed"]) == (8, 7, 5)
    rows = document["rows"]["rows"]
    assert len(rows) == 5
    errors = [abs(row["predicted"] - row["measured"]) / row["measured"] for row in rows]
    assert [row["error"] for row in rows] == pytest.approx(errors)
    assert errors == sorted(errors, reverse=True)
    assert everything["held_out_median"] == pytest.approx(errors[2])
    assert document["skipped"]["rows"] == [{"family": "megatron_bridge", "reason": "adapters", "rows": 1}]
    confusion = document["verdicts"]["rows"][0]
    assert confusion["rows"] == 7
    assert confusion["failed_as_predicted"] + confusion["failed_against_prediction"] == 2


def test_the_shipped_rows_of_a_family(run: Any) -> None:
    chosen = ("validate", "--family", "korthikanti_2205_05198", "--json")
    document = run(*chosen).document
    assert document["families"]["rows"][0]["timed"] == 8
    assert run(*chosen, "--mfu-above", "45%").document["slow"] > 0
    other = run("validate", "--family", "megatron_sc21", "--tier", "A,B", "--json").document
    assert other["families"]["rows"][0]["rows"] == 35


def test_a_page_with_every_row(run: Any, few_runs: Path, folder: Path) -> None:
    result = run("validate", "--data", str(few_runs), "--plot", "accuracy.html")
    assert (result.status, result.err) == (0, "wrote accuracy.html: 5 rows\n")
    text = (folder / "accuracy.html").read_text()
    assert "<svg" in text
    assert text.count('id="row-') == 5


def test_the_same_twice(run: Any, few_runs: Path) -> None:
    first, second = (run("validate", "--data", str(few_runs), "--json").out for _ in range(2))
    assert json.loads(first) == json.loads(second)
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--data", "missing.csv"), ("missing.csv", "no such file")),
        (("--family", "nanotron"), ("nanotron", "nanotron_ultrascale")),
        (("--tier", "D"), ("--tier", "D", "A, B, C")),
        (("--tier", ""), ("--tier",)),
        (("--mfu-above", "much"), ("--mfu-above", "much")),
        (("--rows", "-1"), ("--rows", "at least 0")),
        (("--plot", "no/folder.html"), ("no/folder.html",)),
        (("--family", "vtrain_a100"), ("no rows are left", "tier B")),
    ],
)
def test_bad_input(run: Any, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    result = run("validate", *arguments)
    assert (result.status, result.out) == (2, "")
    for word in words:
        assert word in result.err
    assert "Traceback" not in result.err


def test_bad_files(run: Any, few_runs: Path) -> None:
    rows = read_rows(few_runs)
    write_rows(few_runs, [{name: value for name, value in row.items() if name != "mbs"} for row in rows])
    result = run("validate", "--data", str(few_runs))
    assert (result.status, "missing column 'mbs'" in result.err) == (2, True)
    write_rows(few_runs, [{**row, "tp": "two"} for row in rows])
    result = run("validate", "--data", str(few_runs))
    assert result.status == 2
    assert "line 2: tp: 'two' is not allowed" in result.err


def test_rows_of_which_none_can_be_used(run: Any, few_runs: Path) -> None:
    write_rows(few_runs, [{**row, "gpu": "abacus"} for row in read_rows(few_runs)])
    result = run("validate", "--data", str(few_runs), "--rows", "3")
    assert (result.status, result.err) == (0, "")
    assert "8 rows, 0 used" in result.out
    assert run("validate", "--data", str(few_runs), "--json").document["rows"]["rows"] == []


class Unchanged:
    """Calibrations that leave every system as it is."""

    def system_for(self, run: Any) -> Any:
        return run.system

    def without(self, family: str) -> Unchanged:
        return self


def test_held_out_predictions_stand_beside_those_in_sample(
    few_runs: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from codesign_opt import api
    from codesign_opt.cli.validation_output import write_plot, write_validation

    validation = api.validate(few_runs, calibrations=Unchanged())
    write_validation(validation, source="own.csv", rows=1, json=False)
    out = capsys.readouterr().out
    assert "calibrated systems" in out
    assert "held out median" in out
    assert max(map(len, out.splitlines())) <= LINE
    write_validation(validation, source="own.csv", rows=0, json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["predictions"] == "calibrated"
    everything = document["families"]["rows"][-1]
    assert everything["held_out_median"] == everything["median"]
    write_plot(validation, folder / "accuracy.html", source="own.csv")
    assert "<svg" in (folder / "accuracy.html").read_text()


def test_estimates_have_the_interval_of_comparable_runs(run: Any) -> None:
    arguments = (
        "estimate", "--workload", "gpt3-175b", "--system", "a100-80g",
        "--tp", "8", "--pp", "8", "--dp", "8", "--batch", "512", "--recompute", "full",
    )  # fmt: skip
    out = run(*arguments).out.splitlines()
    assert any(line.startswith("80% of comparable published runs: ") for line in out)
    document = run(*arguments, "--json").document
    interval = document["interval"]
    assert (interval["share"], interval["unit"]) == (0.8, "s")
    assert interval["lower"] < interval["upper"]
    assert (interval["generation"], interval["parallelism"]) == ("ampere", "pipeline")
    assert "interval" not in run(*arguments, "--json", "--reproduce", "all").document
