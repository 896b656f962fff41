"""A training or inference step as graphs, one for each pipeline stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from codesign_opt.errors import InputError, nearest
from codesign_opt.graphs.step.orders import Schedule, automatic_schedule, check_schedule, pass_order
from codesign_opt.graphs.step.pass_writer import GRANULARITIES, Granularity, StepOptions
from codesign_opt.graphs.step.stage_graph import StageGraph, stage_graph
from codesign_opt.graphs.step.work import StepWork

AFFORDABLE: Final = 400_000
"""Executed instructions up to which a finer granularity is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepGraph:
    """A step: processors with equal programs are one role, so there is one graph a pipeline stage.

    Attributes:
        work: What it is made of.
        schedule: Order of the passes.
        options: How it was made.
        stages: The program of each stage.
    """

    work: StepWork
    schedule: Schedule
    options: StepOptions
    stages: tuple[StageGraph, ...]

    @property
    def processors(self) -> int:
        """Processors that run it."""
        return self.work.replicas * len(self.stages)


def step_graph(
    work: StepWork, *, schedule: str = "auto", granularity: str = "auto", options: StepOptions | None = None
) -> StepGraph:
    """The graphs of a step.

    Args:
        work: From `work.step_work`.
        schedule: One of `orders.SCHEDULES`, or `auto`.
        granularity: One of `GRANULARITIES`, or `auto`: the finest that leaves the step affordable.
        options: Messages and buckets; its granularity does not count.

    Raises:
        InputError: For a schedule that cannot run the microbatches, and unknown words.
    """
    sizes = {"stages": work.stages, "chunks": work.chunks, "microbatches": work.microbatches}
    chosen = automatic_schedule(**sizes) if schedule == "auto" else check_schedule(schedule, **sizes)
    chosen_options = replace(options or StepOptions(), granularity=_granularity(work, granularity))
    orders = [pass_order(chosen, stage=stage, training=work.training, **sizes) for stage in range(work.stages)]
    return StepGraph(
        work=work,
        schedule=chosen,
        options=chosen_options,
        stages=tuple(stage_graph(work, stage, order, chosen_options) for stage, order in enumerate(orders)),
    )


def _granularity(work: StepWork, granularity: str) -> Granularity:
    if granularity != "auto":
        for word in GRANULARITIES:
            if word == granularity:
                return word
        raise InputError(f"granularity '{granularity}' is not known", nearest(granularity, (*GRANULARITIES, "auto")))
    passes = work.stages * work.chunks * work.microbatches
    pieces = len(work.forward_base.pieces) + len(work.backward_base.pieces) * work.training
    blocks = sum(work.stage_blocks) * work.microbatches
    if blocks * (pieces + 4) + 4 * passes <= AFFORDABLE:
        return "operation"
    return "block" if blocks * 10 + 8 * passes <= AFFORDABLE else "chunk"
