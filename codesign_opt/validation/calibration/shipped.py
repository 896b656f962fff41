"""The calibrations that come with the package, one file a generation; `python -m …shipped` makes them again."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

import tomli_w

from codesign_opt.systems import System
from codesign_opt.validation.calibration.fitting import Fitted
from codesign_opt.validation.calibration.generations import GENERATIONS, generation_of
from codesign_opt.validation.calibration.machines import calibrated_system
from codesign_opt.validation.calibration.memory import OVERHEADS
from codesign_opt.validation.calibration.procedure import Calibration, calibrate
from codesign_opt.validation.mapping import MappedRun, map_runs
from codesign_opt.validation.runs import shipped_runs

DIGITS = 6
"""Significant digits of values in files."""


@dataclass(frozen=True, slots=True)
class Calibrations:
    """Calibrations of several generations.

    Attributes:
        of: Values of parameters by generation.
        held_out: The same without each family, by family and generation.
    """

    of: Mapping[str, Mapping[str, float]]
    held_out: Mapping[str, Mapping[str, Mapping[str, float]]]

    def system_for(self, run: MappedRun) -> System:
        """The run's system with the parameters of its generation."""
        return calibrated_system(run.system, {**self.of[generation_of(run)], **OVERHEADS})

    def without(self, family: str) -> Calibrations:
        """What is fitted when the runs of a family are left out."""
        return Calibrations({**self.of, **self.held_out.get(family, {})}, {})


def shipped_calibrations() -> Calibrations:
    """Those of all generations."""
    return calibrations_of([shipped_calibration(name) for name in GENERATIONS])


def calibrations_of(members: list[Calibration]) -> Calibrations:
    """Some calibrations together."""
    held_out: dict[str, dict[str, Mapping[str, float]]] = {}
    for member in members:
        for family, values in member.without.items():
            held_out.setdefault(family, {})[member.generation] = values
    return Calibrations({member.generation: member.values for member in members}, held_out)


@cache
def shipped_calibration(generation: str) -> Calibration:
    """That of one generation."""
    data = tomllib.loads(_folder().joinpath(f"{generation}.toml").read_text(encoding="utf-8"))
    return Calibration(
        generation=data["generation"],
        parameters={name: Fitted(**values) for name, values in data["parameters"].items()},
        rows=data["rows"],
        families=tuple(data["families"]),
        without=data["without"],
    )


def calibration_toml(calibration: Calibration) -> str:
    """The file of a calibration."""
    document: dict[str, Any] = {
        "generation": calibration.generation,
        "made_by": "python -m codesign_opt.validation.calibration.shipped",
        "data": "catalog/measurements/measured_runs.csv.gz",
        "data_sha256": data_hash(),
        "rows": calibration.rows,
        "families": list(calibration.families),
        "parameters": {name: _rounded(asdict(fitted)) for name, fitted in calibration.parameters.items()},
        "without": {family: _rounded(values) for family, values in calibration.without.items()},
    }
    return tomli_w.dumps(document)


def data_hash() -> str:
    """Digest of the shipped measurements."""
    file = resources.files("codesign_opt.catalog").joinpath("measurements", "measured_runs.csv.gz")
    return sha256(file.read_bytes()).hexdigest()


def _rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value for name, value in values.items()}


def _folder() -> Any:
    return resources.files("codesign_opt.catalog").joinpath("calibrations")


def main() -> None:
    """Make all files."""
    mapped = [run for run in map_runs(shipped_runs()) if isinstance(run, MappedRun)]
    folder = Path(str(_folder()))
    folder.mkdir(exist_ok=True)
    for calibration in calibrate(mapped, progress=lambda name: print(name, flush=True)):
        (folder / f"{calibration.generation}.toml").write_text(calibration_toml(calibration), encoding="utf-8")


if __name__ == "__main__":
    main()
