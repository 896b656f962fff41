"""`codesign-opt validate`: predictions against measured runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codesign_opt.cli import options

TIERS = ("A", "B", "C")

EXAMPLES = options.examples(
    "codesign-opt validate",
    "codesign-opt validate --family nanotron_ultrascale --mfu-above 20% --rows 10",
    "codesign-opt validate --data my-runs.csv --tier A,B --plot accuracy.html",
)

_DATA = typer.Option(
    "--data", metavar="FILE", help="Measured runs (CSV); the published ones that are shipped if absent."
)
_FAMILY = typer.Option("--family", metavar="NAME", show_default=False, help="Use this family alone; may be repeated.")
_TIER = typer.Option("--tier", metavar="A,B,C", help="Use rows of these tiers: A is complete, C the least.")
_MFU_ABOVE = typer.Option(
    "--mfu-above", metavar="SHARE", help="Judge step times of runs above this model flops utilisation alone, as 20%."
)
_ROWS = typer.Option("--rows", metavar="N", help="Also list the N rows with the largest error, and what is suspected.")
_PLOT = typer.Option("--plot", metavar="FILE", help="Write a page (HTML) with every row, predicted over measured.")


def validate(
    data: Annotated[Path | None, _DATA] = None,
    family: Annotated[list[str] | None, _FAMILY] = None,
    tier: Annotated[str, _TIER] = "A",
    mfu_above: Annotated[str, _MFU_ABOVE] = "0%",
    rows: Annotated[str, _ROWS] = "0",
    plot: Annotated[Path | None, _PLOT] = None,
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """Compare predictions with measured runs.

    Shows errors of step time and memory by family of runs, rows that could not be used and why, verdicts on running out
    of memory, how good the recommended of comparable runs was, and how many runs lie within their intervals.
    """
    from codesign_opt import api
    from codesign_opt.cli import values
    from codesign_opt.cli.validation_output import write_plot, write_validation

    chosen = [values.choice(word, "--tier", TIERS) for word in values.names(tier, "--tier")]
    least = values.share(mfu_above, "--mfu-above")
    listed = values.whole_number(rows, "--rows", lowest=0)
    validation = api.validate(data, families=family or (), tiers=chosen, mfu_above=least)
    source = "published runs" if data is None else data.name
    if plot is not None:
        write_plot(validation, plot, source=source)
    write_validation(validation, source=source, rows=listed, json=json)
