"""Fitting a system to measured runs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from codesign_opt.catalog import names, resolve_system, system_notes
from codesign_opt.errors import InputError
from codesign_opt.systems.files import read_notes
from codesign_opt.validation import read_runs
from codesign_opt.validation.calibration.own import SystemCalibration, calibrate_system


def calibrate(
    system: str | Path, data: str | Path | None = None, *, families: Collection[str] = ()
) -> SystemCalibration:
    """A system with efficiencies, latencies and memory overheads that were fitted to measured runs.

    Args:
        system: A catalogue name, or the path of a TOML file.
        data: A CSV file with the columns of the shipped runs; without it, what was fitted to the shipped ones.
        families: Use these collections of runs alone; all where there are none.

    Returns:
        The system, the text of its file, and tables of parameters and residuals.

    Raises:
        InputError: For an unknown system, a file that cannot be read, or a selection without rows.
    """
    word = str(system)
    if word.endswith(".json"):
        raise InputError(f"'{word}': a calibrated system needs a TOML file", "'catalog show' prints one to begin with")
    machine = resolve_system(word, where="system")
    notes = system_notes(word) if word in names("systems") else read_notes(word, resolve_base=system_notes)
    runs = None if data is None else read_runs(data)
    return calibrate_system(machine, notes, runs, families=families, source="" if data is None else Path(data).name)
