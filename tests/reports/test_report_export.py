from __future__ import annotations

import csv
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign_opt.errors import InputError, MissingExtraError
from codesign_opt.reports import FORMATS, export, format_for, format_table
from codesign_opt.reports.export import csv_text, json_text, parquet_bytes
from codesign_opt.tables import Table

TABLE = Table(
    {
        "price": [1.25e8, 0.1],
        "tp": [8, 16],
        "recompute": ["full", 'a "b", c'],
        "sequence_parallel": [True, False],
        "simulated": [np.nan, 1 / 3],
    },
    {"price": "$", "simulated": "s"},
)


def test_csv_is_full_precision_with_names_alone_in_the_header() -> None:
    assert export(TABLE, "csv", title="t") == (
        "price,tp,recompute,sequence_parallel,simulated\r\n"
        "125000000.0,8,full,true,\r\n"
        '0.1,16,"a ""b"", c",false,0.3333333333333333\r\n'
    )


def test_csv_tells_an_empty_word_from_a_missing_one() -> None:
    table = Table({"word": np.array(["", None, " x"], dtype=object), "n": [1, 2, 3]})
    assert csv_text(table) == 'word,n\r\n"",1\r\n,2\r\n" x",3\r\n'


def test_csv_never_has_a_line_without_characters() -> None:
    assert csv_text(Table({"time": [np.nan, 1.0]})) == 'time\r\n""\r\n1.0\r\n'


def test_json_has_columns_with_units_and_rows() -> None:
    assert json.loads(export(TABLE, "json", title="t")) == {
        "columns": [
            {"name": "price", "unit": "$"},
            {"name": "tp", "unit": ""},
            {"name": "recompute", "unit": ""},
            {"name": "sequence_parallel", "unit": ""},
            {"name": "simulated", "unit": "s"},
        ],
        "rows": [
            {"price": 1.25e8, "tp": 8, "recompute": "full", "sequence_parallel": True, "simulated": None},
            {"price": 0.1, "tp": 16, "recompute": 'a "b", c', "sequence_parallel": False, "simulated": 1 / 3},
        ],
    }


def test_parquet_carries_units_title_and_version(tmp_path: Path) -> None:
    path = tmp_path / "front.parquet"
    assert export(TABLE, "parquet", path, title="price study") == ""
    stored = pyarrow.parquet.read_table(path)
    assert {field.name: field.metadata[b"unit"].decode() for field in stored.schema} == TABLE.units
    assert stored.schema.metadata[b"title"] == b"price study"
    assert stored.schema.metadata[b"created_by"].startswith(b"codesign-opt ")
    assert stored.column("simulated").to_pylist() == [None, 1 / 3]
    assert str(stored.schema.field("tp").type) == "int64"


_WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
_COLUMNS = st.one_of(
    st.lists(st.floats(), min_size=3, max_size=3).map(np.array),
    st.lists(st.floats(width=32), min_size=3, max_size=3).map(lambda values: np.array(values, dtype=np.float32)),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3).map(np.array),
    st.lists(st.booleans(), min_size=3, max_size=3).map(np.array),
    st.lists(_WORDS, min_size=3, max_size=3).map(np.array),
    st.lists(st.none() | _WORDS, min_size=3, max_size=3).map(lambda v: np.array(v, dtype=object)),
    st.lists(st.none() | st.floats(), min_size=3, max_size=3).map(lambda v: np.array(v, dtype=object)),
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(_WORDS.filter(bool), _COLUMNS, min_size=1, max_size=5))
def test_csv_json_and_parquet_agree_value_by_value(columns: dict[str, np.ndarray]) -> None:
    table = Table(columns)
    from_json: list[dict[str, Any]] = json.loads(json_text(table))["rows"]
    from_parquet = pyarrow.parquet.read_table(io.BytesIO(parquet_bytes(table, title=""))).to_pylist()
    assert len(from_json) == len(from_parquet) == 3
    for one, other in zip(from_json, from_parquet, strict=True):
        assert list(one) == list(other) == list(columns)
        assert [_exact(value) for value in one.values()] == [_exact(value) for value in other.values()]
    header, *lines = list(csv.reader(io.StringIO(csv_text(table), newline=""), strict=True))
    assert header == list(columns)
    for one, line in zip(from_json, lines, strict=True):
        assert [_as_csv(value) for value in one.values()] == line


def _exact(value: Any) -> tuple[str, str]:
    return type(value).__name__, repr(value)


def _as_csv(value: Any) -> str:
    """What a reader of CSV, who has words only, must find for a value."""
    return {None: "", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(value)


@pytest.mark.parametrize("format", FORMATS)
def test_tables_without_rows_export(tmp_path: Path, format: str) -> None:
    path = tmp_path / "empty"
    export(Table({"price": np.array([]), "word": np.array([], dtype=str)}), format, path, title="t", axes=["price"])
    assert path.stat().st_size > 0


def test_files_hold_what_is_returned_as_text(tmp_path: Path) -> None:
    for format in ("table", "csv", "json"):
        path = tmp_path / format
        assert export(TABLE, format, path, title="t") == ""
        assert path.read_bytes().decode() == export(TABLE, format, title="t")
    assert export(TABLE, "table", title="t") == format_table(TABLE) + "\n"


@pytest.mark.parametrize("format", FORMATS)
def test_a_failed_export_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    path = tmp_path / "front"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InputError, match="front"):
        export(TABLE, format, path, title="t", axes=["price", "tp"])
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_table_that_cannot_be_stored_touches_no_file(tmp_path: Path) -> None:
    mixed = Table({"mixed": np.array([1, "a"], dtype=object)})
    with pytest.raises(InputError, match="cannot be stored as parquet"):
        export(mixed, "parquet", tmp_path / "front.parquet", title="t")
    assert list(tmp_path.iterdir()) == []


def test_bad_requests_are_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown format 'jsn' \(did you mean 'json'"):
        export(TABLE, "jsn", title="t")
    with pytest.raises(InputError, match="parquet is not text and needs a file"):
        export(TABLE, "parquet", title="t")
    with pytest.raises(InputError, match="no column 'prize'"):
        export(TABLE, "html", title="t", axes=["prize", "tp"])


def test_parquet_without_pyarrow_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'codesign-opt\[parquet\]'"):
        export(TABLE, "parquet", tmp_path / "front.parquet", title="t")


def test_format_for_reads_the_suffix() -> None:
    found = {name: format_for(Path(name)) for name in ("a.txt", "b.csv", "c.JSON", "d.parquet", "e.html", "f.x.htm")}
    assert list(found.values()) == ["table", "csv", "json", "parquet", "html", "html"]
    with pytest.raises(InputError, match=r"'front\.cvs'.*did you mean '\.csv'"):
        format_for(Path("front.cvs"))
    with pytest.raises(InputError, match=r"'front'.*\.parquet"):
        format_for(Path("front"))
