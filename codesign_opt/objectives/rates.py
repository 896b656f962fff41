"""Throughput, and how much of the machine's arithmetic it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies import Datatype

if TYPE_CHECKING:
    from codesign_opt.analytical import Estimate


def sample_rate(estimate: Estimate) -> NDArray[Any]:
    """Sequences per second."""
    return np.asarray(estimate.strategies["batch"] / estimate.times.total)


def token_rate(estimate: Estimate) -> NDArray[Any]:
    """Tokens per second."""
    return sample_rate(estimate) * estimate.workload.sequence_length


def model_flops_utilization(estimate: Estimate) -> NDArray[Any]:
    """Flop that the model needs, with full attention and without recompute, as a share of the matrix peak."""
    # Training takes three times the flop of the forward pass alone: the backward pass is two products for each one.
    passes = np.where(estimate.strategies["training"], 1.0, 1.0 / 3.0)
    needed = estimate.workload.model_flops_per_token * passes * token_rate(estimate)
    return np.asarray(needed / (estimate.strategies["processors"] * _matrix_peak(estimate)))


def _matrix_peak(estimate: Estimate) -> NDArray[Any]:
    """Peak flop/s of one processor at each strategy's datatype; NaN where the system has no engine for it."""
    engines = estimate.system.matrix
    peaks = np.array([engines[word.value].peak if word.value in engines else np.nan for word in Datatype])
    return np.asarray(peaks[estimate.strategies["datatype"]])
