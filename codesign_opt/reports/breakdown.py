"""Where the time of a step and the memory of a processor go: bars of text for one estimate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codesign_opt.reports.values import human
from codesign_opt.units import format_quantity

_TIME_PARTS = (
    "forward_time",
    "backward_time",
    "optimizer_time",
    "recompute_time",
    "recompute_communication_time",
    "tp_communication_time",
    "cp_communication_time",
    "ep_communication_time",
    "pp_communication_time",
    "dp_communication_time",
    "forward_offload_time",
    "backward_offload_time",
    "bubble_time",
)
_MEMORY_PARTS = (
    "weight_memory",
    "activation_memory",
    "weight_gradient_memory",
    "activation_gradient_memory",
    "optimizer_memory",
    "overhead_memory",
)
_TIERS = ("memory_tier1", "memory_tier2")

_BAR_CELLS = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"
_ROUNDING = 1e-9
"""Relative difference between a total and the sum of its parts that is left unmentioned."""


def time_breakdown_text(row: Mapping[str, Any]) -> str:
    """The parts of a step's time, the total first: name, time, share of the step, bar.

    Args:
        row: Metric name to value in seconds: `step_time` and the parts, of which those missing or zero are not shown.
    """
    total = float(row["step_time"])
    parts = _present(row, _TIME_PARTS, suffix="_time")
    lines = [("step time", human(total, "s"), "", "")]
    lines += [_part(name, value, total, "s") for name, value in _with_rest(parts, total)]
    return _aligned(lines)


def memory_breakdown_text(row: Mapping[str, Any]) -> str:
    """The use of each memory tier and, for the first, its parts: name, bytes, share of the capacity, bar.

    Args:
        row: Metric name to value in bytes per processor: `memory_tier1_used`, `memory_tier1_capacity`, the same of
            tier 2 where there is one, and the parts of tier 1. Without a capacity the shares are those of the use.
    """
    lines: list[tuple[str, str, str, str]] = []
    for tier in _TIERS:
        used, capacity = _number(row, f"{tier}_used"), _number(row, f"{tier}_capacity")
        if used or capacity:
            parts = _present(row, _MEMORY_PARTS, suffix="_memory") if tier == _TIERS[0] else []
            lines += _tier_lines(tier.replace("_tier", " tier "), used, capacity, parts)
    return _aligned(lines)


def _tier_lines(
    name: str, used: float, capacity: float, parts: list[tuple[str, float]]
) -> list[tuple[str, str, str, str]]:
    whole = capacity or used
    share = f"{used / whole:.1%}"
    title = f"of {format_quantity(capacity, 'B')}" if capacity else ""
    lines = [(name, format_quantity(used, "B"), share, title)]
    lines += [_part(part, value, whole, "B") for part, value in (_with_rest(parts, used) if parts else [])]
    if capacity > used > 0:
        lines.append(_part("free", capacity - used, whole, "B"))
    elif capacity and used > capacity:
        lines.append(_part("missing", used - capacity, whole, "B"))
    return lines


def _present(row: Mapping[str, Any], names: tuple[str, ...], *, suffix: str) -> list[tuple[str, float]]:
    """Readable names and values of those metrics that are there and not zero."""
    values = [(name.removesuffix(suffix).replace("_", " "), _number(row, name)) for name in names]
    return [(name, value) for name, value in values if value]


def _number(row: Mapping[str, Any], name: str) -> float:
    return float(row.get(name) or 0.0)


def _with_rest(parts: list[tuple[str, float]], total: float) -> list[tuple[str, float]]:
    """The parts and, where they do not add up to the total, what they leave."""
    rest = total - sum(value for _, value in parts)
    return parts if abs(rest) <= _ROUNDING * abs(total) else [*parts, ("other", rest)]


def _part(name: str, value: float, whole: float, unit: str) -> tuple[str, str, str, str]:
    share = value / whole if whole else 0.0
    return f"  {name}", format_quantity(value, unit), f"{share:.1%}", _bar(share)


def _bar(share: float) -> str:
    eighths = round(8 * _BAR_CELLS * min(max(share, 0.0), 1.0))
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def _aligned(lines: list[tuple[str, str, str, str]]) -> str:
    names, values, shares = (max((len(line[index]) for line in lines), default=0) for index in range(3))
    return "\n".join(
        f"{name:<{names}}  {value:>{values}}  {share:>{shares}}  {bar}".rstrip() for name, value, share, bar in lines
    )
