"""`codesign-opt estimate`: one strategy on one system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign_opt.cli import options
from codesign_opt.errors import InfeasibleError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codesign_opt.strategies import Strategy
    from codesign_opt.systems import System
    from codesign_opt.tables import Table
    from codesign_opt.workloads import Workload

_STRATEGY = typer.Option(
    "--strategy", metavar="FILE", help="Strategy: a TOML file, or an execution JSON; options change what it says."
)
_PROCESSORS = typer.Option("--processors", metavar="N", help="Number of processors; tp · pp · dp if absent.")
_BATCH = typer.Option("--batch", metavar="N", help="Global batch, sequences.")
_OPERATIONS = typer.Option("--operations", help="Also list the operations of one block.")

EXAMPLES = options.examples(
    "codesign-opt estimate --workload gpt3-175b --system a100-80g \\",
    "  --tp 8 --pp 8 --dp 8 --batch 512 --recompute full",
    "codesign-opt estimate --workload gpt3-175b --system a100-80g --strategy best.toml --json",
)

_METRICS = (
    "step_time", "sample_rate", "token_rate", "token_rate_per_processor", "mfu", "bubble_share",
    "exposed_communication_time", "system_price", "cost_per_million_tokens", "energy_per_token", "power_average",
)  # fmt: skip
"""What people see beside the breakdowns; JSON holds every metric."""


def _count(name: str, what: str) -> Any:
    return typer.Option(f"--{name}", metavar="N", help=what)


def _word(name: str, words: tuple[str, ...], what: str) -> Any:
    return typer.Option(f"--{name}", metavar="|".join(words), help=what, autocompletion=options.words(words))


def _flag(name: str, what: str) -> Any:
    return typer.Option(f"--{name}/--no-{name}", show_default=False, help=what)


def estimate(
    workload: Annotated[str, options.WORKLOAD],
    system: Annotated[str, options.SYSTEM],
    strategy: Annotated[Path | None, _STRATEGY] = None,
    processors: Annotated[str | None, _PROCESSORS] = None,
    tp: Annotated[str | None, _count("tp", "Tensor-parallel degree.")] = None,
    pp: Annotated[str | None, _count("pp", "Pipeline-parallel degree.")] = None,
    dp: Annotated[str | None, _count("dp", "Data-parallel degree.")] = None,
    vpp: Annotated[str | None, _count("vpp", "Chunks of the interleaved schedule per stage.")] = None,
    batch: Annotated[str | None, _BATCH] = None,
    microbatch: Annotated[str | None, _count("microbatch", "Sequences of a microbatch.")] = None,
    datatype: Annotated[str | None, options.DATATYPE] = None,
    attention: Annotated[str | None, _word("attention", options.ATTENTIONS, "Key and value heads.")] = None,
    recompute: Annotated[
        str | None, _word("recompute", options.RECOMPUTES, "What the backward pass computes again.")
    ] = None,
    tp_communication: Annotated[
        str | None, _word("tp-communication", options.TP_COMMUNICATIONS, "Collectives of tensor parallelism.")
    ] = None,
    tp_overlap: Annotated[
        str | None, _word("tp-overlap", options.TP_OVERLAPS, "How they hide behind matrix products.")
    ] = None,
    fused_activation: Annotated[
        bool | None, _flag("fused-activation", "The MLP activation keeps nothing for the backward pass.")
    ] = None,
    gather_redo: Annotated[bool | None, _flag("gather-redo", "Gather again in the backward pass.")] = None,
    optimizer_sharding: Annotated[
        bool | None, _flag("optimizer-sharding", "Optimizer state split over data parallelism.")
    ] = None,
    dp_overlap: Annotated[bool | None, _flag("dp-overlap", "Gradient exchange hides behind the backward pass.")] = None,
    weight_offload: Annotated[bool | None, _flag("weight-offload", "Weights in memory tier 2.")] = None,
    activation_offload: Annotated[bool | None, _flag("activation-offload", "Activations in memory tier 2.")] = None,
    optimizer_offload: Annotated[bool | None, _flag("optimizer-offload", "Optimizer state in memory tier 2.")] = None,
    training: Annotated[bool | None, _flag("training", "--no-training is a forward pass only.")] = None,
    tp_tier: Annotated[str | None, _count("tp-tier", "Network tier of tensor parallelism, from 0.")] = None,
    pp_tier: Annotated[str | None, _count("pp-tier", "Network tier of pipeline parallelism.")] = None,
    dp_tier: Annotated[str | None, _count("dp-tier", "Network tier of data parallelism.")] = None,
    reproduce: Annotated[str, options.REPRODUCE] = "none",
    operations: Annotated[bool, _OPERATIONS] = False,
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """Estimate one strategy on one system.

    Shows where the time of a step and the memory of a processor go.
    """
    from codesign_opt.catalog import resolve_system, resolve_workload
    from codesign_opt.cli.strategy_input import strategy as strategy_of
    from codesign_opt.cli.values import choice, whole_number

    counts = {
        "processors": processors, "tp": tp, "pp": pp, "dp": dp, "vpp": vpp, "batch": batch, "microbatch": microbatch,
    }  # fmt: skip
    tiers = {"tp_tier": tp_tier, "pp_tier": pp_tier, "dp_tier": dp_tier}
    words = {
        "datatype": (datatype, options.DATATYPES),
        "attention": (attention, options.ATTENTIONS),
        "recompute": (recompute, options.RECOMPUTES),
        "tp_communication": (tp_communication, options.TP_COMMUNICATIONS),
        "tp_overlap": (tp_overlap, options.TP_OVERLAPS),
    }
    flags = {
        "fused_activation": fused_activation, "gather_redo": gather_redo, "optimizer_sharding": optimizer_sharding,
        "dp_overlap": dp_overlap, "weight_offload": weight_offload, "activation_offload": activation_offload,
        "optimizer_offload": optimizer_offload, "training": training,
    }  # fmt: skip
    given: dict[str, Any] = {name: whole_number(text, f"--{name}") for name, text in counts.items() if text is not None}
    given |= {
        name: whole_number(text, f"--{name.replace('_', '-')}", lowest=0)
        for name, text in tiers.items()
        if text is not None
    }
    given |= {
        name: choice(text, f"--{name.replace('_', '-')}", allowed)
        for name, (text, allowed) in words.items()
        if text is not None
    }
    given |= {name: flag for name, flag in flags.items() if flag is not None}
    machine = resolve_system(system, where="--system")
    _estimate(
        resolve_workload(workload, where="--workload"),
        machine,
        strategy_of(strategy, given, machine),
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
    workload: Workload, system: System, strategy: Strategy, *, reproduce: str, operations: bool, json: bool
) -> None:
    from codesign_opt import api
    from codesign_opt.analytical.errata import parse_errata
    from codesign_opt.cli.output import write, write_json

    errata = parse_errata(reproduce, where="--reproduce")
    table = api.estimate(workload, system, strategy, reproduce=reproduce)
    listed = None
    if operations:
        from codesign_opt.analytical.operation_list import operation_list

        listed = operation_list(workload, system, strategy, reproduce=errata)
    if json:
        write_json(_document(table, workload, system, sorted(erratum.name for erratum in errata), listed))
    else:
        write("\n\n".join(_sections(table, workload, system, listed)))
    require_fit(table.row(0), system)


def _document(
    table: Table, workload: Workload, system: System, errata: list[str], operations: Table | None
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
        **({} if operations is None else {"operations": table_document(operations)}),
    }


def _sections(table: Table, workload: Workload, system: System, operations: Table | None) -> list[str]:
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
        "\n".join(f"{name:<{size}}  {human(row[name], table.units[name])}" for name in shown),
    ]
    if operations is not None:
        used = [name for name in operations if name == "name" or operations[name].any()]
        sections.append("one block and microbatch:\n" + format_table(operations, columns=used, width=width()))
    return sections


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
