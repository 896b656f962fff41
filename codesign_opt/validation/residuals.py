"""Makes the intervals that come with the package: `python -m codesign_opt.validation.residuals`."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path

from codesign_opt.validation.calibration.rows import LEAST_UTILIZATION
from codesign_opt.validation.calibration.shipped import shipped_calibrations
from codesign_opt.validation.intervals import intervals_of, intervals_toml, residuals
from codesign_opt.validation.runs import shipped_runs
from codesign_opt.validation.scoring import TIERS, validate

HEADING = """\
What 80% of published runs took, as multiples of their estimate, by generation of processor and class of parallelism;
runs above 15% model flops utilisation. Calibrated systems: estimates by calibrations that have not seen the family.
Made from measured_runs.csv.gz by `python -m codesign_opt.validation.residuals`."""


def shipped_residuals() -> str:
    """The text of `catalog/measurements/residuals.toml`: of runs of all tiers that estimates were not fitted to.

    Systems of the catalogue have intervals of their own: they are fitted to nothing.
    """
    intervals = []
    for calibrations in (shipped_calibrations(), None):
        validation = validate(shipped_runs(), tiers=TIERS, mfu_above=LEAST_UTILIZATION, calibrations=calibrations)
        found = intervals_of(residuals(validation.mapped, validation.judged))
        intervals += [replace(interval, calibrated=calibrations is not None) for interval in found]
    return intervals_toml(intervals, heading=HEADING)


def main() -> None:
    """Write the file."""
    folder = Path(str(resources.files("codesign_opt.catalog"))) / "measurements"
    (folder / "residuals.toml").write_text(shipped_residuals(), encoding="utf-8")


if __name__ == "__main__":
    main()
