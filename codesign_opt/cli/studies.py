"""`codesign-opt studies`: what is in the database."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign_opt.cli import options
from codesign_opt.errors import InputError, nearest

if TYPE_CHECKING:
    from codesign_opt.studies.study import Study

EXPORT_FORMATS = ("optuna", "json")

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="List, show, delete or export stored studies.")

_BY = typer.Option("--by", metavar="A,B", help="Columns, such as processors or memory_tier1.capacity.")
_BEST_OUTPUT = typer.Option("--output", metavar="FILE", help="Write a csv, json, parquet or html file with a plot.")

_STRATEGY = ("tp", "pp", "dp", "vpp", "microbatch", "recompute")
"""Strategy columns of the table of best results."""

_SENSITIVITY = typer.Option(
    "--sensitivity", help="For the best points: every objective when each hardware parameter changes by 10 %."
)
_TOP = typer.Option("--top", metavar="N", help="Points of the front that --sensitivity looks at, the best first.")

_YES = typer.Option("--yes", help="Do not ask.")
_EXPORT_OUTPUT = typer.Option("--output", metavar="FILE|URL", help="File to write, or URL of an Optuna storage.")
_EXPORT_FORMAT = typer.Option(
    "--format", metavar="|".join(EXPORT_FORMATS), autocompletion=options.words(EXPORT_FORMATS),
    help="optuna: a storage that optuna-dashboard opens; json: specification, trials and candidates.",
)  # fmt: skip


@app.command("list")
def list_studies(
    database: Annotated[str, options.DATABASE] = options.DEFAULT_DATABASE,
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """List all studies, oldest first."""
    from codesign_opt import api
    from codesign_opt.cli.output import table_document, width, write, write_json
    from codesign_opt.reports import format_table

    table = api.list_studies(db=database)
    if json:
        write_json(table_document(table))
    else:
        write(format_table(table, width=width()))


@app.command()
def show(
    name: Annotated[str, options.STUDY_NAME],
    sensitivity: Annotated[bool, _SENSITIVITY] = False,
    top: Annotated[str | None, _TOP] = None,
    database: Annotated[str, options.DATABASE] = options.DEFAULT_DATABASE,
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """Show a study: what it asks, how far it is, and what it found."""
    from codesign_opt import api
    from codesign_opt.cli import values
    from codesign_opt.cli.output import table_document, write, write_json
    from codesign_opt.cli.study_output import study_document
    from codesign_opt.studies.canonical import specification_to_dict

    if top is not None and not sensitivity:
        raise InputError("--top says how many points --sensitivity looks at", "add --sensitivity")
    points = 1 if top is None else values.whole_number(top, "--top")
    study = api.load_study(name, db=database)
    if sensitivity:
        from codesign_opt.cli.sensitivity_output import sensitivity_text
        from codesign_opt.studies.sensitivity import front_binding, front_sensitivity

        changes, binding = front_sensitivity(study, top=points), front_binding(study, top=points)
        if json:
            write_json({"sensitivity": table_document(changes), "binding": table_document(binding)})
        else:
            write(sensitivity_text(study, changes, binding))
        return
    if json:
        document = study_document(study, database=database)
        write_json({**document, "specification": specification_to_dict(study.specification)})
        return
    for line in _summary(study):
        write(line)


@app.command(
    epilog=options.examples(
        "codesign-opt studies best price-grid-gpt3-175b --by memory_tier1.capacity,memory_tier2.capacity",
        "codesign-opt studies best system-size-gpt3-175b --by processors,memory_tier2.capacity --output sizes.html",
    )
)
def best(
    name: Annotated[str, options.STUDY_NAME],
    by: Annotated[str, _BY],
    output: Annotated[Path | None, _BEST_OUTPUT] = None,
    database: Annotated[str, options.DATABASE] = options.DEFAULT_DATABASE,
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """Show the best result for each value of some columns: a table of the machines tried, or a plot over one."""
    from codesign_opt import api
    from codesign_opt.cli import values
    from codesign_opt.cli.output import table_document, width, write, write_json, write_table_file
    from codesign_opt.reports import format_table

    study = api.load_study(name, db=database)
    columns = values.names(by, "--by")
    table = study.best_by(columns)
    if output is not None:
        metric = study.objectives[0]
        write_table_file(
            table,
            output,
            title=f"Best {metric.metric} of {name} by {by}",
            axes=(columns[0], metric.metric),
            maximize=(metric.metric,) if metric.direction == "maximize" else (),
        )
    elif json:
        write_json(table_document(table))
    else:
        shown = [*columns, *(o.metric for o in study.objectives), "processors", *_STRATEGY]
        write(format_table(table.select(list(dict.fromkeys(shown))), width=width()))


@app.command()
def delete(
    name: Annotated[str, options.STUDY_NAME],
    yes: Annotated[bool, _YES] = False,
    database: Annotated[str, options.DATABASE] = options.DEFAULT_DATABASE,
) -> None:
    """Delete a study with all its trials, after asking."""
    from codesign_opt import api
    from codesign_opt.cli.output import note, plural

    if not yes:
        what = f"study '{name}' with {plural(api.load_study(name, db=database).evaluations, 'trial')}"
        if not sys.stdin.isatty():
            raise InputError(f"{what} is deleted only after asking, and there is nobody to ask", "repeat with --yes")
        if not typer.confirm(f"Delete {what}?", err=True):
            note(f"kept study '{name}'")
            return
    if not api.delete_study(name, db=database):
        known = [str(other) for other in api.list_studies(db=database)["name"]]
        raise InputError(f"no study '{name}' in the database", nearest(name, known) if known else "it holds none")
    note(f"deleted study '{name}'")


@app.command(
    epilog=options.examples(
        "codesign-opt studies export default --output default-optuna.db",
        "codesign-opt studies export default --output default.json --format json",
    )
)
def export(
    name: Annotated[str, options.STUDY_NAME],
    output: Annotated[str, _EXPORT_OUTPUT],
    format: Annotated[str, _EXPORT_FORMAT] = "optuna",
    database: Annotated[str, options.DATABASE] = options.DEFAULT_DATABASE,
) -> None:
    """Copy a study into an Optuna storage or a JSON file."""
    from codesign_opt import api
    from codesign_opt.cli.output import note
    from codesign_opt.cli.values import choice

    chosen = choice(format, "--format", EXPORT_FORMATS)
    study = api.load_study(name, db=database)
    if chosen == "optuna":
        trials = api.export_optuna(study, output)
        note(f"wrote {trials} trials to {output}")
    else:
        _write_json_file(study, database, Path(output))
        note(f"wrote {output}")


def _summary(study: Study) -> list[str]:
    from codesign_opt.cli.study_output import page_details, result_text

    facts = {
        "study": study.name,
        "created": study.record.created.isoformat(timespec="seconds"),
        **page_details(study, study.front)["facts"],
        "versions": ", ".join(f"{name} {version}" for name, version in study.record.versions.items()),
    }
    size = max(map(len, facts))
    lines = [f"{name:<{size}}  {value}" for name, value in facts.items()]
    return [*lines, "", result_text(study)]


def _write_json_file(study: Study, database: str, path: Path) -> None:
    import json

    from codesign_opt.cli.output import table_document
    from codesign_opt.cli.study_output import study_document
    from codesign_opt.reports.files import write_atomically
    from codesign_opt.studies.canonical import specification_to_dict

    document: dict[str, Any] = {
        **study_document(study, database=database),
        "versions": dict(study.record.versions),
        "specification": specification_to_dict(study.specification),
        "evaluations": table_document(study.trials),
        "candidates": table_document(study.candidates),
    }
    write_atomically(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())
