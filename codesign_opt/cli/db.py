"""`codesign-opt db`: the schema of the study database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from codesign_opt.cli import options

if TYPE_CHECKING:
    from codesign_opt.db import CheckReport

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Upgrade or check the database of studies.")


@app.command(epilog=options.examples("codesign-opt db upgrade --db sqlite:///studies.db"))
def upgrade(database: Annotated[str, options.DATABASE] = options.DEFAULT_DATABASE) -> None:
    """Bring a database to the schema of this version."""
    from codesign_opt.cli.output import write
    from codesign_opt.db import upgrade as upgrade_database

    before, after = upgrade_database(database)
    write(f"schema revision {after}: nothing to do" if before == after else f"schema revision {before} → {after}")


@app.command(epilog=options.examples("codesign-opt db check --db sqlite:///studies.db"))
def check(
    database: Annotated[str, options.DATABASE] = options.DEFAULT_DATABASE,
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """Check that a database is sound, without changing it."""
    from codesign_opt.cli.output import write, write_json
    from codesign_opt.db import check as check_database
    from codesign_opt.errors import StorageError

    report = check_database(database)
    if json:
        write_json(_document(report))
    else:
        write("\n".join(_lines(report)))
    if not report.ok:
        raise StorageError("the database cannot be used as it is", _advice(report))


def _lines(report: CheckReport) -> list[str]:
    lines = [f"schema revision {report.revision or 'none'}, this version works with {report.expected}"]
    lines += [f"rows of {table}: {rows}" for table, rows in report.rows.items()]
    lines += [f"damage: {text}" for text in report.damage]
    lines += [
        f"study '{found.study}' counts {found.counted} {found.counter}, but has {found.found}"
        for found in report.mismatches
    ]
    return [*lines, "sound"] if report.ok else lines


def _document(report: CheckReport) -> dict[str, object]:
    return {
        "ok": report.ok,
        "revision": report.revision,
        "expected": report.expected,
        "damage": list(report.damage),
        "rows": dict(report.rows),
        "mismatches": [
            {"study": found.study, "counter": found.counter, "counted": found.counted, "found": found.found}
            for found in report.mismatches
        ],
    }


def _advice(report: CheckReport) -> str:
    if report.damage or report.mismatches:
        return "restore a backup"
    return "run 'codesign-opt db upgrade'"
