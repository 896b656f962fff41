"""Passes that the host holds up: kernels run no faster than they are started.

The host starts the operations of a pass one after another, ahead of the processor that runs them. As long as the
processor is the slower one, nothing is lost; otherwise the pass takes as long as starting all of its operations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.operation_times import ExchangeTimes, OperationColumns, over_operations

Array = NDArray[Any]


def held_up(times: ExchangeTimes, operations: OperationColumns, launch: Array) -> ExchangeTimes:
    """Times of a kind of block where a pass takes at least `launch` seconds for each of its operations.

    What a pass lacks is spread evenly over its operations: the forward pass's over their forward processing, that of
    recompute and backward pass over the processing of activation gradients.
    """
    if not np.any(launch):
        return times
    forward = _runs(times.Tf, times.lf)
    lack = np.maximum(launch * _count(forward) - over_operations(times.Tf + times.Ef), 0.0)
    Tf = times.Tf + forward * (lack / np.maximum(_count(forward), 1.0))

    again = operations["recomputed"] & forward | (times.lr > 0)
    gradients = _runs(times.Ta, times.la)
    started = _count(again) + _count(gradients) + _count(times.Tw > 0)
    seconds = over_operations(np.where(operations["recomputed"], Tf, 0.0) + times.Er + times.Ta + times.Ea + times.Tw)
    lack = np.maximum(launch * started - seconds, 0.0)
    return replace(times, Tf=Tf, Ta=times.Ta + gradients * (lack / np.maximum(_count(gradients), 1.0)))


def _runs(processing: Array, link: Array) -> Array:
    """Which operations there is anything to start of."""
    return np.asarray((processing > 0) | (link > 0))


def _count(started: Array) -> Array:
    return np.asarray(started.sum(axis=0).astype(np.float64))
