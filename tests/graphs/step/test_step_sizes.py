"""How many instructions a step has: written once, laid out many times, as fine as is affordable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from step_cases import step_cases
from step_works import handmade_work

from codesign_opt.errors import InputError
from codesign_opt.graphs import GraphBuilder
from codesign_opt.graphs.step import GRANULARITIES, instructions, step_graph
from codesign_opt.graphs.step.pieces import Piece
from codesign_opt.graphs.step.step import AFFORDABLE
from codesign_opt.graphs.step.work import GatheredWeights


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_instructions_are_written_once_whatever_the_number_of_microbatches(
    granularity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = next(case for case in step_cases(32, 30, least_pp=2) if case.strategy.vpp > 1 and case.strategy.training)
    written: list[str] = []

    class CountingBuilder(GraphBuilder):
        def instruction(self, subroutine: int, name: str, opcode: str, **values: Any) -> int:
            written.append(name)
            return super().instruction(subroutine, name, opcode, **values)

    monkeypatch.setattr(instructions, "GraphBuilder", CountingBuilder)
    counts, sizes = [], []
    for rounds in (2, 4, 8):
        written.clear()
        step = step_graph(
            replace(case.work, microbatches=rounds * case.strategy.pp), schedule="interleaved", granularity=granularity
        )
        counts.append(len(written))
        sizes.append(sum(len(stage.graph) for stage in step.stages))
    assert counts[0] == counts[1] == counts[2]
    # Each round of microbatches adds as many instructions as the one before.
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0])


@pytest.mark.parametrize("schedule", ["1f1b", "zb_1p", "zb_v", "dualpipe"])
@pytest.mark.parametrize("ahead", [False, True])
def test_instructions_of_split_passes_are_written_once(
    schedule: str, ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    class CountingBuilder(GraphBuilder):
        def instruction(self, subroutine: int, name: str, opcode: str, **values: Any) -> int:
            written.append(name)
            return super().instruction(subroutine, name, opcode, **values)

    monkeypatch.setattr(instructions, "GraphBuilder", CountingBuilder)
    counts = []
    for microbatches in (16, 32, 48):
        written.clear()
        work = handmade_work(
            (6,) * 4, microbatches=microbatches, backward=1.0, weight_gradient=1.0, message=0.5, gather=0.5,
            gradients=0.5, gathered=GatheredWeights(ahead=ahead, scatter_each=True),
        )  # fmt: skip
        step_graph(work, schedule=schedule)
        counts.append(len(written))
    assert counts[0] == counts[1] == counts[2]


def test_blocks_beside_which_others_are_gathered_are_a_loop() -> None:
    few, many = (
        step_graph(handmade_work((blocks,), gather=0.5, gathered=GatheredWeights())).stages[0].graph
        for blocks in (5, 300)
    )
    assert len(few) == len(many)
    # The edge block is the last in the forward pass, which gathers nothing beside it.
    assert many.count.max() == 299


def test_blocks_of_a_chunk_are_a_loop() -> None:
    few, many = (step_graph(handmade_work((blocks,), microbatches=2)).stages[0].graph for blocks in (3, 300))
    assert len(few) == len(many)
    assert many.count.max() == 299


def test_granularity_is_the_finest_that_is_affordable() -> None:
    # A block counts as its pieces and 4 more instructions, or as 10 in all; a pass counts as 4, or 8.
    twenty = tuple(Piece(name=str(number), part="forward", compute=1.0) for number in range(20))
    for blocks, granularity in (
        (AFFORDABLE // 44 - 4, "operation"),
        (AFFORDABLE // 44 + 4, "block"),
        (AFFORDABLE // 10 - 4, "block"),
        (AFFORDABLE // 10 + 4, "chunk"),
    ):
        step = step_graph(handmade_work((blocks,), pieces=(twenty, twenty)))
        assert step.options.granularity == granularity


def test_automatic_schedule_of_a_step() -> None:
    assert step_graph(handmade_work((1, 1), microbatches=3)).schedule == "1f1b"
    assert step_graph(handmade_work((2, 2), chunks=2, microbatches=4)).schedule == "interleaved"
    assert step_graph(handmade_work((2, 2), chunks=2, microbatches=3)).schedule == "gpipe"


def test_unknown_granularity_and_impossible_schedule_are_refused() -> None:
    work = handmade_work((2, 2), chunks=2, microbatches=3)
    with pytest.raises(InputError, match="'blocks' is not known") as caught:
        step_graph(work, granularity="blocks")
    assert "block" in str(caught.value.hint)
    with pytest.raises(InputError, match="full rounds"):
        step_graph(work, schedule="interleaved")
