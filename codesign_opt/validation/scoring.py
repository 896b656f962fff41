"""A validation: measured runs against predictions, and what comes of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from codesign_opt.errors import InputError, nearest
from codesign_opt.tables import Table
from codesign_opt.validation.groups import comparable_groups
from codesign_opt.validation.held_out import Calibrations, held_out_predictions, in_sample_predictions
from codesign_opt.validation.intervals import coverage_table
from codesign_opt.validation.mapping import MappedRun, Skipped, map_runs
from codesign_opt.validation.predict import Predictions
from codesign_opt.validation.runs import MeasuredRun
from codesign_opt.validation.suspects import suspected_parts
from codesign_opt.validation.table import family_table, group_table, row_table, skip_table, verdict_table

TIERS = ("A", "B", "C")
"""How complete a row is; see `catalog/measurements/README.md`."""

GROUP_ROWS = 15
"""Rows that a group of comparable runs must have for its decisions to be judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Predictions beside measurements.

    Attributes:
        outcomes: What became of every selected row.
        mapped: Those that could be mapped, in order; predictions have one entry each.
        slow: Timed rows below the asked utilisation, which are judged by their memory alone.
        in_sample: Predictions by calibrations that have seen all rows, or by the catalogue's systems.
        held_out: Predictions by calibrations that have not seen the row's family; None without calibrations.
    """

    outcomes: tuple[MappedRun | Skipped, ...]
    mapped: tuple[MappedRun, ...]
    slow: int
    in_sample: Predictions
    held_out: Predictions | None

    @property
    def judged(self) -> Predictions:
        """The predictions that count: held out where there are such."""
        return self.in_sample if self.held_out is None else self.held_out

    def families(self) -> Table:
        """Errors by family, see `table.family_table`."""
        return family_table(self.outcomes, self.in_sample, self.held_out)

    def skipped(self) -> Table:
        """Rows that were not used by family and reason."""
        return skip_table(self.outcomes)

    def verdicts(self) -> Table:
        """Verdicts on running out of memory by family."""
        return verdict_table(self.mapped, self.judged)

    def groups(self) -> Table:
        """Decisions in groups of at least `GROUP_ROWS` comparable runs."""
        return group_table(
            comparable_groups(self.mapped, minimum=GROUP_ROWS), self.mapped, self.in_sample, self.held_out
        )

    def coverage(self) -> Table:
        """Share of runs within intervals that were made without their family."""
        return coverage_table(self.mapped, self.judged)

    def rows(self) -> Table:
        """Timed rows, the largest error first, with the suspected part of the step; see `suspects`."""
        parts, shares = suspected_parts(self.mapped, self.judged)
        return row_table(self.mapped, self.judged, suspects=parts, shares=shares)


def validate(
    runs: Sequence[MeasuredRun],
    *,
    families: Collection[str] = (),
    tiers: Collection[str] = ("A",),
    mfu_above: float = 0.0,
    calibrations: Calibrations | None = None,
) -> Validation:
    """Predict measured runs.

    Args:
        runs: The rows.
        families: Use these alone; all where there are none.
        tiers: Use rows of these tiers, and rows that name none.
        mfu_above: Judge the step time of runs with a larger model flops utilisation alone: flop of the model with full
            attention and without recompute, as a share of the matrix peak of the strategy's number format.
        calibrations: Fitted systems; the catalogue's where absent.

    Raises:
        InputError: An unknown family or tier, or no row that is left.
    """
    known = list(dict.fromkeys(run.family for run in runs))
    for family in families:
        if family not in known:
            raise InputError(f"no row of the family '{family}'", nearest(family, known))
    for tier in tiers:
        if tier not in TIERS:
            raise InputError(f"unknown tier '{tier}'", nearest(tier, TIERS))
    selected = [
        run for run in runs if (not families or run.family in families) and (run.tier is None or run.tier in tiers)
    ]
    if not selected:
        there = sorted({run.tier for run in runs if run.tier and (not families or run.family in families)})
        raise InputError("no rows are left", f"there are rows of tier {', '.join(there)}")
    outcomes = map_runs(selected)
    timed = _timed(outcomes)
    if mfu_above > 0:
        outcomes = [_untimed_if_slow(one, mfu_above) if isinstance(one, MappedRun) else one for one in outcomes]
    mapped = [one for one in outcomes if isinstance(one, MappedRun)]
    return Validation(
        outcomes=tuple(outcomes),
        mapped=tuple(mapped),
        slow=timed - _timed(outcomes),
        in_sample=in_sample_predictions(mapped, calibrations),
        held_out=None if calibrations is None else held_out_predictions(mapped, calibrations),
    )


def measured_utilization(run: MappedRun) -> float:
    """Model flops utilisation of a run as it was measured; NaN without a time."""
    if run.measured_seconds is None:
        return float("nan")
    flops = run.workload.model_flops_per_token * run.workload.sequence_length * run.strategy.batch
    peak = run.system.matrix[run.strategy.datatype.value].peak
    return float(np.divide(flops, run.measured_seconds * run.strategy.processors * peak))


def _timed(outcomes: Sequence[MappedRun | Skipped]) -> int:
    return sum(isinstance(one, MappedRun) and one.measured_seconds is not None for one in outcomes)


def _untimed_if_slow(run: MappedRun, above: float) -> MappedRun:
    return replace(run, measured_seconds=None) if measured_utilization(run) <= above else run
