"""Prediction intervals from the residuals of measured runs, and how many runs they hold that they have not seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.objectives.intervals import (
    ANY,
    FEWEST,
    PARALLELISMS,
    SHARE,
    Interval,
    generation_of,
    kinds,
    nearest_interval,
    parallelism_of,
)
from codesign_opt.tables import Table
from codesign_opt.validation.mapping import MappedRun
from codesign_opt.validation.predict import Predictions
from codesign_opt.validation.statistics import coverage

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Residual:
    """One run: its collection, its kind, and log(measured / predicted) of its step time."""

    family: str
    generation: str
    parallelism: str
    log_ratio: float


def residuals(mapped: Sequence[MappedRun], predictions: Predictions) -> list[Residual]:
    """The residuals of all timed runs that have a prediction; use held-out predictions where there are calibrations."""
    found = []
    for run, predicted in zip(mapped, predictions.seconds.tolist(), strict=True):
        if run.measured_seconds is not None and np.isfinite(predicted):
            ratio = float(np.log(run.measured_seconds / predicted))
            found.append(Residual(run.run.family, *kind_of(run), ratio))
    return found


def kind_of(run: MappedRun) -> tuple[str, str]:
    """Generation and class of parallelism."""
    degrees = {name: np.array([getattr(run.strategy, name)]) for name in ("tp", "pp", "cp")}
    return generation_of(run.system), PARALLELISMS[int(parallelism_of(run.workload, degrees)[0])]


def intervals_of(found: Sequence[Residual]) -> list[Interval]:
    """The interval of every kind that has `FEWEST` residuals, the widest kind last.

    Its ends are quantiles of the ratios, such that the next run of the same distribution lies between them with the
    probability `SHARE` at least. Every collection counts alike as a whole, however many runs it has. Runs of one that
    is not among them are further off: all intervals are as much wider as makes collections lie within those of the
    others.
    """
    return _widened(_of_same(found), _widening(found))


def _of_same(found: Sequence[Residual]) -> list[Interval]:
    """The intervals of further runs of the same collections."""
    members: dict[tuple[str, str], list[Residual]] = {}
    for residual in found:
        for kind in kinds(residual.generation, residual.parallelism):
            members.setdefault(kind, []).append(residual)
    ordered = sorted(members, key=lambda kind: (kind[0] == ANY, kind[1] == ANY, kind))
    return [_interval(kind, members[kind]) for kind in ordered if len(members[kind]) >= FEWEST]


def _widening(found: Sequence[Residual]) -> float:
    """How many times as wide intervals must be for `SHARE` of the runs to lie within those of other collections."""
    distances = []
    for family in dict.fromkeys(one.family for one in found):
        others = _of_same([one for one in found if one.family != family])
        for one in found:
            interval = nearest_interval(others, one.generation, one.parallelism) if one.family == family else None
            if interval is not None:
                middle, half = _middle(interval)
                distances.append(abs(one.log_ratio - middle) / half if half else np.inf)
    return float(np.quantile(distances, SHARE)) if distances else 1.0


def _widened(intervals: Sequence[Interval], factor: float) -> list[Interval]:
    wider = []
    for interval in intervals:
        middle, half = _middle(interval)
        ends = float(np.exp(middle - factor * half)), float(np.exp(middle + factor * half))
        wider.append(replace(interval, lower=ends[0], upper=ends[1]))
    return wider


def _middle(interval: Interval) -> tuple[float, float]:
    """Middle and half width of the logarithms."""
    low, high = np.log(interval.lower), np.log(interval.upper)
    return float((low + high) / 2), float((high - low) / 2)


def interval_columns(mapped: Sequence[MappedRun], predictions: Predictions) -> tuple[Array, Array]:
    """Lower and upper end in seconds for every run, from residuals of other collections alone; NaN without any."""
    found = residuals(mapped, predictions)
    families = dict.fromkeys(run.run.family for run in mapped)
    others = {family: intervals_of([one for one in found if one.family != family]) for family in families}
    lower, upper = np.full(len(mapped), np.nan), np.full(len(mapped), np.nan)
    for row, run in enumerate(mapped):
        interval = nearest_interval(others[run.run.family], *kind_of(run))
        if interval is not None:
            lower[row] = interval.lower * predictions.seconds[row]
            upper[row] = interval.upper * predictions.seconds[row]
    return lower, upper


def coverage_table(mapped: Sequence[MappedRun], predictions: Predictions) -> Table:
    """For each family, and for all together: timed rows, and the share within intervals from other families alone."""
    lower, upper = interval_columns(mapped, predictions)
    measured = np.array([run.measured_seconds or np.nan for run in mapped], dtype=np.float64)
    judged = ~np.isnan(measured) & ~np.isnan(lower)
    families = np.array([run.run.family for run in mapped], dtype=object)
    rows = []
    for family in (*dict.fromkeys(families.tolist()), "all"):
        index = judged & ((families == family) | (family == "all"))
        inside = coverage(lower[index], upper[index], measured[index])
        rows.append({"family": family, "rows": int(index.sum()), "coverage": inside})
    return Table({name: [row[name] for row in rows] for name in rows[0]})


def intervals_toml(intervals: Iterable[Interval], *, heading: str) -> str:
    """The intervals as the text of `catalog/measurements/residuals.toml`; ends are rounded to four digits."""
    lines = [f"# {line}".rstrip() for line in heading.splitlines()]
    for interval in intervals:
        lines += ["", "[[interval]]"]
        for name, value in asdict(interval).items():
            lines.append(f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {_number(value)}")
    return "\n".join(lines) + "\n"


def _interval(kind: tuple[str, str], members: Sequence[Residual]) -> Interval:
    ratios = np.array([one.log_ratio for one in members])
    counts = Counter(one.family for one in members)
    weights = np.array([1 / counts[one.family] for one in members])
    tail = (1 - SHARE) / 2
    return Interval(
        generation=kind[0],
        parallelism=kind[1],
        runs=len(members),
        families=len(counts),
        lower=float(np.exp(-_weighted_quantile(-ratios, weights, 1 - tail))),
        upper=float(np.exp(_weighted_quantile(ratios, weights, 1 - tail))),
    )


def _weighted_quantile(values: Array, weights: Array, share: float) -> float:
    """The least value up to which (1 + 1/n) · `share` of the weight lies, as in conformal prediction."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    wanted = min(share * (1 + 1 / len(values)), 1.0)
    place = int(np.searchsorted(reached, wanted - 1e-12))
    return float(values[order][min(place, len(values) - 1)])


def _number(value: float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else f"{value:.4g}" if value < 1000 else f"{value:.1f}"
