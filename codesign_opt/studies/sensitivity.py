"""How an answer changes with the hardware around it: every parameter a little worse, and a little better."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from codesign_opt.analytical import Estimate, StepTimes, estimate, parse_errata
from codesign_opt.errors import InputError
from codesign_opt.objectives import METRICS, Constraint, Objective
from codesign_opt.strategies import Strategy, StrategyTable
from codesign_opt.strategies.table import COLUMNS, strategy_of_words
from codesign_opt.studies.exact import question_of, solve
from codesign_opt.studies.exact.question import with_fitted
from codesign_opt.studies.points import Point, fitted_capacities, machine
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.studies.study import Study
from codesign_opt.systems import System
from codesign_opt.systems.parameters import KINDS, Kind, parameters, with_parameters
from codesign_opt.tables import Table

STEP = 0.10
"""Share by which each parameter is changed."""

VARIED = ("peak", "bandwidth", "capacity", "efficiency", "latency", "processor_usage")
"""Kinds of parameters that are changed; the others are topology, protocol, price and power. Efficiency curves are not
numbers, and scaling one is scaling its peak or bandwidth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingResource:
    """What holds a strategy back on its machine.

    Attributes:
        parameter: Path of the parameter with the largest elasticity; "" where none changes the step time.
        elasticity: Relative change of the step time for each relative change of the parameter; negative where more of
            it is faster.
        largest_part: The part of the step time that takes longest, by its name in `StepTimes`.
        share: Its share of the step time.
        memory_tier1_binds: Whether the strategy no longer fits when memory tier 1 is smaller by a step, as it always
            is where the capacity was fitted to the strategy.
    """

    parameter: str
    elasticity: float
    largest_part: str
    share: float
    memory_tier1_binds: bool


def sensitivity(
    specification: StudySpecification,
    point: Point,
    strategy: Strategy | Mapping[str, Any],
    *,
    step: float = STEP,
) -> Table:
    """The objectives when each parameter of a machine changes, with its strategy fixed and with the best one.

    The machine has the capacities that fit the strategy, where the study fits capacities, and keeps its number of
    processors. The best strategy is that by the first objective that depends on the strategy; in the others it is no
    worse than the fixed one.

    Args:
        specification: The study.
        point: The machine, a point of the study.
        strategy: What runs on it: an object, or the words of a stored candidate.
        step: Share by which each parameter is changed, downwards and upwards.

    Returns:
        A row for each parameter and way: parameter, unit, value (SI), change (a share), clipped (where the parameter
        may not change so far), `fixed` and `best` (why nothing is feasible, or ""), other_strategy (whether the best
        strategy is another one), and for each objective its value and relative change, `*_fixed`, `*_fixed_change`,
        `*_best`, `*_best_change`, NaN where nothing is feasible. Parameters with the largest effect come first; one
        with which the fixed strategy becomes infeasible has the largest of all.

    Raises:
        InputError: For a step that is not between 0 and 1, and a strategy that does not run on the machine.
    """
    answer = _answer(specification, point, strategy, step)
    best = _best(answer, answer.system, _objectives(answer, answer.base))
    rows = [_row(answer, best, variant) for variant in _variants(answer)]
    rows.sort(key=_order(rows, specification.objectives))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return Table(columns, _units(specification.objectives))


def binding_resource(
    specification: StudySpecification,
    point: Point,
    strategy: Strategy | Mapping[str, Any],
    *,
    step: float = STEP,
) -> BindingResource:
    """What holds a strategy back on a machine; arguments and errors as of `sensitivity`."""
    answer = _answer(specification, point, strategy, step)
    total = _step_time(answer.base)
    elasticities: dict[str, float] = {}
    for variant in _variants(answer):
        elasticity = math.log(_step_time(_fixed(answer, variant)) / total) / math.log1p(variant.change)
        elasticities[variant.path] = max(elasticities.get(variant.path, 0.0), elasticity, key=abs)
    parameter = max(elasticities, key=lambda path: abs(elasticities[path]))
    parts = {field.name: float(getattr(answer.base.times, field.name).max()) for field in fields(StepTimes)}
    del parts["total"]
    largest = max(parts, key=lambda name: parts[name])
    need = float(answer.base.memory.tier1[0])
    return BindingResource(
        parameter=parameter if elasticities[parameter] else "",
        elasticity=elasticities[parameter],
        largest_part=largest,
        share=parts[largest] / total,
        memory_tier1_binds=need > (1 - step) * answer.system.memory_tier1.capacity,
    )


def front_sensitivity(study: Study, *, top: int = 1, step: float = STEP) -> Table:
    """`sensitivity` of the first `top` members of a study's front, with the columns `place` on it and `trial` in front.

    Raises:
        InputError: For a step that is not between 0 and 1, and a study without a feasible trial.
    """
    tables = []
    for place, (trial, point, words) in enumerate(_front(study, top)):
        table = sensitivity(study.specification, point, words, step=step)
        tables.append({"place": np.full(table.rows, place), "trial": np.full(table.rows, trial), **table})
    columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return Table(columns, _units(study.objectives))


