"""Orders of passes: warm-up, completeness, that no stage waits for ever, how long they take, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from codesign_opt.errors import InputError
from codesign_opt.graphs.step.layout import Place, Route, route_of
from codesign_opt.graphs.step.orders import (
    SCHEDULES,
    SPLIT,
    Schedule,
    automatic_schedule,
    check_schedule,
    chunks_of,
    pass_order,
    warm_up,
)
from codesign_opt.graphs.step.passes import PassKind, PassOrder

FORWARD, WHOLE, ACTIVATION, WEIGHT = PassKind
Pass = tuple[PassKind, int, int]
"""Kind, microbatch, chunk."""


def passes_of(order: PassOrder) -> list[Pass]:
    columns = zip(order.kind.tolist(), order.microbatch.tolist(), order.chunk.tolist(), strict=True)
    return [(PassKind(kind), microbatch, chunk) for kind, microbatch, chunk in columns]


def possible() -> Iterator[tuple[Schedule, int, int, int]]:
    """Schedule, stages, chunks and microbatches of small steps that `check_schedule` lets through."""
    for stages in range(1, 6):
        for chunks in range(1, 4 if stages > 1 else 2):
            for microbatches in range(1, 2 * stages + 3):
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


def ways_of(schedule: Schedule, stages: int, chunks: int, microbatches: int) -> dict[int, set[int]]:
    """The microbatches of each chunk."""
    if schedule == "dualpipe":
        half = microbatches // 2
        return {0: set(range(half)), 1: set(range(half, microbatches))}
    return {chunk: set(range(microbatches)) for chunk in range(chunks_of(schedule, chunks))}


def needs(place: Place, one: Pass, route: Route) -> tuple[Place, str, int] | None:
    """What a pass has to wait for: the end of some chunk's forward or backward pass; None for the first of all."""
    kind, microbatch, _ = one
    if kind is FORWARD:
        before = route.before(place)
        return None if before is None else (before, "forward", microbatch)
    if kind is WEIGHT:
        return place, "backward", microbatch
    after = route.after(place)
    return (place, "forward", microbatch) if after is None else (after, "backward", microbatch)


def ends_in_order(
    orders: list[PassOrder], route: Route, seconds: dict[PassKind, float], *, paired: bool = False
) -> list[float]:
    """When each stage ends, working through its list and waiting for what the next pass needs.

    Passes beside each other wait for what either needs, and are over when both are, if `paired` says so.
    """
    done: dict[tuple[Place, str, int], float] = {}
    clocks, next_of = [0.0] * len(orders), [0] * len(orders)
    lists = [passes_of(order) for order in orders]
    progress = True
    while progress:
        progress = False
        for stage, listed in enumerate(lists):
            while next_of[stage] < len(listed):
                first = next_of[stage]
                unit = listed[first : first + (2 if paired and orders[stage].paired[first] else 1)]
                needed = [needs((stage, chunk), (kind, number, chunk), route) for kind, number, chunk in unit]
                if any(need is not None and need not in done for need in needed):
                    break
                start = max([clocks[stage], *(done[need] for need in needed if need is not None)])
                clocks[stage] = start + sum(seconds[kind] for kind, _, _ in unit)
                for kind, number, chunk in unit:
                    what = {FORWARD: "forward", WEIGHT: "weight"}.get(kind, "backward")
                    done[(stage, chunk), what, number] = clocks[stage]
                next_of[stage] += len(unit)
                progress = True
    assert next_of == [len(listed) for listed in lists]
    return clocks


def test_there_are_orders_of_every_schedule_to_look_at() -> None:
    assert {schedule for schedule, *_ in CASES} == set(SCHEDULES)
    assert len(CASES) == 294


@pytest.mark.parametrize("training", [True, False])
def test_every_pass_comes_once(training: bool) -> None:
    for schedule, stages, chunks, microbatches in CASES:
        if schedule in SPLIT and not training:
            continue
        wanted = {
            (number, chunk)
            for chunk, numbers in ways_of(schedule, stages, chunks, microbatches).items()
            for number in numbers
        }
        for order in orders(schedule, stages, chunks, microbatches, training=training):
            listed = passes_of(order)
            assert len(set(listed)) == len(listed) == len(order)
            of_kind = {kind: {(number, chunk) for one, number, chunk in listed if one is kind} for kind in PassKind}
            assert of_kind[FORWARD] == wanted
            assert of_kind[ACTIVATION] == of_kind[WEIGHT]
            assert not of_kind[WHOLE] & of_kind[ACTIVATION]
            assert of_kind[WHOLE] | of_kind[ACTIVATION] == (wanted if training else set())


