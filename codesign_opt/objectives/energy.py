"""Energy: what the processors draw while they compute and while they wait. Everything here needs `system.power`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from codesign_opt.analytical import Estimate


def energy_per_step(estimate: Estimate) -> NDArray[Any]:
    """Joules that all processors take for one step: busy power while they compute, idle power for the rest."""
    power, times = estimate.system.power, estimate.times
    assert power is not None
    busy = times.forward + times.backward + times.recompute + times.optimizer
    joules = power.busy * busy + power.idle * (times.total - busy)
    return np.asarray(estimate.strategies["processors"] * joules)


def energy_per_token(estimate: Estimate) -> NDArray[Any]:
    """Joules per token."""
    tokens = estimate.strategies["batch"] * estimate.workload.sequence_length
    return np.asarray(energy_per_step(estimate) / tokens)


def power_average(estimate: Estimate) -> NDArray[Any]:
    """Watts of all processors, mean over a step."""
    return np.asarray(energy_per_step(estimate) / estimate.times.total)
