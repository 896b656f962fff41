"""Weights and gradients of steps by hand: in shards, beside blocks, after every microbatch, and at both ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from step_works import handmade_work, passes

from codesign_opt.graphs.step import StepOptions, StepWork, step_graph
from codesign_opt.graphs.step.pieces import Piece
from codesign_opt.graphs.step.work import BlockWork, Exchange, GatheredWeights
from codesign_opt.simulation.step import simulate_step
from codesign_opt.simulation.step.run import shares_ports

GRANULARITIES = ("operation", "block", "chunk")


def seconds(work: StepWork, schedule: str = "auto", granularity: str = "operation", **options: Any) -> float:
    step = step_graph(work, schedule=schedule, granularity=granularity, options=StepOptions(**options))
    return simulate_step(step).seconds


def sharded(blocks: int, **values: Any) -> StepWork:
    """A stage of blocks that take 1 s forward and 2 s backward, whose weights are gathered."""
    gathered = GatheredWeights(
        ahead=values.pop("ahead", True), keep=values.pop("keep", False), scatter_each=values.pop("scatter_each", False)
    )
    return handmade_work((blocks,), gathered=gathered, **values)


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_weights_are_gathered_beside_the_block_before(granularity: str) -> None:
    # The first gathering is exposed; those of 0.5 s are hidden, those of 1.5 s beside forward passes of 1 s are not.
    assert seconds(sharded(3, gather=0.5), granularity=granularity) == 0.5 + 3 + 0.5 + 6
    assert seconds(sharded(3, gather=1.5), granularity=granularity) == 1.5 + 2 * 1.5 + 1 + 1.5 + 6
    assert seconds(sharded(3, gather=0.5, microbatches=4), granularity=granularity) == 4 * (0.5 + 3 + 0.5 + 6)
    assert seconds(sharded(1, gather=0.5), granularity=granularity) == 0.5 + 1 + 0.5 + 2


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_weights_are_gathered_when_their_block_is_at_work(granularity: str) -> None:
    work = sharded(3, gather=0.5, ahead=False)
    assert seconds(work, granularity=granularity) == 3 * 1.5 + 3 * 2.5


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_gathered_weights_that_stay(granularity: str) -> None:
    assert seconds(sharded(3, gather=0.5, keep=True), granularity=granularity) == 0.5 + 3 + 6
    assert seconds(sharded(3, gather=0.5, keep=True, ahead=False), granularity=granularity) == 3 * 1.5 + 6


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize(
    ("gather", "scatter", "backward"),
    [
        # 0.5, then four blocks of 2 s that hide all but the last scattering.
        (0.5, 1.0, 0.5 + 8 + 1.0),
        # Beside the first block a gathering, beside the next two both, beside the last one a scattering.
        (1.0, 3.0, 1.0 + 2.0 + 2 * 4.0 + 3.0 + 3.0),
    ],
)
def test_gradients_are_scattered_beside_the_block_after(
    granularity: str, gather: float, scatter: float, backward: float
) -> None:
    work = sharded(4, gather=gather, gradients=scatter, scatter_each=True, microbatches=2)
    forward = gather + 4 + 3 * max(0.0, gather - 1.0)
    assert seconds(work, granularity=granularity, messages="serial") == 2 * (forward + backward)


def test_gradients_are_scattered_after_their_block() -> None:
    work = sharded(3, gather=0.5, gradients=1.0, scatter_each=True, ahead=False, microbatches=2)
    assert seconds(work) == seconds(work, messages="serial") == 2 * 3 * (1.5 + 2.5 + 1.0)


def test_the_last_gradients_of_a_pass_go_on_beside_the_next() -> None:
    # One block: 0.5 gathered, 1 forward, 0.5, 2 backward; its gradients take 3 s, in which nothing else can be
    # gathered. Those of the second pass are followed by the optimizer.
    work = sharded(1, gather=0.5, gradients=3.0, scatter_each=True, microbatches=2, optimizer=0.25)
    once = 0.5 + 1 + 0.5 + 2
    assert seconds(work, messages="serial") == 2 * (once + 3.0) + 0.25
    assert seconds(work) == 2 * (once + 3.0) + 0.25
    # With weights that stay, the backward pass goes on, and the second scattering follows the first.
    kept = sharded(1, gather=0.5, gradients=3.0, scatter_each=True, keep=True, microbatches=2, optimizer=0.25)
    assert seconds(kept, messages="serial") == 2 * (0.5 + 1 + 2 + 3.0) + 0.25
    assert seconds(kept) == 3.5 + 3.0 + 0.5 + 1 + 2 + 3.0 + 0.25


def test_gradients_once_a_step_are_scattered_at_its_end() -> None:
    work = sharded(3, gather=0.5, gradients=1.0, microbatches=2, optimizer=0.25)
    assert seconds(work) == 2 * (0.5 + 3 + 0.5 + 6) + 3 * 1.0 + 3 * 0.25
    # Beside the last backward pass, of which the first two are hidden.
    assert seconds(replace(work, overlapped=True)) == 2 * (0.5 + 3 + 0.5 + 6) + 1.0 + 3 * 0.25


def test_streams_beside_a_block_that_is_gathered() -> None:
    # Streams of 4 s beside every block, gathered ahead or when it is at work.
    offload = (4.0, 4.0, 4.0)
    assert seconds(sharded(2, gather=0.5, offload=offload)) == 2 * (0.5 + 2 * 4.0)
    assert seconds(sharded(2, gather=0.5, ahead=False, offload=offload)) == 2 * 2 * 4.0


def test_gradients_of_every_microbatch() -> None:
    # Each stage exchanges when its message has left: the last one for each of four microbatches, and the first one its
    # last gradients at the end.
    work = handmade_work((1, 1), microbatches=4, gradients=1.5, gather=0.5, optimizer=0.25, reduced_each=True)
    assert seconds(work, "gpipe", messages="serial") == (4 + 1) * 3.0 + 4 * 1.5 + 0.25 + 0.5
    assert seconds(work, "1f1b", messages="serial") == (4 + 1) * 3.0 + 4 * 1.5 + 0.25 + 0.5
    # Beside what follows, all but the last are hidden.
    overlapped = replace(work, overlapped=True)
    assert seconds(overlapped, "gpipe", messages="serial") == (4 + 1) * 3.0 + 1.5 + 0.25 + 0.5


def test_gradients_of_every_microbatch_in_split_passes() -> None:
    # They are known after the weight gradients, which become as much longer.
    work = handmade_work((1, 1), microbatches=4, backward=1.0, weight_gradient=0.5, gradients=0.5, reduced_each=True)
    longer = handmade_work((1, 1), microbatches=4, backward=1.0, weight_gradient=1.0)
    assert seconds(work, "zb_1p", messages="serial") == seconds(longer, "zb_1p", messages="serial")


def block(forward: float, backward: float, **values: Any) -> BlockWork:
    work = passes(
        (Piece(name="f", part="forward", compute=forward),), (Piece(name="b", part="backward", compute=backward),)
    )
    return BlockWork(base=work, edge=work, **values)


def test_ends_of_the_stack_are_on_the_first_and_the_last_stage() -> None:
    first, last = block(0.5, 0.25, optimizer=4.0), block(1.5, 2.5, optimizer=1.0)
    work = handmade_work((2, 2, 2), microbatches=5, first=first, last=last)
    # A pass of each stage, four more of the last one, and the optimizer of the first.
    assert seconds(work) == 2 + 4 * (2 + 1.5) + (0.5 + 2 + 2 + 2 + 1.5 - 2) + 4 * (4 + 2.5) + (4 * 3 + 2.5 + 0.25) + 4.0
    alone = handmade_work((2,), microbatches=3, first=first, last=last)
    assert seconds(alone) == 3 * (0.5 + 2 + 1.5 + 2.5 + 4 + 0.25) + 5.0


def test_ends_of_the_stack_meet_in_a_v() -> None:
    # Both are on the first stage then, and tied weights are there once.
    first = block(0.0, 0.0, gradients=(Exchange("shards", "all-reduce", 100.0),))
    beside = block(0.0, 0.0)
    work = handmade_work(
        (2, 2), microbatches=4, backward=1.0, weight_gradient=1.0, gradients=0.5, first=first, last=first,
        last_beside_first=beside, tied=Exchange("ends", "all-reduce", 7.0),
    )  # fmt: skip
    for schedule, exchanges in (("1f1b", 3 * 0.5 + 7.0), ("zb_v", 3 * 0.5)):
        step = step_graph(work, schedule=schedule)
        result = simulate_step(step)
        assert result.stages["dp_communication"][0] == exchanges
        names = [step.stages[0].graph.names.count(name) for name in ("gradients", "tied_gradients")]
        assert names == [3, int(schedule == "1f1b")]


def test_tied_gradients_are_exchanged_between_the_ends() -> None:
    work = handmade_work((1, 1, 1), microbatches=3, tied=Exchange("ends", "all-reduce", 2.5), optimizer=0.5)
    assert seconds(work) == seconds(replace(work, tied=None)) + 2.5
    names = [stage.graph.names.count("tied_gradients") for stage in step_graph(work).stages]
    assert names == [1, 0, 1]


def collective(seconds: float, part: str) -> Piece:
    return Piece(
        name="collective", part=part, communication="ep_communication", group="ep", collective="all-to-all",
        size=seconds, transfers=1, link=seconds, exposed=seconds,
    )  # fmt: skip


def test_passes_beside_each_other_hide_what_they_exchange() -> None:
    # Forward: 1 s of work and 1 s of exchange; backward 2 s and 1 s. Beside each other they take 3 s of work and the
    # exchange after it, which is 1 s less than one after the other.
    pieces = (
        (Piece(name="f", part="forward", compute=1.0), collective(1.0, "forward")),
        (Piece(name="b", part="backward", compute=2.0), collective(1.0, "backward")),
    )
    work = handmade_work((1, 1), microbatches=8, pieces=pieces)
    step = step_graph(work, schedule="dualpipe")
    serial = seconds(work, "dualpipe", messages="serial")
    beside = seconds(work, "dualpipe")
    assert serial == 8 * 5.0
    paired = int(sum("both" in name for name in step.stages[0].graph.names))
    assert paired == 5
    assert beside == serial - paired * 1.0


@pytest.mark.parametrize(
    ("tiers", "values", "shared"),
    [
        # Weights of neighbours and tensor-parallel collectives.
        ((0, 1, 0), {"gather": 0.5}, True),
        ((0, 1, 2), {"gather": 0.5}, False),
        # Weights of neighbours, and gradients once a step beside the passes.
        ((0, 1, 2), {"gather": 0.5, "gradients": 1.0, "overlapped": True}, True),
        ((0, 1, 2), {"gather": 0.5, "gradients": 1.0}, True),
        ((0, 1, 2), {"gather": 0.5, "gradients": 1.0, "scatter_each": True}, False),
    ],
)
def test_when_weights_share_ports(tiers: tuple[int, int, int], values: dict[str, Any], shared: bool) -> None:
    pieces = ((collective(1.0, "forward"),), (collective(1.0, "backward"),))
    assert shares_ports(step_graph(sharded(3, pieces=pieces, tiers=tiers, **values))) == shared
