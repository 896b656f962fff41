"""Measured training runs, a row of a CSV file each."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from codesign_opt.errors import InputError, nearest
from codesign_opt.validation.columns import Column, column, columns_of, flag, quantity, text, whole, word

_GIB = 2.0**30


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """One published run: what was trained, on what, how, and what was measured. What a source does not say is None.

    Sizes are in elements, times in seconds, memory in bytes, batches in sequences. Sources print GiB and write GB, so a
    measured memory of "25.07 GB" is 25.07 GiB here.

    Attributes:
        line: Line of the file.
        family: The collection of runs that it belongs to.
        row_id: Its name, unique in the file.
        train_type: pretrain, sft (all weights) or lora (adapters).
        parameters, active_parameters: Of the model; as named, often rounded.
        expert_blocks: Blocks with experts.
        latent_attention: Whether attention is latent (MLA).
        processor, processor_memory: The device that the source counts, and the GB that its name says.
        node_size: Processors of a node.
        intra_link, inter_network: Links inside a node and between nodes, as the source words them.
        processors: All of them.
        dp: Data-parallel degree: processors / (tp · pp · cp), so that experts are split inside it.
        sharding: What is sharded over data-parallel processors: none, zero1, zero2, zero3, hsdp_zero3.
        shard_implementation, shard_group: By which software, and among how many.
        microbatch, batch, accumulation: Sequences of a replica at once and of a step; microbatches of a step.
        recompute: none, selective, full, partial or offload.
        attention: flash, memory-efficient or non-flash.
        precision: fp16, bf16, fp8, mxfp8 or nvfp4.
        step_seconds: Time of a step; `step_basis` says whether it was printed or follows from a rate.
        rate: Tokens/s of one processor, as printed.
        flop_rate: Flop/s of one processor, as printed.
        model_flop_utilization: Share of the peak, as printed.
        memory, reserved_memory: Measured memory, and the allocator's; `memory_kind` says what the first is.
        out_of_memory: Whether the run failed for want of memory.
        tier: A: whole and printed; B: one thing is missing or derived; C: more is missing, or second hand.
        notes: Further facts in words.
    """

    line: int
    family: str = column("family", text, filled=True)
    row_id: str = column("row_id", text, filled=True)
    source: str | None = column("source", text, required=False)
    year: int | None = column("year", whole, required=False)
    train_type: str = column("train_type", word("pretrain", "sft", "lora"), filled=True)
    model: str = column("model", text, filled=True)
    parameters: float | None = column("params_B", quantity(1e9))
    active_parameters: float | None = column("active_params_B", quantity(1e9), required=False)
    layers: int | None = column("layers", whole)
    hidden: int | None = column("hidden", whole)
    heads: int | None = column("heads", whole)
    kv_heads: int | None = column("kv_heads", whole)
    head_size: int | None = column("head_dim", whole)
    feedforward: int | None = column("ffn", whole)
    gated_mlp: bool | None = column("gated_mlp", flag)
    vocabulary: int | None = column("vocab", whole)
    sequence_length: int | None = column("seq_len", whole)
    experts: int | None = column("experts", whole)
    top_k: int | None = column("topk", whole)
    expert_feedforward: int | None = column("moe_ffn", whole)
    shared_feedforward: int | None = column("shared_expert_ffn", whole)
    expert_blocks: int | None = column("moe_layers", whole)
    latent_attention: bool | None = column("mla", flag)
    processor: str = column("gpu", text, filled=True)
    processor_memory: float | None = column("gpu_mem_GB", quantity(1.0))
    node_size: int | None = column("gpus_per_node", whole)
    intra_link: str | None = column("intra_link", text)
    inter_network: str | None = column("inter_net", text)
    processors: int = column("num_gpus", whole, filled=True)
    tp: int | None = column("tp", whole)
    pp: int | None = column("pp", whole)
    dp: int | None = column("dp", whole)
    cp: int | None = column("cp", whole)
    ep: int | None = column("ep", whole)
    etp: int | None = column("etp", whole)
    vpp: int | None = column("vpp", whole)
    sequence_parallel: bool | None = column("seq_parallel", flag)
    sharding: str | None = column("fsdp_zero", word("none", "zero1", "zero2", "zero3", "hsdp_zero3"))
    shard_implementation: str | None = column("shard_impl", text)
    shard_group: int | None = column("fsdp_shard_size", whole)
    microbatch: int | None = column("mbs", whole)
    batch: int | None = column("gbs", whole)
    accumulation: int | None = column("grad_accum", whole)
    recompute: str | None = column("recompute", word("none", "selective", "full", "partial", "offload"))
    attention: str | None = column("attention", word("flash", "memory-efficient", "non-flash"))
    precision: str | None = column("precision", word("fp16", "bf16", "fp8", "mxfp8", "nvfp4"))
    software: str | None = column("software", text)
    step_seconds: float | None = column("step_time_s_best", quantity(1.0))
    step_basis: str | None = column("step_time_basis", text, required=False)
    rate: float | None = column("tokens_per_s_per_gpu", quantity(1.0))
    flop_rate: float | None = column("tflops_per_gpu", quantity(1e12), required=False)
    model_flop_utilization: float | None = column("mfu_pct", quantity(0.01), required=False)
    memory: float | None = column("memory_GB", quantity(_GIB))
    reserved_memory: float | None = column("memory_reserved_GB", quantity(_GIB))
    memory_kind: str | None = column("mem_kind", text, required=False)
    out_of_memory: bool | None = column("oom", flag)
    tier: str | None = column("tier", word("A", "B", "C"), required=False)
    notes: str | None = column("notes", text, required=False)


def shipped_runs() -> tuple[MeasuredRun, ...]:
    """The published runs that come with the package (`catalog/measurements`)."""
    return read_runs(Path(str(resources.files("codesign_opt.catalog"))) / "measurements" / "measured_runs.csv.gz")


def read_runs(path: str | Path) -> tuple[MeasuredRun, ...]:
    """The runs of a CSV file with the columns of the shipped one, plain or compressed by gzip; others are ignored.

    Raises:
        InputError: For a file that cannot be read, a missing column, or a value that a column may not have; the message
            names file, line, column and value.
    """
    rows = _rows(Path(path))
    header = next(rows, (1, []))[1]
    columns = _columns(header, path)
    empty = {entry.field: None for entry in columns_of(MeasuredRun)}
    runs = [
        MeasuredRun(line=line, **empty | _values(_cells(header, cells, line, path), columns, f"{path}: line {line}"))
        for line, cells in rows
        if any(cells)
    ]
    if not runs:
        raise InputError(f"{path}: no rows", "a header and at least one row")
    _check_unique(runs, path)
    return tuple(runs)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and stripped cells of every row."""
    reader = csv.reader(io.StringIO(_content(path), newline=""), strict=True)
    try:
        for cells in reader:
            yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise InputError(
            f"{path}: line {reader.line_num}: {error}", "a CSV file, with quotes doubled inside quotes"
        ) from None


