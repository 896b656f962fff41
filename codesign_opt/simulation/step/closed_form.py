"""The step time in closed form, from the work of a step: what the schedule takes when nothing else interferes."""

from __future__ import annotations

import math

from codesign_opt.errors import InputError
from codesign_opt.graphs.step import StepWork
from codesign_opt.graphs.step.work import BlockWork


def closed_form_seconds(work: StepWork) -> float:
    """Seconds of a step whose passes all take the time of the first stage's and pay for a message each.

    m · vpp chunk passes, a bubble of pp − 1 + (vpp − 1) · short of them, where `short` microbatches are missing in the
    last round of pp (spec analytical-model section 8.4), and what follows the passes. GPipe's schedule takes just that;
    interleaved 1F1B as well, where rounds are complete.

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
    return math.fsum([passes * chunk, _end_seconds(work, blocks)])


def _pass_seconds(base: BlockWork, edge: BlockWork, blocks: int) -> float:
    return (blocks - 1) * _block_seconds(base) + _block_seconds(edge)


def _block_seconds(block: BlockWork) -> float:
    return max(sum(piece.seconds for piece in block.pieces), block.offload)


def _end_seconds(work: StepWork, blocks: int) -> float:
    if not work.training:
        return 0.0
    exchange = work.exchange(work.gradient_bytes).seconds if work.gradient_bytes else 0.0
    gather = 0.0 if work.gather is None else work.gather(work.gradient_bytes).seconds
    return blocks * (exchange + gather + work.optimizer)
