"""Constraints: a metric and the bound that it must keep."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError
from codesign_opt.objectives.metrics import METRICS, Metric, metric
from codesign_opt.objectives.objective import stacked
from codesign_opt.units import format_quantity, parse_quantity

if TYPE_CHECKING:
    from codesign_opt.analytical import Estimate

Sense = Literal["<=", ">="]

_OPERATOR = re.compile(r"\s*([<>=!≤≥]+)\s*")
_EXACT = 17


@dataclass(frozen=True, slots=True)
class Constraint:
    """A metric that must be at most ("<=") or at least (">=") `bound`, in the metric's unit."""

    metric: str
    sense: Sense
    bound: float

    def __str__(self) -> str:
        return f"{self.metric} {self.sense} {format_quantity(self.bound, METRICS[self.metric].unit, _EXACT)}"

    def violation(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much is missing, in the metric's unit and of the shape of `values`; ≤ 0 where satisfied."""
        return values - self.bound if self.sense == "<=" else self.bound - values


def parse_constraint(text: str, *, where: str) -> Constraint:
    """A constraint from "memory_tier1_used <= 70 GiB".

    Raises:
        InputError: Not of this form, unknown metric, missing or wrong unit, not finite, or a bound that cannot be kept.
    """
    parts = _OPERATOR.split(text.strip()) if isinstance(text, str) else []
    if len(parts) != 3 or not parts[0] or not parts[2]:
        raise InputError(
            f"{where}: {text!r} is not a constraint",
            "write one metric, '<=' or '>=', and one bound, for instance 'memory_tier1_used <= 70 GiB'",
        )
    name, operator, bound_text = parts
    if operator not in ("<=", ">="):
        raise InputError(f"{where}: unknown operator '{operator}' in {text!r}", "allowed: <= and >=")
    if not name.isidentifier():
        raise InputError(f"{where}: '{name}' in {text!r} is not a metric", "the metric comes first, the bound last")
    entry = metric(name, where=where)
    bound = parse_quantity(bound_text, entry.unit, where=f"{where}: {entry.name}")
    constraint = Constraint(entry.name, "<=" if operator == "<=" else ">=", bound)
    _check_possible(constraint, entry, text, where)
    return constraint


def parse_constraints(texts: Iterable[str], *, where: str) -> tuple[Constraint, ...]:
    """Constraints in the order given.

    Raises:
        InputError: As `parse_constraint`, and where two of them contradict each other.
    """
    constraints = tuple(parse_constraint(text, where=where) for text in texts)
    for upper in constraints:
        for lower in constraints:
            contrary = upper.metric == lower.metric and (upper.sense, lower.sense) == ("<=", ">=")
            if contrary and lower.bound > upper.bound:
                raise InputError(f"{where}: no strategy can satisfy both '{upper}' and '{lower}'", "drop one of them")
    return constraints


def constraint_violations(estimate: Estimate, constraints: Sequence[Constraint]) -> NDArray[np.float64]:
    """How much is missing from each constraint, ≤ 0 where satisfied.

    Returns:
        Shape (…, number of constraints), where … is the shape to which the estimate's columns broadcast.
    """
    return stacked(estimate, [entry.violation(METRICS[entry.metric].evaluate(estimate)) for entry in constraints])


def _check_possible(constraint: Constraint, entry: Metric, text: str, where: str) -> None:
    limit = entry.minimum if constraint.sense == "<=" else entry.maximum
    if limit is None:
        return
    beyond = constraint.bound < limit if constraint.sense == "<=" else constraint.bound > limit
    if beyond:
        word = "below" if constraint.sense == "<=" else "above"
        raise InputError(
            f"{where}: no strategy can satisfy {text!r}",
            f"{entry.name} is never {word} {format_quantity(limit, entry.unit)}",
        )
