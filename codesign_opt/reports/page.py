"""A result as one self-contained HTML page: facts, plots of the objectives, and a table that can be sorted.

The page loads nothing: style, script and drawings are inside it, and its content security policy allows no other
script than its own, whatever the names in a table say.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib import resources

from codesign_opt.reports.plot import Axis, scatter_plot
from codesign_opt.reports.values import PlainValue, human, is_numeric, plain_values
from codesign_opt.tables import Table

_TOOLTIP_LINES = 16


def page(
    table: Table,
    *,
    title: str,
    axes: Sequence[str],
    maximize: Collection[str] = (),
    drawings: Sequence[str] = (),
    facts: Mapping[str, object] | None = None,
    made: datetime | None = None,
) -> str:
    """The page as text.

    Args:
        table: The rows, best a Pareto front.
        title: Heading of the page.
        axes: Objective columns; each pair of them gets a plot, the first pair is shown first.
        maximize: Those of `axes` of which more is better.
        drawings: Further figures, as SVG elements.
        facts: What to tell about the study, name to value.
        made: The date on the page; now by default.

    Raises:
        InputError: An axis that is unknown or does not hold numbers.
    """
    chosen = [Axis(name, name in maximize) for name in axes]
    date = (made or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M %Z").strip()
    style, script = _resource("page.css"), _resource("page.js")
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        '<head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        f"<style>{style}</style></head>",
        "<body>",
        f"<h1>{escape(title)}</h1>",
        f'<p class="note">{table.rows} row{"" if table.rows == 1 else "s"} · {escape(date)}</p>',
        _facts(facts or {}),
        _plots(table, chosen),
        *(f"<figure>\n{drawing}\n</figure>" for drawing in drawings),
        "<h2>Table</h2>",
        _sortable_table(table, chosen),
        f"<script>{script}</script>",
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _facts(facts: Mapping[str, object]) -> str:
    entries = [f"<div><dt>{escape(name)}</dt><dd>{escape(str(value))}</dd></div>" for name, value in facts.items()]
    return "\n".join(['<dl class="facts">', *entries, "</dl>"]) if entries else ""


def _plots(table: Table, axes: Sequence[Axis]) -> str:
    """A figure for each pair of objectives, and a chooser where there are several."""
    pairs = list(itertools.combinations(axes, 2))
    if not table.rows or not pairs:
        return ""
    tooltips = _tooltips(table, [axis.column for axis in axes])
    drawings = [scatter_plot(table, first, second, tooltips=tooltips) for first, second in pairs]
    figures = [f"<figure>\n{drawing}\n</figure>" for drawing in drawings]
    options = "".join(
        f"<option>{escape(second.column)} over {escape(first.column)}</option>" for first, second in pairs
    )
    chooser = f'<label hidden>Plot<select id="chooser" autocomplete="off">{options}</select></label>'
    return "\n".join(["<h2>Objectives</h2>", *([chooser] if len(pairs) > 1 else []), *figures])


def _tooltips(table: Table, first: Sequence[str]) -> list[str]:
    """For each row its number and values, those of the columns `first` in front."""
    names = [*first, *(name for name in table if name not in first)][: _TOOLTIP_LINES - 1]
    texts = [[f"{name}: {human(value, table.units[name])}" for value in plain_values(table[name])] for name in names]
    return ["\n".join([f"row {row}", *lines]) for row, lines in enumerate(zip(*texts, strict=True), start=1)]


def _sortable_table(table: Table, axes: Sequence[Axis]) -> str:
    if not table.rows:
        return '<p class="note">The table has no rows.</p>'
    preferences = {axis.column: axis for axis in axes}
    classes = {name: ' class="number"' if is_numeric(table[name]) else "" for name in table}
    headings = [f'<th scope="col"{classes[name]}>{_heading(name, preferences.get(name))}</th>' for name in table]
    number = f'<th scope="col" class="number">{_heading("#", None)}</th>'
    columns = [
        [f"<td{classes[name]}{_cell(value, table.units[name])}</td>" for value in plain_values(table[name])]
        for name in table
    ]
    rows = [
        f'<tr id="row-{row}"><td class="number" data-value="{row}">{row}</td>{"".join(cells)}</tr>'
        for row, cells in enumerate(zip(*columns, strict=True), start=1)
    ]
    head = f"<thead><tr>{number}{''.join(headings)}</tr></thead>"
    return "\n".join(['<div class="scroll"><table>', head, "<tbody>", *rows, "</tbody></table></div>"])


def _heading(name: str, axis: Axis | None) -> str:
    # Where the table would be too wide, long names break after an underscore or a dot.
    text = escape(name).replace("_", "_<wbr>").replace(".", ".<wbr>")
    button = f'<span role="button" tabindex="0">{text}</span>'
    if axis is None:
        return button
    arrow = "↑" if axis.maximize else "↓"
    return f'{button} <span class="preference" title="{axis.preference}">{arrow}</span>'


def _cell(value: PlainValue, unit: str) -> str:
    """The rest of a cell's opening tag and its text; the full value is there for sorting, and on hovering."""
    text = escape(human(value, unit))
    if value is None:
        return f">{text}"
    exact = escape(str(value))
    hover = f' title="{exact} {escape(unit)}"' if unit and isinstance(value, float) else ""
    return f' data-value="{exact}"{hover}>{text}'


def _resource(name: str) -> str:
    return resources.files("codesign_opt.reports").joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    """What a content security policy calls the source of exactly this inline text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
