"""How systems of the catalogue are shown: a line each in the list, and every value beside its source."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from codesign_opt.cli.output import width

if TYPE_CHECKING:
    from codesign_opt.systems import EfficiencyCurve, Notes, PriceCurve, System
    from codesign_opt.systems.notes import Value

_HEADINGS = ("memory", "16-bit peak", "what")
_16_BITS = ("bfloat16", "float16")
_EXACT = 17
"""Digits that make a threshold look as its file has it: "100 MB"."""


def system_lines(names: Sequence[str], name_width: int) -> list[str]:
    """A heading, and a line or more for each shipped system: its memory, its peak, and what it is."""
    from codesign_opt.catalog import resolve_system, system_notes

    rows = [_HEADINGS]
    for name in names:
        notes = system_notes(name)
        rows.append((*_memory_and_peak(resolve_system(name)), notes.description or notes.source))
    sizes = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines: list[str] = []
    for name, (memory, peak, what) in zip(["systems:", *(f"  {name}" for name in names)], rows, strict=True):
        start = f"{name:<{name_width + 2}}  {memory:>{sizes[0]}}  {peak:>{sizes[1]}}  "
        lines += textwrap.wrap(
            what,
            max(width(), len(start) + 20),
            initial_indent=start,
            subsequent_indent=" " * len(start),
            break_long_words=False,
        )
    return lines


def source_lines(system: System, notes: Notes) -> list[str]:
    """Comments of a system file: every value, and below each group of values where they come from."""
    from codesign_opt.systems.notes import values

    groups: dict[str, list[str]] = {}
    for path, value in values(system).items():
        groups.setdefault(notes.source_of(path), []).append(f"{path} = {_shown(path, value)}")
    lines = ["# Every value and where it comes from:"]
    for source, members in groups.items():
        lines += ["#", *(f"# {member}" for member in members)]
        lines += textwrap.wrap(
            source or "no source",
            width(),
            initial_indent="#     ",
            subsequent_indent="#     ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def system_document(system: System, notes: Notes) -> dict[str, Any]:
    """A system for a JSON document, in SI units; `source` stands beside the values whose source is named."""
    from codesign_opt.systems.notes import values
    from codesign_opt.systems.parameters import parameters

    def noted(path: str, entry: dict[str, Any]) -> dict[str, Any]:
        own = notes.own_source(path)
        return entry if own is None else {**entry, "source": own}

    switches = {path: value for path, value in values(system).items() if isinstance(value, bool)}
    curves = {path: value for path, value in values(system).items() if not isinstance(value, int | float)}
    return {
        "source": notes.source,
        "parameters": {
            path: noted(path, {"value": value, "unit": unit}) for path, (value, unit) in parameters(system).items()
        },
        "switches": {path: noted(path, {"value": _switch(path, value)}) for path, value in switches.items()},
        "curves": {
            path: noted(path, {"points": _points(curve), "unit": _point_unit(path)}) for path, curve in curves.items()
        },
    }


def _memory_and_peak(system: System) -> tuple[str, str]:
    from codesign_opt.units import format_quantity

    word = next((word for word in _16_BITS if word in system.matrix), next(iter(system.matrix)))
    return format_quantity(system.memory_tier1.capacity, "B"), format_quantity(system.matrix[word].peak, "flop/s")


def _shown(path: str, value: Value) -> str:
    from codesign_opt.systems.parameters import KINDS
    from codesign_opt.units import format_quantity

    if isinstance(value, bool):
        return str(_switch(path, value)).lower()
    if isinstance(value, int | float):
        return format_quantity(value, KINDS[path.rpartition(".")[2]].unit, 6)
    height = "$" if path.startswith("price.") else "1"
    return ", ".join(
        f"{format_quantity(to, height)} from {format_quantity(at, _point_unit(path), _EXACT)}"
        for at, to in _points(value)
    )


def _switch(path: str, value: bool) -> str | bool:
    """A switch as a file has it."""
    if path == "processing":
        return "roofline" if value else "no_overlap"
    return value


def _points(curve: EfficiencyCurve | PriceCurve) -> list[tuple[float, float]]:
    from codesign_opt.systems import EfficiencyCurve

    if isinstance(curve, EfficiencyCurve):
        return list(zip(curve.thresholds, curve.efficiencies, strict=True))
    return list(zip(curve.points, curve.prices, strict=True))


def _point_unit(path: str) -> str:
    """Unit of what a curve at `path` is over."""
    from codesign_opt.systems.parameters import KINDS

    if path.startswith("price.parameters."):
        return KINDS[path.rpartition(".")[2]].unit
    return "flop" if path.startswith(("matrix.", "vector.")) else "B"
