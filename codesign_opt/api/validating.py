"""Predictions against measurements."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from codesign_opt.validation import read_runs, shipped_runs
from codesign_opt.validation.calibration.shipped import shipped_calibrations
from codesign_opt.validation.held_out import Calibrations
from codesign_opt.validation.scoring import Validation
from codesign_opt.validation.scoring import validate as validate_runs


def validate(
    data: str | Path | None = None,
    *,
    families: Collection[str] = (),
    tiers: Collection[str] = ("A",),
    mfu_above: float = 0.0,
    calibrations: Calibrations | Literal["shipped"] | None = "shipped",
) -> Validation:
    """Predict measured runs, and judge the predictions.

    Args:
        data: A CSV file with the columns of the shipped one, plain or compressed by gzip; the shipped one if absent.
        families: Use these collections of runs alone; all where there are none.
        tiers: Use rows of these tiers (A, B, C), and rows that name none.
        mfu_above: Judge the step time of runs with a larger model flops utilisation alone.
        calibrations: Fitted systems: those that are shipped, others, or None for the catalogue's own systems.

    Returns:
        Tables of errors by family, skipped rows, verdicts on memory, decisions in groups of comparable rows, interval
        coverage, and single rows.

    Raises:
        InputError: For a file that cannot be read, or a selection without rows.
    """
    runs = shipped_runs() if data is None else read_runs(data)
    fitted = shipped_calibrations() if calibrations == "shipped" else calibrations
    return validate_runs(runs, families=families, tiers=tiers, mfu_above=mfu_above, calibrations=fitted)
