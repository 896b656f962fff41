"""`codesign-opt calibrate`: a system with parameters that were fitted to measured runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codesign_opt.cli import options

EXAMPLES = options.examples(
    "codesign-opt calibrate h100-sxm",
    "codesign-opt calibrate h100-sxm --data my-runs.csv --output my-cluster.toml",
    "codesign-opt calibrate my-cluster.toml --data my-runs.csv --family july --plot residuals.html",
)

_SYSTEM = typer.Argument(
    metavar="SYSTEM", help="The machine: a catalogue name, or a TOML file.", autocompletion=options.shipped("systems"),
    show_default=False,
)  # fmt: skip
_DATA = typer.Option(
    "--data", metavar="FILE", help="Measured runs (CSV) to fit to; if absent, what was fitted to the published runs."
)
_FAMILY = typer.Option("--family", metavar="NAME", show_default=False, help="Use this family alone; may be repeated.")
_OUTPUT = typer.Option("--output", metavar="FILE", help="Write the calibrated system (TOML).")
_PLOT = typer.Option("--plot", metavar="FILE", help="Write a page (HTML) with every row, predicted over measured.")


def calibrate(
    system: Annotated[str, _SYSTEM],
    data: Annotated[Path | None, _DATA] = None,
    family: Annotated[list[str] | None, _FAMILY] = None,
    output: Annotated[Path | None, _OUTPUT] = None,
    plot: Annotated[Path | None, _PLOT] = None,
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """Fit the efficiencies of a system to measured runs.

    Shows each parameter with its prior, its fitted value and its standard error, which of them the runs do not
    determine, and the errors that are left by family, in sample and with the family left out of the fit.
    """
    from codesign_opt import api
    from codesign_opt.cli.calibration_output import write_calibration, write_plot, write_system

    calibration = api.calibrate(system, data, families=family or ())
    source = "published runs" if data is None else data.name
    if plot is not None:
        write_plot(calibration, plot, source=source)
    if output is not None:
        write_system(calibration, output)
    write_calibration(calibration, source=source, json=json)
