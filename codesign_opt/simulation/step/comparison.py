"""A simulated step beside its estimate: metrics, and where the two differ."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from codesign_opt.analytical import Estimate, StepTimes
from codesign_opt.graphs.step import StepGraph
from codesign_opt.graphs.step.instructions import Aside
from codesign_opt.graphs.step.pieces import PARTS
from codesign_opt.simulation.step.run import StepSimulation, simulate_step
from codesign_opt.tables import Table

_ROUNDING = 1e-12
"""Of the step time: smaller differences are none."""

_EQUAL = 1e-9
"""Share by which the work of equal stages may differ."""


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """A step simulated, beside its estimate.

    Attributes:
        result: Times of stages and ports, and of the whole.
        stage: The busiest one, which is what the estimate describes.
        estimated: The estimate, for metrics.
        simulated: The same with the simulated times; None from engines that know only when stages end.
        parts: A row a part of the step time of that stage: estimate, simulated, difference; the total last; None where
            `simulated` is.
        contention: Seconds of the step that sharing ports costs.
    """

    result: StepSimulation
    stage: int
    estimated: Estimate
    simulated: Estimate | None
    parts: Table | None
    contention: float


def simulate_beside(
    estimated: Estimate, step: StepGraph, *, engine: str = "events", contention: bool = True, record: bool = False
) -> SimulatedStep:
    """Run a step beside its estimate, once more without contention if it has any; arguments as of `simulate_step`."""
    result = simulate_step(step, engine=engine, contention=contention, record=record)
    stage = busiest_stage(step)
    if engine != "events":
        return SimulatedStep(result, stage, estimated, None, None, 0.0)
    alone = simulate_step(step, contention=False) if result.contention else result
    simulated = simulated_estimate(estimated, result)
    contended = result.seconds - alone.seconds
    return SimulatedStep(result, stage, estimated, simulated, compare(estimated, simulated), contended)


def busiest_stage(step: StepGraph) -> int:
    """The stage whose passes and optimizer take longest when alone, without messages; of equal ones the first."""
    elsewhere = [PARTS.index(name) for name in ("pp_communication", "dp_communication")]
    seconds = [
        float(stage.alone[(stage.aside == Aside.NOTHING) & ~np.isin(stage.part, elsewhere)].sum())
        for stage in step.stages
    ]
    most = max(seconds)
    return next(number for number, each in enumerate(seconds) if each >= most * (1 - _EQUAL))


def simulated_estimate(estimated: Estimate, result: StepSimulation) -> Estimate:
    """The estimate of one strategy with the simulated times of its busiest stage, for all metrics that times enter."""
    stage = result.stages.row(busiest_stage(result.step))
    times = {field.name: np.array([stage[field.name]]) for field in fields(StepTimes) if field.name != "total"}
    return replace(
        estimated, model=replace(estimated.model, times=StepTimes(**times, total=np.array([result.seconds])))
    )


def compare(estimated: Estimate, simulated: Estimate) -> Table:
    """A row for each part of a stage's step time, the largest difference first, and the total at the end.

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
