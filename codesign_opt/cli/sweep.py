"""`codesign-opt sweep`: every strategy of a space, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign_opt.cli import options
from codesign_opt.cli.errors import naming_options
from codesign_opt.errors import InputError

if TYPE_CHECKING:
    from codesign_opt.api import SweepResult

EXAMPLES = options.examples(
    "codesign-opt sweep --workload gpt3-175b --system a100-80g --processors 512 --batch 512",
    "codesign-opt sweep --workload gpt3-175b --system a100-80g --processors 512 --batch 512 \\",
    "  --limit tp=8 --limit recompute=full --constraint 'memory_tier1_used <= 70 GiB' --output best.csv",
)

_TOP = typer.Option("--top", metavar="N", help="How many strategies to return, best first.")
_OUTPUT = typer.Option("--output", metavar="FILE", help="Also write them to a csv, json, parquet or html file.")

_ALL = typer.Option("--all", help="Write every strategy, feasible or not, into the parquet file of --output.")

_KEYS = (
    "workload", "system", "processors", "batch", "datatype", "strategies", "objectives", "constraints", "reproduce",
)  # fmt: skip
"""The keys of a study that options of this command say."""

_COLUMNS = ("step_time", "mfu", "memory_tier1_used", "tp", "pp", "dp", "vpp", "microbatch", "recompute")
_OTHER_COLUMNS = (
    "tp_communication", "tp_overlap", "optimizer_sharding", "dp_overlap", "weight_offload", "activation_offload",
    "optimizer_offload", "batch",
)  # fmt: skip
"""Options that people see where strategies differ in them, or once where they do not; files hold everything."""


def sweep(
    workload: Annotated[str, options.WORKLOAD],
    system: Annotated[str, options.SYSTEM],
    processors: Annotated[str, options.PROCESSORS],
    batch: Annotated[str, options.BATCH],
    datatype: Annotated[str, options.DATATYPE] = "float16",
    sequence_length: Annotated[str | None, options.SEQUENCE_LENGTH] = None,
    limit: Annotated[list[str] | None, options.LIMITS] = None,
    uneven_stages: Annotated[bool, options.UNEVEN_STAGES] = False,
    all_divisors: Annotated[bool, options.ALL_DIVISORS] = False,
    target: Annotated[str, options.TARGET] = "free",
    objective: Annotated[list[str] | None, options.OBJECTIVES] = None,
    constraint: Annotated[list[str] | None, options.CONSTRAINTS] = None,
    top: Annotated[str, _TOP] = "10",
    reproduce: Annotated[str, options.REPRODUCE] = "none",
    output: Annotated[Path | None, _OUTPUT] = None,
    every: Annotated[bool, _ALL] = False,
    quiet: Annotated[bool, options.QUIET] = False,
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """Evaluate every legal strategy; print the best.

    The answer is exact: nothing is sampled. Without --objective the step time is minimised; with several objectives
    the Pareto front follows the best strategies.
    """
    from codesign_opt import api
    from codesign_opt.cli import values
    from codesign_opt.cli.output import write_table_file
    from codesign_opt.cli.progress import waiting
    from codesign_opt.cli.workload_input import workload_of
    from codesign_opt.reports import format_for

    if output is not None:
        format_for(output)
    framework = values.choice(target, "--target", options.TARGETS)
    shape = workload_of(workload, sequence_length, quiet=quiet)
    if every:
        _write_all(
            output, quiet=quiet, workload=shape, system=system,
            processors=values.whole_number(processors, "--processors"), batch=values.whole_number(batch, "--batch"),
            datatype=values.choice(datatype, "--datatype", options.DATATYPES), limits=values.limits(limit or ()),
            uneven_stages=uneven_stages, all_divisors=all_divisors, target=framework, constraints=constraint or (),
            reproduce=reproduce,
        )  # fmt: skip
        return
    with naming_options("sweep", _KEYS), waiting("evaluating every strategy", quiet=quiet):
        result = api.sweep(
            shape,
            system,
            processors=values.whole_number(processors, "--processors"),
            batch=values.whole_number(batch, "--batch"),
            datatype=values.choice(datatype, "--datatype", options.DATATYPES),
            limits=values.limits(limit or ()),
            uneven_stages=uneven_stages,
            all_divisors=all_divisors,
            target=framework,
            objectives=objective or ("step_time",),
            constraints=constraint or (),
            top=values.whole_number(top, "--top"),
            reproduce=reproduce,
        )
    named = [text.split()[-1] for text in objective or ()]
    if output is not None:
        write_table_file(result.table, output, title=f"{shape.name} on {processors} × {system}", axes=named)
    _write(result, named, quiet=quiet, json=json)


def _write_all(output: Path | None, *, quiet: bool, **keys: Any) -> None:
    from codesign_opt import api
    from codesign_opt.cli.output import note
    from codesign_opt.cli.progress import reporting

    if output is None or output.suffix != ".parquet":
        raise InputError("--all: needs a parquet file to write to", "add --output all.parquet")
    with naming_options("sweep", _KEYS), reporting("every strategy", quiet=quiet) as report:

        def tell(rows: int, total: int, seconds: float) -> None:
            rate = rows / max(seconds, 1e-9)
            report(rows / max(total, 1), f"{rows:,} of {total:,}, {rate:,.0f}/s, {(total - rows) / rate:.0f} s left")

        rows = api.sweep_all(output=output, progress=tell, **keys)
    if not quiet:
        note(f"wrote {rows:,} strategies to {output}")


def _write(result: SweepResult, objectives: list[str], *, quiet: bool, json: bool) -> None:
    from codesign_opt.cli.output import (
        common_text,
        differing,
        note,
        readable_table,
        table_document,
        telling,
        write,
        write_json,
    )

    if not quiet:
        note(f"{result.seconds:.2f} s, {result.legal / max(result.seconds, 1e-9):,.0f} strategies a second")
    table = result.table
    if json:
        write_json(
            {
                "considered": result.considered,
                "legal": result.legal,
                "feasible": result.feasible,
                "excluded": dict(result.excluded),
                "seconds": result.seconds,
                "strategies": table_document(table),
            }
        )
        return
    write(_counts(result))
    write("")
    others = telling(table, _OTHER_COLUMNS)
    write(readable_table(table, ["rank", *objectives, *_COLUMNS, *differing(table, others)]))
    if common := common_text(table, others):
        write("\n" + common)


def _counts(result: SweepResult) -> str:
    """How many strategies there are, and what became of them; the network is judged before legality is counted."""
    lines = [("combinations covered", result.considered), ("legal", result.legal)]
    for reason, count in result.excluded.items():
        lines.insert(1 if reason == "network" else len(lines), (f"excluded by {reason}", count))
    lines.append(("feasible", result.feasible))
    return "\n".join(f"{count:>15,}  {what}" for what, count in lines)
