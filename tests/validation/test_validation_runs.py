"""Reading measured runs: typed values, and one clear message for whatever is wrong with a file."""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from pathlib import Path

import pytest

from codesign_opt.errors import InputError
from codesign_opt.validation import MeasuredRun, read_runs
from codesign_opt.validation.columns import columns_of

GIB = 2**30
REQUIRED = {entry.name: "" for entry in columns_of(MeasuredRun) if entry.required}
ROW = {
    **REQUIRED,
    "family": "mine",
    "row_id": "mine-1",
    "train_type": "pretrain",
    "model": "Llama3-8B",
    "gpu": "H100",
    "num_gpus": "8",
    "params_B": "8.03",
    "gated_mlp": "y",
    "step_time_s_best": "1.5",
}


def written(path: Path, *rows: dict[str, str], header: list[str] | None = None) -> Path:
    text = io.StringIO()
    writer = csv.writer(text)
    names = header or list(rows[0])
    writer.writerow(names)
    writer.writerows([row[name] for name in names] for row in rows)
    path.write_text(text.getvalue(), encoding="utf-8")
    return path


def test_the_shipped_file_has_all_rows(runs: dict[str, MeasuredRun]) -> None:
    assert len(runs) == 1572
    assert Counter(run.family for run in runs.values()) == {
        "vtrain_a100": 400,
        "nanotron_ultrascale": 384,
        "megatron_bridge": 237,
        "llm_foundry_mpt": 216,
        "bigscience_v100": 80,
        "internevo_a100": 70,
        "maxtext_tpu": 65,
        "megatron_sc21": 35,
        "jax_toolbox_pax": 27,
        "primus_amd": 20,
        "nemo_launcher_a100": 12,
        "korthikanti_2205_05198": 10,
        "training_reports": 9,
        "automodel_h100": 7,
    }
    assert Counter(run.tier for run in runs.values()) == {"A": 925, "B": 570, "C": 77}
    assert sum(run.out_of_memory is True for run in runs.values()) == 126


def test_a_row_has_si_values_and_none_for_what_is_missing(runs: dict[str, MeasuredRun]) -> None:
    run = runs["nanotron_ultrascale-0001"]
    assert (run.layers, run.hidden, run.heads, run.head_size) == (16, 2048, 32, 64)
    assert run.parameters == pytest.approx(1.34e9)
    assert run.memory == pytest.approx(11.32 * GIB)
    assert run.reserved_memory == pytest.approx(20.84 * GIB)
    assert run.flop_rate == pytest.approx(356.68e12)
    assert run.model_flop_utilization == pytest.approx(0.42062)
    assert (run.gated_mlp, run.sequence_parallel, run.out_of_memory) == (True, True, False)
    assert (run.experts, run.latent_attention, run.shard_group, run.inter_network) == (None, None, None, None)
    assert run.line == 2


def test_plain_and_compressed_files_are_alike(tmp_path: Path) -> None:
    plain = written(tmp_path / "runs.csv", ROW, {**ROW, "row_id": "mine-2"})
    compressed = tmp_path / "runs.csv.gz"
    compressed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_runs(plain) == read_runs(compressed)
    run = read_runs(plain)[1]
    assert (run.row_id, run.line, run.processors, run.step_seconds, run.notes, run.tier) == (
        "mine-2", 3, 8, 1.5, None, None,
    )  # fmt: skip


def test_order_further_columns_blank_lines_and_a_byte_order_mark_do_not_matter(tmp_path: Path) -> None:
    path = written(tmp_path / "runs.csv", {**ROW, "cluster": "east"}, header=[*reversed(REQUIRED), "cluster"])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + b"\n\n" + b"," * len(REQUIRED) + b"\n")
    assert [run.model for run in read_runs(path)] == ["Llama3-8B"]


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_column_is_named(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / "runs.csv", ROW, header=[other for other in REQUIRED if other != name])
    with pytest.raises(InputError, match=rf"runs\.csv: missing column '{name}'"):
        read_runs(path)


def test_a_misspelt_column_gets_the_near_one(tmp_path: Path) -> None:
    path = written(tmp_path / "runs.csv", {**ROW, "recompte": ""}, header=[*REQUIRED, "recompte"])
    path.write_text(path.read_text().replace("recompute,", "", 1).replace(",,", ",", 1))
    with pytest.raises(InputError, match=r"missing column 'recompute' \(did you mean 'recompte'"):
        read_runs(path)


@pytest.mark.parametrize(
    ("column", "value", "parts"),
    [
        ("layers", "many", ["line 3: layers: 'many'", "a number"]),
        ("layers", "3.5", ["line 3: layers: '3.5'", "a whole number of at least 1"]),
        ("tp", "0", ["line 3: tp: '0'", "at least 1"]),
        ("step_time_s_best", "-1", ["line 3: step_time_s_best: '-1'", "at least 0"]),
        ("step_time_s_best", "nan", ["line 3: step_time_s_best: 'nan'", "a finite number"]),
        ("step_time_s_best", "1,5", ["line 3: step_time_s_best: '1,5'"]),
        ("gated_mlp", "yes", ["line 3: gated_mlp: 'yes'", "y or n"]),
        ("fsdp_zero", "zero4", ["line 3: fsdp_zero: 'zero4'", "none, zero1, zero2, zero3, hsdp_zero3"]),
        ("precision", "int8", ["line 3: precision: 'int8'", "fp16, bf16, fp8, mxfp8, nvfp4"]),
        ("num_gpus", "", ["line 3: num_gpus: empty", "must have a value"]),
        ("row_id", "mine-1", ["line 3: row_id 'mine-1' is that of line 2"]),
        ("layers", "9" * 5000, ["line 3: layers"]),
    ],
)
def test_a_bad_value_is_named_with_line_and_column(column: str, value: str, parts: list[str], tmp_path: Path) -> None:
    path = written(tmp_path / "runs.csv", ROW, {**ROW, "row_id": "mine-2", column: value})
    with pytest.raises(InputError) as caught:
        read_runs(path)
    for part in (f"{path}: ", *parts):
        assert part in str(caught.value)
    assert len(str(caught.value)) < 400


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.csv: no such file"):
        read_runs(tmp_path / "missing.csv")
    with pytest.raises(InputError, match="Is a directory"):
        read_runs(tmp_path)
    damaged = tmp_path / "damaged.csv.gz"
    damaged.write_bytes(gzip.compress(b"family,row_id\n" * 1000)[:-12])
    with pytest.raises(InputError, match="compressed file is damaged"):
        read_runs(damaged)
    latin = tmp_path / "latin.csv"
    latin.write_bytes("größe\n".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8 at byte 2"):
        read_runs(latin)


def test_files_that_are_no_table(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("")
    with pytest.raises(InputError, match="missing columns 'family'"):
        read_runs(path)
    header = ",".join(REQUIRED)
    path.write_text(f"{header}\n")
    with pytest.raises(InputError, match="no rows"):
        read_runs(path)
    path.write_text(f"{header}\na,b\n")
    with pytest.raises(InputError, match=rf"line 2: 2 cells, but the header has {len(REQUIRED)}"):
        read_runs(path)
    path.write_text(f"{header},tp\n")
    with pytest.raises(InputError, match="column 'tp' occurs twice"):
        read_runs(path)
    path.write_text(f'{header}\n"unfinished\n')
    with pytest.raises(InputError, match="line 2: "):
        read_runs(path)
