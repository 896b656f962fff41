"""What can be certified: metrics and constraints that a faster and cheaper machine never makes worse.

The step time never rises with a bandwidth or a peak and never falls with a latency; memory only decides what fits. So
a machine with the best end of every interval and the cheapest price of each bounds all machines between.
"""

from __future__ import annotations

import math

from codesign_opt.errors import InputError
from codesign_opt.objectives import METRICS, Constraint, Objective
from codesign_opt.studies.points import fitted_paths, hardware_dimensions
from codesign_opt.studies.processors import ProcessorBudget
from codesign_opt.studies.specification import StudySpecification

RATES = frozenset({"sample_rate", "token_rate", "sample_rate_per_processor", "token_rate_per_processor"})
"""Metrics that rank the strategies of one machine as the sample rate does."""

MONEY_FOR_WORK = frozenset({"cost_per_million_tokens", "price_performance"})
"""Metrics that do so where all strategies of the machine have the same price."""

LEAST_GAP = 1e-6
"""A smaller gap would be lost in the rounding of bounds."""

_PRICES = frozenset({"processor_price", "system_price"})
_ROOM = frozenset({"memory_tier1_free", "memory_tier1_share", "memory_tier2_free", "memory_tier2_share"})
_NEEDS = frozenset(
    {
        "memory_tier1_used",
        "memory_tier2_used",
        "weight_memory",
        "activation_memory",
        "weight_gradient_memory",
        "activation_gradient_memory",
        "optimizer_memory",
        "processors",
    }
)
_CAPACITIES = {
    "memory_tier1_capacity": "memory_tier1.capacity",
    "memory_tier2_capacity": "memory_tier2.capacity",
}
_ONE_WAY = RATES | MONEY_FOR_WORK | _PRICES | _ROOM | {"step_time"}
_EITHER_WAY = _NEEDS | _CAPACITIES.keys()


def check_certifiable(specification: StudySpecification) -> None:
    """Nothing, where bounds hold for the study.

    Raises:
        InputError: For several objectives, a metric, direction or constraint that has no bound, a number of processors
            that depends on the price, and errata of the published tool, with which faster parts may be slower.
    """
    name = f"study '{specification.name}'"
    if len(specification.objectives) != 1:
        metrics = ", ".join(objective.metric for objective in specification.objectives)
        raise InputError(
            f"{name}: a certificate is for one objective, not for {metrics}",
            "keep one of them, and bound the others by constraints",
        )
    if specification.reproduce:
        errata = ", ".join(specification.reproduce)
        raise InputError(
            f"{name}: reproduces {errata}: with errata of the published tool a faster machine may take longer, so "
            "nothing bounds a range of machines",
            'certify with reproduce = "none"',
        )
    if isinstance(specification.processors, ProcessorBudget):
        raise InputError(
            f"{name}: the budget makes the number of processors depend on the price of each machine",
            "write processors = { low = ..., high = ..., step = ... } and the constraint 'system_price <= ...'",
        )
    _check_objective(specification, specification.objectives[0], name)
    for constraint in specification.constraints:
        _check_constraint(specification, constraint, name)


def check_gap(specification: StudySpecification, gap: float) -> None:
    """Nothing, where a gap can be proven.

    Raises:
        InputError: For a gap that is negative or lost in rounding.
    """
    ranges = [dimension.name for dimension in hardware_dimensions(specification) if not dimension.choices]
    least = LEAST_GAP if ranges else 0.0
    if not least <= gap < math.inf:
        of_range = f" for a range such as that of {ranges[0]}" if ranges else ""
        raise InputError(f"a gap of {gap:.4g} cannot be proven", f"at least {least:.0e}{of_range}")


def ranks_by_rate(metric: str) -> bool:
    """Whether a metric ranks the strategies of one machine of fixed capacities as the sample rate does, or not at all.

    With a bound on such a metric, the strategies that keep it are the first of that ranking.
    """
    return metric in RATES | MONEY_FOR_WORK or METRICS[metric].scope == "system"


def _check_objective(specification: StudySpecification, objective: Objective, name: str) -> None:
    metric = objective.metric
    _check_metric(specification, metric, f"{name}: objective '{objective}'")
    if metric in _ONE_WAY and objective.direction != METRICS[metric].direction:
        raise InputError(
            f"{name}: objective '{objective}' has no bound: a better machine makes it worse",
            f"{METRICS[metric].direction} {metric}, or search without a certificate",
        )


def _check_constraint(specification: StudySpecification, constraint: Constraint, name: str) -> None:
    metric = constraint.metric
    _check_metric(specification, metric, f"{name}: constraint '{constraint}'")
    kept_by_better = "<=" if METRICS[metric].direction == "minimize" else ">="
    if metric in _ONE_WAY and constraint.sense != kept_by_better:
        raise InputError(
            f"{name}: constraint '{constraint}' has no bound: a better machine may break it",
            f"bound {metric} by '{kept_by_better}', or search without a certificate",
        )


def _check_metric(specification: StudySpecification, metric: str, place: str) -> None:
    if metric not in _ONE_WAY | _EITHER_WAY:
        raise InputError(
            f"{place} has no bound: nothing says how '{metric}' changes as a machine gets faster",
            "with a bound: " + ", ".join(name for name in METRICS if name in _ONE_WAY | _EITHER_WAY),
        )
    path = _CAPACITIES.get(metric)
    searched = {free.path for free in specification.free} - set(fitted_paths(specification))
    if path in searched:
        raise InputError(
            f"{place} has no bound: {path} is free and searched, not fitted to each strategy",
            f'bound the range of {path} itself, or use method = "auto"',
        )
