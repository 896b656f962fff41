"""Which blocks stand where: kinds in the stack, chunks of stages, ways of microbatches, ends, and what recomputes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from step_works import handmade_work, plain_passes

from codesign_opt.graphs.step import SCHEDULES, StepWork
from codesign_opt.graphs.step.layout import Layout, layout, route_of
from codesign_opt.graphs.step.stack import stack_order, stage_blocks
from codesign_opt.graphs.step.work import BlockWork
from codesign_opt.workloads import Workload
from codesign_opt.workloads.kinds import BlockKind, block_kinds
from codesign_opt.workloads.transformer import Experts

SHAPE = Workload(
    name="layout", hidden=64, feedforward=256, sequence_length=128, attention_heads=4, head_size=16, blocks=12
)


def kinds(*blocks: int, leading: int = 0) -> list[BlockKind]:
    """Kinds of so many blocks; the first few of them lead the stack."""
    return [BlockKind(SHAPE, number, leading=place < leading) for place, number in enumerate(blocks)]


def test_one_kind() -> None:
    assert stack_order(kinds(4)) == (0, 0, 0, 0)


def test_blocks_that_lead_stand_at_the_start() -> None:
    assert stack_order(kinds(3, 4, leading=1)) == (0, 0, 0, 1, 1, 1, 1)


def test_others_are_spread_evenly() -> None:
    assert stack_order(kinds(2, 2)) == (0, 1, 0, 1)
    assert stack_order(kinds(5, 1)) == (0, 0, 0, 1, 0, 0)
    assert stack_order(kinds(2, 4, 2, leading=1)) == (0, 0, 1, 2, 1, 1, 2, 1)
    order = stack_order(kinds(50, 10))
    # Of any six in a row one or two are of the rarer kind.
    assert {sum(order[start : start + 6]) for start in range(55)} <= {1, 2}


def test_kinds_of_a_workload() -> None:
    experts = Experts(count=4, top_k=1, feedforward=64, leading_dense_blocks=3)
    found = block_kinds(replace(SHAPE, experts=experts, prediction_blocks=1))
    # A prediction block has experts as well.
    assert stack_order(found) == (0,) * 3 + (1,) * 10


@pytest.mark.parametrize(
    ("blocks", "stages", "less", "split"),
    [
        (46, 4, (1, 1), (11, 12, 12, 11)),
        (61, 4, (0, 3), (16, 16, 16, 13)),
        (10, 4, (0, 0), (3, 3, 2, 2)),
        (8, 3, (1, 1), (3, 3, 2)),
    ],
)
def test_blocks_of_stages_that_make_room(
    blocks: int, stages: int, less: tuple[int, int], split: tuple[int, ...]
) -> None:
    assert stage_blocks(blocks, stages, first_less=less[0], last_less=less[1]) == split


def test_ways_through_a_pipeline() -> None:
    assert route_of("1f1b", stages=3, chunks=1).ways == (((0, 0), (1, 0), (2, 0)),)
    assert route_of("interleaved", stages=2, chunks=2).ways == (((0, 0), (1, 0), (0, 1), (1, 1)),)
    assert route_of("zb_v", stages=3, chunks=1).ways == (((0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (0, 1)),)
    assert route_of("dualpipe", stages=2, chunks=1).ways == (((0, 0), (1, 0)), ((1, 1), (0, 1)))


def test_before_and_after() -> None:
    route = route_of("zb_v", stages=2, chunks=1)
    assert [route.after(place) for place in ((0, 0), (1, 0), (1, 1), (0, 1))] == [(1, 0), (1, 1), (0, 1), None]
    assert [route.before(place) for place in ((0, 0), (1, 0), (1, 1), (0, 1))] == [None, (0, 0), (1, 0), (1, 1)]
    with pytest.raises(ValueError, match="no way leads through"):
        route.after((2, 0))


def named(work: StepWork, laid_out: Layout) -> list[list[list[str]]]:
    """For each stage and chunk the blocks: their kind, "+" where they are kept, "." for an edge block."""
    names = {id(block): str(number) for number, block in enumerate(work.kinds)}
    names |= {id(block.kept): f"{number}+" for number, block in enumerate(work.kinds) if block.kept}
    ends = {"first": work.first, "last": work.last, "beside": work.last_beside_first}
    names |= {id(block): name for name, block in ends.items() if block is not None}
    return [
        [[names[id(run.block)] + "." * run.edge for run in chunk for _ in range(run.times)] for chunk in chunks]
        for chunks in laid_out.chunks
    ]


def end() -> BlockWork:
    return BlockWork(base=plain_passes(1.0, 1.0), edge=plain_passes(1.0, 1.0))


def work_of(stage_blocks: tuple[int, ...], stack: tuple[int, ...], **values: object) -> StepWork:
    work = handmade_work(stage_blocks)
    return replace(work, kinds=tuple(end() for _ in range(max(stack) + 1)), stack=stack, **values)


def test_kinds_follow_the_way_of_the_microbatches() -> None:
    work = work_of((4, 4), (0, 0, 0, 1, 1, 1, 1, 1))
    assert named(work, layout(work, "1f1b")) == [[["0", "0", "0", "1."]], [["1", "1", "1", "1."]]]
    interleaved = replace(work, chunks=2)
    assert named(interleaved, layout(interleaved, "interleaved")) == [
        [["0", "0."], ["1", "1."]],
        [["0", "1."], ["1", "1."]],
    ]
    assert named(work, layout(work, "zb_v")) == [[["0", "0."], ["1", "1."]], [["0", "1."], ["1", "1."]]]
    # From the other end the last stage has the first blocks.
    both = layout(work, "dualpipe")
    assert named(work, both) == [
        [["0", "0", "0", "1."], ["1", "1", "1", "1."]],
        [["1", "1", "1", "1."], ["0", "0", "0", "1."]],
    ]
    assert len(both.blocks(0)) == 8


def test_ends_stand_before_the_first_and_after_the_last_block() -> None:
    work = work_of((1, 1), (0, 0), first=end(), last=end(), last_beside_first=end())
    assert named(work, layout(work, "1f1b")) == [[["first", "0."]], [["0.", "last"]]]
    # Where both are on one stage, so are their weights.
    assert named(work, layout(work, "dualpipe")) == [
        [["first", "0."], ["0.", "beside"]],
        [["0.", "beside"], ["first", "0."]],
    ]
    two = work_of((2, 2), (0,) * 4, first=end(), last=end(), last_beside_first=end())
    assert named(two, layout(two, "zb_v")) == [[["first", "0."], ["0.", "beside"]], [["0."], ["0."]]]
    alone = work_of((1,), (0,), first=end(), last=end())
    assert named(alone, layout(alone, "1f1b")) == [[["first", "0.", "last"]]]


def test_every_chunk_has_its_share_of_what_recomputes() -> None:
    work = work_of((6, 5), (0,) * 11, recompute_blocks=3)
    work = replace(work, kinds=(replace(work.kinds[0], kept=end()),))
    assert named(work, layout(work, "1f1b")) == [
        [["0", "0", "0", "0+", "0+", "0+."]],
        [["0", "0", "0", "0+", "0+."]],
    ]
    two = replace(work, chunks=2)
    assert named(two, layout(two, "interleaved")) == [
        [["0", "0", "0+."], ["0", "0+", "0+."]],
        [["0", "0", "0+."], ["0", "0+."]],
    ]
    # Each of a processor's two stages.
    assert named(work, layout(work, "dualpipe"))[0] == [
        ["0", "0", "0", "0+", "0+", "0+."],
        ["0", "0", "0", "0+", "0+."],
    ]


def test_every_block_is_on_some_stage() -> None:
    for schedule in SCHEDULES:
        work = work_of((3, 3, 2, 2), (0, 1) * 5)
        laid_out = layout(work, schedule)
        copies = 2 if schedule == "dualpipe" else 1
        assert sum(len(laid_out.blocks(stage)) for stage in range(4)) == 10 * copies
