"""`codesign-opt graph`: program graphs in files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codesign_opt.cli import options
from codesign_opt.errors import InputError

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Show or translate program graphs.")

_FILE = typer.Argument(metavar="GRAPH", help="Program graph: a .pb or .textproto file.")
_TRANSLATION = typer.Option(
    "--translation", metavar="FILE", help="JSON that says how collectives and messages are done."
)
_OUTPUT = typer.Option("--output", metavar="FILE", help="Where to write: FILE with the processor before the suffix.")


@app.command(epilog=options.examples("codesign-opt graph show program.textproto"))
def show(
    path: Annotated[Path, _FILE],
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """Say what a graph consists of."""
    from codesign_opt.cli.output import table_document, width, write, write_json
    from codesign_opt.graphs import check_graph, graph_summary, read_graph
    from codesign_opt.reports.graph_summary import graph_summary_text

    graph = read_graph(path)
    check_graph(graph)
    summary = graph_summary(graph)
    if json:
        write_json(
            {
                "graph": summary.name,
                "processor": summary.processor,
                "instructions": summary.instructions,
                "executed": summary.executed,
                "depth": summary.depth,
                "longest_chain": summary.longest_chain,
                "opcodes": table_document(summary.opcodes),
                "classes": table_document(summary.classes),
                "loops": table_document(summary.loops),
            }
        )
    else:
        write(graph_summary_text(summary, width=width()))


@app.command(
    epilog=options.examples("codesign-opt graph translate program.textproto --translation rings.json --output rings.pb")
)
def translate(
    path: Annotated[Path, _FILE],
    translation: Annotated[Path, _TRANSLATION],
    output: Annotated[Path, _OUTPUT],
) -> None:
    """Write what each processor does, with collectives as messages: rings.0.pb, rings.1.pb and so on."""
    from codesign_opt.cli.output import note, plural
    from codesign_opt.graphs import read_graph, write_graph
    from codesign_opt.graphs.individual import processors_of
    from codesign_opt.simulation.translation import read_translation, translate

    if output.suffix not in (".pb", ".textproto"):
        raise InputError(f"--output: '{output}' is no program graph", "a name that ends in .pb or .textproto")
    graph, configuration = read_graph(path), read_translation(translation)
    # Where nobody communicates, all processors do the same, and one stands for them.
    whose = None if processors_of(graph) else [0]
    programs = translate(graph, configuration, processors=whose)
    for program in programs:
        write_graph(program, output.with_suffix(f".{program.processor}{output.suffix}"))
    note(f"wrote {plural(programs, 'program')}: {output.with_suffix('.*' + output.suffix)}")