def front_binding(study: Study, *, top: int = 1, step: float = STEP) -> Table:
    """`binding_resource` of the first `top` members of a study's front: place, trial, and its attributes.

    Raises:
        InputError: As `front_sensitivity`.
    """
    rows = []
    for place, (trial, point, words) in enumerate(_front(study, top)):
        binding = binding_resource(study.specification, point, words, step=step)
        values = {field.name: getattr(binding, field.name) for field in fields(BindingResource)}
        rows.append({"place": place, "trial": trial, **values})
    return Table({name: [row[name] for row in rows] for name in rows[0]})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """A strategy, in a table of one row, on its machine, and its estimate."""

    specification: StudySpecification
    system: System
    processors: int
    strategy: StrategyTable
    base: Estimate
    step: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variant:
    """A system with one parameter changed by a share of its value."""

    path: str
    kind: Kind
    value: float
    change: float
    clipped: bool
    system: System


@dataclass(frozen=True, slots=True, kw_only=True)
class _Best:
    """The best strategy on a system; where nothing is feasible the reason, and no values."""

    values: Mapping[str, float]
    reason: str
    strategy: StrategyTable


def _answer(
    specification: StudySpecification, point: Point, strategy: Strategy | Mapping[str, Any], step: float
) -> _Answer:
    if not 0 < step < 1:
        raise InputError(f"a step of {step:g} is not possible", "between 0 and 1, such as 0.1 for 10 %")
    row = StrategyTable.from_strategies([strategy if isinstance(strategy, Strategy) else strategy_of_words(strategy)])
    system, processors = machine(specification, point)
    if int(row["processors"][0]) != processors:
        raise InputError(
            f"the strategy is for {row['processors'][0]} processors, the machine of the point has {processors}",
            "give the point of the trial that the strategy is from",
        )
    fitted = fitted_capacities(specification)
    base = with_fitted(_estimate(specification, system, row), fitted)
    capacities = {
        "memory_tier1.capacity": float(base.memory_capacity.max()),
        "memory_tier2.capacity": float(base.offload_capacity.max()),
    }
    system = with_parameters(system, capacities)
    base = replace(base, system=system)
    reason = _broken(specification, base)
    if reason:
        raise InputError(
            f"the strategy does not run on the machine of the point: {reason}", "give a feasible candidate"
        )
    return _Answer(
        specification=specification, system=system, processors=processors, strategy=row, base=base, step=step
    )


def _variants(answer: _Answer) -> Iterator[_Variant]:
    """Every parameter that can move, a step down and a step up; the engines are those of the study's datatype."""
    datatype, system = answer.specification.datatype.value, answer.system
    for path, (value, _) in parameters(system).items():
        section, _, rest = path.partition(".")
        name = path.rpartition(".")[2]
        idle = section in ("matrix", "vector") and not rest.startswith(f"{datatype}.")
        idle |= section == "memory_tier2" and system.memory_tier2.capacity == 0
        if name not in VARIED or idle or value == 0:
            continue
        for share in (-answer.step, answer.step):
            wanted = value * (1 + share)
            moved = _within(KINDS[name], value, wanted)
            if moved != value:
                yield _Variant(
                    path=path,
                    kind=KINDS[name],
                    value=moved,
                    change=moved / value - 1,
                    clipped=moved != wanted,
                    system=with_parameters(system, {path: moved}),
                )


def _within(kind: Kind, value: float, wanted: float) -> float:
    """What is wanted, or the end of the allowed interval before it; halfway to an end that is itself excluded."""
    if kind.below_maximum and wanted >= kind.maximum:
        return (value + kind.maximum) / 2
    return min(wanted, kind.maximum)


def _fixed(answer: _Answer, variant: _Variant) -> Estimate:
    """The strategy of the answer on a changed system."""
    if not variant.path.endswith(".capacity"):
        return _estimate(answer.specification, variant.system, answer.strategy)
    # No time depends on a capacity.
    model = answer.base.model
    hardware = replace(
        model.inputs.hardware,
        memory_capacity=np.array([variant.system.memory_tier1.capacity]),
        offload_capacity=np.array([variant.system.memory_tier2.capacity]),
    )
    return Estimate(
        answer.base.workload,
        variant.system,
        replace(model, inputs=replace(model.inputs, hardware=hardware)),
    )


