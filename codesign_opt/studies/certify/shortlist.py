"""The few strategies that may be the best on a machine of a box, and what they achieve on several machines at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical import NONE, Estimate, MemoryNeeds
from codesign_opt.analytical.model import model
from codesign_opt.errors import InfeasibleError
from codesign_opt.objectives import METRICS, Objective
from codesign_opt.strategies import StrategyTable
from codesign_opt.strategies.table import COLUMNS
from codesign_opt.studies.certify.rules import ranks_by_rate
from codesign_opt.studies.exact import ExactQuestion, question_of, solve
from codesign_opt.studies.points import fitted_capacities
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

Array = NDArray[Any]

LONGEST = 4096
"""Strategies that one complete search puts on a shortlist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortlist:
    """Strategies, and a value of the objective, to be minimised, that no other strategy undercuts.

    That holds on the machine of the search that found them, and on every machine that is no faster and no cheaper.
    """

    strategies: StrategyTable
    rest: float


NOTHING_KNOWN = Shortlist(strategies=StrategyTable.empty(), rest=-np.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    total: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Achieved:
    """What strategies achieve on one system: as much of an estimate as the metrics read that have a bound."""

    workload: Workload
    system: System
    strategies: StrategyTable
    times: _Times
    memory: MemoryNeeds
    memory_capacity: Array
    offload_capacity: Array

    def on(self, system: System) -> Achieved:
        """The same on a system that differs in price alone."""
        return replace(self, system=system)


def complete_search(specification: StudySpecification, system: System, processors: int) -> tuple[Achieved, float]:
    """The best strategies of the whole space on a system, and a value that no other strategy undercuts on it."""
    try:
        answer = solve(_question(specification, system, processors))
    except InfeasibleError:
        return achieved(specification, [(system, StrategyTable.empty())])[0], np.inf
    found = achieved(specification, [(system, answer.strategies)])[0]
    if answer.feasible <= answer.strategies.rows:
        return found, np.inf
    # Whatever ranks behind the last one is no better, and breaks what that one breaks.
    return found, float(values(specification, found)[-1])


def achieved(specification: StudySpecification, machines: Sequence[tuple[System, StrategyTable]]) -> list[Achieved]:
    """What strategies achieve on several systems, which have equally many network tiers."""
    rows = [strategies.rows for _, strategies in machines]
    total, memory = _estimated(specification, machines, rows)
    ends = np.cumsum(rows).tolist()
    return [
        _part(specification, system, strategies, total, memory, slice(end - strategies.rows, end))
        for (system, strategies), end in zip(machines, ends, strict=True)
    ]


def values(specification: StudySpecification, rows: Achieved) -> Array:
    """The study's objective of every row, to be minimised; infinite where memory or a constraint is not kept."""
    estimated = cast(Estimate, rows)
    objective = specification.objectives[0]
    metrics = {objective.metric, *(constraint.metric for constraint in specification.constraints)}
    if not all(METRICS[name].available(rows.system) for name in metrics):
        return np.full(rows.strategies.rows, np.inf)
    kept = (rows.memory.tier1 <= rows.memory_capacity) & (rows.memory.tier2 <= rows.offload_capacity)
    # The lowest price of a box may be 0.
    with np.errstate(divide="ignore"):
        for constraint in specification.constraints:
            kept = kept & (constraint.violation(METRICS[constraint.metric].evaluate(estimated)) <= 0)
        value = objective.minimized(METRICS[objective.metric].evaluate(estimated))
    return np.where(kept, value, np.inf)


def objective_is_of_the_system(specification: StudySpecification) -> bool:
    """Whether all strategies of a machine have the same value of the objective."""
    metric = specification.objectives[0].metric
    return METRICS[metric].scope == "system" and (metric == "processors" or not fitted_capacities(specification))


def _question(specification: StudySpecification, system: System, processors: int) -> ExactQuestion:
    """What to ask the solver; where one ranking decides, ask for it alone, which the solver answers sooner."""
    fitted = fitted_capacities(specification)
    question = question_of(specification, system, processors, specification.constraints, fitted)
    question = replace(question, top=LONGEST)
    if fitted or not ranks_by_rate(specification.objectives[0].metric):
        return question
    return replace(
        question,
        objectives=(Objective("sample_rate", "maximize"),),
        constraints=tuple(c for c in specification.constraints if not ranks_by_rate(c.metric)),
    )


def _estimated(
    specification: StudySpecification, machines: Sequence[tuple[System, StrategyTable]], rows: Sequence[int]
) -> tuple[Array, MemoryNeeds]:
    """Step time and memory needs of all rows, machine after machine."""
    if not any(rows):
        nothing = np.empty(0)
        return nothing, MemoryNeeds(**{field.name: nothing for field in fields(MemoryNeeds)})
    together = StrategyTable({name: np.concatenate([table[name] for _, table in machines]) for name in COLUMNS})
    index = np.repeat(np.arange(len(machines)), rows)
    estimated = model(
        [specification.workload],
        [system for system, _ in machines],
        together,
        workload=np.zeros_like(index),
        system=index,
        reproduce=NONE,
    )
    total = estimated.times.total
    return total, _of_each(estimated.memory, lambda column: np.broadcast_to(column, total.shape))


def _part(
    specification: StudySpecification,
    system: System,
    strategies: StrategyTable,
    total: Array,
    memory: MemoryNeeds,
    rows: slice,
) -> Achieved:
    """The rows of one machine."""
    fitted = fitted_capacities(specification)
    needs = _of_each(memory, lambda column: column[rows])
    tier1 = np.full(strategies.rows, system.memory_tier1.capacity)
    tier2 = np.full(strategies.rows, system.memory_tier2.capacity)
    return Achieved(
        workload=specification.workload,
        system=system,
        strategies=strategies,
        times=_Times(total=total[rows]),
        memory=needs,
        memory_capacity=tier1 if fitted.memory_tier1 is None else fitted.memory_tier1.fit(needs.tier1),
        offload_capacity=tier2 if fitted.memory_tier2 is None else fitted.memory_tier2.fit(needs.tier2),
    )


def _of_each(memory: MemoryNeeds, change: Callable[[Array], Array]) -> MemoryNeeds:
    return MemoryNeeds(**{field.name: change(getattr(memory, field.name)) for field in fields(MemoryNeeds)})
