"""What a stage does in a pass, block by block: work, and the weights and gradients that go before, beside and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from codesign_opt.graphs.step.layout import Chunk, Run
from codesign_opt.graphs.step.passes import PassKind
from codesign_opt.graphs.step.pieces import Passes, Piece
from codesign_opt.graphs.step.work import BlockWork, StepWork, Transfer


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass of a stage, whatever its microbatch.

    Attributes:
        kind, chunk: What it does.
        last: Whether no pass of its chunk follows that does any of the same.
        final: Whether no backward pass of the stage follows.
    """

    kind: PassKind
    chunk: int
    last: bool = False
    final: bool = False

    @property
    def backward(self) -> bool:
        """Whether it is a backward pass, or half of one."""
        return self.kind is not PassKind.FORWARD

    @property
    def ends_backward(self) -> bool:
        """Whether gradients of weights are known after it."""
        return self.kind in (PassKind.BACKWARD, PassKind.WEIGHT_GRADIENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Equal blocks in a row, with equal neighbours.

    Attributes:
        block: The block.
        times: How many.
        pieces: What each does.
        offload: Seconds of the streams beside it.
        gathers, scatters: Weights before it, and gradients after it, while nothing else happens.
        beside: Gradients of the block before it, and weights of the one after it.
    """

    block: BlockWork
    times: int
    pieces: tuple[Piece, ...]
    offload: float
    gathers: tuple[Transfer, ...] = ()
    scatters: tuple[Transfer, ...] = ()
    beside: tuple[Transfer, ...] = ()

    @property
    def seconds(self) -> float:
        """Of all of them, alone."""
        around = sum(transfer.seconds for transfer in (*self.gathers, *self.scatters))
        worked = sum(piece.seconds for piece in self.pieces) + around
        return self.times * max(worked, self.offload, sum(transfer.seconds for transfer in self.beside))


@dataclass(frozen=True, slots=True)
class PassWork:
    """A pass.

    Attributes:
        gathers: The weights of its first block, where others are gathered beside the block before.
        slots: Its blocks.
        scatters: The gradients of its last block, likewise.
    """

    gathers: tuple[Transfer, ...]
    slots: tuple[Slot, ...]
    scatters: tuple[Transfer, ...]

    @property
    def seconds(self) -> float:
        """How long it takes when alone."""
        around = sum(transfer.seconds for transfer in (*self.gathers, *self.scatters))
        return around + sum(slot.seconds for slot in self.slots)


def pass_work(work: StepWork, chunk: Chunk, one: Pass) -> PassWork:
    """What a chunk's blocks do in a pass, in the order of the pass."""
    weights = _Weights(work, one)
    runs = chunk[::-1] if one.backward else chunk
    if not runs:
        return PassWork((), (), ())
    if work.gathered is None or not work.gathered.ahead:
        alone = (
            _slot(run, one, run.times, gathers=weights.gathered(run.block), scatters=weights.scattered(run.block))
            for run in runs
        )
        return PassWork((), tuple(alone), ())
    return PassWork(
        weights.gathered(runs[0].block), tuple(_ahead(runs, one, weights)), weights.scattered(runs[-1].block)
    )


def _ahead(runs: Sequence[Run], one: Pass, weights: _Weights) -> Iterator[Slot]:
    """Runs, divided where what goes beside their blocks differs."""
    units = [run for run in runs for _ in range(run.times)]
    gathered = {id(run): weights.gathered(run.block) for run in runs}
    scattered = {id(run): weights.scattered(run.block) for run in runs}
    before = [(), *(scattered[id(run)] for run in units[:-1])]
    after = [*(gathered[id(run)] for run in units[1:]), ()]
    for (_, beside), equal in groupby(
        zip(units, before, after, strict=True), key=lambda unit: (id(unit[0]), (*unit[1], *unit[2]))
    ):
        members = list(equal)
        yield _slot(members[0][0], one, len(members), beside=beside)


@dataclass(frozen=True, slots=True)
class _Weights:
    """What a pass does with weights in shards."""

    work: StepWork
    one: Pass

    def gathered(self, block: BlockWork) -> tuple[Transfer, ...]:
        """What brings a block's weights."""
        how = self.work.gathered
        if how is None or self.one.kind is PassKind.WEIGHT_GRADIENT:
            return ()
        if self.one.backward and (how.keep or not block.regathered):
            return ()
        return tuple(self.work.gathers([block]))

    def scattered(self, block: BlockWork) -> tuple[Transfer, ...]:
        """What adds up a block's gradients."""
        how = self.work.gathered
        scatters = how is not None and how.scatter_each and self.one.ends_backward
        return tuple(self.work.exchanges([block])) if scatters else ()


def _slot(
    run: Run,
    one: Pass,
    times: int,
    *,
    gathers: tuple[Transfer, ...] = (),
    scatters: tuple[Transfer, ...] = (),
    beside: tuple[Transfer, ...] = (),
) -> Slot:
    return Slot(
        block=run.block,
        times=times,
        pieces=_pieces(run.passes, one.kind),
        offload=_offload(run.block, one),
        gathers=gathers,
        scatters=scatters,
        beside=beside,
    )


_ATTRIBUTE: Final = {
    PassKind.FORWARD: "forward",
    PassKind.BACKWARD: "backward",
    PassKind.ACTIVATION_GRADIENT: "activation_gradient",
    PassKind.WEIGHT_GRADIENT: "weight_gradient",
}


def _pieces(passes: Passes, kind: PassKind) -> tuple[Piece, ...]:
    pieces: tuple[Piece, ...] = getattr(passes, _ATTRIBUTE[kind])
    return pieces


def _offload(block: BlockWork, one: Pass) -> float:
    """Streams go beside a forward pass, and a backward pass or the first half of one."""
    match one.kind:
        case PassKind.FORWARD:
            return block.offload.forward
        case PassKind.WEIGHT_GRADIENT:
            return 0.0
        case _:
            return block.offload.last if one.last else block.offload.backward