def _best(answer: _Answer, system: System, no_worse: Mapping[str, float]) -> _Best:
    """The best strategy on a system, in all objectives but the first at least as good as these values."""
    specification = answer.specification
    ranked = [objective for objective in specification.objectives if METRICS[objective.metric].scope == "strategy"]
    kept = tuple(c for c in specification.constraints if METRICS[c.metric].scope == "strategy")
    kept += tuple(
        Constraint(other.metric, "<=" if other.direction == "minimize" else ">=", no_worse[other.metric])
        for other in ranked[1:]
    )
    question = question_of(specification, system, answer.processors, kept)
    found = solve(replace(question, objectives=tuple(ranked[:1]), top=1))
    if found.estimate is None:
        reason = found.nearest.reason if found.nearest is not None else "network"
        return _Best(values={}, reason=reason, strategy=found.strategies)
    reason = _broken(specification, found.estimate)
    values = {} if reason else _objectives(answer, found.estimate)
    return _Best(values=values, reason=reason, strategy=found.strategies)


def _row(answer: _Answer, base_best: _Best, variant: _Variant) -> dict[str, Any]:
    base = _objectives(answer, answer.base)
    estimated = _fixed(answer, variant)
    broken = _broken(answer.specification, estimated)
    fixed = _objectives(answer, estimated)
    less_room = variant.path.endswith(".capacity") and variant.change < 0
    if less_room and not broken and _same(base_best.strategy, answer.strategy):
        # All times are as before, and only other strategies may have been lost.
        best = replace(base_best, values=fixed)
    else:
        best = _best(answer, variant.system, base if broken else fixed)
    row = {
        "parameter": variant.path,
        "unit": "" if variant.kind.unit == "1" else variant.kind.unit,
        "value": variant.value,
        "change": variant.change,
        "clipped": variant.clipped,
        "fixed": broken,
        "best": best.reason,
        "other_strategy": not best.reason and not _same(best.strategy, answer.strategy),
    }
    for objective in answer.specification.objectives:
        name = objective.metric
        held = math.nan if broken else fixed[name]
        reached = best.values.get(name, math.nan)
        row |= {
            f"{name}_fixed": held,
            f"{name}_fixed_change": _relative(held, base[name]),
            f"{name}_best": reached,
            f"{name}_best_change": _relative(reached, base_best.values.get(name, math.nan)),
        }
    return row


def _order(rows: Sequence[Mapping[str, Any]], objectives: Sequence[Objective]) -> Callable[[Mapping[str, Any]], float]:
    """Sort key: the larger effect of a parameter's two rows first."""
    effects: dict[str, float] = {}
    for row in rows:
        changes = [row[f"{o.metric}_{which}_change"] for o in objectives for which in ("fixed", "best")]
        effect = math.inf if row["fixed"] else max(abs(change) for change in changes if not math.isnan(change))
        effects[row["parameter"]] = max(effect, effects.get(row["parameter"], 0.0))
    return lambda row: -effects[row["parameter"]]


def _estimate(specification: StudySpecification, system: System, strategies: StrategyTable) -> Estimate:
    return estimate(specification.workload, system, strategies, reproduce=parse_errata(specification.reproduce))


def _broken(specification: StudySpecification, estimated: Estimate) -> str:
    """What the one row of an estimate does not keep: a memory tier or a constraint; "" where it keeps all."""
    memory = estimated.memory
    if memory.tier1[0] > estimated.memory_capacity.max():
        return "memory_tier1"
    if memory.tier2[0] > estimated.offload_capacity.max():
        return "memory_tier2"
    for constraint in specification.constraints:
        if np.any(constraint.violation(METRICS[constraint.metric].evaluate(estimated)) > 0):
            return str(constraint)
    return ""


def _objectives(answer: _Answer, estimated: Estimate) -> dict[str, float]:
    """The objectives of the one row of an estimate, in their own units."""
    return {
        objective.metric: float(METRICS[objective.metric].evaluate(estimated).max())
        for objective in answer.specification.objectives
    }


def _step_time(estimated: Estimate) -> float:
    return float(estimated.times.total[0])


def _same(one: StrategyTable, other: StrategyTable) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in COLUMNS)


def _relative(value: float, base: float) -> float:
    if value == base:
        return 0.0
    return (value - base) / abs(base) if base else math.nan


def _units(objectives: Sequence[Objective]) -> dict[str, str]:
    units: dict[str, str] = {}
    for objective in objectives:
        unit = METRICS[objective.metric].unit
        units |= {f"{objective.metric}_{which}": "" if unit == "1" else unit for which in ("fixed", "best")}
    return units


def _front(study: Study, top: int) -> Iterator[tuple[int, Point, Mapping[str, Any]]]:
    """Trial, point and strategy of the first members of the front."""
    front = study.front
    if not front.rows:
        raise InputError(f"study '{study.name}' has no feasible trial", "run it further, or loosen its constraints")
    points = {evaluation.number: evaluation.point for evaluation in study.evaluations}
    for row in front.take(np.arange(min(top, front.rows))).to_dicts():
        yield row["trial"], points[row["trial"]], {name: row[name] for name in COLUMNS if name in row}
