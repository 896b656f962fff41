"""Parquet files of millions of rows, written table by table in constant memory."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from codesign_opt import __version__
from codesign_opt.errors import InputError, MissingExtraError
from codesign_opt.partial_files import whole_file
from codesign_opt.tables import Table

WriteProgress = Callable[[int, int, float], None]
"""Called with the rows written so far, all rows, and the seconds since the start."""


def write_parquet_stream(
    tables: Iterable[Table],
    path: Path,
    *,
    title: str,
    total: int,
    words: Mapping[str, Sequence[str]] | None = None,
    progress: WriteProgress | None = None,
) -> int:
    """Write tables of the same columns one after the other; the file is under its name only when it is whole.

    Each field's metadata has its `unit`, the schema's metadata `title` and `created_by`. Numbers keep every bit; one
    that is not finite is null. Every table becomes a row group.

    Args:
        tables: At least one, which may have no rows; only one of them is held in memory.
        path: The file to write.
        title: What the rows are.
        total: Rows of all tables, for `progress`.
        words: For columns that hold codes, the words that these are indices of.
        progress: Called after every table.

    Returns:
        The rows written.

    Raises:
        InputError: A file that cannot be written.
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("parquet needs pyarrow", "pip install 'codesign-opt[parquet]'") from None
    start, rows = time.perf_counter(), 0
    remaining = iter(tables)
    first = next(remaining, None)
    if first is None:
        raise InputError(f"there is nothing to write into '{path}'", "give at least one table")
    schema = _schema(first, words or {}, title)
    encoded = [field.name for field in schema if not pyarrow.types.is_floating(field.type)]
    with (
        whole_file(path) as file,
        pyarrow.parquet.ParquetWriter(file, schema, compression="zstd", use_dictionary=encoded) as writer,
    ):
        for table in itertools.chain([first], remaining):
            arrays = [_array(table[name], (words or {}).get(name)) for name in schema.names]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema), row_group_size=max(1, table.rows))
            rows += table.rows
            if progress is not None:
                progress(rows, total, time.perf_counter() - start)
    return rows


def _schema(table: Table, words: Mapping[str, Sequence[str]], title: str) -> Any:
    import pyarrow

    fields = [
        pyarrow.field(name, _array(values[:0], words.get(name)).type, metadata={"unit": table.units[name]})
        for name, values in table.items()
    ]
    return pyarrow.schema(fields, metadata={"title": title, "created_by": f"codesign-opt {__version__}"})


def _array(values: np.ndarray, words: Sequence[str] | None) -> Any:
    import pyarrow

    if words is not None:
        return pyarrow.DictionaryArray.from_arrays(pyarrow.array(values), pyarrow.array(words, pyarrow.string()))
    missing = ~np.isfinite(values) if values.dtype.kind == "f" else None
    return pyarrow.array(values, mask=missing)
