"""How long each processor computes, communicates, and does neither."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Intervals(NamedTuple):
    """Times at which something goes on at a processor: its place, and seconds of start and end. Columns."""

    place: Array
    start: Array
    end: Array


class Occupation(NamedTuple):
    """Seconds of each processor.

    Attributes:
        compute: Something computes.
        communication: Something communicates.
        exposed: Something communicates and nothing computes.
    """

    compute: Array
    communication: Array
    exposed: Array


def occupation(compute: Intervals, communication: Intervals, *, places: int) -> Occupation:
    """Seconds in which at least one interval of a kind goes on."""
    both = (compute, communication)
    place = np.concatenate([np.tile(intervals.place, 2) for intervals in both])
    time = np.concatenate([side for intervals in both for side in (intervals.start, intervals.end)])
    change = np.concatenate([np.repeat([1, -1], len(intervals.place)) for intervals in both])
    computes = np.arange(len(place)) < 2 * len(compute.place)
    order = np.lexsort((time, place))
    place, time, change, computes = place[order], time[order], change[order], computes[order]
    # From each change to the next one of the same processor; at its last one nothing goes on any more.
    span = np.diff(time, append=time[-1:])
    computing = np.cumsum(np.where(computes, change, 0)) > 0
    communicating = np.cumsum(np.where(computes, 0, change)) > 0

    def total(active: Array) -> Array:
        return np.bincount(place, np.where(active, span, 0.0), minlength=places)

    return Occupation(total(computing), total(communicating), total(communicating & ~computing))
