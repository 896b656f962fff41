"""A simulated step beside its estimate: metrics, and where the two differ."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from codesign_opt.analytical import Estimate, StepTimes
from codesign_opt.simulation.step.run import StepSimulation
from codesign_opt.tables import Table

_ROUNDING = 1e-12
"""Of the step time: smaller differences are none."""


def simulated_estimate(estimated: Estimate, result: StepSimulation) -> Estimate:
    """The estimate of one strategy with the simulated times of its first stage, for all metrics that times enter."""
    first = result.stages.row(0)
    times = {field.name: np.array([first[field.name]]) for field in fields(StepTimes) if field.name != "total"}
    return replace(
        estimated, model=replace(estimated.model, times=StepTimes(**times, total=np.array([result.seconds])))
    )


def compare(estimated: Estimate, simulated: Estimate) -> Table:
    """A row for each part of the step time of the first stage, the largest difference first, and the total at the end.

    Columns: part, estimate, simulated and difference (seconds), and the difference as a share of the estimated step.
    """
    names = [field.name for field in fields(StepTimes) if field.name != "total"]
    before, after = (
        np.array([float(np.asarray(getattr(of.times, name)).reshape(-1)[0]) for name in [*names, "total"]])
        for of in (estimated, simulated)
    )
    difference = np.where(np.abs(after - before) > _ROUNDING * before[-1], after - before, 0.0)
    order = np.append(np.argsort(-np.abs(difference)[:-1], kind="stable"), len(names))
    return Table(
        {
            "part": [[*names, "total"][index] for index in order],
            "estimate": before[order],
            "simulated": after[order],
            "difference": difference[order],
            "share": (difference / before[-1])[order],
        },
        dict.fromkeys(("estimate", "simulated", "difference"), "s"),
    )
