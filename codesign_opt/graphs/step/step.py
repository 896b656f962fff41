"""A training or inference step as graphs, one for each pipeline stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from codesign_opt.errors import InputError, nearest
from codesign_opt.graphs.step.layout import Layout, layout
from codesign_opt.graphs.step.orders import Schedule, automatic_schedule, check_schedule, chunks_of, pass_order
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
        layout: The chunks of each stage.
        options: How it was made.
        stages: The program of each stage.
    """

    work: StepWork
    schedule: Schedule
    layout: Layout
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
        work: From `from_model.step_work`.
        schedule: One of `orders.SCHEDULES`, or `auto`: that of the strategy; of 1F1B the form that suits its chunks.
        granularity: One of `GRANULARITIES`, or `auto`: the finest that leaves the step affordable.
        options: Messages and buckets; its granularity does not count.

    Raises:
        InputError: For a schedule that cannot run the stages and microbatches, and unknown words.
    """
    sizes = {"stages": work.stages, "chunks": work.chunks, "microbatches": work.microbatches}
    if schedule == "auto" and work.schedule == "1f1b":
        chosen = automatic_schedule(**sizes)
    else:
        chosen = check_schedule(work.schedule if schedule == "auto" else schedule, **sizes, training=work.training)
    laid_out = layout(work, chosen)
    chosen_options = replace(options or StepOptions(), granularity=_granularity(work, laid_out, chosen, granularity))
    orders = [pass_order(chosen, stage=stage, training=work.training, **sizes) for stage in range(work.stages)]
    return StepGraph(
        work=work,
        schedule=chosen,
        layout=laid_out,
        options=chosen_options,
        stages=tuple(stage_graph(work, laid_out, stage, order, chosen_options) for stage, order in enumerate(orders)),
    )


def _granularity(work: StepWork, layout: Layout, schedule: Schedule, granularity: str) -> Granularity:
    if granularity != "auto":
        for word in GRANULARITIES:
            if word == granularity:
                return word
        raise InputError(f"granularity '{granularity}' is not known", nearest(granularity, (*GRANULARITIES, "auto")))
    passes = work.stages * chunks_of(schedule, work.chunks) * work.microbatches
    blocks = [block for stage in range(work.stages) for block in layout.blocks(stage)]
    # Each microbatch takes one of the ways, and so meets its share of all blocks.
    rounds = work.microbatches / len(layout.route.ways)
    pieces = sum(len(block.base.forward) + len(block.base.backward) * work.training + 4 for block in blocks)
    if rounds * pieces + 4 * passes <= AFFORDABLE:
        return "operation"
    return "block" if rounds * len(blocks) * 10 + 8 * passes <= AFFORDABLE else "chunk"
