"""`codesign-opt refine`: simulate the best candidates of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from codesign_opt.cli import options
from codesign_opt.cli.errors import INTERRUPTED
from codesign_opt.errors import InfeasibleError

if TYPE_CHECKING:
    from codesign_opt.studies.refinement import RefinementProgress
    from codesign_opt.studies.study import Study

EXAMPLES = options.examples("codesign-opt refine default --top 5", "codesign-opt pareto default")

_TOP = typer.Option("--top", metavar="K", help="How many of the best; the Pareto front is simulated as well.")
_WORKERS = typer.Option(
    "--workers", metavar="N|auto", help="Processes that simulate; the result does not depend on it."
)


def refine(
    name: Annotated[str, options.STUDY_NAME],
    top: Annotated[str, _TOP] = "20",
    workers: Annotated[str, _WORKERS] = "auto",
    database: Annotated[str, options.DATABASE] = options.DEFAULT_DATABASE,
    quiet: Annotated[bool, options.QUIET] = False,
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """Simulate the best candidates of a study and its front, and rank them again.

    What is simulated already is not simulated again. Ctrl-C stops it; the same command continues it.
    """
    from codesign_opt.cli import values
    from codesign_opt.cli.output import write, write_json
    from codesign_opt.cli.refinement_output import next_commands, refined_text, refinement_document

    count = values.whole_number(top, "--top")
    processes = None if workers == "auto" else values.whole_number(workers, "--workers")
    study = refined_study(name, database, top=count, workers=processes, quiet=quiet)
    if json:
        write_json({"study": name, **refinement_document(study)})
    else:
        write(f"{refined_text(study)}\n\nnext:\n{next_commands(study, database)}")


def refined_study(name: str, database: str, *, top: int, workers: int | None, quiet: bool) -> Study:
    """The study after simulating its best candidates.

    Raises:
        InfeasibleError: Nothing in it is feasible; says what excluded most, and the nearest miss.
        typer.Exit: After Ctrl-C.
    """
    import os

    from codesign_opt import api
    from codesign_opt.cli.output import note
    from codesign_opt.cli.progress import reporting
    from codesign_opt.cli.study_output import nothing_feasible

    done = "0 candidates"

    def tell(progress: RefinementProgress) -> None:
        nonlocal done
        done = f"{progress.done} of {progress.total} candidates"
        report(progress.done / progress.total, done)

    try:
        with reporting(f"{name}: simulation", quiet=quiet) as report:
            return api.refine(name, top=top, db=database, workers=workers or os.cpu_count() or 1, progress=tell)
    except InfeasibleError:
        raise nothing_feasible(api.load_study(name, db=database)) from None
    except KeyboardInterrupt:
        note(f"interrupted after {done}: codesign-opt refine continues study '{name}'")
        raise typer.Exit(INTERRUPTED) from None
