"""Evaluate the published tool's inputs with its own names and, by default, its own arithmetic."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.errata import ALL, Erratum
from codesign_opt.analytical.feasibility import overflowing_tier
from codesign_opt.analytical.model import Model, model
from codesign_opt.analytical.statistics import statistics
from codesign_opt.errors import CodesignError, StrategyError
from codesign_opt.interop.calculon.read import Source, encode_execution, read_application, read_system
from codesign_opt.strategies import StrategyTable
from codesign_opt.strategies.legality import RULES, Facts, explain, first_broken
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
    if not cases:
        return []
    workloads, workload = _distinct([case[0] for case in cases], read_application, Workload)
    systems, system = _distinct([case[2] for case in cases], read_system, System)
    rows = [encode_execution(case[1]) for case in cases]
    table = StrategyTable({name: [row[name] for row in rows] for name in rows[0]})

    results: list[Statistics | CodesignError | None] = [None] * len(cases)
    facts = Facts(table, workloads, systems, workload, system)
    broken = first_broken(facts)
    for row in np.flatnonzero(broken >= 0):
        results[row] = _refusal(facts, int(broken[row]), int(row))
    index = np.flatnonzero(broken < 0)
    evaluated = model(
        workloads, systems, table.take(index), workload=workload[index], system=system[index], reproduce=reproduce
    )
    for position, result in zip(index, _results(evaluated), strict=True):
        results[position] = result
    return [result for result in results if result is not None]


def _distinct(
    sources: Sequence[Any], read: Callable[[Any], Any], kind: type
) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct objects, and the index of each source's object."""
    of_identity: dict[int, int] = {}
    of_content: dict[Any, int] = {}
    objects: list[Any] = []
    for source in sources:
        if id(source) in of_identity:
            continue
        content = json.dumps(source) if isinstance(source, dict) else source if isinstance(source, str) else id(source)
        if content not in of_content:
            of_content[content] = len(objects)
            objects.append(source if isinstance(source, kind) else read(source))
        of_identity[id(source)] = of_content[content]
    return objects, np.array([of_identity[id(source)] for source in sources])


def _refusal(facts: Facts, rule: int, row: int) -> StrategyError:
    violation = explain(RULES[rule], facts, row)
    return StrategyError(violation.sentence, violation.nearest, violation.code)


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
