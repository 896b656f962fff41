"""`codesign-opt pareto`: the Pareto front of a stored study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign_opt.cli import options
from codesign_opt.errors import InputError

if TYPE_CHECKING:
    from codesign_opt.studies.study import Study
    from codesign_opt.tables import Table

EXAMPLES = options.examples(
    "codesign-opt pareto default",
    "codesign-opt pareto default --output front.html",
    "codesign-opt pareto default --format csv --columns trial,sample_rate,system_price",
)
FORMATS = ("table", "csv", "json", "parquet", "html")

_FORMAT = typer.Option(
    "--format", metavar="|".join(FORMATS), autocompletion=options.words(FORMATS),
    help="By default what the output file's suffix says, else a table.",
)  # fmt: skip
_OUTPUT = typer.Option("--output", metavar="FILE", help="Write to this file instead of stdout.")
_COLUMNS = typer.Option(
    "--columns", metavar="A,B,C|all",
    help="Columns, in this order; by default all in files, and the most telling in a table.",
)  # fmt: skip


def pareto(
    name: Annotated[str, options.STUDY_NAME],
    format: Annotated[str | None, _FORMAT] = None,
    output: Annotated[Path | None, _OUTPUT] = None,
    columns: Annotated[str | None, _COLUMNS] = None,
    database: Annotated[str, options.DATABASE] = options.DEFAULT_DATABASE,
) -> None:
    """Show or export the Pareto front of a study."""
    from codesign_opt import api
    from codesign_opt.cli import values
    from codesign_opt.cli.study_output import feasible_trials, nothing_feasible
    from codesign_opt.reports import format_for

    chosen = values.choice(format, "--format", FORMATS) if format else format_for(output) if output else "table"
    if chosen == "parquet" and output is None:
        raise InputError("--format: parquet is not text", "name a file with --output front.parquet")
    listed = None if columns is None else values.names(columns, "--columns")
    study = api.load_study(name, db=database)
    if not feasible_trials(study):
        raise nothing_feasible(study)
    front = api.pareto_front(study, db=database)
    if listed is not None and listed != ["all"]:
        front = front.select(listed)
    _write(study, front, chosen, output, whole=listed is not None)


def _write(study: Study, front: Table, format: str, output: Path | None, *, whole: bool) -> None:
    from codesign_opt.cli.output import note, width, write, write_as_given, write_table_file
    from codesign_opt.cli.study_output import front_text, page_details
    from codesign_opt.reports import export, format_table

    title = f"Pareto front of {study.name}"
    details = page_details(study, front)
    if output is not None:
        write_table_file(front, output, title=title, format=format, **details)
    elif format != "table":
        write_as_given(export(front, format, title=title, **details))
    elif whole:
        write(format_table(front, width=width()))
    else:
        write(front_text(study, front))
        note("--columns all shows every column")
