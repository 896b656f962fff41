"""A scatter plot of two columns as inline SVG: points that link to table rows, and the front as a step line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from codesign_opt.errors import InputError
from codesign_opt.objectives.front import pareto_front
from codesign_opt.reports.scale import Scale, scale_for
from codesign_opt.reports.values import is_numeric
from codesign_opt.tables import Table

_WIDTH, _HEIGHT = 760, 440
_TOP, _RIGHT, _BOTTOM = 44, 24, 58
_CHARACTER = 7.2
"""Generous width of a digit of a tick label, in SVG units."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A column to plot, and whether more of it is better."""

    column: str
    maximize: bool = False

    @property
    def preference(self) -> str:
        return "higher is better" if self.maximize else "lower is better"


def scatter_plot(table: Table, horizontal: Axis, vertical: Axis, *, tooltips: Sequence[str]) -> str:
    """An `<svg>` element with a point for each row that has both values.

    Args:
        table: The rows; the point of row i links to the element `row-i`, counted from 1.
        horizontal, vertical: The columns.
        tooltips: What hovering over the point of each row shows, a text per row of the table.

    Raises:
        InputError: A column that is unknown or does not hold numbers.
    """
    x, y = _numbers(table, horizontal.column), _numbers(table, vertical.column)
    rows = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if not rows.size:
        return '<p class="note">No row has a value on both axes.</p>'
    x_scale = scale_for(x[rows], table.units[horizontal.column])
    y_scale = scale_for(y[rows], table.units[vertical.column])
    left = 24 + _CHARACTER * max((len(label) for _, label in y_scale.ticks), default=0)
    across = [round(left + x_scale.position(value) * (_WIDTH - _RIGHT - left), 1) for value in x[rows].tolist()]
    down = [round(_HEIGHT - _BOTTOM - y_scale.position(value) * _inner_height(), 1) for value in y[rows].tolist()]
    costs = np.column_stack([-x[rows] if horizontal.maximize else x[rows], -y[rows] if vertical.maximize else y[rows]])
    front = {int(index) for index in pareto_front(costs)}
    label = f"{vertical.column} over {horizontal.column}"
    drawing = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">',
        *_horizontal_axis(x_scale, horizontal, left),
        *_vertical_axis(y_scale, vertical, left),
        _step_line([(across[index], down[index]) for index in front], falls_first=horizontal.maximize),
        *(
            _point(across[index], down[index], int(rows[index]) + 1, tooltips[rows[index]], on_front=index in front)
            for index in sorted(range(rows.size), key=front.__contains__)
        ),
        "</svg>",
        *_notes(dominated=rows.size - len(front), left_out=table.rows - rows.size),
    ]
    return "\n".join(drawing)


def _numbers(table: Table, name: str) -> np.ndarray:
    column = table[name]
    if table.rows and not is_numeric(column):
        raise InputError(f"column '{name}' cannot be plotted: it does not hold numbers", "choose numeric columns")
    return column.astype(np.float64)


def _notes(*, dominated: int, left_out: int) -> list[str]:
    notes = []
    if dominated:
        notes.append("Open points: another row is better on one of these axes and at least as good on the other.")
    if left_out:
        notes.append(f"Not shown: {left_out} row{'s' if left_out > 1 else ''} without a value on both axes.")
    return [f'<p class="note">{note}</p>' for note in notes]


def _inner_height() -> float:
    return _HEIGHT - _BOTTOM - _TOP


def _horizontal_axis(scale: Scale, axis: Axis, left: float) -> list[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for value, label in scale.ticks:
        x = left + scale.position(value) * (right - left)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{escape(label)}</text>')
    parts.append(f'<line class="axis" x1="{left:.1f}" y1="{bottom}" x2="{right}" y2="{bottom}"/>')
    title = _axis_title(scale, axis, arrow="→" if axis.maximize else "←")
    return [*parts, f'<text class="title" x="{right}" y="{_HEIGHT - 12}" text-anchor="end">{title}</text>']


def _vertical_axis(scale: Scale, axis: Axis, left: float) -> list[str]:
    right = _WIDTH - _RIGHT
    parts = []
    for value, label in scale.ticks:
        y = _HEIGHT - _BOTTOM - scale.position(value) * _inner_height()
        parts.append(f'<line class="grid" x1="{left:.1f}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>')
    parts.append(f'<line class="axis" x1="{left:.1f}" y1="{_TOP}" x2="{left:.1f}" y2="{_HEIGHT - _BOTTOM}"/>')
    title = _axis_title(scale, axis, arrow="↑" if axis.maximize else "↓")
    return [*parts, f'<text class="title" x="0" y="20">{title}</text>']


def _axis_title(scale: Scale, axis: Axis, *, arrow: str) -> str:
    details = [scale.unit] if scale.unit else []
    details += ["logarithmic"] if scale.logarithmic else []
    unit = f" [{', '.join(details)}]" if details else ""
    return f'{escape(axis.column + unit)} <tspan class="preference">{arrow} {axis.preference}</tspan>'


def _step_line(points: list[tuple[float, float]], *, falls_first: bool) -> str:
    """The border of what the front dominates.

    Between two neighbours the reachable value is the one of the neighbour with the smaller x where x is to be
    minimised, and of the one with the larger x where it is to be maximised.
    """
    corners = sorted(set(points))
    path = [f"M{corners[0][0]} {corners[0][1]}"]
    for x, y in corners[1:]:
        path.append(f"V{y}H{x}" if falls_first else f"H{x}V{y}")
    return f'<path class="front" d="{"".join(path)}"/>'


def _point(x: float, y: float, row: int, tooltip: str, *, on_front: bool) -> str:
    kind = "point" if on_front else "point dominated"
    circle = f'<circle cx="{x}" cy="{y}" r="5"><title>{escape(tooltip)}</title></circle>'
    return f'<a class="{kind}" href="#row-{row}" data-row="{row}">{circle}</a>'
