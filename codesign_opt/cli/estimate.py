"""`codesign-opt estimate`: one strategy on one system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign_opt.cli import options
from codesign_opt.cli.strategy_options import column_values, with_strategy_options
from codesign_opt.errors import InfeasibleError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codesign_opt.objectives.intervals import Interval
    from codesign_opt.strategies import Strategy
    from codesign_opt.systems import System
    from codesign_opt.tables import Table
    from codesign_opt.workloads import Workload

_STRATEGY = typer.Option(
    "--strategy", metavar="FILE", help="Strategy: a TOML file, or an execution JSON; options change what it says."
)
_TARGET = typer.Option(
    "--target", metavar="|".join(options.TARGETS), autocompletion=options.words(options.TARGETS),
    help="Framework that is to run it: what it refuses is reported, rule by rule.",
)  # fmt: skip
_LAYOUT = typer.Option("--layout", help="The target is told the blocks of each stage, so that they may differ.")
_OPERATIONS = typer.Option("--operations", help="Also list the operations of one block.")

EXAMPLES = options.examples(
    "codesign-opt estimate --workload gpt3-175b --system a100-80g \\",
    "  --tp 8 --pp 8 --dp 8 --batch 512 --recompute full",
    "codesign-opt estimate --workload gpt3-175b --system a100-80g --strategy best.toml --json",
    "codesign-opt estimate --workload gpt3-175b --system a100-80g \\",
    "  --tp 8 --pp 8 --dp 8 --batch 512 --zero 1 --target megatron-lm",
)

_METRICS = (
    "step_time", "sample_rate", "token_rate", "token_rate_per_processor", "mfu", "mfu_causal", "bubble_share",
    "exposed_communication_time", "system_price", "cost_per_million_tokens", "energy_per_token", "power_average",
)  # fmt: skip
"""What people see beside the breakdowns; JSON holds every metric."""

_WORDS = {"mfu": " (full attention)", "mfu_causal": " (causal attention counts half)"}


@with_strategy_options
def estimate(
    workload: Annotated[str, options.WORKLOAD],
    system: Annotated[str, options.SYSTEM],
    columns: dict[str, Any],
    strategy: Annotated[Path | None, _STRATEGY] = None,
    sequence_length: Annotated[str | None, options.SEQUENCE_LENGTH] = None,
    target: Annotated[str, _TARGET] = "free",
    layout: Annotated[bool, _LAYOUT] = False,
    reproduce: Annotated[str, options.REPRODUCE] = "none",
    operations: Annotated[bool, _OPERATIONS] = False,
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """Estimate one strategy on one system.

    Shows where the time of a step and the memory of a processor go.
    """
    from codesign_opt.catalog import resolve_system
    from codesign_opt.cli.strategy_input import strategy as strategy_of
    from codesign_opt.cli.values import choice
    from codesign_opt.cli.workload_input import workload_of

    changes = column_values(columns)
    framework = choice(target, "--target", options.TARGETS)
    machine = resolve_system(system, where="--system")
    shape = workload_of(workload, sequence_length)
    _estimate(
        shape,
        machine,
        strategy_of(strategy, changes, machine, workload=shape, target=framework),
        target=framework,
        layout=layout,
        reproduce=reproduce,
        operations=operations,
        json=json,
    )


def require_fit(row: Mapping[str, Any], system: System) -> None:
    """Raise an InfeasibleError that names the tier and how much is missing, where the strategy does not fit."""
    from codesign_opt.units import format_quantity

    tier = row["status"]
    if not tier:
        return
    need, capacity = row[f"{tier}_used"], getattr(system, tier).capacity
    used, there, missing = (format_quantity(value, "B") for value in (need, capacity, need - capacity))
    raise InfeasibleError(
        f"does not fit: {tier} needs {used} and has {there}, {missing} too little",
        "more tp or pp, a smaller microbatch, recompute, optimizer_sharding and offload lower the need",
        tier,
    )


def _estimate(
    workload: Workload,
    system: System,
    strategy: Strategy,
    *,
    target: str,
    layout: bool,
    reproduce: str,
    operations: bool,
    json: bool,
) -> None:
    from codesign_opt import api
    from codesign_opt.analytical.errata import parse_errata
    from codesign_opt.cli.output import write, write_json

    errata = parse_errata(reproduce, where="--reproduce")
    table = api.estimate(workload, system, strategy, target=target, layout=layout, reproduce=reproduce)
    listed = None
    if operations:
        from codesign_opt.analytical.operation_list import operation_list

        listed = operation_list(workload, system, strategy, reproduce=errata)
    # Published runs were compared with the corrected model, and were training.
    interval = _interval(workload, system, strategy) if strategy.training and not errata else None
    if json:
        write_json(_document(table, workload, system, sorted(erratum.name for erratum in errata), listed, interval))
    else:
        write("\n\n".join(_sections(table, workload, system, listed, interval)))
    require_fit(table.row(0), system)


def _interval(workload: Workload, system: System, strategy: Strategy) -> Interval | None:
    from codesign_opt.objectives.intervals import intervals_for
    from codesign_opt.strategies.table import StrategyTable

    return intervals_for(workload, system, StrategyTable.from_strategies([strategy]))[0]


def _document(
    table: Table,
    workload: Workload,
    system: System,
    errata: list[str],
    operations: Table | None,
    interval: Interval | None,
) -> dict[str, Any]:
    """The estimate for programs: SI numbers, units named."""
    from codesign_opt.cli.output import table_document
    from codesign_opt.strategies.table import COLUMNS

    row = table_document(table)["rows"][0]
    metrics = {
        name: {"value": value, "unit": table.units[name]}
        for name, value in row.items()
        if name != "status" and name not in COLUMNS
    }
    return {
        "workload": workload.name,
        "system": system.name,
        "reproduce": errata,
        "status": row["status"],
        "strategy": {name: row[name] for name in COLUMNS},
        "metrics": metrics,
        **({} if interval is None else {"interval": _interval_document(interval, metrics["step_time"]["value"])}),
        **({} if operations is None else {"operations": table_document(operations)}),
    }


def _sections(
    table: Table, workload: Workload, system: System, operations: Table | None, interval: Interval | None
) -> list[str]:
    """The estimate for people."""
    from codesign_opt.cli.output import width
    from codesign_opt.reports import format_table, memory_breakdown_text, time_breakdown_text
    from codesign_opt.reports.values import human

    row = table.row(0)
    shown = [name for name in _METRICS if name in row]
    size = max(map(len, shown))
    sections = [
        _title(row, workload, system),
        time_breakdown_text(row),
        memory_breakdown_text({**row, **_capacities(system)}),
        "\n".join(f"{name:<{size}}  {human(row[name], table.units[name])}{_WORDS.get(name, '')}" for name in shown),
    ]
    if interval is not None:
        sections.append(_interval_text(interval, row["step_time"]))
    if operations is not None:
        used = [name for name in operations if name == "name" or operations[name].any()]
        sections.append("one block and microbatch:\n" + format_table(operations, columns=used, width=width()))
    return sections


def _interval_document(interval: Interval, step_time: float) -> dict[str, Any]:
    """Seconds within which comparable published runs lie, and which those are."""
    from dataclasses import asdict

    from codesign_opt.objectives.intervals import SHARE

    ends = {name: getattr(interval, name) * step_time for name in ("lower", "upper")}
    return {**asdict(interval), **ends, "unit": "s", "share": SHARE}


def _interval_text(interval: Interval, step_time: float) -> str:
    import textwrap

    from codesign_opt.cli.output import width
    from codesign_opt.objectives.intervals import ANY, SHARE
    from codesign_opt.units import format_quantity

    lower, upper = (format_quantity(end * step_time, "s") for end in (interval.lower, interval.upper))
    kinds = [word for word in (interval.generation, interval.parallelism) if word != ANY]
    of = f"{', '.join(kinds)}: " if kinds else ""
    return textwrap.fill(
        f"{SHARE:.0%} of comparable published runs: {lower} to {upper} "
        f"({of}{interval.runs} runs of {interval.families} collections)",
        width(),
    )


def _title(row: Mapping[str, Any], workload: Workload, system: System) -> str:
    """What is estimated: the sizes, then every option that is not at its default."""
    from dataclasses import MISSING, fields

    from codesign_opt.strategies import Strategy

    sizes = ("tp", "pp", "dp", "vpp", "batch", "microbatch")
    parts = [" ".join(f"{name} {row[name]}" for name in sizes)]
    for field in fields(Strategy):
        default = getattr(field.default, "value", field.default)
        if default is not MISSING and field.name not in sizes and row[field.name] != default:
            value = row[field.name]
            parts.append(field.name if value is True else f"{field.name} {'off' if value is False else value}")
    return f"{workload.name} on {row['processors']} × {system.name}\n" + ", ".join(parts)


def _capacities(system: System) -> dict[str, float]:
    return {f"{name}_capacity": getattr(system, name).capacity for name in ("memory_tier1", "memory_tier2")}
