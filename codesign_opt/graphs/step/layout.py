"""Which chunks a stage has, what is in them, and which chunk follows which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from codesign_opt.graphs.step.orders import Schedule, chunks_of
from codesign_opt.graphs.step.pieces import Passes
from codesign_opt.graphs.step.work import BlockWork, StepWork

Place = tuple[int, int]
"""A stage and one of its chunks."""


@dataclass(frozen=True, slots=True)
class Run:
    """Equal blocks in a row; an edge block is the last of its chunk."""

    block: BlockWork
    times: int
    edge: bool = False

    @property
    def passes(self) -> Passes:
        """What each does."""
        return self.block.edge if self.edge else self.block.base


Chunk = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """The ways of microbatches through stages and chunks; each goes one of them, and back."""

    ways: tuple[tuple[Place, ...], ...]

    def after(self, place: Place) -> Place | None:
        """Where a microbatch goes from a chunk; None from the last one."""
        return self._beside(place, 1)

    def before(self, place: Place) -> Place | None:
        """Where it comes from; None at the first one."""
        return self._beside(place, -1)

    def _beside(self, place: Place, step: int) -> Place | None:
        for way in self.ways:
            if place in way:
                there = way.index(place) + step
                return way[there] if 0 <= there < len(way) else None
        raise ValueError(f"no way leads through {place}")


@dataclass(frozen=True, slots=True)
class Layout:
    """A step's chunks.

    Attributes:
        route: The ways through them.
        chunks: For each stage its chunks.
    """

    route: Route
    chunks: tuple[tuple[Chunk, ...], ...]

    def blocks(self, stage: int) -> list[BlockWork]:
        """All blocks of a stage, one by one."""
        return [block for chunk in self.chunks[stage] for block in blocks_of(chunk)]


def blocks_of(chunk: Chunk) -> Iterator[BlockWork]:
    """The blocks of a chunk, one by one."""
    return (run.block for run in chunk for _ in range(run.times))


def layout(work: StepWork, schedule: Schedule) -> Layout:
    """The chunks of a step under a schedule.

    Blocks follow each other along the way of the microbatches. A stage's chunks have equally many; where that is not
    possible the last ones have one less. Of the blocks that full recompute concerns every chunk has its share.
    """
    route = route_of(schedule, stages=work.stages, chunks=work.chunks)
    filled: dict[Place, Chunk] = {}
    for way in route.ways:
        stack = iter(work.stack)
        for place in way:
            kinds = [work.kinds[next(stack)] for _ in range(_chunk_blocks(work, schedule, place))]
            blocks = _with_recompute(work, schedule, kinds, place)
            runs = [*_runs(blocks[:-1]), *(Run(block, 1, edge=True) for block in blocks[-1:])]
            filled[place] = (*_before_blocks(work, place, way), *runs, *_after_blocks(work, place, way, route))
    numbers = range(chunks_of(schedule, work.chunks))
    return Layout(route, tuple(tuple(filled[stage, chunk] for chunk in numbers) for stage in range(work.stages)))


def route_of(schedule: Schedule, *, stages: int, chunks: int) -> Route:
    """The ways through a pipeline.

    `zb_v`: down through the first chunks and back through the second ones; `dualpipe`: half of the microbatches from
    either end; else round and round, a chunk a round.
    """
    down, up = range(stages), range(stages - 1, -1, -1)
    if schedule == "zb_v":
        return Route(((*((stage, 0) for stage in down), *((stage, 1) for stage in up)),))
    if schedule == "dualpipe":
        return Route((tuple((stage, 0) for stage in down), tuple((stage, 1) for stage in up)))
    return Route((tuple((stage, chunk) for chunk in range(chunks) for stage in down),))


def _chunk_blocks(work: StepWork, schedule: Schedule, place: Place) -> int:
    stage, chunk = place
    if schedule == "dualpipe":
        # A processor has the blocks of one stage counted from either end.
        return work.stage_blocks[stage if chunk == 0 else work.stages - 1 - stage]
    return _share(work.stage_blocks[stage], chunks_of(schedule, work.chunks), chunk)


def _with_recompute(
    work: StepWork, schedule: Schedule, blocks: Sequence[BlockWork], place: Place
) -> Sequence[BlockWork]:
    """The blocks of a chunk, of which the first few recompute."""
    if not work.recompute_blocks:
        return blocks
    concerned = work.recompute_blocks
    if schedule != "dualpipe":
        concerned = _share(concerned, chunks_of(schedule, work.chunks), place[1])
    return [block if number < concerned else block.kept or block for number, block in enumerate(blocks)]


def _before_blocks(work: StepWork, place: Place, way: Sequence[Place]) -> tuple[Run, ...]:
    return () if work.first is None or place != way[0] else (Run(work.first, 1),)


def _after_blocks(work: StepWork, place: Place, way: Sequence[Place], route: Route) -> tuple[Run, ...]:
    if work.last is None or place != way[-1]:
        return ()
    beside_first = place[0] in {other[0][0] for other in route.ways}
    return (Run(work.last_beside_first if beside_first and work.last_beside_first else work.last, 1),)


def _runs(blocks: Iterable[BlockWork]) -> Iterator[Run]:
    for _, equal in groupby(blocks, key=id):
        members = list(equal)
        yield Run(members[0], len(members))


def _share(total: int, parts: int, part: int) -> int:
    """An equal share of a whole number; the first parts have one more where it does not divide."""
    return total // parts + (part < total % parts)
