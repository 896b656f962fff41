"""Predicted over measured step times as inline SVG: a point a run, coloured by its family."""

from __future__ import annotations

from html import escape

import numpy as np

from codesign_opt.reports.scale import Scale, scale_for
from codesign_opt.tables import Table
from codesign_opt.units import format_quantity

_SIDE, _LEFT, _TOP, _BOTTOM = 520, 84, 30, 50
_LEGEND = _LEFT + _SIDE + 24
_WIDTH = _LEGEND + 210
_LINES = ((1.0, ""), (1.2, "+20%"), (0.8, "−20%"))
"""Predicted over measured along each diagonal, and its name."""


def accuracy_plot(table: Table) -> str:
    """An `<svg>` element.

    Args:
        table: Rows with `row_id`, `family`, and `measured` and `predicted` seconds; the point of row i links to the
            element `row-i`, counted from 1.
    """
    if not table.rows:
        return '<p class="note">No row has a measured and a predicted time.</p>'
    times = np.concatenate([table["measured"], table["predicted"]])
    scale = scale_for(times, "s")
    families = list(dict.fromkeys(table["family"].tolist()))
    colours = {family: f"hsl({round(360 * place / len(families))} 65% 45%)" for place, family in enumerate(families)}
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_TOP + _SIDE + _BOTTOM}" role="img" aria-label="predicted over measured time">',
        *_axes(scale),
        *(_diagonal(scale, ratio, name) for ratio, name in _LINES),
        *(_point(row, place, scale, colours) for place, row in enumerate(table.to_dicts(), start=1)),
        *_legend(colours, table["family"].tolist()),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def _across(scale: Scale, value: float) -> float:
    return round(_LEFT + scale.position(value) * _SIDE, 1)


def _down(scale: Scale, value: float) -> float:
    return round(_TOP + (1 - scale.position(value)) * _SIDE, 1)


def _axes(scale: Scale) -> list[str]:
    right, bottom = _LEFT + _SIDE, _TOP + _SIDE
    unit = f" [{scale.unit}]" if scale.unit else ""
    parts = [
        f'<text class="title" x="0" y="18">predicted step time{unit}</text>',
        f'<text class="title" x="{right}" y="{bottom + 42}" text-anchor="end">measured step time{unit}</text>',
    ]
    for value, label in scale.ticks:
        x, y = _across(scale, value), _down(scale, value)
        parts += [
            f'<line class="grid" x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}"/>',
            f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{right}" y2="{y}"/>',
            f'<text class="tick" x="{x}" y="{bottom + 18}" text-anchor="middle">{escape(label)}</text>',
            f'<text class="tick" x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{escape(label)}</text>',
        ]
    return parts


def _diagonal(scale: Scale, ratio: float, name: str) -> str:
    """The line of a constant ratio within the axes; "" where none of it is."""
    low, high = max(scale.low, scale.low / ratio), min(scale.high, scale.high / ratio)
    if low >= high:
        return ""
    ends = [(_across(scale, value), _down(scale, value * ratio)) for value in (low, high)]
    dashes = ' stroke-dasharray="4 4"' if name else ""
    line = f'<path class="front" d="M{ends[0][0]} {ends[0][1]}L{ends[1][0]} {ends[1][1]}"{dashes}/>'
    label = f'<text class="tick" x="{ends[1][0] + 4}" y="{ends[1][1] + 4}">{name}</text>' if name else ""
    return line + label


def _point(row: dict[str, object], place: int, scale: Scale, colours: dict[str, str]) -> str:
    measured, predicted, family = float(str(row["measured"])), float(str(row["predicted"])), str(row["family"])
    times = f"measured {format_quantity(measured, 's')}, predicted {format_quantity(predicted, 's')}"
    hover = f"{row['row_id']}: {times} ({predicted / measured - 1:+.1%})"
    return (
        f'<a href="#row-{place}"><circle cx="{_across(scale, measured)}" cy="{_down(scale, predicted)}" r="3.5" '
        f'fill="{colours[family]}" fill-opacity="0.7"><title>{escape(hover)}</title></circle></a>'
    )


def _legend(colours: dict[str, str], families: list[str]) -> list[str]:
    parts = []
    for place, (family, colour) in enumerate(colours.items()):
        y = _TOP + 14 + 20 * place
        parts += [
            f'<circle cx="{_LEGEND}" cy="{y}" r="5" fill="{colour}"/>',
            f'<text x="{_LEGEND + 12}" y="{y + 4}">{escape(family)} ({families.count(family)})</text>',
        ]
    return parts
