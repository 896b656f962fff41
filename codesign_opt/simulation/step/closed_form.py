"""The step time in closed form, from the work of a step: what the schedule takes when nothing else interferes.

docs/simulation.md derives the formulas. They take messages as serial ones: every pass pays for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from codesign_opt.errors import InputError
from codesign_opt.graphs.step import StepGraph, StepWork, Transfer
from codesign_opt.graphs.step.end_writer import has_one_end
from codesign_opt.graphs.step.layout import Chunk
from codesign_opt.graphs.step.orders import SPLIT
from codesign_opt.graphs.step.pass_writer import buckets
from codesign_opt.graphs.step.passes import PassKind
from codesign_opt.graphs.step.slots import Pass, pass_work
from codesign_opt.graphs.step.work import BlockWork


def closed_form_ends(step: StepGraph) -> list[float]:
    """Seconds at which each stage ends; with a schedule of equal stages, at which the last of them does.

    Raises:
        InputError: Where there is no closed form: for gradients that are exchanged beside the passes, or with stages
            that differ after each of them; for stages that differ, unless all forward passes come first and a stage
            has one chunk; for weight gradients that are longer than what they would fill.
    """
    work = step.work
    exchanged = work.exchanged and work.training
    if exchanged and work.overlapped:
        raise _refused("overlapped gradient exchange", "use the engine 'events'")
    chunks = [[_ChunkTimes.of(work, chunk) for chunk in chunks] for chunks in step.layout.chunks]
    after = [_after_passes(step, stage) for stage in range(work.stages)]
    if step.schedule == "gpipe" and work.chunks == 1:
        each = [_exchange_seconds(step, stage) * (exchanged and work.reduced_each) for stage in range(work.stages)]
        passes = _one_way_and_back([chunk for (chunk,) in chunks], each, work)
        return [end + rest for end, rest in zip(passes, after, strict=True)]
    if len({chunk for stage in chunks for chunk in stage}) > 1:
        raise _refused(
            f"schedule '{step.schedule}' and stages or chunks that differ: {work.stage_blocks} blocks",
            "equal stages, or one chunk a stage and schedule 'gpipe'; else use the engine 'events'",
        )
    if exchanged and work.reduced_each:
        raise _refused(
            f"schedule '{step.schedule}' and gradients that are exchanged in every microbatch",
            "use the engine 'events'",
        )
    return [_equal_chunks(step, chunks[0][0]) + max(after)] * work.stages


def _refused(what: str, hint: str) -> InputError:
    return InputError(f"the closed form is not for {what}", hint)


@dataclass(frozen=True, slots=True)
class _ChunkTimes:
    """Seconds of a chunk's passes with their messages.

    Attributes:
        forward, backward: Of a microbatch.
        last: What the last backward pass takes more.
        weight: Weight gradients, if a backward pass is split; the message goes with the other half.
    """

    forward: float
    backward: float
    last: float
    weight: float

    @classmethod
    def of(cls, work: StepWork, chunk: Chunk) -> _ChunkTimes:
        """The times of a chunk."""
        message = 0.0 if work.message is None else work.message.seconds

        def seconds(kind: PassKind, *, last: bool = False) -> float:
            return pass_work(work, chunk, Pass(kind, 0, last=last)).seconds

        forward = seconds(PassKind.FORWARD) + message
        if not work.training:
            return cls(forward, 0.0, 0.0, 0.0)
        backward = seconds(PassKind.BACKWARD)
        weight = seconds(PassKind.WEIGHT_GRADIENT)
        last = seconds(PassKind.BACKWARD, last=True) - backward
        return cls(forward, backward + message, last, weight)


def _one_way_and_back(chunks: Sequence[_ChunkTimes], each: Sequence[float], work: StepWork) -> list[float]:
    """When the passes of each stage are over, all microbatches first going one way, then all the other.

    Every stage begins a pass when it has done the one before and the stage before it the same. So the last microbatch
    leaves a stage after one pass of each stage up to it, and all but one of the slowest of these. What follows backward
    passes (`each`) holds up the stage alone.
    """
    more = work.microbatches - 1
    forward = [chunk.forward for chunk in chunks]
    there = [sum(forward[: stage + 1]) + more * max(forward[: stage + 1]) for stage in range(len(chunks))]
    if not work.training:
        return there
    ends = []
    for stage in range(len(chunks)):
        passed = chunks[stage:]
        longer = list(accumulate(chunk.last for chunk in passed))
        slowest = max(
            more * (chunk.backward + after) + last
            for chunk, after, last in zip(passed, each[stage:], longer, strict=True)
        )
        ends.append(there[-1] + sum(chunk.backward for chunk in passed) + slowest + each[stage])
    return ends


def _equal_chunks(step: StepGraph, chunk: _ChunkTimes) -> float:
    """When the passes of the last stage to end are over, all chunks being equal."""
    work, stages = step.work, step.work.stages
    if step.schedule not in SPLIT:
        short = -work.microbatches % stages
        passes = work.microbatches * work.chunks + stages - 1 + (work.chunks - 1) * short
        return passes * (chunk.forward + chunk.backward) + stages * work.chunks * chunk.last
    if chunk.last:
        raise _refused(f"schedule '{step.schedule}' and offloaded optimizer state", "use the engine 'events'")
    first_half = chunk.backward - chunk.weight
    waiting = _WAITING[step.schedule](chunk.forward, first_half, chunk.weight, stages, work.microbatches)
    chunks = 2 if step.schedule == "zb_v" else 1
    return work.microbatches * chunks * (chunk.forward + chunk.backward) + waiting


def _waiting_1p(forward: float, backward: float, weight: float, stages: int, microbatches: int) -> float:
    """Weight gradients fill what 1F1B waits, one for each stage after the first, as far as they and the gaps go."""
    filled = (min(microbatches, stages) - 1) * min(forward, backward, weight)
    return (stages - 1) * (forward + backward) - filled


def _waiting_v(forward: float, backward: float, weight: float, stages: int, microbatches: int) -> float:
    if weight > min(forward, backward) or microbatches < 2 * stages - 1:
        raise _refused(
            "schedule 'zb_v' with weight gradients that are longer than other passes of a chunk, or fewer than "
            "2 · pp - 1 microbatches",
            "use the engine 'events'",
        )
    if stages == 1:
        return 0.0
    if forward <= backward:
        return (stages - 1) * max(2 * (backward - weight), backward)
    longer = forward - backward
    return (stages - 1) * max(2 * (forward - weight), forward + longer) - min(weight, longer)


def _waiting_both_ends(forward: float, backward: float, weight: float, stages: int, microbatches: int) -> float:
    if not weight <= backward <= forward * _ROUNDING:
        raise _refused(
            "schedule 'dualpipe' but where forward passes are longest and weight gradients shortest",
            "use the engine 'events'",
        )
    return (stages // 2 - 1) * (2 * forward + backward - weight)


_WAITING: Final[Mapping[str, Callable[[float, float, float, int, int], float]]] = {
    "zb_1p": _waiting_1p,
    "zb_v": _waiting_v,
    "dualpipe": _waiting_both_ends,
}
"""Seconds that a stage waits in all, by the seconds of a chunk's passes, stages and microbatches."""

_ROUNDING: Final = 1 + 1e-12


def _after_passes(step: StepGraph, stage: int) -> float:
    """What follows the passes of a stage."""
    work = step.work
    if not work.training:
        return 0.0
    blocks = step.layout.blocks(stage)
    seconds = sum(block.optimizer for block in blocks)
    if work.exchanged and not work.reduced_each:
        seconds += _exchange_seconds(step, stage)
    if work.tied is not None and has_one_end(step.layout, stage):
        seconds += work.transfer(work.tied.group, work.tied.opcode, work.tied.size).seconds
    if work.gathered is None:
        seconds += _together(step, blocks, work.gathers)
    return seconds


def _exchange_seconds(step: StepGraph, stage: int) -> float:
    """The exchange of all gradients of a stage."""
    return _together(step, step.layout.blocks(stage), step.work.exchanges)


def _together(
    step: StepGraph, blocks: list[BlockWork], transfers: Callable[[list[BlockWork]], list[Transfer]]
) -> float:
    parts = buckets(blocks, step.options.bucket_bytes)
    return sum(transfer.seconds for bucket in parts for transfer in transfers(bucket))
