"""Estimates and sweeps: what needs no database."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codesign_opt.analytical.errata import parse_errata
from codesign_opt.analytical.estimate import Estimate
from codesign_opt.analytical.estimate import estimate as analytical_estimate
from codesign_opt.analytical.feasibility import overflowing_tier
from codesign_opt.catalog import resolve_system, resolve_workload
from codesign_opt.configuration import read_toml
from codesign_opt.errors import InfeasibleError, InputError
from codesign_opt.interop.calculon import read_execution
from codesign_opt.objectives import Metric, available_metrics
from codesign_opt.strategies import Strategy, StrategyTable
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.files import strategy_from_dict
from codesign_opt.strategies.legality import first_broken
from codesign_opt.strategies.targets import check_target, rules_of, with_defaults
from codesign_opt.studies.exact import ExactAnswer, ExactQuestion, question_of, solve
from codesign_opt.studies.points import hardware_dimensions, machine
from codesign_opt.studies.specification import study_from_dict
from codesign_opt.systems import System
from codesign_opt.systems.files import system_to_toml
from codesign_opt.tables import Table
from codesign_opt.units import format_quantity
from codesign_opt.workloads import Workload
from codesign_opt.workloads.files import workload_to_dict

StrategyInput = Strategy | StrategyTable | Sequence[Strategy] | Mapping[str, Any] | str | Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """The best strategies of a space.

    Attributes:
        table: Best first: rank, on_front, strategy columns, all available metrics.
        considered: Strategies covered, counted as the published search counts them.
        legal: Those that the legality rules allow.
        feasible: Those that fit in memory and keep every constraint.
        excluded: Reason to number of strategies.
        seconds: Time taken.
    """

    table: Table
    considered: int
    legal: int
    feasible: int
    excluded: Mapping[str, int]
    seconds: float


def estimate(
    workload: Workload | str | Path,
    system: System | str | Path,
    strategies: StrategyInput,
    *,
    target: str = "free",
    layout: bool = False,
    reproduce: str | Sequence[str] = "none",
) -> Table:
    """Estimate strategies on a system.

    Args:
        workload: A workload, a catalogue name, or a file (TOML, or the published tool's JSON).
        system: Likewise.
        strategies: One or several strategies, or a dict or file with the keys of a strategy file.
        target: The framework that is to run them, whose rules are added to the general ones (`strategies.targets`).
        layout: Whether that framework is told the blocks of every stage, so that they need not be even.
        reproduce: Errata of the published tool to reproduce: "none", "all", or names.

    Returns:
        One row a strategy: `status` (empty, or the reason code of what forbids it), strategy columns, and all available
        metrics, NaN where a rule forbids the strategy.

    Raises:
        StrategyError: Where a single strategy is given and a legality rule forbids it; names all that do.
        InputError: For anything that cannot be read.
    """
    shape, machine_, rules = _workload(workload), _system(system), rules_of(target)
    table = _strategies(strategies, shape, machine_, target)
    if table.rows == 1:
        check_target(table.strategy(0), shape, machine_, target, layout=layout)
    broken = first_broken(Facts(table, [shape], [machine_], layout=layout), rules)
    legal = np.flatnonzero(broken < 0)
    errata = parse_errata(reproduce)
    status = np.array(["", *(rule.code for rule in rules)], dtype=object)[broken + 1]
    metrics = {metric.name: np.full(table.rows, np.nan) for metric in _extra_metrics(machine_, table)}
    if len(legal):
        estimated = analytical_estimate(shape, machine_, table.take(legal), reproduce=errata)
        status[legal] = overflowing_tier(estimated.model)
        for name, values in _metrics(estimated, len(legal)).items():
            metrics[name][legal] = values
    return Table({"status": status.astype(str), **table.words(), **metrics}, _units(machine_))


def sweep(
    workload: Workload | str | Path,
    system: System | str | Path,
    *,
    processors: int,
    batch: int,
    datatype: str = "float16",
    limits: Mapping[str, Any] | None = None,
    uneven_stages: bool = False,
    all_divisors: bool = False,
    target: str = "free",
    objectives: str | Sequence[str] = "step_time",
    constraints: str | Sequence[str] = (),
    top: int = 10,
    reproduce: str | Sequence[str] = "none",
) -> SweepResult:
    """The best strategies of a whole space, exactly.

    Args:
        workload: As for `estimate`.
        system: As for `estimate`.
        processors: All processors.
        batch: The largest global batch; a strategy uses dp · floor(batch / dp).
        datatype: Number format.
        limits: Dimension to the value or values that it may take; everything legal where it is missing.
        uneven_stages: Also stages with different numbers of blocks.
        all_divisors: Also what is legal but seldom worth trying (see `strategies.space`).
        target: Framework that is to run them (`strategies.targets`); what it refuses is left out.
        objectives: Metrics; strategies are ranked by the first that depends on the strategy.
        constraints: Texts such as "memory_tier1_used <= 70 GiB".
        top: How many strategies to return.
        reproduce: As for `estimate`.

    Raises:
        InfeasibleError: Where nothing satisfies everything; the message counts the reasons and names the nearest miss.
        InputError: For anything that cannot be read.
    """
    start = time.perf_counter()
    question = _question(
        workload, system, processors=processors, batch=batch, datatype=datatype, limits=limits,
        uneven_stages=uneven_stages, all_divisors=all_divisors, target=target, objectives=objectives,
        constraints=constraints, top_k=top, reproduce=reproduce,
    )  # fmt: skip
    answer = solve(question)
    if answer.estimate is None:
        raise nothing_feasible(question, answer)
    rows = answer.strategies.rows
    return SweepResult(
        table=Table(
            {
                "rank": np.arange(1, rows + 1),
                "on_front": answer.on_front,
                **answer.strategies.words(),
                **_metrics(answer.estimate, rows),
            },
            _units(question.system),
        ),
        considered=answer.considered,
        legal=answer.legal,
        feasible=answer.feasible,
        excluded=dict(answer.excluded),
        seconds=time.perf_counter() - start,
    )


def sweep_all(
    workload: Workload | str | Path,
    system: System | str | Path,
    output: str | Path,
    *,
    processors: int,
    batch: int,
    datatype: str = "float16",
    limits: Mapping[str, Any] | None = None,
    uneven_stages: bool = False,
    all_divisors: bool = False,
    target: str = "free",
    constraints: str | Sequence[str] = (),
    reproduce: str | Sequence[str] = "none",
    progress: Callable[[int, int, float], None] | None = None,
) -> int:
    """Write every strategy that the network allows into a Parquet file, in constant memory; returns how many.

    The column `status` says what excludes a strategy: nothing, a memory tier, or a constraint. The file is under its
    name only when it is whole.

    Args:
        workload, system, processors, batch, datatype, limits, uneven_stages, all_divisors, target: As for
            `sweep`.
        output: The file to write.
        constraints, reproduce: As for `sweep`.
        progress: Called with the rows written, all rows, and the seconds since the start.

    Raises:
        InputError: For anything that cannot be read or written.
        MissingExtraError: pyarrow is not installed.
    """
    from codesign_opt.reports.parquet_stream import write_parquet_stream
    from codesign_opt.studies.exact.stream import stream, stream_rows, stream_words

    question = _question(
        workload, system, processors=processors, batch=batch, datatype=datatype, limits=limits,
        uneven_stages=uneven_stages, all_divisors=all_divisors, target=target, objectives="step_time",
        constraints=constraints, top_k=1, reproduce=reproduce,
    )  # fmt: skip
    return write_parquet_stream(
        stream(question, codes=True),
        Path(output),
        title=f"{question.workload.name} on {question.processors} × {question.system.name}",
        total=stream_rows(question),
        words=stream_words(question),
        progress=progress,
    )


def nothing_feasible(question: ExactQuestion, answer: ExactAnswer) -> InfeasibleError:
    """The error that says why nothing is feasible: reasons with counts, and the nearest miss."""
    reasons = sorted(answer.excluded.items(), key=lambda item: -item[1])
    counts = ", ".join(f"{reason} {count:,}" for reason, count in reasons)
    message = f"none of {answer.considered:,} strategies is feasible: {counts}"
    if answer.nearest is None:
        return InfeasibleError(message, "use other tiers, or another number of processors", "infeasible")
    miss = answer.nearest
    strategy = miss.strategies.strategy(0)
    unit = "B" if miss.reason.startswith("memory_tier") and " " not in miss.reason else ""
    amount = format_quantity(miss.missing, unit) if unit else f"{miss.share:.3g} of the bound"
    return InfeasibleError(
        message,
        f"the nearest miss of {miss.reason} lacks {amount} ({miss.share:.1%}): tp {strategy.tp}, pp {strategy.pp}, "
        f"dp {strategy.dp}, microbatch {strategy.microbatch}, recompute {strategy.recompute.value}",
        "infeasible",
    )


def _question(
    workload: Workload | str | Path,
    system: System | str | Path,
    *,
    limits: Mapping[str, Any] | None,
    uneven_stages: bool,
    all_divisors: bool,
    target: str,
    **keys: Any,
) -> ExactQuestion:
    """The question of a sweep, read as a study file is, so that both refuse the same."""
    lists = {name: _listed(keys[name]) for name in ("objectives", "constraints", "reproduce")}
    strategies = {**(limits or {}), "uneven_stages": uneven_stages, "all_divisors": all_divisors, "target": target}
    data = {"workload": _as_data(workload), "system": _as_data(system), "strategies": strategies, **keys, **lists}
    specification = study_from_dict(data, where="sweep")
    if hardware_dimensions(specification):
        raise InputError(f"sweep: processors: {keys['processors']} is not one number", "`search` tries several")
    system_, count = machine(specification, {})
    return question_of(specification, system_, count, specification.constraints)


def _workload(given: Workload | str | Path) -> Workload:
    return given if isinstance(given, Workload) else resolve_workload(str(given), where="workload")


def _system(given: System | str | Path) -> System:
    return given if isinstance(given, System) else resolve_system(str(given), where="system")


def _as_data(given: Workload | System | str | Path) -> Any:
    """What a study file would hold."""
    if isinstance(given, Workload):
        return workload_to_dict(given)
    if isinstance(given, System):
        return tomllib.loads(system_to_toml(given))
    return str(given)


def _strategies(given: StrategyInput, workload: Workload, system: System, target: str) -> StrategyTable:
    if isinstance(given, StrategyTable):
        return given
    if isinstance(given, Strategy):
        return StrategyTable.from_strategies([given])
    if isinstance(given, str | Path) and Path(given).suffix == ".json":
        return StrategyTable.from_strategies([read_execution(given)])
    if isinstance(given, str | Path | Mapping):
        keys, where = (given, "strategy") if isinstance(given, Mapping) else (read_toml(given), str(given))
        completed = with_defaults(keys, workload, target)
        return StrategyTable.from_strategies([strategy_from_dict(completed, system, where=where)])
    if not given:
        raise InputError("strategies: none given", "give at least one")
    return StrategyTable.from_strategies(given)


def _metrics(estimated: Estimate, rows: int) -> dict[str, Any]:
    return {
        metric.name: np.broadcast_to(metric.evaluate(estimated), (rows,))
        for metric in _extra_metrics(estimated.system, estimated.strategies)
    }


def _units(system: System) -> dict[str, str]:
    return {metric.name: "" if metric.unit == "1" else metric.unit for metric in available_metrics(system)}


def _listed(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _extra_metrics(system: System, strategies: Mapping[str, Any]) -> list[Metric]:
    """Available metrics that are no columns of the strategies already."""
    return [metric for metric in available_metrics(system) if metric.name not in strategies]
