"""`codesign-opt pareto`: the front in every format."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def front(run: Any) -> Any:
    """The front of a stored study, as `search --json` gives it."""
    return run("search", "study.toml", "--json", "--quiet").document["front"]


def test_a_table_on_stdout_fits_a_page(run: Any, front: Any) -> None:
    result = run("pareto", "study")
    assert result.status == 0
    lines = result.out.splitlines()
    assert lines[0].split()[:3] == ["trial", "sample_rate", "system_price"]
    assert max(map(len, lines)) <= 100
    assert "--columns all" in result.err


def test_all_columns_where_that_is_asked_for(run: Any, front: Any) -> None:
    shown = run("pareto", "study", "--columns", "all").out
    assert all(column["name"] in shown for column in front["columns"])


def test_csv_json_and_parquet_agree(run: Any, front: Any, folder: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for suffix in ("csv", "json", "parquet"):
        result = run("pareto", "study", "--output", f"front.{suffix}")
        assert (result.status, result.out) == (0, "")
    from_json = json.loads((folder / "front.json").read_text())
    assert from_json == front
    table = parquet.read_table(folder / "front.parquet")
    assert table.to_pylist() == from_json["rows"]
    units = {column["name"]: column["unit"] for column in from_json["columns"]}
    assert {field.name: field.metadata[b"unit"].decode() for field in table.schema} == units
    with (folder / "front.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == table.column_names
    texts = {True: "true", False: "false"}
    assert rows[1:] == [
        [texts[value] if isinstance(value, bool) else str(value) for value in row.values()] for row in table.to_pylist()
    ]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_stdout_and_file_hold_the_same(run: Any, front: Any, folder: Path, format: str) -> None:
    run("pareto", "study", "--format", format, "--output", "file")
    shown = run("pareto", "study", "--format", format).out
    assert shown.splitlines() == (folder / "file").read_text().splitlines()


@pytest.mark.parametrize("format", ["table", "html"])
def test_format_goes_before_the_suffix(run: Any, front: Any, folder: Path, format: str) -> None:
    assert run("pareto", "study", "--format", format, "--output", "front.csv").status == 0
    assert (folder / "front.csv").read_text().startswith({"table": "trial  ", "html": "<!doctype"}[format])


def test_columns_in_the_order_asked_for(run: Any, front: Any) -> None:
    result = run("pareto", "study", "--format", "csv", "--columns", "system_price,tp,trial")
    assert result.out.splitlines()[0] == "system_price,tp,trial"


def test_a_page_plots_the_objectives(run: Any, front: Any, folder: Path) -> None:
    run("pareto", "study", "--output", "front.html")
    page = (folder / "front.html").read_text()
    assert "Pareto front of study" in page
    assert "<svg" in page
    assert "maximize sample_rate, minimize system_price" in page


def test_an_existing_file_is_left_alone_where_writing_fails(run: Any, front: Any, folder: Path) -> None:
    (folder / "front.csv").write_text("precious")
    assert run("pareto", "study", "--output", "front.csv", "--columns", "nonsense").status == 2
    assert (folder / "front.csv").read_text() == "precious"


def test_a_list_of_studies_helps_with_a_wrong_name(run: Any, front: Any) -> None:
    result = run("pareto", "sutdy")
    assert result.status == 2
    assert "did you mean 'study'?" in result.err
