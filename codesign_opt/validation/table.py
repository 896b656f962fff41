"""The tables of a validation: errors by family, reasons of skipped rows, decisions by group, single rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.tables import Table
from codesign_opt.validation.groups import Group
from codesign_opt.validation.mapping import MappedRun, Skipped
from codesign_opt.validation.predict import Predictions
from codesign_opt.validation.statistics import (
    ErrorSummary,
    Verdicts,
    absolute_errors,
    error_summary,
    rank_correlation,
    regret,
    verdicts,
)

Array = NDArray[Any]

ALL = "all"
"""The family's name in the row that has all of them together."""


def family_table(
    outcomes: Sequence[MappedRun | Skipped], in_sample: Predictions, held_out: Predictions | None = None
) -> Table:
    """For each family, and for all together: rows, rows used, and errors of time and memory.

    Args:
        outcomes: What became of every row.
        in_sample: Predictions for the mapped runs among them, in order, by calibrations that have seen all families.
        held_out: The same by calibrations that have not seen the run's own family; its columns begin with `held_out_`.

    Returns:
        `rows`, `used`, `timed`, then `median`, `percentile90`, `mean` and `bias` of step times, `memory_rows` and
        `memory_median` of peak memory, and `verdict_rows` and `verdict_accuracy` on running out of memory.
    """
    mapped = _mapped(outcomes)
    rows: list[dict[str, Any]] = []
    for family in (*_families(outcomes), ALL):
        index = np.array([family in (run.run.family, ALL) for run in mapped], dtype=np.bool_)
        row = {
            "family": family,
            "rows": sum(family in (outcome.run.family, ALL) for outcome in outcomes),
            "used": int(index.sum()),
            **_errors(mapped, in_sample, index),
        }
        if held_out is not None:
            row |= {f"held_out_{name}": value for name, value in _errors(mapped, held_out, index).items()}
        rows.append(row)
    return _table(rows)


def skip_table(outcomes: Sequence[MappedRun | Skipped]) -> Table:
    """`family`, `reason` and `rows` of the rows that were not used, by family and then the most frequent first."""
    counts = Counter((skip.run.family, skip.reason) for skip in outcomes if isinstance(skip, Skipped))
    order = _families(outcomes)
    ordered = sorted(counts.items(), key=lambda item: (order.index(item[0][0]), -item[1], item[0][1]))
    return Table(
        {
            "family": [family for (family, _), _ in ordered],
            "reason": [reason for (_, reason), _ in ordered],
            "rows": [count for _, count in ordered],
        }
    )


def verdict_table(mapped: Sequence[MappedRun], predictions: Predictions) -> Table:
    """The confusion table of each family that has failures for want of memory, and of all such families together."""
    families = [
        family for family in _families(mapped) if any(run.out_of_memory for run in mapped if run.run.family == family)
    ]
    rows = []
    for family in (*families, ALL):
        members = [run.run.family in (families if family == ALL else [family]) for run in mapped]
        found = _verdicts(mapped, predictions, np.array(members, dtype=np.bool_))
        rows.append(
            {
                "family": family,
                "rows": found.rows,
                "failed_as_predicted": found.true_positive,
                "ran_as_predicted": found.true_negative,
                "ran_against_prediction": found.false_positive,
                "failed_against_prediction": found.false_negative,
                "accuracy": found.accuracy,
            }
        )
    return _table(rows)


def group_table(
    groups: Iterable[Group],
    mapped: Sequence[MappedRun],
    in_sample: Predictions,
    held_out: Predictions | None = None,
) -> Table:
    """For each group of comparable runs: rank correlation of step times, and regret of the run predicted fastest."""
    measured = _measured(mapped)
    rows = []
    for group in groups:
        index = list(group.rows)
        row: dict[str, Any] = {"group": group.label, "rows": len(index), "best": float(measured[index].min())}
        for prefix, predictions in (("", in_sample), ("held_out_", held_out)):
            if predictions is not None:
                times = predictions.seconds[index]
                row[f"{prefix}rank_correlation"] = rank_correlation(times, measured[index])
                row[f"{prefix}regret"] = regret(times, measured[index])
        rows.append(row)
    return _table(rows, {"best": "s"})


