"""Orders of passes: warm-up, completeness, that no stage waits for ever, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from codesign_opt.errors import InputError
from codesign_opt.graphs.step.orders import (
    SCHEDULES,
    PassOrder,
    Schedule,
    automatic_schedule,
    check_schedule,
    pass_order,
    warm_up,
)

Pass = tuple[bool, int, int]
"""Whether backward, microbatch, chunk."""


def passes_of(order: PassOrder) -> list[Pass]:
    return list(zip(order.backward.tolist(), order.microbatch.tolist(), order.chunk.tolist(), strict=True))


def possible() -> Iterator[tuple[Schedule, int, int, int]]:
    """Schedule, stages, chunks and microbatches of small steps that `check_schedule` lets through."""
    for stages in range(1, 6):
        for chunks in range(1, 4 if stages > 1 else 2):
            for microbatches in range(1, 2 * stages + 2):
                for schedule in SCHEDULES:
                    try:
                        yield (
                            check_schedule(schedule, stages=stages, chunks=chunks, microbatches=microbatches),
                            stages,
                            chunks,
                            microbatches,
                        )
                    except InputError:
                        continue


CASES = list(possible())


def orders(
    schedule: Schedule, stages: int, chunks: int, microbatches: int, *, training: bool = True
) -> list[PassOrder]:
    return [
        pass_order(schedule, stages=stages, stage=stage, chunks=chunks, microbatches=microbatches, training=training)
        for stage in range(stages)
    ]


def needs(stage: int, one_pass: Pass, stages: int, chunks: int) -> tuple[int, Pass] | None:
    """The pass of some stage that a pass has to wait for; None for the first of all."""
    backward, microbatch, chunk = one_pass
    place = chunk * stages + stage
    if not backward:
        return None if place == 0 else ((place - 1) % stages, (False, microbatch, (place - 1) // stages))
    if place == chunks * stages - 1:
        return stage, (False, microbatch, chunk)
    return (place + 1) % stages, (True, microbatch, (place + 1) // stages)


def run_in_order(lists: list[list[Pass]], chunks: int) -> int:
    """How many passes get done when every stage works through its list and waits for what the next pass needs."""
    stages, done = len(lists), set()
    next_of = [0] * stages
    progress = True
    while progress:
        progress = False
        for stage, listed in enumerate(lists):
            while next_of[stage] < len(listed):
                needed = needs(stage, listed[next_of[stage]], stages, chunks)
                if needed is not None and needed not in done:
                    break
                done.add((stage, listed[next_of[stage]]))
                next_of[stage] += 1
                progress = True
    return len(done)


def test_there_are_orders_of_every_schedule_to_look_at() -> None:
    assert {schedule for schedule, *_ in CASES} == set(SCHEDULES)
    assert len(CASES) == 185


@pytest.mark.parametrize("training", [True, False])
def test_every_pass_comes_once(training: bool) -> None:
    for schedule, stages, chunks, microbatches in CASES:
        wanted = {
            (backward, microbatch, chunk)
            for backward in ([False, True] if training else [False])
            for microbatch in range(microbatches)
            for chunk in range(chunks)
        }
        for order in orders(schedule, stages, chunks, microbatches, training=training):
            listed = passes_of(order)
            assert set(listed) == wanted
            assert len(order) == len(listed) == len(wanted)


@pytest.mark.parametrize("training", [True, False])
def test_no_stage_waits_for_ever(training: bool) -> None:
    for schedule, stages, chunks, microbatches in CASES:
        lists = [passes_of(order) for order in orders(schedule, stages, chunks, microbatches, training=training)]
        done = run_in_order(lists, chunks)
        assert done == sum(map(len, lists)), (schedule, stages, chunks, microbatches)


def test_messages_of_one_direction_and_chunk_go_in_the_order_of_microbatches() -> None:
    # Receivers take messages of one tag in the order in which they are sent.
    for schedule, stages, chunks, microbatches in CASES:
        for order in orders(schedule, stages, chunks, microbatches):
            for backward in (False, True):
                for chunk in range(chunks):
                    chosen = (order.backward == backward) & (order.chunk == chunk)
                    assert order.microbatch[chosen].tolist() == list(range(microbatches))


def test_warm_up_of_the_interleaved_schedule() -> None:
    # 2 · (4 - stage - 1) + (2 - 1) · 4 (Megatron-LM issues 169 and 675).
    counts = [warm_up("interleaved", stages=4, stage=stage, chunks=2, microbatches=8) for stage in range(4)]
    assert counts == [10, 8, 6, 4]
    for stage, count in enumerate(counts):
        order = pass_order("interleaved", stages=4, stage=stage, chunks=2, microbatches=8)
        # The forward pass that the first backward pass follows is no warm-up.
        assert int(np.argmax(order.backward)) == count + 1


@pytest.mark.parametrize(
    ("schedule", "chunks", "counts"),
    [("1f1b", 1, [3, 2, 1, 0]), ("interleaved", 1, [3, 2, 1, 0]), ("gpipe", 1, [8] * 4), ("gpipe", 2, [16] * 4)],
)
def test_warm_up(schedule: Schedule, chunks: int, counts: list[int]) -> None:
    assert counts == [warm_up(schedule, stages=4, stage=stage, chunks=chunks, microbatches=8) for stage in range(4)]


def test_warm_up_is_no_longer_than_all_forward_passes() -> None:
    assert warm_up("1f1b", stages=8, stage=0, chunks=1, microbatches=3) == 3
    assert warm_up("interleaved", stages=4, stage=0, chunks=2, microbatches=4) == 8


def test_1f1b_in_full() -> None:
    order = pass_order("1f1b", stages=3, stage=1, chunks=1, microbatches=4)
    assert [("B" if backward else "F", microbatch) for backward, microbatch, _ in passes_of(order)] == [
        ("F", 0), ("F", 1), ("B", 0), ("F", 2), ("B", 1), ("F", 3), ("B", 2), ("B", 3),
    ]  # fmt: skip


def test_rounds_of_chunks_the_last_one_incomplete() -> None:
    order = pass_order("gpipe", stages=2, stage=0, chunks=2, microbatches=3)
    assert passes_of(order) == [
        *[(False, 0, 0), (False, 1, 0), (False, 0, 1), (False, 1, 1), (False, 2, 0), (False, 2, 1)],
        *[(True, 0, 1), (True, 1, 1), (True, 0, 0), (True, 1, 0), (True, 2, 1), (True, 2, 0)],
    ]


def test_in_flight_microbatches_of_1f1b_are_at_most_the_stages_ahead() -> None:
    for stages in range(1, 6):
        for stage in range(stages):
            order = pass_order("1f1b", stages=stages, stage=stage, chunks=1, microbatches=9)
            in_flight = np.cumsum(np.where(order.backward, -1, 1))
            assert in_flight.max() == stages - stage


@pytest.mark.parametrize(
    ("chunks", "microbatches", "chosen"),
    [(1, 7, "1f1b"), (2, 8, "interleaved"), (2, 7, "gpipe"), (2, 2, "gpipe")],
)
def test_automatic_schedule(chunks: int, microbatches: int, chosen: str) -> None:
    assert automatic_schedule(stages=4, chunks=chunks, microbatches=microbatches) == chosen
    assert check_schedule(chosen, stages=4, chunks=chunks, microbatches=microbatches) == chosen


@pytest.mark.parametrize(
    ("schedule", "chunks", "microbatches", "message", "hint"),
    [
        ("1f1b", 2, 8, "one chunk a stage, not vpp = 2", "interleaved"),
        ("interleaved", 2, 7, "full rounds of pp = 4 microbatches, not 7", "gpipe"),
        ("gpip", 1, 8, "'gpip' is not known", "gpipe"),
    ],
)
def test_refused(schedule: str, chunks: int, microbatches: int, message: str, hint: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        check_schedule(schedule, stages=4, chunks=chunks, microbatches=microbatches)
    assert hint in str(caught.value.hint)
