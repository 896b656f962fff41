"""How far predictions are from measurements: errors, verdicts, rankings and intervals, as pure functions of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class ErrorSummary:
    """Errors of a set of predictions; NaN where there are none.

    Attributes:
        rows: Pairs of a prediction and a measurement.
        median: Median of |predicted - measured| / measured.
        percentile90: Its 90th percentile, by linear interpolation.
        mean: Its mean.
        bias: Median of log(predicted / measured): positive where predictions are too large.
    """

    rows: int
    median: float
    percentile90: float
    mean: float
    bias: float


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Verdicts on running out of memory; "positive" means that it did.

    Attributes:
        true_positive, true_negative: Right verdicts.
        false_positive: Ran, but was predicted not to fit.
        false_negative: Ran out of memory, but was predicted to fit.
    """

    true_positive: int
    true_negative: int
    false_positive: int
    false_negative: int

    @property
    def rows(self) -> int:
        """All verdicts."""
        return self.true_positive + self.true_negative + self.false_positive + self.false_negative

    @property
    def accuracy(self) -> float:
        """Share of right verdicts; NaN where there are none."""
        return (self.true_positive + self.true_negative) / self.rows if self.rows else float("nan")


def absolute_errors(predicted: ArrayLike, measured: ArrayLike) -> Array:
    """|predicted - measured| / measured of each pair."""
    measurements = np.asarray(measured, dtype=np.float64)
    return np.asarray(np.abs(np.asarray(predicted, dtype=np.float64) - measurements) / measurements)


def error_summary(predicted: ArrayLike, measured: ArrayLike) -> ErrorSummary:
    """The errors of pairs; those in which either value is NaN are left out. Values must be positive."""
    predictions, measurements = _pairs(predicted, measured)
    if predictions.size == 0:
        return ErrorSummary(0, *[float("nan")] * 4)
    errors = absolute_errors(predictions, measurements)
    return ErrorSummary(
        rows=int(errors.size),
        median=float(np.median(errors)),
        percentile90=float(np.percentile(errors, 90)),
        mean=float(np.mean(errors)),
        bias=float(np.median(np.log(predictions / measurements))),
    )


def verdicts(predicted_failure: ArrayLike, measured_failure: ArrayLike) -> Verdicts:
    """How often a predicted failure for want of memory was one."""
    predicted = np.asarray(predicted_failure, dtype=np.bool_)
    measured = np.asarray(measured_failure, dtype=np.bool_)
    return Verdicts(
        true_positive=int(np.sum(predicted & measured)),
        true_negative=int(np.sum(~predicted & ~measured)),
        false_positive=int(np.sum(predicted & ~measured)),
        false_negative=int(np.sum(~predicted & measured)),
    )


def rank_correlation(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Spearman's rank correlation; NaN for fewer than three pairs, or where either side does not vary."""
    from scipy.stats import spearmanr

    predictions, measurements = _pairs(predicted, measured)
    if predictions.size < 3 or np.ptp(predictions) == 0 or np.ptp(measurements) == 0:
        return float("nan")
    return float(spearmanr(predictions, measurements).statistic)


def regret(predicted: ArrayLike, measured: ArrayLike) -> float:
    """How much slower the run that is predicted fastest was than the fastest one, as a share of the latter.

    Of runs that are predicted to be equally fast the slowest counts. NaN without pairs.
    """
    predictions, measurements = _pairs(predicted, measured)
    if predictions.size == 0:
        return float("nan")
    chosen = measurements[predictions == predictions.min()].max()
    return float(chosen / measurements.min() - 1)


def coverage(lower: ArrayLike, upper: ArrayLike, measured: ArrayLike) -> float:
    """Share of measurements that lie within their interval, ends included; NaN without any."""
    measurements = np.asarray(measured, dtype=np.float64)
    if measurements.size == 0:
        return float("nan")
    return float(np.mean((np.asarray(lower) <= measurements) & (measurements <= np.asarray(upper))))


def _pairs(predicted: ArrayLike, measured: ArrayLike) -> tuple[Array, Array]:
    """Pairs in which both values are there."""
    predictions, measurements = np.asarray(predicted, dtype=np.float64), np.asarray(measured, dtype=np.float64)
    there = ~(np.isnan(predictions) | np.isnan(measurements))
    return predictions[there], measurements[there]
