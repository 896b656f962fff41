"""How the catalogue is shown: systems with every value beside its source, workloads with their parameters."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from codesign_opt.cli.output import width

if TYPE_CHECKING:
    from codesign_opt.systems import EfficiencyCurve, Notes, PriceCurve, System
    from codesign_opt.systems.notes import Value
    from codesign_opt.workloads import Workload

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


def parameter_lines(workload: Workload, notes: Sequence[str]) -> list[str]:
    """Comments of a workload file: parameters part by part, flop for each token, and notes about the file."""
    from codesign_opt.units import format_quantity
    from codesign_opt.workloads.flops import FlopsConvention, flops_per_token
    from codesign_opt.workloads.parameters import (
        DEFAULT_VOCABULARY,
        active_parameter_count,
        parameter_count,
        parameter_parts,
    )

    rows = [("parameters", "all", "of a token")]
    rows += [(part.name, f"{part.total:,}", f"{part.active:,}") for part in parameter_parts(workload) if part.total]
    rows.append(("together", f"{parameter_count(workload):,}", f"{active_parameter_count(workload):,}"))
    sizes = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"# {name:<{sizes[0]}}  {total:>{sizes[1]}}  {active:>{sizes[2]}}" for name, total, active in rows]
    full, causal = (
        format_quantity(flops_per_token(workload, convention), "flop")
        for convention in (FlopsConvention.FULL_ATTENTION, FlopsConvention.CAUSAL_ATTENTION)
    )
    lines += ["#", f"# training a token takes {full} with full attention, {causal} with causal attention"]
    if workload.vocabulary == 0:
        lines.append(f"# without a vocabulary: an embedding of {DEFAULT_VOCABULARY:,} words is assumed here")
    for note in notes:
        lines += textwrap.wrap(note, width(), initial_indent="# note: ", subsequent_indent="#     ")
    return lines


def workload_document(workload: Workload, notes: Sequence[str]) -> dict[str, Any]:
    """A workload for a JSON document: its sizes, its parameters part by part, and flop for each token by convention."""
    import dataclasses

    from codesign_opt.workloads.flops import FlopsConvention, flops_per_token
    from codesign_opt.workloads.parameters import active_parameter_count, parameter_count, parameter_parts

    return {
        "workload": {**dataclasses.asdict(workload), "query_key_norm": workload.query_key_norm.value},
        "parameters": {
            "total": parameter_count(workload),
            "active": active_parameter_count(workload),
            "parts": {part.name: {"total": part.total, "active": part.active} for part in parameter_parts(workload)},
        },
        "flops_per_token": {convention.value: flops_per_token(workload, convention) for convention in FlopsConvention},
        "notes": list(notes),
    }


def system_document(system: System, notes: Notes) -> dict[str, Any]:
    """A system for a JSON document, in SI units; `source` stands beside the values whose source is named."""
    from codesign_opt.systems.notes import values
    from codesign_opt.systems.parameters import parameters

    def noted(path: str, entry: dict[str, Any]) -> dict[str, Any]:
        own = notes.own_source(path)
        return entry if own is None else {**entry, "source": own}

    known = values(system)
    switches = {path: value for path, value in known.items() if isinstance(value, bool)}
    curves = {path: value for path, value in known.items() if not isinstance(value, int | float)}
    return {
        "source": notes.source,
        "parameters": {
            path: noted(path, {"value": value, "unit": unit})
            for path, (value, unit) in parameters(system).items()
            if path in known
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
