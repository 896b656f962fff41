"""Where the time of a step goes, stage by stage: what each moment counts as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BREAKDOWN: Final = (
    "forward", "backward", "recompute", "optimizer", "tp_communication", "recompute_communication",
    "cp_communication", "ep_communication", "dp_communication", "forward_offload", "backward_offload",
    "pp_communication", "bubble",
)  # fmt: skip
"""What a moment of a stage may count as: the first of these that goes on; a bubble is when nothing does. The names are
those of `analytical.StepTimes`."""


@dataclass(frozen=True, slots=True)
class Activities:
    """What goes on. Columns: at which stage, as what (index into `BREAKDOWN`), and from when to when, in seconds."""

    stage: Array
    part: Array
    start: Array
    end: Array


def breakdown(activities: Activities, *, stages: int, seconds: float) -> dict[str, Array]:
    """For each part of `BREAKDOWN` the seconds of each stage; together they are `seconds`."""
    kinds = len(BREAKDOWN) - 1
    stage = np.tile(activities.stage, 2)
    part = np.tile(activities.part, 2)
    time = np.concatenate([activities.start, activities.end])
    change = np.repeat([1, -1], len(activities.start))
    order = np.lexsort((time, stage))
    stage, part, time, change = stage[order], part[order], time[order], change[order]
    # From each change to the next one of the same stage; after its last one nothing goes on.
    span = np.diff(time, append=time[-1:])
    span[np.diff(stage, append=stage[-1:]) != 0] = 0.0
    open_before = np.ones(len(stage), dtype=np.bool_)
    result: dict[str, Array] = {}
    for number in range(kinds):
        going_on = np.cumsum(np.where(part == number, change, 0)) > 0
        counted = open_before & going_on
        result[BREAKDOWN[number]] = np.bincount(stage, np.where(counted, span, 0.0), minlength=stages)
        open_before &= ~going_on
    result[BREAKDOWN[-1]] = seconds - np.sum(list(result.values()), axis=0)
    return result
