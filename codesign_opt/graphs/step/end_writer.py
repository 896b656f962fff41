"""Writes what follows all passes: the rest of the gradient exchange, the optimizer, the gathering of weights."""

from __future__ import annotations

from codesign_opt.graphs.step.instructions import InstructionWriter, Template
from codesign_opt.graphs.step.layout import Layout
from codesign_opt.graphs.step.pass_writer import StepOptions, buckets, write_exchange
from codesign_opt.graphs.step.work import StepWork


def end_template(work: StepWork, layout: Layout, stage: int, options: StepOptions) -> Template:
    """What a stage does after its passes."""
    writer = InstructionWriter(stage)
    if work.training:
        _write_training(writer, work, layout, stage, options)
    writer.add("end", "null", "order")
    return writer.finished()


def has_one_end(layout: Layout, stage: int) -> bool:
    """Whether a stage has the first or the last chunk of the stack, but not both."""
    first, last = ({place[end][0] for place in layout.route.ways} for end in (0, -1))
    return (stage in first) != (stage in last)


def _write_training(
    writer: InstructionWriter, work: StepWork, layout: Layout, stage: int, options: StepOptions
) -> None:
    blocks = layout.blocks(stage)
    parts = buckets(blocks, options.bucket_bytes)
    in_passes = work.gathered is not None and work.gathered.scatter_each and work.gathered.ahead
    if in_passes or (work.exchanged and work.overlapped):
        writer.joins_exchanges = writer.add("gradients_exchanged", "null", "order")
    elif work.exchanged and not work.reduced_each:
        for bucket in parts:
            write_exchange(writer, work.exchanges(bucket))
    if work.tied is not None and has_one_end(layout, stage):
        write_exchange(writer, [work.transfer(work.tied.group, work.tied.opcode, work.tied.size)], "tied_gradients")
    seconds = sum(block.optimizer for block in blocks)
    if seconds:
        writer.add("optimizer", "delay", "optimizer", seconds=seconds)
    if work.gathered is None:
        for bucket in parts:
            write_exchange(writer, work.gathers(bucket), "weights")