def _content(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", "give the path of a CSV file, plain or .gz") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}", "give the path of a CSV file, plain or .gz") from None
    try:
        return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error):
        raise InputError(f"{path}: the compressed file is damaged", "compress it again with gzip") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}", "save it as a CSV file in UTF-8") from None


def _columns(header: list[str], path: str | Path) -> list[Column]:
    """The columns that the file has."""
    if twice := [name for name in dict.fromkeys(header) if name and header.count(name) > 1]:
        raise InputError(f"{path}: column '{twice[0]}' occurs twice", "rename or remove one of them")
    columns = list(columns_of(MeasuredRun))
    missing = [entry.name for entry in columns if entry.required and entry.name not in header]
    if missing:
        hint = nearest(missing[0], header) if header else "the first line names the columns"
        names = ", ".join(f"'{name}'" for name in missing)
        raise InputError(f"{path}: missing column{'s' if len(missing) > 1 else ''} {names}", hint)
    return [entry for entry in columns if entry.name in header]


def _cells(header: list[str], cells: list[str], line: int, path: str | Path) -> dict[str, str]:
    if len(cells) != len(header):
        raise InputError(
            f"{path}: line {line}: {len(cells)} cells, but the header has {len(header)}", "one for each column"
        )
    return dict(zip(header, cells, strict=True))


def _values(cells: dict[str, str], columns: list[Column], where: str) -> dict[str, Any]:
    """The fields that cells which are not empty fill."""
    values = {}
    for entry in columns:
        cell = cells[entry.name]
        if cell:
            try:
                values[entry.field] = entry.parse(cell)
            except ValueError as allowed:
                raise InputError(
                    f"{where}: {entry.name}: '{cell[:60]}' is not allowed", f"allowed: {allowed}"
                ) from None
        elif entry.filled:
            raise InputError(f"{where}: {entry.name}: empty", "this column must have a value in every row")
    return values


def _check_unique(runs: Iterable[MeasuredRun], path: str | Path) -> None:
    first: dict[str, int] = {}
    for run in runs:
        if run.row_id in first:
            raise InputError(
                f"{path}: line {run.line}: row_id '{run.row_id}' is that of line {first[run.row_id]}",
                "give each its own",
            )
        first[run.row_id] = run.line