def test_which_schedules_split_backward_passes() -> None:
    for schedule, stages, chunks, microbatches in CASES:
        kinds = {kind for order in orders(schedule, stages, chunks, microbatches) for kind in order.kind.tolist()}
        whole = {"zb_1p": False, "zb_v": False}.get(schedule, True)
        assert (WHOLE in kinds) == whole
        assert (WEIGHT in kinds) == (schedule in SPLIT)


@pytest.mark.parametrize("training", [True, False])
def test_no_stage_waits_for_ever(training: bool) -> None:
    for schedule, stages, chunks, microbatches in CASES:
        if training or schedule not in SPLIT:
            listed = orders(schedule, stages, chunks, microbatches, training=training)
            route = route_of(schedule, stages=stages, chunks=chunks)
            ends_in_order(listed, route, dict.fromkeys(PassKind, 1.0), paired=True)


def test_messages_of_one_direction_and_chunk_go_in_the_order_of_microbatches() -> None:
    # Receivers take messages of one tag in the order in which they are sent.
    for schedule, stages, chunks, microbatches in CASES:
        numbers = ways_of(schedule, stages, chunks, microbatches)
        for order in orders(schedule, stages, chunks, microbatches):
            for sending in ([FORWARD], [WHOLE, ACTIVATION]):
                for chunk, wanted in numbers.items():
                    chosen = np.isin(order.kind, sending) & (order.chunk == chunk)
                    assert order.microbatch[chosen].tolist() == sorted(wanted)


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
    assert [("B" if kind is WHOLE else "F", microbatch) for kind, microbatch, _ in passes_of(order)] == [
        ("F", 0), ("F", 1), ("B", 0), ("F", 2), ("B", 1), ("F", 3), ("B", 2), ("B", 3),
    ]  # fmt: skip


def test_rounds_of_chunks_the_last_one_incomplete() -> None:
    order = pass_order("gpipe", stages=2, stage=0, chunks=2, microbatches=3)
    rounds = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    assert passes_of(order) == [
        *((FORWARD, number, chunk) for number, chunk in rounds),
        *((WHOLE, number, 1 - chunk) for number, chunk in rounds),
    ]


def test_in_flight_microbatches_of_1f1b_are_at_most_the_stages_ahead() -> None:
    for stages in range(1, 6):
        for stage in range(stages):
            order = pass_order("1f1b", stages=stages, stage=stage, chunks=1, microbatches=9)
            in_flight = np.cumsum(np.where(order.backward, -1, 1))
            assert in_flight.max() == stages - stage


def test_a_zero_bubble_pipeline_in_full() -> None:
    words = {FORWARD: "F", ACTIVATION: "B", WEIGHT: "W"}
    listed = [
        " ".join(f"{words[kind]}{number}" for kind, number, _ in passes_of(order)) for order in orders("zb_1p", 3, 1, 4)
    ]
    assert listed == [
        "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3",
        "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3",
        "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3",
    ]


def test_a_v_of_two_stages_in_full() -> None:
    words = {FORWARD: "F", ACTIVATION: "B", WEIGHT: "W"}
    listed = [
        " ".join(f"{words[kind]}{number}{'ab'[chunk]}" for kind, number, chunk in passes_of(order))
        for order in orders("zb_v", 2, 1, 3)
    ]
    assert listed == [
        "F0a F1a F2a F0b B0b W0b F1b B1b W1b B0a W0a F2b B2b W2b B1a W1a B2a W2a",
        "F0a F0b F1a F1b B0b W0b F2a B0a W0a F2b B1b W1b B1a B2b B2a W1a W2b W2a",
    ]


def held(order: PassOrder) -> int:
    """Chunks whose activations a stage holds at most: from the forward pass until the weight gradient is known."""
    change = np.select([order.kind == FORWARD, order.kind == ACTIVATION], [1, 0], -1)
    return int(np.cumsum(change).max())


def test_activations_that_are_held() -> None:
    # ZB-H1 and ZB-V hold what the first stage of 1F1B does; DualPipe one microbatch more (arXiv 2412.19437, table 2).
    for stages in range(1, 9):
        microbatches = 3 * stages + stages % 2
        assert {held(order) for order in orders("zb_1p", stages, 1, microbatches)} == {stages}
        assert {held(order) for order in orders("zb_v", stages, 1, microbatches)} == {2 * stages}
        if stages % 2 == 0:
            assert {held(order) for order in orders("dualpipe", stages, 1, microbatches)} == {stages + 1}


