"""What people and programs are told about a calibration."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codesign_opt.tables import Table
    from codesign_opt.validation.calibration.own import SystemCalibration


def write_calibration(calibration: SystemCalibration, *, source: str, json: bool) -> None:
    """Say what came out."""
    from codesign_opt.cli.output import table_document, titled_table, write, write_json

    parameters, residuals = calibration.parameters(), calibration.residuals()
    if json:
        write_json(
            {
                "system": calibration.system.name,
                "generation": calibration.calibration.generation,
                "rows": len(calibration.runs),
                "parameters": table_document(parameters),
                "residuals": table_document(_finite(residuals)),
            }
        )
        return
    sections = [
        f"{calibration.system.name}: {calibration.calibration.generation} processors, "
        f"{len(calibration.runs)} rows of {source}",
        titled_table(_readable(parameters), "parameters, and their standard errors", rows=parameters.rows),
    ]
    if residuals.rows:
        title = "step time, |predicted - measured| / measured; held out: fitted without the family"
        sections.append(titled_table(_errors(residuals), title, rows=residuals.rows))
    write("\n\n".join(sections))


def write_system(calibration: SystemCalibration, path: Path) -> None:
    """Write the calibrated system.

    Raises:
        InputError: Where the file cannot be written.
    """
    from codesign_opt.cli.output import note
    from codesign_opt.reports.files import write_atomically

    write_atomically(path, calibration.file.encode())
    note(f"wrote {path}")


def write_plot(calibration: SystemCalibration, path: Path, *, source: str) -> None:
    """Write the page with every fitted row.

    Raises:
        InputError: Where the file cannot be written.
    """
    from codesign_opt.cli.output import note, plural
    from codesign_opt.reports import page
    from codesign_opt.reports.accuracy_plot import accuracy_plot
    from codesign_opt.reports.files import write_atomically

    table = calibration.rows()
    facts = {"system": calibration.system.name, "generation": calibration.calibration.generation, "rows": table.rows}
    title = f"Residuals of {calibration.system.name} on {source}"
    write_atomically(path, page(table, title=title, axes=(), drawings=[accuracy_plot(table)], facts=facts).encode())
    note(f"wrote {path}: {plural(range(table.rows), 'row')}")


def _readable(parameters: Table) -> Table:
    """Parameters with units, and in words what was not fitted."""
    from codesign_opt.tables import Table
    from codesign_opt.units import format_quantity

    rows = parameters.to_dicts()

    def quantity(row: dict[str, Any], name: str) -> str:
        return f"{row[name]:.3g}" if row["unit"] == "1" else format_quantity(row[name], row["unit"], 3)

    return Table(
        {
            "parameter": [row["parameter"] for row in rows],
            "prior": [quantity(row, "prior") for row in rows],
            "value": [quantity(row, "value") for row in rows],
            "error": ["" if row["held"] else f"{row['error']:.0%}" for row in rows],
            "rows": [row["rows"] for row in rows],
            "at its prior, because": [row["held"] for row in rows],
        }
    )


def _errors(residuals: Table) -> Table:
    from codesign_opt.cli.output import percentages
    from codesign_opt.tables import Table

    columns: dict[str, Any] = {"family": residuals["family"], "rows": residuals["rows"]}
    for prefix, words in (("", ""), ("held_out_", "held out ")):
        columns[f"{words}median"] = percentages(residuals[f"{prefix}median"])
        columns[f"{words}bias"] = percentages([math.expm1(bias) for bias in residuals[f"{prefix}bias"]], signed=True)
    return Table(columns)


def _finite(residuals: Table) -> Table:
    """JSON has no NaN: errors of a family that nothing was fitted without are left out."""
    there = [row for row, value in enumerate(residuals["median"].tolist()) if math.isfinite(value)]
    return residuals.take(there) if residuals.rows else residuals
