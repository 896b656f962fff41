"""Parquet files written table by table."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from codesign_opt import __version__
from codesign_opt.errors import InputError, MissingExtraError
from codesign_opt.reports.parquet_stream import write_parquet_stream
from codesign_opt.tables import Table

WORDS = {"recompute": ("none", "selective", "full")}

ENDLESS = """
import itertools, sys
from pathlib import Path
import numpy as np
from codesign_opt.reports.parquet_stream import write_parquet_stream
from codesign_opt.tables import Table
table = Table({"step_time": np.random.default_rng(0).random(10_000)})
write_parquet_stream(
    itertools.repeat(table),
    Path(sys.argv[1]),
    title="all",
    total=10**9,
    progress=lambda rows, *_: print(rows, flush=True),
)
"""

PUBLISHED_SPACE = """
import resource, sys
from pathlib import Path
from codesign_opt.catalog import resolve_system, resolve_workload
from codesign_opt.reports.parquet_stream import write_parquet_stream
from codesign_opt.studies.exact import ExactQuestion
from codesign_opt.studies.exact.stream import stream, stream_rows, stream_words
question = ExactQuestion(
    workload=resolve_workload("gpt3-175b"), system=resolve_system("a100-80g"), processors=512, batch=512
)
write_parquet_stream(
    stream(question, codes=True),
    Path(sys.argv[1]),
    title="all",
    total=stream_rows(question),
    words=stream_words(question),
    progress=lambda rows, *_: print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss),
)
"""


def table(step_time: list[float], *, tp: int = 8, recompute: int = 0) -> Table:
    rows = len(step_time)
    return Table(
        {
            "step_time": np.array(step_time),
            "tp": np.full(rows, tp),
            "dp_overlap": np.arange(rows) % 2 == 0,
            "recompute": np.full(rows, recompute, dtype=np.int8),
            "status": np.full(rows, "memory_tier1"),
        },
        {"step_time": "s"},
    )


@dataclass
class Steps:
    """A clock for reports of progress."""

    seen: list[tuple[int, int]]

    def __call__(self, rows: int, total: int, seconds: float) -> None:
        assert seconds >= 0
        self.seen.append((rows, total))


class TestContent:
    def test_values(self, tmp_path: Path) -> None:
        path, steps = tmp_path / "all.parquet", Steps([])
        tables = [table([1.5, 2.5]), table([3.5], tp=4, recompute=2)]
        rows = write_parquet_stream(iter(tables), path, title="all", total=3, words=WORDS, progress=steps)
        assert rows == 3
        assert steps.seen == [(2, 3), (3, 3)]
        assert pyarrow.parquet.read_table(path).to_pydict() == {
            "step_time": [1.5, 2.5, 3.5],
            "tp": [8, 8, 4],
            "dp_overlap": [True, False, True],
            "recompute": ["none", "none", "full"],
            "status": ["memory_tier1"] * 3,
        }

    def test_numbers_keep_every_bit(self, tmp_path: Path) -> None:
        path = tmp_path / "all.parquet"
        numbers = [0.1, -0.0, 5e-324, math.nextafter(1.0, 2.0), 1.7976931348623157e308]
        numbers += np.random.default_rng(1).random(10_000).tolist()
        write_parquet_stream([table(numbers)], path, title="all", total=len(numbers), words=WORDS)
        read = pyarrow.parquet.read_table(path)["step_time"].to_numpy()
        assert read.tobytes() == np.array(numbers).tobytes()

    def test_what_is_not_finite_is_null(self, tmp_path: Path) -> None:
        path = tmp_path / "all.parquet"
        write_parquet_stream([table([1.0, math.nan, math.inf])], path, title="all", total=3, words=WORDS)
        assert pyarrow.parquet.read_table(path)["step_time"].to_pylist() == [1.0, None, None]

    def test_layout(self, tmp_path: Path) -> None:
        """Units and title in the metadata, a row group a table, zstd, dictionaries for all but floats."""
        path = tmp_path / "all.parquet"
        tables = [table([1.0, 2.0]), table([3.0])]
        write_parquet_stream(tables, path, title="gpt3-175b on 512", total=3, words=WORDS)
        file = pyarrow.parquet.ParquetFile(path)
        assert file.schema_arrow.metadata[b"title"] == b"gpt3-175b on 512"
        assert file.schema_arrow.metadata[b"created_by"] == f"codesign-opt {__version__}".encode()
        assert {field.name: field.metadata[b"unit"] for field in file.schema_arrow} == {
            "step_time": b"s", "tp": b"", "dp_overlap": b"", "recompute": b"", "status": b"",
        }  # fmt: skip
        assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [2, 1]
        columns = [file.metadata.row_group(0).column(index) for index in range(5)]
        assert {column.compression for column in columns} == {"ZSTD"}
        encoded = [column.path_in_schema for column in columns if column.has_dictionary_page]
        assert encoded == ["tp", "recompute", "status"]

    def test_no_rows(self, tmp_path: Path) -> None:
        path = tmp_path / "all.parquet"
        assert write_parquet_stream([table([])], path, title="all", total=0, words=WORDS) == 0
        read = pyarrow.parquet.read_table(path)
        assert (read.num_rows, read.column_names[0]) == (0, "step_time")

    def test_no_tables(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="nothing to write"):
            write_parquet_stream([], tmp_path / "all.parquet", title="all", total=0)

    def test_without_pyarrow(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
        with pytest.raises(MissingExtraError, match="parquet"):
            write_parquet_stream([table([1.0])], tmp_path / "all.parquet", title="all", total=1)


class TestInterruption:
    def test_an_error_in_the_middle(self, tmp_path: Path) -> None:
        path = tmp_path / "all.parquet"
        path.write_bytes(b"old")

        def failing() -> Iterator[Table]:
            yield table([1.0])
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            write_parquet_stream(failing(), path, title="all", total=2, words=WORDS)
        assert [entry.name for entry in tmp_path.iterdir()] == ["all.parquet"]
        assert path.read_bytes() == b"old"

    def test_interrupt(self, tmp_path: Path) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            write_parquet_stream(
                [table([1.0])] * 2, tmp_path / "all.parquet", title="all", total=2, words=WORDS, progress=interrupt
            )
        assert list(tmp_path.iterdir()) == []

    def test_a_place_that_cannot_be_written(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="the directory does not exist"):
            write_parquet_stream([table([1.0])], tmp_path / "absent" / "x.parquet", title="all", total=1, words=WORDS)

    def test_kill(self, tmp_path: Path) -> None:
        """No file under the name; what is left is removed by the next run that succeeds."""
        path = tmp_path / "all.parquet"
        with subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            while int(process.stdout.readline()) < 50_000:
                pass
            process.kill()
        (leftover,) = tmp_path.iterdir()
        assert leftover.name.startswith(".all.parquet.")
        assert leftover.stat().st_size > 100_000
        write_parquet_stream([table([1.0])], path, title="all", total=1, words=WORDS)
        assert list(tmp_path.iterdir()) == [path]
        assert pyarrow.parquet.read_table(path).num_rows == 1


@pytest.mark.slow
def test_memory_stays_flat(tmp_path: Path) -> None:
    """The peak at a third of a space of millions of strategies is that at the end."""
    path = tmp_path / "all.parquet"
    run = subprocess.run([sys.executable, "-c", PUBLISHED_SPACE, str(path)], capture_output=True, text=True, check=True)
    peaks = [(int(rows), int(peak)) for rows, peak in map(str.split, run.stdout.splitlines())]
    rows, last = peaks[-1]
    assert rows == pyarrow.parquet.read_metadata(path).num_rows > 2_400_000
    third = next(peak for count, peak in peaks if count > rows / 3)
    assert last < 1.05 * third
