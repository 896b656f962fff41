"""The command `codesign-opt`: all commands together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer
from typer.completion import completion_init, install_callback, show_callback  # type: ignore[attr-defined]

from codesign_opt import __version__
from codesign_opt.cli import (
    calibrate,
    catalog,
    db,
    estimate,
    graph,
    pareto,
    refine,
    search,
    simulate,
    studies,
    sweep,
    validate,
)
from codesign_opt.cli.errors import exit_status
from codesign_opt.cli.help import GroupedCommand

PROGRAM = "codesign-opt"

# Typer converts every option by pydantic, which takes longer to load than `--help` to show; only flags with a value
# are not converted. Hence the completion flags of `_program` in place of Typer's options, and a value for `--help`.
_NO_HELP: dict[str, Any] = {"help": False}
_DEFAULTS = {**_NO_HELP, "studies": _NO_HELP, "graph": _NO_HELP, "catalog": _NO_HELP, "db": _NO_HELP}

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"default_map": _DEFAULTS},
)
app.command("search", epilog=search.EXAMPLES)(search.search)
app.add_typer(studies.app, name="studies")
app.command("pareto", epilog=pareto.EXAMPLES)(pareto.pareto)
app.command("estimate", epilog=estimate.EXAMPLES, cls=GroupedCommand)(estimate.estimate)
app.command("sweep", epilog=sweep.EXAMPLES)(sweep.sweep)
app.command("simulate", epilog=simulate.EXAMPLES)(simulate.simulate)
app.command("refine", epilog=refine.EXAMPLES)(refine.refine)
app.command("validate", epilog=validate.EXAMPLES)(validate.validate)
app.command("calibrate", epilog=calibrate.EXAMPLES)(calibrate.calibrate)
app.add_typer(graph.app, name="graph")
app.add_typer(catalog.app, name="catalog")
app.add_typer(db.app, name="db")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: What is typed after the program's name; that of the process by default.

    Returns:
        The exit status, see `codesign_opt.cli.errors.exit_status`.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a substitute, not an error.
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors="replace")
    completion_init()
    given = sys.argv[1:] if arguments is None else list(arguments)
    return exit_status(partial(app, given, prog_name=PROGRAM, standalone_mode=False))


def _show_version(given: bool) -> None:
    if given:
        typer.echo(f"{PROGRAM} {__version__}")
        raise typer.Exit


_VERSION = typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
_INSTALL_COMPLETION = typer.Option(
    "--install-completion", help="Install completion for the present shell.", callback=install_callback, is_eager=True
)
_SHOW_COMPLETION = typer.Option(
    "--show-completion", help="Show the completion script of the present shell.", callback=show_callback, is_eager=True
)


@app.callback()
def _program(
    version: Annotated[bool, _VERSION] = False,
    install_completion: Annotated[bool, _INSTALL_COMPLETION] = False,
    show_completion: Annotated[bool, _SHOW_COMPLETION] = False,
) -> None:
    """Find the best pair of training strategy and hardware for a large model.

    'codesign-opt search' without arguments runs a small study in seconds. Studies are kept in a database, so that they
    can be stopped, resumed and compared.
    """
