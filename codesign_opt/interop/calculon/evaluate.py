"""Evaluate the published tool's inputs with its own names and, by default, its own arithmetic."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from codesign_opt.analytical.errata import ALL, Erratum
from codesign_opt.analytical.feasibility import overflowing_tier
from codesign_opt.analytical.model import Model, model
from codesign_opt.analytical.statistics import statistics
from codesign_opt.errors import CodesignError, InputError, StrategyError
from codesign_opt.interop.calculon.read import Source, encode_execution, read_application, read_system, unknown_words
from codesign_opt.strategies import StrategyTable
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.legality import RULES, explain, first_broken
from codesign_opt.systems import System
from codesign_opt.units import format_quantity
from codesign_opt.workloads import Workload

Statistics = dict[str, float | None]
Case = tuple[Source | Workload, Mapping[str, Any], Source | System]
"""Application, execution and system."""


def evaluate(
    application: Source | Workload,
    execution: Mapping[str, Any],
    system: Source | System,
    reproduce: Set[Erratum] = ALL,
) -> Statistics:
    """The 96 statistics of one case under the published names.

    Raises:
        CodesignError: With the failure code of the published tool in `.code`.
    """
    result = evaluate_many([(application, execution, system)], reproduce)[0]
    if isinstance(result, CodesignError):
        raise result
    return result


def evaluate_many(cases: Sequence[Case], reproduce: Set[Erratum] = ALL) -> list[Statistics | CodesignError]:
    """The statistics of each case, or the error that `evaluate` would raise, in order; all in one pass."""
    workloads, workload = _distinct([case[0] for case in cases], read_application, Workload)
    systems, system = _distinct([case[2] for case in cases], read_system, System)
    rows = [_attempt(encode_execution, case[1]) for case in cases]
    results: list[Statistics | CodesignError | None] = [
        next((part for part in parts if isinstance(part, InputError)), None)
        for parts in zip(workload, rows, system, strict=True)
    ]
    readable = [row for row, error in enumerate(results) if error is None]
    if readable:
        table = StrategyTable({name: [rows[row][name] for row in readable] for name in rows[readable[0]]})
        index = (np.array([part[row] for row in readable]) for part in (workload, system))
        facts = Facts(table, workloads, systems, *index)
        executions = [cases[row][1] for row in readable]
        for row, result in zip(readable, _judged(facts, table, executions, reproduce), strict=True):
            results[row] = result
    return [result for result in results if result is not None]


def _judged(
    facts: Facts, table: StrategyTable, executions: Sequence[Mapping[str, Any]], reproduce: Set[Erratum]
) -> list[Statistics | CodesignError]:
    """The result of each row, of which those that break a rule are not evaluated."""
    broken = first_broken(facts)
    results: dict[int, Statistics | CodesignError] = {
        row: _refusal(facts, int(broken[row]), row, executions[row]) for row in np.flatnonzero(broken >= 0).tolist()
    }
    index = np.flatnonzero(broken < 0)
    if len(index):
        evaluated = model(
            facts.workloads,
            facts.systems,
            table.take(index),
            workload=facts.workload[index],
            system=facts.system[index],
            reproduce=reproduce,
        )
        results.update(zip(index.tolist(), _results(evaluated), strict=True))
    return [results[row] for row in range(table.rows)]


def _attempt(read: Callable[[Any], Any], source: Any) -> Any:
    """What is read, or the error that reading raises."""
    try:
        return read(source)
    except InputError as error:
        return error


def _distinct(
    sources: Sequence[Any], read: Callable[[Any], Any], kind: type
) -> tuple[list[Any], list[int | InputError]]:
    """The distinct objects, and for each source the index of its object, or the error that reading it raises."""
    of_identity: dict[int, int | InputError] = {}
    of_content: dict[Any, int | InputError] = {}
    objects: list[Any] = []
    for source in sources:
        if id(source) in of_identity:
            continue
        content = _content(source)
        if content not in of_content:
            found = source if isinstance(source, kind) else _attempt(read, source)
            of_content[content] = found if isinstance(found, InputError) else len(objects)
            if not isinstance(found, InputError):
                objects.append(found)
        of_identity[id(source)] = of_content[content]
    return objects, [of_identity[id(source)] for source in sources]


def _content(source: Any) -> Any:
    """Equal for equal JSON objects and paths; other things equal themselves only."""
    if isinstance(source, dict):
        try:
            return json.dumps(source)
        except (TypeError, ValueError):
            return id(source)
    return source if isinstance(source, str) else id(source)


def _refusal(facts: Facts, rule: int, row: int, execution: Mapping[str, Any]) -> StrategyError:
    violation = explain(RULES[rule], facts, row)
    named = (error for error in unknown_words(execution) if error.code == violation.code)
    return next(named, StrategyError(violation.sentence, violation.nearest, violation.code))


def _results(evaluated: Model) -> list[Statistics | CodesignError]:
    columns = statistics(evaluated)
    names = list(columns)
    overflows = overflowing_tier(evaluated)
    results: list[Statistics | CodesignError] = []
    for row, values in enumerate(zip(*(column.tolist() for column in columns.values()), strict=True)):
        if overflows[row]:
            results.append(_overflow(evaluated, str(overflows[row]), row))
        else:
            results.append({name: None if value != value else value for name, value in zip(names, values, strict=True)})
    return results


def _overflow(evaluated: Model, code: str, row: int) -> StrategyError:
    tier1 = code == "memory_tier1"
    need = (evaluated.memory.tier1 if tier1 else evaluated.memory.tier2)[row]
    hardware = evaluated.inputs.hardware
    capacity = (hardware.memory_capacity if tier1 else hardware.offload_capacity)[row]
    return StrategyError(
        f"needs {format_quantity(need, 'B')} of memory tier {1 if tier1 else 2}, "
        f"which holds {format_quantity(capacity, 'B')}",
        "more tensor or pipeline parallelism, recompute, sharding or offload lower the need",
        code,
    )
