"""Hardware points: what a study is free to choose, as named dimensions, and the machine that a point stands for."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product

from codesign_opt.studies.exact.fitting import FittedCapacities, FittedCapacity
from codesign_opt.studies.free_parameters import FreeParameter
from codesign_opt.studies.processors import ProcessorBudget
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.systems import System
from codesign_opt.systems.parameters import KINDS, with_parameters

Point = Mapping[str, float | int | str]
"""Dimension to value, SI units."""

PROCESSORS = "processors"

STEPS_BELOW = "processors_below_budget"
"""Dimension of steps below the largest number of processors that a budget buys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One thing to choose: a range from `low` to `high`, or one of `choices`, which rise."""

    name: str
    low: float = 0.0
    high: float = 0.0
    logarithmic: bool = False
    choices: tuple[float | int | str, ...] = ()

    def at(self, share: float) -> float | int | str:
        """The value at a share from 0 to 1 of the way along the dimension."""
        if self.choices:
            return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]
        if self.logarithmic:
            return float(min(self.high, self.low * (self.high / self.low) ** share))
        return float(min(self.high, self.low + (self.high - self.low) * share))

    def share(self, value: float) -> float:
        """How far along a range a value is, from 0 to 1: the inverse of `at`."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def hardware_dimensions(specification: StudySpecification) -> tuple[Dimension, ...]:
    """The free parameters of the system that are searched, then the number of processors where there are several."""
    fitted = fitted_paths(specification)
    dimensions = [_dimension(parameter) for parameter in specification.free if parameter.path not in fitted]
    if isinstance(specification.processors, ProcessorBudget):
        if specification.processors.counts > 1:
            dimensions.append(Dimension(name=STEPS_BELOW, choices=tuple(range(specification.processors.counts))))
    elif len(specification.processors) > 1:
        dimensions.append(Dimension(name=PROCESSORS, choices=specification.processors))
    return tuple(dimensions)


def machine(specification: StudySpecification, point: Point) -> tuple[System, int]:
    """The system of a point and its number of processors, 0 where the budget buys none."""
    fitted = fitted_paths(specification)
    largest = {free.path: max(free.choices, default=free.high) for free in specification.free if free.path in fitted}
    searched = {free.path: float(point[free.path]) for free in specification.free if free.path not in fitted}
    chosen = {**{path: float(value or 0.0) for path, value in largest.items()}, **searched}
    system = with_parameters(specification.system, chosen) if chosen else specification.system
    if isinstance(specification.processors, ProcessorBudget):
        return system, specification.processors.count(system, int(point.get(STEPS_BELOW, 0)))
    if len(specification.processors) == 1:
        return system, specification.processors[0]
    return system, int(point[PROCESSORS])


def fitted_paths(specification: StudySpecification) -> tuple[str, ...]:
    """The free capacities that are not searched, since each strategy has the smallest that holds it.

    That is right where a larger capacity costs as much or more and is good for nothing else: under the methods `auto`
    and `bilevel`, unless a metric that is asked for counts free memory, a price falls, or the budget decides how many
    processors there are.
    """
    if specification.method not in ("auto", "bilevel") or isinstance(specification.processors, ProcessorBudget):
        return ()
    asked = {objective.metric for objective in specification.objectives}
    asked |= {constraint.metric for constraint in specification.constraints}
    if any(name.endswith(("_free", "_share")) and name.startswith("memory_") for name in asked):
        return ()
    return tuple(
        free.path
        for free in specification.free
        if free.path in _CAPACITIES and _price_never_falls(specification, free.path)
    )


def fitted_capacities(specification: StudySpecification) -> FittedCapacities:
    """The capacities of `fitted_paths`, as the solver takes them."""
    paths = fitted_paths(specification)
    fitted = {
        free.path.partition(".")[0]: FittedCapacity(
            low=free.low or 0.0, high=free.high or 0.0, choices=tuple(sorted(free.choices))
        )
        for free in specification.free
        if free.path in paths
    }
    return FittedCapacities(**fitted)


def _price_never_falls(specification: StudySpecification, path: str) -> bool:
    price = specification.system.price
    curve = getattr(price, path.partition(".")[0]) if price is not None else None
    return curve is None or all(low <= high for low, high in pairwise(curve.prices))


_CAPACITIES = ("memory_tier1.capacity", "memory_tier2.capacity")


def point_key(point: Point) -> str:
    """Canonical text: equal for equal points."""
    return json.dumps(dict(sorted(point.items())), separators=(",", ":"), allow_nan=False)


def number_of_points(dimensions: tuple[Dimension, ...]) -> float:
    """How many points there are; infinite where a dimension is a range."""
    return math.prod(len(dimension.choices) if dimension.choices else math.inf for dimension in dimensions)


def all_points(dimensions: tuple[Dimension, ...]) -> Iterator[Point]:
    """Every point of finite dimensions, the last dimension varying fastest."""
    for values in product(*(dimension.choices for dimension in dimensions)):
        yield {dimension.name: value for dimension, value in zip(dimensions, values, strict=True)}


def _dimension(parameter: FreeParameter) -> Dimension:
    if parameter.choices:
        # A study that was read back from the database has 8.0 where its file said 8.
        number = int if KINDS[parameter.path.rpartition(".")[2]].whole else float
        return Dimension(name=parameter.path, choices=tuple(sorted(number(choice) for choice in parameter.choices)))
    assert parameter.low is not None
    assert parameter.high is not None
    return Dimension(name=parameter.path, low=parameter.low, high=parameter.high, logarithmic=parameter.scale == "log")
