"""In which order a pipeline stage works through its microbatches and chunks."""

from __future__ import annotations

from typing import Final, Literal, cast

import numpy as np

from codesign_opt.errors import InputError, nearest
from codesign_opt.graphs.step.dualpipe import dualpipe_order
from codesign_opt.graphs.step.passes import Array, PassKind, PassOrder
from codesign_opt.graphs.step.zero_bubble import v_order, zero_bubble_order

Schedule = Literal["gpipe", "1f1b", "interleaved", "zb_1p", "zb_v", "dualpipe"]

SCHEDULES: Final = ("gpipe", "1f1b", "interleaved", "zb_1p", "zb_v", "dualpipe")

TWO_CHUNKS: Final = ("zb_v", "dualpipe")
"""Schedules that give every stage two chunks of their own."""

SPLIT: Final = ("zb_1p", "zb_v", "dualpipe")
"""Schedules that split backward passes."""


def automatic_schedule(*, stages: int, chunks: int, microbatches: int) -> Schedule:
    """1F1B where a stage has one chunk, interleaved 1F1B where it has several and the microbatches come in full rounds.

    Interleaved 1F1B is not defined for an incomplete round of `stages` microbatches; all forward passes before all
    backward passes (GPipe) is.
    """
    if chunks == 1:
        return "1f1b"
    return "interleaved" if microbatches % stages == 0 else "gpipe"


def check_schedule(schedule: str, *, stages: int, chunks: int, microbatches: int, training: bool = True) -> Schedule:
    """The schedule of that name.

    Raises:
        InputError: For an unknown one, and one that cannot run so many stages, chunks or microbatches.
    """
    if schedule not in SCHEDULES:
        raise InputError(f"schedule '{schedule}' is not known", nearest(schedule, SCHEDULES))
    if schedule not in ("gpipe", "interleaved") and chunks > 1:
        raise InputError(
            f"schedule '{schedule}' takes one chunk a stage, not vpp = {chunks}", "use 'interleaved' or 'gpipe'"
        )
    if schedule == "interleaved" and chunks > 1 and microbatches % stages:
        raise InputError(
            f"schedule 'interleaved' takes full rounds of pp = {stages} microbatches, not {microbatches}",
            "use 'gpipe', or a batch whose microbatches are a multiple of pp",
        )
    if schedule in SPLIT and not training:
        raise InputError(f"schedule '{schedule}' is for training: it splits backward passes", "use '1f1b' or 'gpipe'")
    if schedule == "dualpipe" and (stages % 2 or microbatches % 2 or microbatches < 2 * stages):
        raise InputError(
            f"schedule 'dualpipe' takes an even pp and an even number of microbatches of at least 2 · pp, not "
            f"pp = {stages} and {microbatches}",
            "use 'zb_v', or a batch with more microbatches",
        )
    return cast(Schedule, schedule)


def chunks_of(schedule: Schedule, chunks: int) -> int:
    """Chunks of a stage, for a strategy with so many."""
    return 2 if schedule in TWO_CHUNKS else chunks


def warm_up(schedule: Schedule, *, stages: int, stage: int, chunks: int, microbatches: int) -> int:
    """Forward passes of a stage before its first backward pass follows one, with `gpipe`, `1f1b` or `interleaved`.

    1F1B: as many as there are later stages. Interleaved: 2 · (stages - stage - 1) + (chunks - 1) · stages, the number
    of Megatron-LM's schedule (arXiv 2104.04473).
    """
    passes = microbatches * chunks
    if schedule == "gpipe":
        return passes
    if chunks == 1:
        return min(passes, stages - stage - 1)
    return min(passes, 2 * (stages - stage - 1) + (chunks - 1) * stages)


def pass_order(
    schedule: Schedule, *, stages: int, stage: int, chunks: int, microbatches: int, training: bool = True
) -> PassOrder:
    """The passes of one stage. Without training there are forward passes only.

    With whole backward passes, forward passes come in rounds of `stages` microbatches, chunk by chunk; the last round
    may be incomplete. Backward passes come in the same order, the last chunk first.
    """
    if schedule == "zb_1p":
        return zero_bubble_order(stage, microbatches, stages=stages)
    if schedule == "zb_v":
        return v_order(stage, microbatches, stages=stages)
    if schedule == "dualpipe":
        return dualpipe_order(stage, microbatches, stages=stages)
    microbatch, chunk = _rounds(stages, chunks, microbatches)
    passes = len(microbatch)
    if not training:
        return PassOrder(np.full(passes, PassKind.FORWARD), microbatch, chunk, np.zeros(passes, dtype=np.bool_))
    first = warm_up(schedule, stages=stages, stage=stage, chunks=chunks, microbatches=microbatches)
    # After the warm-up, forward and backward passes alternate until the forward passes are used up.
    place = np.arange(passes)
    forward_at = np.where(place < first, place, first + 2 * (place - first))
    backward_at = np.where(place < passes - first, first + 2 * place + 1, passes + place)
    order = np.argsort(np.concatenate([forward_at, backward_at]), kind="stable")
    return PassOrder(
        kind=np.repeat([PassKind.FORWARD, PassKind.BACKWARD], passes)[order],
        microbatch=np.concatenate([microbatch, microbatch])[order],
        chunk=np.concatenate([chunk, chunks - 1 - chunk])[order],
        paired=np.zeros(2 * passes, dtype=np.bool_),
    )


def _rounds(stages: int, chunks: int, microbatches: int) -> tuple[Array, Array]:
    microbatch = np.arange(microbatches)
    in_round = np.stack([np.tile(microbatch, chunks), np.repeat(np.arange(chunks), microbatches)])
    order = np.lexsort((in_round[0], in_round[1], in_round[0] // stages))
    return in_round[0][order], in_round[1][order]
