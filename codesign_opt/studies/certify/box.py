"""Boxes of machines: every dimension of a study in an interval, or among some choices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import sqrt
from typing import Literal

from codesign_opt.studies.points import PROCESSORS, Dimension, Point, hardware_dimensions
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.systems import Price, PriceCurve, System
from codesign_opt.systems.parameters import KINDS

BEST_END: Mapping[str, Literal["low", "high"]] = {
    "peak": "high",
    "capacity": "high",
    "bandwidth": "high",
    "efficiency": "high",
    "latency": "low",
    "processor_usage": "low",
    "latency_per_member": "low",
    "forward_efficiency": "high",
    "backward_efficiency": "high",
    "half_head_size": "low",
    "launch": "low",
    "scalar": "low",
    "offset": "low",
    "processor": "low",
    "hourly": "low",
    "amortisation_hours": "high",
    "busy": "low",
    "idle": "low",
}
"""For each kind of parameter the end of an interval where a step is shortest, and time cheapest, all else equal.

The size of a network tier is not among them: groups must divide some tiers, so a larger one is not always better.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Machines whose every dimension lies within one of `dimensions`."""

    dimensions: tuple[Dimension, ...]

    @property
    def divisible(self) -> tuple[str, ...]:
        """Names of the dimensions that have two halves."""
        return tuple(dimension.name for dimension in self.dimensions if _is_divisible(dimension))

    @property
    def best_end(self) -> Point:
        """The machine that no other of the box beats in step time or capacity."""
        return {dimension.name: _best_end(dimension) for dimension in self.dimensions}

    def edge(self, name: str) -> float:
        """Length of the box along a dimension, as a share of the end that is farther from 0."""
        low, high = (float(end) for end in _ends(self._dimension(name)))
        return (high - low) / max(abs(low), abs(high)) if low < high else 0.0

    def halves(self, name: str) -> tuple[Box, Box]:
        """The box cut in the middle of a dimension that has two halves: the slower half, then that at the best end."""
        dimension = self._dimension(name)
        if dimension.choices:
            half = len(dimension.choices) // 2
            low = replace(dimension, choices=dimension.choices[:half])
            high = replace(dimension, choices=dimension.choices[half:])
        else:
            middle = float(_middle(dimension))
            low, high = replace(dimension, high=middle), replace(dimension, low=middle)
        boxes = self._with(low), self._with(high)
        return boxes if _best_end(high) == _best_end(dimension) else boxes[::-1]

    def part(self, cut: Iterable[str], slow: Collection[str]) -> Box:
        """The part of the box, cut along some dimensions, that has the slower half of those in `slow`."""
        box = self
        for name in cut:
            slower, faster = box.halves(name)
            box = slower if name in slow else faster
        return box

    def contains(self, point: Point) -> bool:
        """Whether a point of the study is in the box."""
        return all(_holds(dimension, point[dimension.name]) for dimension in self.dimensions)

    def _with(self, part: Dimension) -> Box:
        return Box(dimensions=tuple(part if other.name == part.name else other for other in self.dimensions))

    def _dimension(self, name: str) -> Dimension:
        return next(dimension for dimension in self.dimensions if dimension.name == name)


def root_boxes(specification: StudySpecification) -> list[Box]:
    """All machines of a study: one box for each number of processors and size of a network tier."""
    dimensions = hardware_dimensions(specification)
    parts = [
        [replace(dimension, choices=(choice,)) for choice in dimension.choices]
        if _is_enumerated(dimension.name)
        else [dimension]
        for dimension in dimensions
    ]
    return [Box(dimensions=chosen) for chosen in product(*parts)]


def with_lowest_price(system: System, box: Box) -> System:
    """The system at the price that the cheapest machine of the box has, dimension by dimension."""
    if system.price is None:
        return system
    return replace(system, price=_lowest(system.price, {dimension.name: dimension for dimension in box.dimensions}))


def least_price(curve: PriceCurve, dimension: Dimension) -> float:
    """The lowest price of a curve, rising or not, within a dimension, $."""
    if dimension.choices:
        return float(curve.at([float(choice) for choice in dimension.choices]).min())
    corners = [point for point in curve.points if dimension.low < point < dimension.high]
    return float(curve.at([dimension.low, *corners, dimension.high]).min())


def _lowest(price: Price, within: Mapping[str, Dimension]) -> Price:
    """The price with every curve over a dimension replaced by its lowest value."""
    tier1, tier2 = within.get("memory_tier1.capacity"), within.get("memory_tier2.capacity")
    over = [(price.memory_tier1, tier1), (price.memory_tier2, tier2)]
    over += [(curve, within.get(path)) for path, curve in price.parameters.items()]
    lowest = [least_price(curve, dimension) for curve, dimension in over if curve is not None and dimension is not None]
    return replace(
        price,
        processor=price.processor + sum(lowest),
        memory_tier1=None if tier1 is not None else price.memory_tier1,
        memory_tier2=None if tier2 is not None else price.memory_tier2,
        parameters={path: curve for path, curve in price.parameters.items() if path not in within},
    )


def _is_enumerated(name: str) -> bool:
    return name == PROCESSORS or KINDS[_kind(name)].whole


def _kind(path: str) -> str:
    return path.rpartition(".")[2]


def _ends(dimension: Dimension) -> tuple[float | int | str, float | int | str]:
    if dimension.choices:
        return dimension.choices[0], dimension.choices[-1]
    return dimension.low, dimension.high


def _best_end(dimension: Dimension) -> float | int | str:
    low, high = _ends(dimension)
    if _is_enumerated(dimension.name):
        return low
    return low if BEST_END[_kind(dimension.name)] == "low" else high


def _middle(dimension: Dimension) -> float | int | str:
    if dimension.choices:
        return dimension.choices[(len(dimension.choices) - 1) // 2]
    if dimension.low > 0:
        return sqrt(dimension.low) * sqrt(dimension.high)
    return (dimension.low + dimension.high) / 2


def _is_divisible(dimension: Dimension) -> bool:
    if dimension.choices:
        return len(dimension.choices) > 1
    return dimension.low < float(_middle(dimension)) < dimension.high


def _holds(dimension: Dimension, value: float | int | str) -> bool:
    if dimension.choices:
        return value in dimension.choices
    return dimension.low <= float(value) <= dimension.high
