"""A table as text, CSV, JSON, Parquet or an HTML page, returned or written to a file.

CSV, JSON and Parquet hold the same values in full precision. A value that is missing or not finite is an empty field
in CSV, null in JSON and in Parquet. Units are in the JSON columns and in the metadata of the Parquet fields; the CSV
header has the names alone, so that any program reads it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from codesign_opt.errors import InputError, MissingExtraError, nearest
from codesign_opt.reports.files import write_atomically
from codesign_opt.reports.page import page
from codesign_opt.reports.text import format_table
from codesign_opt.reports.values import PlainValue, plain_values
from codesign_opt.tables import Table

FORMATS = ("table", "csv", "json", "parquet", "html")

_SUFFIXES = {
    ".txt": "table",
    ".csv": "csv",
    ".json": "json",
    ".parquet": "parquet",
    ".html": "html",
    ".htm": "html",
}


def format_for(path: Path) -> str:
    """The format that a file name's suffix stands for.

    Raises:
        InputError: No suffix, or an unknown one.
    """
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise InputError(f"'{path}': no format is known for the suffix '{suffix}'", nearest(suffix, _SUFFIXES))
    return _SUFFIXES[suffix]


def export(
    table: Table,
    format: str,
    path: Path | None = None,
    *,
    title: str,
    axes: Sequence[str] = (),
    maximize: Collection[str] = (),
    facts: Mapping[str, object] | None = None,
) -> str:
    """The table in a format: returned as text, or written to `path` completely or not at all.

    Args:
        table: The rows to export.
        format: One of `FORMATS`.
        path: The file to write; None returns the text instead.
        title: Heading of the page; also in the Parquet metadata.
        axes: Names of the objective columns, which the page plots against each other.
        maximize: Those of `axes` of which more is better.
        facts: What the page tells about the study, name to value.

    Returns:
        The text where `path` is None, otherwise an empty string.

    Raises:
        InputError: An unknown format or column, Parquet without a path, or a file that cannot be written.
        MissingExtraError: Parquet without pyarrow.
    """
    if format == "parquet":
        if path is None:
            raise InputError("parquet is not text and needs a file", "give an output file such as front.parquet")
        write_atomically(path, parquet_bytes(table, title=title))
        return ""
    if format == "table":
        text = format_table(table) + "\n"
    elif format == "csv":
        text = csv_text(table)
    elif format == "json":
        text = json_text(table)
    elif format == "html":
        text = page(table, title=title, axes=axes, maximize=maximize, facts=facts)
    else:
        raise InputError(f"unknown format '{format}'", nearest(format, FORMATS))
    if path is None:
        return text
    write_atomically(path, text.encode("utf-8", "backslashreplace"))
    return ""


def csv_text(table: Table) -> str:
    """RFC 4180: a header of names, then a line a row; empty words are quoted, missing values are empty fields."""
    columns = [[_csv_field(value) for value in plain_values(table[name])] for name in table]
    lines = [[_csv_field(name) for name in table], *zip(*columns, strict=True)]
    # A line without any character would be skipped by most readers, so a lone missing value is quoted.
    return "".join((",".join(fields) or '""') + "\r\n" for fields in lines)


def json_text(table: Table) -> str:
    """An object of `columns` (name and unit) and `rows` (objects of name to value), a line for each of them."""
    columns = [{"name": name, "unit": table.units[name]} for name in table]
    values = [plain_values(table[name]) for name in table]
    rows = [dict(zip(table, row, strict=True)) for row in zip(*values, strict=True)]
    return f'{{"columns": {_json_lines(columns)},\n"rows": {_json_lines(rows)}}}\n'


def parquet_bytes(table: Table, *, title: str) -> bytes:
    """A Parquet file; each field's metadata has its `unit`, the schema's metadata `title` and `created_by`.

    Raises:
        InputError: A column of mixed types.
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("parquet needs pyarrow", "pip install 'codesign-opt[parquet]'") from None
    try:
        arrow = table.to_arrow()
    except pyarrow.ArrowException as error:
        raise InputError(f"the table cannot be stored as parquet: {error}", "use csv or json") from None
    for index, field in enumerate(arrow.schema):
        if pyarrow.types.is_floating(field.type):
            values = arrow.column(index)
            finite = pyarrow.compute.is_finite(values)
            arrow = arrow.set_column(index, field, pyarrow.compute.if_else(finite, values, None))
    arrow = arrow.replace_schema_metadata({"title": title, "created_by": f"codesign-opt {_version()}"})
    buffer = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(arrow, buffer)
    content: bytes = buffer.getvalue().to_pybytes()
    return content


def _csv_field(value: PlainValue) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    if not value or value != value.strip() or any(mark in value for mark in ',"\r\n'):
        return '"' + value.replace('"', '""') + '"'
    return value


def _json_lines(values: Sequence[Mapping[str, PlainValue]]) -> str:
    if not values:
        return "[]"
    return "[\n" + ",\n".join(json.dumps(value, allow_nan=False) for value in values) + "]"


def _version() -> str:
    try:
        return metadata.version("codesign-opt")
    except metadata.PackageNotFoundError:
        return "(not installed)"