def row_table(
    mapped: Sequence[MappedRun],
    predictions: Predictions,
    *,
    suspects: Sequence[str],
    shares: Array,
) -> Table:
    """Every timed run that has a prediction, the largest error first.

    Args:
        mapped: The runs.
        predictions: Their predictions.
        suspects: For each run the suspected part of its step, see `suspects`.
        shares: The shares of those parts in the predicted step.

    Returns:
        `row_id`, `family`, `model`, `layout`, `measured` and `predicted` seconds, `error` as a share of the measured
        time, `suspect` and `share`, and `assumptions`.
    """
    measured = _measured(mapped)
    index = np.flatnonzero(~np.isnan(measured) & ~np.isnan(predictions.seconds))
    errors = absolute_errors(predictions.seconds[index], measured[index])
    order = index[np.argsort(-errors, kind="stable")]
    return Table(
        {
            "row_id": [mapped[row].run.row_id for row in order],
            "family": [mapped[row].run.family for row in order],
            "model": [mapped[row].run.model for row in order],
            "layout": [_layout(mapped[row]) for row in order],
            "measured": measured[order],
            "predicted": predictions.seconds[order],
            "error": np.sort(errors)[::-1],
            "suspect": [suspects[row] for row in order],
            "share": shares[order],
            "assumptions": ["; ".join(mapped[row].assumptions) for row in order],
        },
        {"measured": "s", "predicted": "s"},
    )


def _errors(mapped: Sequence[MappedRun], predictions: Predictions, index: Array) -> dict[str, Any]:
    """Errors of the rows that `index` marks."""
    time = error_summary(predictions.seconds[index], _measured(mapped)[index])
    peak = np.array([_number(run.peak_memory) for run in mapped])
    memory: ErrorSummary = error_summary(predictions.memory[index], peak[index])
    found = _verdicts(mapped, predictions, index)
    return {
        "timed": time.rows,
        "median": time.median,
        "percentile90": time.percentile90,
        "mean": time.mean,
        "bias": time.bias,
        "memory_rows": memory.rows,
        "memory_median": memory.median,
        "verdict_rows": found.rows,
        "verdict_accuracy": found.accuracy,
    }


def _layout(run: MappedRun) -> str:
    """Processors and the parallel degrees that are not one: "64 H100: tp 8, dp 8"."""
    degrees = [f"{name} {getattr(run.strategy, name)}" for name in ("tp", "cp", "ep", "pp", "dp")]
    used = [text for text in degrees if not text.endswith(" 1")]
    return f"{run.run.processors} {run.run.processor}" + (f": {', '.join(used)}" if used else "")


def _verdicts(mapped: Sequence[MappedRun], predictions: Predictions, index: Array) -> Verdicts:
    failed = np.array([run.out_of_memory for run in mapped], dtype=np.bool_)
    return verdicts(~predictions.fits[index], failed[index])


def _measured(mapped: Sequence[MappedRun]) -> Array:
    return np.array([_number(run.measured_seconds) for run in mapped], dtype=np.float64)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _mapped(outcomes: Iterable[MappedRun | Skipped]) -> list[MappedRun]:
    return [outcome for outcome in outcomes if isinstance(outcome, MappedRun)]


def _families(outcomes: Iterable[MappedRun | Skipped]) -> list[str]:
    return list(dict.fromkeys(outcome.run.family for outcome in outcomes))


def _table(rows: Sequence[dict[str, Any]], units: dict[str, str] | None = None) -> Table:
    return Table({name: [row[name] for row in rows] for name in (rows[0] if rows else ())}, units)
