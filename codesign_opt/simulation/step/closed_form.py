"""The step time in closed form, from the work of a step: what the schedule takes when nothing else interferes."""

from __future__ import annotations

import math

from codesign_opt.errors import InputError
from codesign_opt.graphs.step import StepWork
from codesign_opt.graphs.step.pass_writer import bucket_blocks
from codesign_opt.graphs.step.work import BlockWork


def closed_form_seconds(work: StepWork, *, bucket_bytes: float | None = None) -> float:
    """Seconds of a step whose passes all take the time of the first stage's and pay for a message each.

    m · vpp chunk passes, a bubble of pp − 1 + (vpp − 1) · short of them, where `short` microbatches are missing in the
    last round of pp (spec analytical-model section 8.4), and what follows the passes. GPipe's schedule takes just that;
    interleaved 1F1B as well, where rounds are complete. Last backward passes, one after the other from stage to stage
    and chunk to chunk, take longer where they stream optimizer state.

    Args:
        work: The step.
        bucket_bytes: Of gradients that are exchanged together; None for those of a block.

    Raises:
        InputError: For stages of different numbers of blocks, and where gradients are exchanged beside the passes:
            that takes what else goes on then, which a closed form does not know.
    """
    if len(set(work.stage_blocks)) > 1:
        raise InputError(
            f"the closed form is for equal stages, not for {work.stage_blocks} blocks", "use the engine 'events'"
        )
    if work.overlapped and work.gradient_bytes:
        raise InputError("the closed form is not for overlapped gradient exchange", "use the engine 'events'")
    blocks = work.stage_blocks[0]
    chunk_blocks = blocks // work.chunks
    message = 0.0 if work.message is None else work.message.seconds
    chunk = _pass_seconds(work.forward_base, work.forward_edge, chunk_blocks) + message
    if work.training:
        chunk += _pass_seconds(work.backward_base, work.backward_edge, chunk_blocks) + message
    short = -work.microbatches % work.stages
    passes = work.microbatches * work.chunks + work.stages - 1 + (work.chunks - 1) * short
    last = work.stages * work.chunks * _streaming_seconds(work, chunk_blocks) if work.training else 0.0
    return math.fsum([passes * chunk, last, _end_seconds(work, blocks, bucket_bytes)])


def _pass_seconds(base: BlockWork, edge: BlockWork, blocks: int) -> float:
    return (blocks - 1) * _block_seconds(base, base.offload) + _block_seconds(edge, edge.offload)


def _streaming_seconds(work: StepWork, blocks: int) -> float:
    """By how much the last backward pass of a chunk is longer than the others."""
    base, edge = (
        _block_seconds(block, block.last_offload) - _block_seconds(block, block.offload)
        for block in (work.backward_base, work.backward_edge)
    )
    return (blocks - 1) * base + edge


def _block_seconds(block: BlockWork, offload: float) -> float:
    return max(sum(piece.seconds for piece in block.pieces), offload)


def _end_seconds(work: StepWork, blocks: int, bucket_bytes: float | None) -> float:
    if not work.training:
        return 0.0
    buckets = bucket_blocks(work, blocks, bucket_bytes) if work.gradient_bytes else []
    exchanges = sum(work.exchange(count * work.gradient_bytes).seconds for count in buckets)
    gathers = 0.0 if work.gather is None else sum(work.gather(count * work.gradient_bytes).seconds for count in buckets)
    return exchanges + gathers + blocks * work.optimizer
