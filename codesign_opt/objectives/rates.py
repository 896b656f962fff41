"""Throughput, and how much of the machine's arithmetic it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies import Datatype, ProductPrecision
from codesign_opt.strategies.table import OPTION_CODES
from codesign_opt.workloads.flops import FlopsConvention, flops_per_token

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
    return _utilization(estimate, estimate.workload.model_flops_per_token)


def causal_flops_utilization(estimate: Estimate) -> NDArray[Any]:
    """The same where a token's attention counts for those before it alone: half of full attention."""
    return _utilization(estimate, flops_per_token(estimate.workload, FlopsConvention.CAUSAL_ATTENTION))


def _utilization(estimate: Estimate, training_flops_per_token: float) -> NDArray[Any]:
    # Training takes three times the flop of the forward pass alone: the backward pass is two products for each one.
    passes = np.where(estimate.strategies["training"], 1.0, 1.0 / 3.0)
    needed = training_flops_per_token * passes * token_rate(estimate)
    return np.asarray(needed / (estimate.strategies["processors"] * _matrix_peak(estimate)))


def _matrix_peak(estimate: Estimate) -> NDArray[Any]:
    """Peak flop/s of one processor at each strategy's products; NaN where the system has no engine for them."""
    engines = estimate.system.matrix
    peaks = np.array([engines[word.value].peak if word.value in engines else np.nan for word in Datatype])
    eight_bit = estimate.strategies["product_precision"] == OPTION_CODES[ProductPrecision.FLOAT8]
    of_weights = peaks[estimate.strategies["datatype"]]
    return np.asarray(np.where(eight_bit, peaks[OPTION_CODES[Datatype.FLOAT8]], of_weights))
