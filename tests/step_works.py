"""Steps made by hand: blocks, messages and exchanges of whole seconds."""

from __future__ import annotations

from codesign_opt.graphs.step import StepWork, Transfer
from codesign_opt.graphs.step.pieces import Piece
from codesign_opt.graphs.step.work import BlockWork

TP_TIER, PP_TIER, DP_TIER = 0, 1, 2
MESSAGE_BYTES = 10.0
GRADIENT_BYTES = 100.0


def handmade_work(
    stage_blocks: tuple[int, ...] = (1,),
    *,
    chunks: int = 1,
    microbatches: int = 1,
    training: bool = True,
    forward: float = 1.0,
    backward: float = 2.0,
    pieces: tuple[tuple[Piece, ...], tuple[Piece, ...]] | None = None,
    offload: tuple[float, float, float] = (0.0, 0.0, 0.0),
    message: float = 0.0,
    message_latency: float = 0.0,
    gradients: float = 0.0,
    gradient_latency: float = 0.0,
    gather: float | None = None,
    optimizer: float = 0.0,
    overlapped: bool = False,
    processor_usage: float = 0.0,
    tiers: tuple[int, int, int] = (TP_TIER, PP_TIER, DP_TIER),
) -> StepWork:
    """A step of equal blocks.

    Args:
        stage_blocks: Blocks of each stage.
        chunks, microbatches: Of a stage, and of the step.
        training: Whether there are backward passes.
        forward, backward: Seconds of a block.
        pieces: What a block does instead in a forward and a backward pass.
        offload: Seconds of the streams beside a forward, a backward and the last backward pass of a block.
        message, message_latency: Seconds on the wire and after it; a single stage has none.
        gradients, gradient_latency: The same of one block's gradients.
        gather: Seconds on the wire of one block's updated weights; None for no sharding.
        optimizer: Seconds of one block's optimizer step.
        overlapped, processor_usage: As in `StepWork`.
        tiers: Of tensor-parallel, pipeline and data-parallel transfers.
    """
    forward_pieces, backward_pieces = pieces or (
        (Piece(name="f", part="forward", compute=forward),),
        (Piece(name="b", part="backward", compute=backward),),
    )
    tp_tier, pp_tier, dp_tier = tiers

    def transfer(tier: int, opcode: str, size: float, seconds: float, latency: float) -> Transfer:
        return Transfer(tier, opcode, size, seconds * size / GRADIENT_BYTES, latency)

    def weights(size: float) -> Transfer:
        return transfer(dp_tier, "all-gather", size, gather or 0.0, gradient_latency)

    return StepWork(
        stage_blocks=stage_blocks,
        chunks=chunks,
        microbatches=microbatches,
        replicas=4,
        training=training,
        forward_base=BlockWork(forward_pieces, offload[0], offload[0]),
        forward_edge=BlockWork(forward_pieces, offload[0], offload[0]),
        backward_base=BlockWork(backward_pieces, offload[1], offload[2]),
        backward_edge=BlockWork(backward_pieces, offload[1], offload[2]),
        message=None if len(stage_blocks) == 1 else Transfer(pp_tier, "send", MESSAGE_BYTES, message, message_latency),
        collective=lambda opcode, size: Transfer(tp_tier, opcode, size, size, 0.0),
        optimizer=optimizer,
        gradient_bytes=GRADIENT_BYTES if gradients else 0.0,
        exchange=lambda size: transfer(
            dp_tier, "all-reduce" if gather is None else "reduce-scatter", size, gradients, gradient_latency
        ),
        gather=None if gather is None else weights,
        overlapped=overlapped,
        processor_usage=processor_usage,
    )
