"""What commands print on stdout: text that fits the terminal, or one JSON document."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign_opt.cli.errors import OutputClosedError

if TYPE_CHECKING:
    from codesign_opt.tables import Table

PIPED_WIDTH = 100
"""Characters a line may have where nobody's terminal says otherwise."""


def write(text: str) -> None:
    """`text` and a line end on stdout.

    Raises:
        OutputClosedError: The reader has gone.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise OutputClosedError from None


def write_json(document: Mapping[str, Any]) -> None:
    """One JSON document on stdout."""
    write(json.dumps(document, indent=2, allow_nan=False))


def write_as_given(text: str) -> None:
    """`text` on stdout with its own line ends: what would otherwise go into a file."""
    try:
        sys.stdout.flush()
        buffer = getattr(sys.stdout, "buffer", None)
        if buffer is None:
            sys.stdout.write(text)
        else:
            buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.flush()
    except BrokenPipeError:
        raise OutputClosedError from None


def note(text: str) -> None:
    """A remark for people, on stderr."""
    print(text, file=sys.stderr, flush=True)


def plural(things: Sized, noun: str, ending: str = "s") -> str:
    """How many things there are: "1 trial", "2 trials"."""
    return f"{len(things)} {noun}{'' if len(things) == 1 else ending}"


def width() -> int:
    """Characters a line may have: those of the terminal, or `PIPED_WIDTH` where the output goes elsewhere."""
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns if sys.stdout.isatty() else PIPED_WIDTH


def table_document(table: Table) -> dict[str, Any]:
    """A table for a JSON document: `columns` (name and unit) and `rows` (name to value, SI)."""
    from codesign_opt.reports.export import json_text

    document: dict[str, Any] = json.loads(json_text(table))
    return document


def readable_table(table: Table, columns: Sequence[str], others: Sequence[str] = ()) -> str:
    """The table in lines that fit, in blocks below each other where need be.

    Args:
        table: What to show.
        columns: Columns to show, those that the table has.
        others: Columns to show as well where rows differ in them, as long as they make the text no longer.
    """
    from codesign_opt.reports import format_table

    chosen = [name for name in dict.fromkeys(columns) if name in list(table)]
    text = format_table(table, columns=chosen, width=width())
    for name in differing(table, others):
        if name not in chosen:
            longer = format_table(table, columns=[*chosen, name], width=width())
            if longer.count("\n") == text.count("\n"):
                chosen, text = [*chosen, name], longer
    return f"{text}\n(mfu counts full attention)" if "mfu" in chosen else text


def titled_table(table: Table, title: str, *, rows: int) -> str:
    """The first rows of a table under a title, and how many there are where that is not all."""
    shown = table.take(list(range(min(rows, table.rows))))
    more = f"\n{rows} of {table.rows}; --json shows all" if table.rows > rows else ""
    return f"{title}:\n{readable_table(shown, list(table))}{more}"


def percentages(shares: Iterable[float], *, signed: bool = False) -> list[str]:
    """Shares as a column of text, "24.4%", or "+0.31%" where they are differences; "-" where there is none."""
    import math

    digits = 2 if signed else 1
    # Adding 0 makes a negative zero, which rounding leaves, a positive one.
    texts = [
        f"{round(share, digits + 2) + 0.0:{'+' * signed}.{digits}%}" if math.isfinite(share) else "-"
        for share in shares
    ]
    return [text.rjust(max(map(len, texts))) for text in texts]


def differing(table: Table, columns: Sequence[str]) -> list[str]:
    """Those columns of the table in which rows differ."""
    return [name for name in columns if name in list(table) and len(set(table[name].tolist())) > 1]


def telling(table: Table, columns: Sequence[str]) -> list[str]:
    """Some columns, and further ones of a strategy that hold anything but their default in any row."""
    from codesign_opt.strategies.table import DEFAULT_COLUMNS, OPTION_COLUMNS

    def default(name: str) -> object:
        value = DEFAULT_COLUMNS[name]
        return list(OPTION_COLUMNS[name])[value].value if name in OPTION_COLUMNS else value

    silent = ("gather_redo", "fused_activation", "datatype", "training", "tp_tier", "pp_tier", "dp_tier", "vpp",
              "recompute", "attention", "cp_tier", "ep_tier")  # fmt: skip
    further = [name for name in DEFAULT_COLUMNS if name in list(table) and name not in (*columns, *silent)]
    return [*columns, *(name for name in further if any(value != default(name) for value in table[name].tolist()))]


def common_text(table: Table, columns: Sequence[str]) -> str:
    """What all rows have in common, in a sentence; "" where there is nothing."""
    import textwrap

    from codesign_opt.reports.values import human

    if table.rows < 2:
        return ""
    differ = differing(table, columns)
    shared = [
        f"{name} {human(table[name][0].item(), table.units[name])}"
        for name in columns
        if name in list(table) and name not in differ
    ]
    return "\n".join(textwrap.wrap("in all rows: " + ", ".join(shared), width())) if shared else ""


def write_table_file(table: Table, path: Path, *, title: str, format: str | None = None, **details: Any) -> None:
    """The table in a file, in the format that its suffix stands for unless another is given; says so on stderr."""
    from codesign_opt.reports import export, format_for

    export(table, format or format_for(path), path, title=title, **details)
    note(f"wrote {path}: {plural(range(table.rows), 'row')}")
