"""A calibrated system: by the shipped calibration of its generation, or from there on by runs of one's own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from codesign_opt.catalog import resolve_system
from codesign_opt.errors import InputError, nearest
from codesign_opt.systems import Notes, System
from codesign_opt.tables import Table
from codesign_opt.validation.calibration.fitting import TimedRows
from codesign_opt.validation.calibration.generations import GENERATIONS, generation_of, generation_of_system
from codesign_opt.validation.calibration.machines import calibrated_system
from codesign_opt.validation.calibration.memory import OVERHEADS
from codesign_opt.validation.calibration.parameters import PARAMETERS
from codesign_opt.validation.calibration.procedure import Calibration, calibrate_own
from codesign_opt.validation.calibration.rows import fitted_rows
from codesign_opt.validation.calibration.shipped import shipped_calibration
from codesign_opt.validation.calibration.system_files import calibrated_file
from codesign_opt.validation.machines import SYSTEMS
from codesign_opt.validation.mapping import MappedRun, map_runs
from codesign_opt.validation.predict import predict
from codesign_opt.validation.runs import MeasuredRun, shipped_runs

_ALIKE = 0.02
"""Difference of matrix peaks up to which a system is of the generation of a system of the catalogue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemCalibration:
    """A calibrated system.

    Attributes:
        system: The system with fitted parameters.
        calibration: The parameters, and what they leave.
        runs: The timed runs that were fitted to, or for a shipped calibration those it was fitted to.
        file: The system as TOML, with the source of every number.
    """

    system: System
    calibration: Calibration
    runs: tuple[MappedRun, ...]
    file: str

    def parameters(self) -> Table:
        """`parameter`, `unit`, `prior`, `value`, `error` on its scale, `rows`, and `held`: why it is at its prior."""
        rows = [(one.name, one.unit, self.calibration.parameters[one.name]) for one in PARAMETERS]
        return Table(
            {
                "parameter": [name for name, _, _ in rows],
                "unit": [unit for _, unit, _ in rows],
                "prior": [fitted.prior for _, _, fitted in rows],
                "value": [fitted.value for _, _, fitted in rows],
                "error": [fitted.error for _, _, fitted in rows],
                "rows": [fitted.rows for _, _, fitted in rows],
                "held": [fitted.held for _, _, fitted in rows],
            }
        )

    def residuals(self) -> Table:
        """Step times by family: `rows`, `median` of |predicted - measured| / measured and `bias`, the median of
        log(predicted / measured), in sample, and `held_out_*` by what was fitted without the family, else NaN.
        """
        calibration = self.calibration
        found = []
        for family in dict.fromkeys(run.run.family for run in self.runs):
            rows = TimedRows([run for run in self.runs if run.run.family == family])
            without = calibration.without.get(family)
            inside = rows.errors(calibration.values)
            outside = np.full(len(inside), np.nan) if without is None else rows.errors(without)
            medians = [float(np.median(errors)) for errors in (np.abs(np.expm1(inside)), inside)]
            held_out = [float(np.median(errors)) for errors in (np.abs(np.expm1(outside)), outside)]
            found.append((family, len(inside), *medians, *held_out))
        names = ("family", "rows", "median", "bias", "held_out_median", "held_out_bias")
        return Table({name: [row[place] for row in found] for place, name in enumerate(names)})

    def rows(self) -> Table:
        """Every fitted run: `row_id`, `family`, `model`, `measured` and `predicted` seconds, `error`, worst first."""
        values = self.calibration.values
        runs = [replace(run, system=calibrated_system(run.system, values)) for run in self.runs]
        measured = np.array([run.measured_seconds for run in runs], dtype=np.float64)
        predicted = predict(runs).seconds
        errors = np.abs(predicted / measured - 1)
        order = np.argsort(-errors, kind="stable")
        return Table(
            {
                "row_id": [runs[row].run.row_id for row in order],
                "family": [runs[row].run.family for row in order],
                "model": [runs[row].run.model for row in order],
                "measured": measured[order],
                "predicted": predicted[order],
                "error": errors[order],
            },
            {"measured": "s", "predicted": "s"},
        )


def calibrate_system(
    system: System,
    notes: Notes,
    data: Sequence[MeasuredRun] | None = None,
    *,
    families: Collection[str] = (),
    source: str = "",
) -> SystemCalibration:
    """The system with the parameters of its generation's shipped calibration, or of a fit that begins there.

    Args:
        system: A system of the catalogue, or one with the matrix peak of one.
        notes: What its file says of it.
        data: Runs of one's own, on processors of the same generation; None for the shipped calibration itself.
        families: Use these families of `data` alone; all where there are none.
        source: The data in words.

    Raises:
        InputError: Where the system is of no known generation, or no row can be used.
    """
    generation = _generation(system)
    shipped = shipped_calibration(generation)
    runs = _timed(shipped_runs() if data is None else data, families, generation)
    if not runs and (data is not None or families):
        raise InputError(
            f"{source or 'published runs'}: no row to fit {generation} processors to",
            f"timed rows of tier A or B, at 15% of the peak, whose gpu is {' or '.join(GENERATIONS[generation])}; "
            "'codesign-opt validate' says why rows are not used",
        )
    calibration = shipped if data is None else calibrate_own(shipped, runs)
    return SystemCalibration(
        system=calibrated_system(system, {**calibration.values, **OVERHEADS}),
        calibration=calibration,
        runs=tuple(runs),
        file=calibrated_file(
            system, notes, calibration, name=f"{system.name}-calibrated", fitted_to=source or "published runs"
        ),
    )


def _generation(system: System) -> str:
    """The generation of the catalogue's system of that name, or of one with the same 16-bit matrix peak."""
    name = system.name.removesuffix("-calibrated")
    known = dict.fromkeys(candidate for by_memory in SYSTEMS.values() for candidate in by_memory.values())
    alike = [name] if name in known else [candidate for candidate in known if _is_alike(system, candidate)]
    generation = generation_of_system(alike[0]) if alike else None
    if generation is None:
        raise InputError(
            f"'{system.name}' is of no generation that a calibration is for",
            f"its 16-bit matrix peak is that of no processor of {', '.join(GENERATIONS)}",
        )
    return generation


def _is_alike(system: System, name: str) -> bool:
    other = resolve_system(name)
    shared = [word for word in ("bfloat16", "float16") if word in system.matrix and word in other.matrix]
    return any(abs(system.matrix[word].peak / other.matrix[word].peak - 1) < _ALIKE for word in shared)


def _timed(runs: Sequence[MeasuredRun], families: Collection[str], generation: str) -> list[MappedRun]:
    """The runs of a generation that are fitted to."""
    known = list(dict.fromkeys(run.family for run in runs))
    for family in families:
        if family not in known:
            raise InputError(f"no row of the family '{family}'", nearest(family, known))
    chosen = [run for run in runs if not families or run.family in families]
    mapped = [outcome for outcome in map_runs(chosen) if isinstance(outcome, MappedRun)]
    return [run for run in fitted_rows(mapped) if generation_of(run) == generation]
