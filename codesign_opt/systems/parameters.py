"""The numbers that describe a system, by dotted path: "memory_tier1.capacity", "network_tiers.0.bandwidth"."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from codesign_opt.errors import InputError, nearest
from codesign_opt.systems.system import System
from codesign_opt.units import format_quantity, parse_quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Unit of a number and the interval that it may lie in.

    Attributes:
        unit: SI unit, "1" for plain numbers.
        minimum, maximum: Ends of the interval, in `unit`.
        above_minimum, below_maximum: Whether that end itself is excluded.
        whole: Whether only whole numbers are allowed.
    """

    unit: str = "1"
    minimum: float = 0.0
    maximum: float = math.inf
    above_minimum: bool = False
    below_maximum: bool = False
    whole: bool = False

    def parse(self, value: Any, *, where: str) -> float:
        """The number, in `unit`, that a file's value says.

        Raises:
            InputError: For a value without unit, with a wrong one, or out of the interval.
        """
        return self.check(parse_quantity(value, self.unit, where=where), where=where)

    def check(self, number: float, *, where: str) -> float:
        """`number` itself.

        Raises:
            InputError: Where it is out of the interval, or not a whole number.
        """
        low = number > self.minimum if self.above_minimum else number >= self.minimum
        high = number < self.maximum if self.below_maximum else number <= self.maximum
        if not (low and high and math.isfinite(number)) or (self.whole and number != int(number)):
            raise InputError(f"{where}: {format_quantity(number, self.unit, 17)} is not allowed", self.allowed)
        return int(number) if self.whole else number

    @property
    def allowed(self) -> str:
        """The interval in words."""
        low = f"{'above' if self.above_minimum else 'at least'} {format_quantity(self.minimum, self.unit)}"
        high = f"{'below' if self.below_maximum else 'at most'} {format_quantity(self.maximum, self.unit)}"
        interval = low if self.maximum == math.inf else f"{low} and {high}"
        return f"a whole number, {interval}" if self.whole else interval


KINDS: Mapping[str, Kind] = {
    "peak": Kind(unit="flop/s", above_minimum=True),
    "capacity": Kind(unit="B"),
    "bandwidth": Kind(unit="B/s", above_minimum=True),
    "efficiency": Kind(above_minimum=True, maximum=1.0),
    "size": Kind(minimum=1.0, maximum=1e9, whole=True),
    "latency": Kind(unit="s"),
    "processor_usage": Kind(maximum=1.0, below_maximum=True),
    "latency_per_member": Kind(unit="s"),
    "forward_efficiency": Kind(above_minimum=True, maximum=1.0),
    "backward_efficiency": Kind(above_minimum=True, maximum=1.0),
    "half_head_size": Kind(),
    "launch": Kind(unit="s"),
    "scalar": Kind(),
    "offset": Kind(minimum=-1.0),
    "processor": Kind(unit="$"),
    "hourly": Kind(unit="$/h"),
    "amortisation_hours": Kind(unit="h", above_minimum=True),
    "context": Kind(unit="B"),
    "communication": Kind(unit="B"),
    "workspace": Kind(unit="B"),
    "fragmentation": Kind(maximum=1.0),
    "busy": Kind(unit="W"),
    "idle": Kind(unit="W"),
}
"""Every number of a system, by the name of its field; curves are not numbers."""


def parameters(system: System) -> dict[str, tuple[float, str]]:
    """Every number of a system: dotted path to value and unit, SI."""
    return {path: (value, KINDS[path.rpartition(".")[2]].unit) for path, value in _numbers(system, "")}


def parameter(system: System, path: str) -> float:
    """The number at a dotted path.

    Raises:
        InputError: Where the system has no such parameter, with the near ones.
    """
    number = _number_at(system, path)
    if number is None:
        raise _unknown(system, path, where="")
    return number


def parameter_kind(system: System, path: str, *, where: str) -> Kind:
    """Unit and interval of the parameter at `path`.

    Raises:
        InputError: Where the system has no such parameter, with the near ones.
    """
    if _number_at(system, path) is None:
        raise _unknown(system, path, where=f"{where}: ")
    return KINDS[path.rpartition(".")[2]]


def with_parameters(system: System, values: Mapping[str, float], *, where: str = "system") -> System:
    """The system with other numbers.

    Args:
        system: Left as it is.
        values: Dotted path to value, SI.
        where: For messages.

    Raises:
        InputError: For an unknown path or a value that the parameter may not have.
    """
    for path, value in values.items():
        number = parameter_kind(system, path, where=where).check(value, where=f"{where}: {path}")
        system = _replaced(system, path.split("."), number)
    return system


def _number_at(system: System, path: str) -> float | None:
    node: Any = system
    names = path.split(".")
    for name in names:
        node = dict(_children(node)).get(name)
    return node if names[-1] in KINDS and isinstance(node, int | float) else None


def _unknown(system: System, path: str, *, where: str) -> InputError:
    return InputError(f"{where}'{system.name}' has no parameter '{path}'", nearest(path, parameters(system)))


def _numbers(node: Any, prefix: str) -> Iterator[tuple[str, float]]:
    for name, child in _children(node):
        path = f"{prefix}{name}"
        if name in KINDS and isinstance(child, int | float):
            yield path, child
        else:
            yield from _numbers(child, f"{path}.")


def _children(node: Any) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(node):
        yield from ((field.name, getattr(node, field.name)) for field in dataclasses.fields(node))
    elif isinstance(node, Mapping):
        yield from node.items()
    elif isinstance(node, tuple):
        yield from ((str(index), child) for index, child in enumerate(node))


def _replaced(node: Any, path: list[str], value: float) -> Any:
    if not path:
        return value
    child = _replaced(dict(_children(node))[path[0]], path[1:], value)
    if isinstance(node, Mapping):
        return {**node, path[0]: child}
    if isinstance(node, tuple):
        return tuple(child if str(index) == path[0] else other for index, other in enumerate(node))
    return dataclasses.replace(node, **{path[0]: child})
