"""Steps made by hand: blocks, messages and exchanges of whole seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from codesign_opt.graphs.step import StepWork, Transfer
from codesign_opt.graphs.step.pieces import Passes, Piece
from codesign_opt.graphs.step.work import BlockWork, Exchange, GatheredWeights, Offload

TP_TIER, PP_TIER, DP_TIER = 0, 1, 2
MESSAGE_BYTES = 10.0
GRADIENT_BYTES = 100.0


def passes(forward: tuple[Piece, ...], backward: tuple[Piece, ...], weight_gradient: tuple[Piece, ...] = ()) -> Passes:
    """A block that does this; its whole backward pass is both halves one after the other."""
    return Passes(
        forward=forward,
        backward=(*backward, *weight_gradient),
        activation_gradient=backward,
        weight_gradient=weight_gradient,
    )


def plain_passes(forward: float, backward: float, weight_gradient: float = 0.0) -> Passes:
    """A block that computes for so many seconds; its backward pass without weight gradients."""
    weight = (Piece(name="w", part="backward", compute=weight_gradient),) if weight_gradient else ()
    return passes(
        (Piece(name="f", part="forward", compute=forward),),
        (Piece(name="b", part="backward", compute=backward),),
        weight,
    )


def handmade_work(
    stage_blocks: tuple[int, ...] = (1,),
    *,
    chunks: int = 1,
    microbatches: int = 1,
    training: bool = True,
    forward: float = 1.0,
    backward: float = 2.0,
    weight_gradient: float = 0.0,
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
    gathered: GatheredWeights | None = None,
    tiers: tuple[int, int, int] = (TP_TIER, PP_TIER, DP_TIER),
    **further: Any,
) -> StepWork:
    """A step of equal blocks.

    Args:
        stage_blocks: Blocks of each stage.
        chunks, microbatches: Of a stage, and of the step.
        training: Whether there are backward passes.
        forward, backward, weight_gradient: Seconds of a block; `backward` without weight gradients.
        pieces: What a block does instead in a forward and a backward pass.
        offload: Seconds of the streams beside a forward, a backward and the last backward pass of a block.
        message, message_latency: Seconds on the wire and after it; a single stage has none.
        gradients, gradient_latency: The same of one block's gradients.
        gather: Seconds on the wire of one block's weights; None for no sharding.
        optimizer: Seconds of one block's optimizer step.
        overlapped, processor_usage, gathered: As in `StepWork`.
        tiers: Of tensor-parallel, pipeline and data-parallel transfers.
        further: Other fields of `StepWork`.
    """
    tp_tier, pp_tier, dp_tier = tiers

    def transfer(group: str, opcode: str, size: float) -> Transfer:
        if group in ("shards", "expert_shards", "copies", "expert_copies"):
            seconds = (gather or 0.0) if opcode == "all-gather" else gradients
            return Transfer(dp_tier, opcode, size, seconds * size / GRADIENT_BYTES, gradient_latency)
        return Transfer(pp_tier if group == "ends" else tp_tier, opcode, size, size, 0.0)

    reduces = "all-reduce" if gather is None else "reduce-scatter"
    work = passes(*pieces) if pieces else plain_passes(forward, backward, weight_gradient)
    block = BlockWork(
        base=work,
        edge=work,
        offload=Offload(*offload),
        optimizer=optimizer,
        gradients=(Exchange("shards", reduces, GRADIENT_BYTES),) if gradients else (),
        weights=() if gather is None else (Exchange("shards", "all-gather", GRADIENT_BYTES),),
    )
    made = StepWork(
        kinds=(block,),
        stack=(0,) * sum(stage_blocks),
        stage_blocks=stage_blocks,
        chunks=chunks,
        microbatches=microbatches,
        replicas=4,
        training=training,
        message=None if len(stage_blocks) == 1 else Transfer(pp_tier, "send", MESSAGE_BYTES, message, message_latency),
        transfer=transfer,
        gathered=gathered,
        overlapped=overlapped,
        processor_usage=processor_usage,
    )
    return replace(made, **further)
