"""Objectives: a metric and the direction in which it is to go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError, nearest
from codesign_opt.objectives.metrics import METRICS, PESSIMISTIC, Direction, metric

if TYPE_CHECKING:
    from codesign_opt.analytical import Estimate

_DIRECTIONS: Mapping[str, Direction] = {
    "minimize": "minimize",
    "minimise": "minimize",
    "min": "minimize",
    "maximize": "maximize",
    "maximise": "maximize",
    "max": "maximize",
}


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric of the catalogue to be minimised or maximised."""

    metric: str
    direction: Direction

    def __str__(self) -> str:
        return f"{self.direction} {self.metric}"

    def minimized(self, values: NDArray[Any]) -> NDArray[Any]:
        """The metric's values with the sign by which less is better; applied twice, the values themselves."""
        return values if self.direction == "minimize" else -values


def parse_objective(given: str | Mapping[str, Any], *, where: str) -> Objective:
    """An objective from "step_time", "maximize sample_rate", or {"metric": "step_time", "direction": "minimize"}.

    Without a direction the metric's own is taken.

    Raises:
        InputError: Unknown metric, direction or key; the hint says what is allowed.
    """
    name, direction = _fields_of_mapping(given, where) if isinstance(given, Mapping) else _fields_of_text(given, where)
    entry = metric(name, where=where)
    if direction is None:
        return Objective(entry.name, entry.direction)
    if direction not in _DIRECTIONS:
        raise InputError(f"{where}: unknown direction '{direction}'", nearest(direction, _DIRECTIONS))
    return Objective(entry.name, _DIRECTIONS[direction])


def parse_objectives(given: Iterable[str | Mapping[str, Any]], *, where: str) -> tuple[Objective, ...]:
    """Objectives in the order given.

    Raises:
        InputError: As `parse_objective`, and where there is none or a metric comes twice.
    """
    objectives = tuple(parse_objective(item, where=where) for item in given)
    if not objectives:
        raise InputError(f"{where}: no objective", "name at least one metric, such as 'step_time'")
    names = [objective.metric for objective in objectives]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{where}: metric '{name}' is the objective more than once", "keep one of them")
    return objectives


def robust(objectives: Iterable[Objective]) -> tuple[Objective, ...]:
    """The objectives with every pace at the pessimistic end of its published interval."""
    return tuple(
        replace(objective, metric=f"{objective.metric}{PESSIMISTIC}")
        if f"{objective.metric}{PESSIMISTIC}" in METRICS
        else objective
        for objective in objectives
    )


def objective_values(estimate: Estimate, objectives: Sequence[Objective]) -> NDArray[np.float64]:
    """Values of all objectives, to be minimised: maximised metrics have their sign changed.

    Returns:
        Shape (…, number of objectives), where … is the shape to which the estimate's columns broadcast.
    """
    columns = [objective.minimized(METRICS[objective.metric].evaluate(estimate)) for objective in objectives]
    return stacked(estimate, columns)


def stacked(estimate: Estimate, columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Columns that broadcast against the estimate, side by side on a new last axis."""
    shape = np.broadcast_shapes(
        np.shape(estimate.times.total), *(np.shape(column) for column in estimate.strategies.values())
    )
    result = np.empty((*shape, len(columns)))
    for index, column in enumerate(columns):
        result[..., index] = column
    return result


def _fields_of_text(given: str, where: str) -> tuple[str, str | None]:
    words = given.split() if isinstance(given, str) else []
    if len(words) == 1:
        return words[0], None
    if len(words) == 2:
        return words[1], words[0].lower()
    raise InputError(f"{where}: {given!r} is not an objective", "write for instance 'minimize step_time'")


def _fields_of_mapping(given: Mapping[str, Any], where: str) -> tuple[str, str | None]:
    unknown = [str(key) for key in given if key not in ("metric", "direction")]
    if unknown:
        raise InputError(f"{where}: unknown key '{unknown[0]}'", nearest(unknown[0], ["metric", "direction"]))
    if "metric" not in given:
        raise InputError(f"{where}: an objective has no 'metric'", 'write for instance metric = "step_time"')
    direction = given.get("direction")
    return str(given["metric"]), None if direction is None else str(direction).lower()
