"""The reference of the study file, written from its schema and from the lists of parameters and metrics."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from codesign_opt.catalog import resolve_system
from codesign_opt.objectives import METRICS
from codesign_opt.studies.schema import StudyFile
from codesign_opt.systems import FusedAttention, Power
from codesign_opt.systems.parameters import KINDS, parameters

_EXAMPLE_SYSTEM = "h100-price-study"

Schema = Mapping[str, Any]


def study_reference() -> str:
    """Markdown: every table with its keys, then the parameters of a system by path, then the metrics."""
    schema = StudyFile.model_json_schema()
    lines: list[str] = []
    for heading, model in _sections(schema, schema["$defs"], "", set()):
        required = model.get("required", [])
        rows = [_row(key, field, schema["$defs"], key in required) for key, field in model["properties"].items()]
        lines += [f"### {heading}", "", model["description"], ""]
        lines += _table(("key", "type", "default", "what it is", "example"), rows)
    lines += ["### Parameters of a system", "", "For `[system.set]` and `[system.free]`; N counts from 0.", ""]
    lines += _table(("path", "unit", "allowed"), _parameter_rows())
    lines += ["### Metrics", "", "For `objectives` and `constraints`.", ""]
    lines += _table(("metric", "unit", "better", "what it is"), _metric_rows())
    return "\n".join(lines)


def _sections(model: Schema, models: Schema, path: str, seen: set[str]) -> Iterator[tuple[str, Schema]]:
    """Heading and schema of a table and of every table inside it, each kind of table once."""
    yield (f"`[{path}]`" if path else "Top level"), model
    prefix = f"{path.strip('[]')}." if path else ""
    for key, field in model["properties"].items():
        for name, place in _tables(field, f"{prefix}{key}"):
            if name not in seen:
                seen.add(name)
                yield from _sections(models[name], models, place, seen)


def _tables(field: Schema, path: str) -> Iterator[tuple[str, str]]:
    """Name and path of every table that a field may hold; the path of a list of tables is in brackets."""
    if "$ref" in field:
        yield _name(field), path
    for option in (*field.get("anyOf", ()), *field.get("oneOf", ())):
        yield from _tables(option, path)
    if isinstance(field.get("items"), Mapping):
        yield from _tables(field["items"], f"[{path}]")
    if isinstance(field.get("additionalProperties"), Mapping):
        yield from _tables(field["additionalProperties"], f"{path}.{_placeholder(field)}")


def _parameter_rows() -> list[tuple[str, ...]]:
    system = resolve_system(_EXAMPLE_SYSTEM)
    assert system.price is not None
    price = dataclasses.replace(system.price, hourly=1.0)
    rows = {}
    fused = FusedAttention(forward_efficiency=0.5, backward_efficiency=0.5, half_head_size=0.0)
    full = dataclasses.replace(system, price=price, power=Power(busy=1.0, idle=1.0), fused_attention=fused)
    for path in parameters(full):
        pattern = re.sub(r"^(matrix|vector)\.\w+", r"\1.DATATYPE", re.sub(r"\.\d+\.", ".N.", path))
        kind = KINDS[path.rpartition(".")[2]]
        rows[pattern] = (f"`{pattern}`", "" if kind.unit == "1" else kind.unit, kind.allowed)
    return list(rows.values())


def _metric_rows() -> list[tuple[str, ...]]:
    better = {"minimize": "less", "maximize": "more"}
    return [
        (f"`{metric.name}`", "" if metric.unit == "1" else metric.unit, better[metric.direction], metric.description)
        for metric in METRICS.values()
    ]


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    escaped = [tuple(cell.replace("|", "\\|") for cell in row) for row in rows]
    return [f"| {' | '.join(cells)} |" for cells in (header, ("---",) * len(header), *escaped)] + [""]


def _row(key: str, field: Schema, models: Schema, required: bool) -> tuple[str, ...]:
    default = "required" if required else _default(field)
    description = field.get("description") or models[_name(field)]["description"]
    examples = field.get("examples", [])
    example = f"`{key} = {_toml(examples[0])}`" if examples and not _refers(examples[0]) else ""
    return f"`{key}`", _type(field), default, description, example


def _type(field: Schema) -> str:
    if "$ref" in field:
        return "table"
    if "format" in field:
        return str(field["format"])
    if "enum" in field:
        return ", ".join(f"`{word}`" for word in field["enum"])
    options = [option for option in (*field.get("anyOf", ()), *field.get("oneOf", ())) if option.get("type") != "null"]
    if len(options) == 2 and options[1].get("items") == options[0]:
        return f"{_type(options[0])}; or a list of such"
    if options:
        return " or ".join(dict.fromkeys(_type(option) for option in options))
    kind = field.get("type")
    if kind == "array":
        return f"list of {_type(field['items'])}"
    if kind == "object":
        inner = field.get("additionalProperties")
        return f"tables by {_placeholder(field).lower()}" if isinstance(inner, Mapping) else "table of dotted paths"
    if kind == "integer":
        return f"whole number ≥ {field['minimum']}"
    return {"string": "text", "boolean": "true or false", "number": "number"}[str(kind)]


def _default(field: Schema) -> str:
    default = field.get("default")
    return "" if default in (None, "", [], {}) else f"`{_toml(default)}`"


def _name(field: Schema) -> str:
    return str(field["$ref"]).rpartition("/")[2]


def _placeholder(field: Schema) -> str:
    """What stands for the key of a table of tables."""
    return "DATATYPE" if "propertyNames" in field else "PATH"


def _refers(example: Any) -> bool:
    return isinstance(example, str) and example.startswith("see [")


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    return json.dumps(key) if "." in key else key
