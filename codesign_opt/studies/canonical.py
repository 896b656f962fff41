"""A study as plain data: what the database keeps, and what decides whether two studies are the same."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from pydantic import TypeAdapter, ValidationError

from codesign_opt.configuration import at, shown, validated
from codesign_opt.errors import InputError
from codesign_opt.objectives import Constraint, Objective, parse_constraints, parse_objectives
from codesign_opt.strategies import Datatype
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.studies.budget import Budget
from codesign_opt.studies.free_parameters import FreeParameter
from codesign_opt.studies.processors import ProcessorChoice
from codesign_opt.studies.schema import StrategiesFile
from codesign_opt.studies.specification import StudySpecification, strategy_space
from codesign_opt.systems import NetworkTier, System
from codesign_opt.systems.parameters import KINDS
from codesign_opt.units import format_quantity
from codesign_opt.workloads import Workload

FORMAT = 1
"""Version of the layout below."""

_NOT_COMPARED = ("name", "budget")
"""A study by another name, or with a bigger budget, is not another study."""

_EXACT = 17

_SINCE_FORMAT_1: Mapping[type, frozenset[str]] = {
    Workload: frozenset(
        field.name for field in dataclasses.fields(Workload) if field.default is not dataclasses.MISSING
    ),
    System: frozenset({"memory_overheads", "launch", "fused_attention"}),
    NetworkTier: frozenset({"latency_per_member"}),
    StrategySpace: frozenset({"target"}),
}
"""Fields that were added later. They are left out where they hold their default, so that a study stored before has the
hash that it had.
"""


def specification_to_dict(specification: StudySpecification) -> dict[str, Any]:
    """All of a study as JSON can hold it, in SI units; nothing else is needed to rebuild it."""
    data = {field.name: _plain(getattr(specification, field.name)) for field in dataclasses.fields(specification)}
    switches = {name: value for name, value in data["strategies"].items() if name != "limits"}
    return {"format": FORMAT, **data, "strategies": {**data["strategies"]["limits"], **switches}}


def specification_from_dict(data: Mapping[str, Any], *, where: str = "study") -> StudySpecification:
    """The study that `specification_to_dict` wrote.

    Raises:
        InputError: For anything else.
    """
    if data.get("format") != FORMAT:
        hint = "a newer version of this program wrote it"
        raise InputError(f"{where}: format: {shown(data.get('format'))} is not {FORMAT}", hint)
    values = {name: value for name, value in data.items() if name != "format"}
    try:
        for name, adapter in (
            ("workload", TypeAdapter[Any](Workload)),
            ("system", TypeAdapter[Any](System)),
            ("free", TypeAdapter[Any](tuple[FreeParameter, ...])),
            ("processors", TypeAdapter[Any](ProcessorChoice)),
            ("budget", TypeAdapter[Any](Budget)),
        ):
            values[name] = adapter.validate_python(values[name])
        values["strategies"] = strategy_space(
            validated(StrategiesFile, values["strategies"], where=at(where, "strategies"))
        )
        values["objectives"] = parse_objectives(values["objectives"], where=at(where, "objectives"))
        values["constraints"] = parse_constraints(values["constraints"], where=at(where, "constraints"))
        values["datatype"] = Datatype(values["datatype"])
        values["reproduce"] = tuple(values["reproduce"])
        return StudySpecification(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{where}: not a stored study: {_reason(error)}", "was it changed by hand?") from None


def specification_hash(specification: StudySpecification) -> str:
    """Digest of everything that decides the result: 64 hexadecimal digits, equal for equal studies."""
    text = json.dumps(_compared(specification), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def difference(first: StudySpecification, second: StudySpecification) -> list[str]:
    """One line for each value that differs: "objectives[0]: 'minimize step_time' → 'maximize sample_rate'"."""
    before, after = dict(_leaves(_compared(first), "", "")), dict(_leaves(_compared(second), "", ""))
    paths = list(dict.fromkeys([*before, *after]))
    return [
        f"{path}: {before.get(path, 'absent')} → {after.get(path, 'absent')}"
        for path in paths
        if before.get(path) != after.get(path)
    ]


def _compared(specification: StudySpecification) -> dict[str, Any]:
    data = specification_to_dict(specification)
    return {name: _one_number_type(value) for name, value in data.items() if name not in _NOT_COMPARED}


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error} is missing"
    if isinstance(error, ValidationError):
        details = error.errors(include_url=False)[0]
        return f"{error.title}: {'.'.join(str(part) for part in details['loc'])}: {details['msg']}"
    return str(error)


def _plain(node: Any) -> Any:
    if isinstance(node, Objective | Constraint):
        return str(node)
    if isinstance(node, Enum):
        return node.value
    if dataclasses.is_dataclass(node):
        later = _SINCE_FORMAT_1.get(type(node), frozenset())
        values = {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
        defaults = {field.name: field.default for field in dataclasses.fields(node)}
        said = [name for name, value in values.items() if name not in later or value != defaults[name]]
        return {name: _plain(values[name]) for name in said}
    if isinstance(node, Mapping):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, tuple | list):
        return [_plain(value) for value in node]
    return node


def _one_number_type(node: Any) -> Any:
    """1.0 and 1 are equal but would be different text."""
    if isinstance(node, dict):
        return {key: _one_number_type(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_one_number_type(value) for value in node]
    return int(node) if isinstance(node, float) and node.is_integer() else node


def _leaves(node: Any, path: str, unit: str) -> Iterator[tuple[str, str]]:
    """Path and text of every value; `unit` is that of the numbers in `node`, where it is known."""
    if isinstance(node, dict):
        unit = node.get("unit", unit)
        for key, value in node.items():
            kind = KINDS.get(key) if path.startswith("system") else None
            yield from _leaves(value, f"{path}.{key}" if path else key, kind.unit if kind else unit)
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _leaves(value, f"{path}[{index}]", unit)
    else:
        is_quantity = unit and isinstance(node, int | float) and not isinstance(node, bool)
        yield path, format_quantity(node, unit, _EXACT) if is_quantity else repr(node)