def random_times(random: Random) -> tuple[float, float, float]:
    """Of a forward pass, activation gradients and weight gradients; some of them equal."""
    forward, backward, weight = (random.choice([1.0, random.uniform(0.2, 3.0)]) for _ in range(3))
    return forward, backward, weight


def split_seconds(forward: float, backward: float, weight: float) -> dict[PassKind, float]:
    return {FORWARD: forward, WHOLE: backward + weight, ACTIVATION: backward, WEIGHT: weight}


def test_how_long_a_zero_bubble_pipeline_takes() -> None:
    # docs/simulation.md: 1F1B's waiting, less a pass of the shortest kind for all stages but one, and microbatches.
    random = Random(11)
    for _ in range(600):
        stages, microbatches = random.randint(1, 7), random.randint(1, 16)
        forward, backward, weight = random_times(random)
        ends = ends_in_order(
            orders("zb_1p", stages, 1, microbatches),
            route_of("zb_1p", stages=stages, chunks=1),
            split_seconds(forward, backward, weight),
        )
        filled = (min(stages, microbatches) - 1) * min(forward, backward, weight)
        wanted = microbatches * (forward + backward + weight) + (stages - 1) * (forward + backward) - filled
        assert max(ends) == pytest.approx(wanted, rel=1e-12)


def test_how_long_a_v_takes() -> None:
    random = Random(12)
    for _ in range(400):
        stages = random.randint(2, 6)
        microbatches = random.randint(2 * stages - 1, 3 * stages)
        forward, backward, weight = random_times(random)
        weight = min(forward, backward, weight)
        ends = ends_in_order(
            orders("zb_v", stages, 1, microbatches),
            route_of("zb_v", stages=stages, chunks=1),
            split_seconds(forward, backward, weight),
        )
        longer = max(0.0, forward - backward)
        longest = max(forward, backward)
        waiting = (stages - 1) * max(2 * (longest - weight), longest + longer) - min(weight, longer)
        wanted = 2 * microbatches * (forward + backward + weight) + waiting
        assert max(ends) == pytest.approx(wanted, rel=1e-12)
        if forward == backward == weight:
            # The first stage waits for nothing, and ends when it has done its passes.
            assert ends[0] == pytest.approx(2 * microbatches * 3 * forward, rel=1e-12)


def test_how_long_both_ends_take() -> None:
    # Exactly where forward passes are longest; else between that and the published formula.
    random = Random(13)
    exact = 0
    for _ in range(300):
        stages = 2 * random.randint(1, 4)
        microbatches = 2 * random.randint(stages, 2 * stages)
        forward, backward, weight = random_times(random)
        weight = min(forward, backward, weight)
        ends = ends_in_order(
            orders("dualpipe", stages, 1, microbatches),
            route_of("dualpipe", stages=stages, chunks=1),
            split_seconds(forward, backward, weight),
            paired=True,
        )
        busy, gaps = microbatches * (forward + backward + weight), stages // 2 - 1
        least, published = (busy + gaps * (of + forward + backward - weight) for of in (forward, backward))
        if forward >= backward:
            assert max(ends) == pytest.approx(least, rel=1e-12)
        else:
            assert least <= max(ends) * (1 + 1e-12)
            assert max(ends) <= published * (1 + 1e-12)
        exact += forward == backward
        if forward == backward:
            assert max(ends) == pytest.approx(published, rel=1e-12)
    assert exact > 20


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
        ("zb_v", 2, 8, "'zb_v' takes one chunk a stage, not vpp = 2", "interleaved"),
        ("dualpipe", 1, 7, "at least 2 · pp, not pp = 4 and 7", "zb_v"),
        ("dualpipe", 1, 6, "at least 2 · pp, not pp = 4 and 6", "zb_v"),
    ],
)
def test_refused(schedule: str, chunks: int, microbatches: int, message: str, hint: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        check_schedule(schedule, stages=4, chunks=chunks, microbatches=microbatches)
    assert hint in str(caught.value.hint)


def test_split_backward_passes_are_for_training() -> None:
    for schedule in SPLIT:
        with pytest.raises(InputError, match="is for training"):
            check_schedule(schedule, stages=4, chunks=1, microbatches=8, training=False)


def test_an_odd_pipeline_has_no_middle() -> None:
    with pytest.raises(InputError, match="an even pp"):
        check_schedule("dualpipe", stages=3, chunks=1, microbatches=8)
