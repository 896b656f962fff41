"""Parameters of a system that a study is free to choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from codesign_opt.errors import InputError
from codesign_opt.studies.schema import FreeChoicesFile, FreeRangeFile
from codesign_opt.systems import System
from codesign_opt.systems.parameters import Kind, parameter_kind
from codesign_opt.units import format_quantity

Scale = Literal["linear", "log"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeParameter:
    """One free parameter: a range, or choices.

    Attributes:
        path: Dotted path as in `codesign_opt.systems.parameters`.
        unit: SI unit of the numbers below.
        low, high: Ends of the range, both included; None where there are choices.
        scale: How the range is sampled.
        choices: Values in the order written; empty where there is a range.
    """

    path: str
    unit: str
    low: float | None = None
    high: float | None = None
    scale: Scale = "linear"
    choices: tuple[float, ...] = ()


def free_parameters(
    files: Mapping[str, FreeRangeFile | FreeChoicesFile], system: System, *, where: str
) -> tuple[FreeParameter, ...]:
    """The free parameters of a study's `[system.free]` table, in its order.

    Args:
        files: Dotted path to what the file says about it.
        system: The system that has these parameters.
        where: File and key of the table, for messages.

    Raises:
        InputError: For a path that the system does not have, a value without unit or out of what the parameter may be,
            an empty range, or a logarithmic one that starts at 0.
    """
    free = []
    for path, file in files.items():
        kind, place = parameter_kind(system, path, where=where), f"{where}.{path}"
        if isinstance(file, FreeRangeFile):
            free.append(_range(path, file, kind, place))
        else:
            free.append(_choices(path, file, kind, place))
    return tuple(free)


def _range(path: str, file: FreeRangeFile, kind: Kind, where: str) -> FreeParameter:
    if kind.whole:
        raise InputError(f"{where}: only whole numbers are possible", "write for instance choices = [8, 16, 72]")
    low, high = _bound(file.low, kind, f"{where}.low"), _bound(file.high, kind, f"{where}.high")
    if low >= high:
        shown = f"{format_quantity(low, kind.unit)} is not below high, {format_quantity(high, kind.unit)}"
        raise InputError(f"{where}.low: {shown}", "fix a parameter in [system.set] instead of freeing it")
    if file.scale == "log" and low <= 0:
        shown = format_quantity(low, kind.unit)
        raise InputError(f"{where}.low: {shown} has no logarithm", 'write scale = "linear", or a low above 0')
    return FreeParameter(path=path, unit=kind.unit, low=low, high=high, scale=file.scale)


def _choices(path: str, file: FreeChoicesFile, kind: Kind, where: str) -> FreeParameter:
    values = tuple(kind.parse(value, where=f"{where}.choices.{index}") for index, value in enumerate(file.choices))
    if len(set(values)) < len(values):
        raise InputError(f"{where}.choices: a value comes twice", "keep each value once")
    return FreeParameter(path=path, unit=kind.unit, choices=values)


def _bound(value: Any, kind: Kind, where: str) -> float:
    return kind.parse(value, where=where)
