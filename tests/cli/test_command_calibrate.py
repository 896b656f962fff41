"""`codesign-opt calibrate`: what it prints and writes, and what it says to bad input."""

from __future__ import annotations

import csv
import gzip
import io
import json
from importlib import resources
from pathlib import Path

import pytest

from codesign_opt.catalog import resolve_system
from codesign_opt.cli.main import main
from codesign_opt.systems.files import read_notes, read_system
from codesign_opt.systems.notes import values


@pytest.fixture
def own_runs(tmp_path: Path) -> Path:
    """Twelve published runs of MPT on H100, with step times twice as long."""
    packed = resources.files("codesign_opt.catalog").joinpath("measurements", "measured_runs.csv.gz").read_bytes()
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(packed).decode())))
    chosen = [row for row in rows if row["family"] == "llm_foundry_mpt" and row["gpu"] == "H100"][::6]
    for row in chosen:
        row["step_time_s_best"] = str(1.3 * float(row["step_time_s_best"]))
    path = tmp_path / "own.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(chosen)
    return path


def test_shipped_calibration_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "h100-sxm", "--family", "llm_foundry_mpt"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("h100-sxm: hopper processors, ")
    assert "matrix_efficiency" in printed
    assert "at its prior, because" in printed
    assert "fewer than 20 rows depend on it" in printed
    assert "llm_foundry_mpt" in printed


def test_runs_of_ones_own_move_the_system(own_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output, plot = tmp_path / "mine.toml", tmp_path / "residuals.html"
    arguments = ["calibrate", "h100-sxm", "--data", str(own_runs), "--output", str(output), "--plot", str(plot)]
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["generation"] == "hopper"
    assert document["rows"] == len(own_runs.read_text(encoding="utf-8").splitlines()) - 1
    fitted = {row["parameter"]: row for row in document["parameters"]["rows"]}
    # Times are longer than those that the shipped calibration, which is the prior, was fitted to.
    assert fitted["matrix_efficiency"]["held"] == ""
    assert fitted["matrix_efficiency"]["value"] < fitted["matrix_efficiency"]["prior"]
    assert fitted["eight_bit_half"]["held"]
    (residuals,) = document["residuals"]["rows"]
    assert residuals["family"] == "llm_foundry_mpt"
    assert residuals["median"] < 0.15

    system, base = read_system(output), resolve_system("h100-sxm")
    assert system.name == "h100-sxm-calibrated"
    assert system.matrix["bfloat16"].peak == base.matrix["bfloat16"].peak
    assert system.network_tiers[1].bandwidth == base.network_tiers[1].bandwidth
    assert max(system.matrix["bfloat16"].efficiency.efficiencies) == pytest.approx(
        fitted["matrix_efficiency"]["value"], rel=1e-3
    )
    notes = read_notes(output)
    assert [path for path in values(system) if not notes.source_of(path)] == []
    assert "rows of own.csv" in notes.source_of("matrix.bfloat16.efficiency")
    assert "<svg" in plot.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["h100"], "unknown system 'h100'"),
        (["h100-sxm", "--data", "none.csv"], "none.csv: no such file"),
        (["h100-sxm", "--family", "llm_foundry"], "no row of the family 'llm_foundry'"),
        (["tpu-v5e", "--family", "llm_foundry_mpt"], "no row to fit tpu processors to"),
        (["a100.json"], "a calibrated system needs a TOML file"),
        (["h100-sxm", "--output", "no/such/folder/x.toml"], "no/such/folder/x.toml"),
    ],
)
def test_bad_input_is_one_message(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_a_machine_of_unknown_speed_has_no_calibration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(
        'base = "h100-sxm"\nname = "odd"\n[set]\n"matrix.bfloat16.peak" = "777 Tflop/s"\n'
        '"matrix.float16.peak" = "777 Tflop/s"\n',
        encoding="utf-8",
    )
    assert main(["calibrate", str(path)]) == 2
    assert "'odd' is of no generation that a calibration is for" in capsys.readouterr().err
