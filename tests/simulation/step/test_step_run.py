"""Steps as they run: by hand, on the engines, and on ports that transfers share."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from random import Random
from typing import Any

import pytest
from step_cases import StepCase, step_cases
from step_works import handmade_work

from codesign_opt.errors import InputError
from codesign_opt.graphs.step import MESSAGES, SCHEDULES, StepGraph, StepOptions, StepWork, Transfer, step_graph
from codesign_opt.graphs.step.orders import check_schedule
from codesign_opt.graphs.step.pieces import Passes, Piece
from codesign_opt.graphs.step.work import BlockWork
from codesign_opt.simulation.program import compile_program
from codesign_opt.simulation.step import simulate_step
from codesign_opt.simulation.step.run import _alone, _on_shared_ports, shares_ports

EXACT = 1e-9
"""Relative."""
ROUNDING = 1 + 1e-9


def collective(seconds: float, part: str = "forward") -> Piece:
    """Communication of so many seconds that nothing hides; `handmade_work` takes a second a byte."""
    return Piece(
        name="collective", part=part, communication="tp_communication", group="tp", collective="all-reduce",
        size=seconds, transfers=1, link=seconds, exposed=seconds,
    )  # fmt: skip


def product(compute: float, link: float, part: str = "forward") -> Piece:
    """A product that hides communication."""
    return Piece(
        name="product", part=part, compute=compute, communication="tp_communication", group="tp",
        collective="all-gather", size=link, transfers=1, link=link, exposed=max(0.0, link - compute),
    )  # fmt: skip


def plain(seconds: float, part: str = "forward") -> Piece:
    return Piece(name=part, part=part, compute=seconds)


def step_of(work: StepWork, schedule: str = "auto", **options: Any) -> StepGraph:
    return step_graph(work, schedule=schedule, granularity="operation", options=StepOptions(**options))


def seconds(work: StepWork, schedule: str = "auto", *, contention: bool = True, **options: Any) -> float:
    return simulate_step(step_of(work, schedule, **options), contention=contention).seconds


@cache
def handmade() -> list[tuple[StepWork, StepGraph]]:
    """Random steps of few instructions with all kinds of transfers, all on one network tier."""
    random = Random(7)
    works = [_random_work(random) for _ in range(60)]
    return [(work, step_of(work, messages=random.choice(MESSAGES))) for work in works]


def _random_work(random: Random) -> StepWork:
    stages = random.choice([1, 2, 3, 4])
    chunks = random.choice([1, 1, 2]) if stages > 1 else 1
    blocks = chunks * random.randint(1, 2)

    def pieces(part: str) -> tuple[Piece, ...]:
        listed = [plain(random.uniform(0.2, 3), part)]
        if random.random() < 0.6:
            listed.insert(random.randint(0, 1), collective(random.uniform(0.1, 2), part))
        if random.random() < 0.6:
            listed.append(product(random.uniform(0.2, 2), random.uniform(0.1, 3), part))
        return tuple(listed)

    gradients = random.choice([0.0, random.uniform(0.1, 3)])
    return handmade_work(
        (blocks,) * stages,
        chunks=chunks,
        microbatches=stages * random.randint(1, 3),
        pieces=(pieces("forward"), pieces("backward")),
        message=random.uniform(0.1, 3),
        message_latency=random.choice([0.0, 0.3]),
        gradients=gradients,
        gradient_latency=random.choice([0.0, 0.3]),
        gather=random.choice([None, 0.5]) if gradients else None,
        optimizer=0.5,
        overlapped=random.random() < 0.5,
        processor_usage=random.choice([0.0, 0.1]),
        tiers=(0, 0, 0),
    )


def faster(work: StepWork, factor: float) -> StepWork:
    """The step with more bandwidth on all network tiers; what is hidden beside a product takes it whole."""

    def transfer(of: Transfer) -> Transfer:
        return replace(of, wire=of.wire / factor)

    def piece(of: Piece) -> Piece:
        link = of.link / factor
        return replace(of, link=link, exposed=max(0.0, link - of.compute)) if of.collective else of

    def passes(of: Passes) -> Passes:
        return Passes(**{field.name: tuple(map(piece, getattr(of, field.name))) for field in fields(Passes)})

    def block(of: BlockWork) -> BlockWork:
        return replace(of, base=passes(of.base), edge=passes(of.edge))

    message = work.message
    return replace(
        work.with_blocks(block),
        message=None if message is None else transfer(message),
        transfer=lambda group, opcode, size: transfer(work.transfer(group, opcode, size)),
    )


def test_one_stage() -> None:
    # Two microbatches through three blocks, 1 s forward and 2 s backward; then 3 x 0.5 s of optimizer.
    assert seconds(handmade_work((3,), microbatches=2, optimizer=0.5)) == 19.5


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_serial_messages(schedule: str) -> None:
    # Four microbatches and two stages to fill and drain, 1 + 2 s and two messages of 0.75 s each.
    work = handmade_work((1, 1, 1), microbatches=4, message=0.5, message_latency=0.25)
    assert seconds(work, schedule, messages="serial", contention=False) == (4 + 2) * (3 + 2 * 0.75)


def test_asynchronous_messages() -> None:
    # One microbatch: 1 s, message, 1 s, 2 s, message, 2 s.
    work = handmade_work((1, 1), microbatches=1, message=0.5, message_latency=0.25)
    assert seconds(work) == 1 + 0.75 + 1 + 2 + 0.75 + 2
    # Four microbatches with messages that take longer than passes: the stage's messages leave one after the other.
    slow = handmade_work((1, 1), microbatches=4, message=3.0, message_latency=0.25, training=False)
    assert seconds(slow) == 1 + 4 * 3.0 + 0.25 + 1


def test_offload_goes_on_beside_its_block() -> None:
    # Streams of 1.5 s beside a forward pass of 1 s, of 1 s beside a backward pass of 2 s, of 5 s beside the last one.
    work = handmade_work((2,), microbatches=3, offload=(1.5, 1.0, 5.0))
    assert seconds(work) == 3 * 2 * 1.5 + 2 * 2 * 2.0 + 2 * 5.0


def test_exchange_after_the_passes() -> None:
    # Three blocks: 3 + 6 s, exchanges of 4.5 s, optimizer of 1 s, gathering of 2.5 s each.
    work = handmade_work((3,), gradients=4.0, gradient_latency=0.5, optimizer=1.0, gather=2.0)
    assert seconds(work) == 9 + 3 * (4.5 + 1.0 + 2.5)
    # Two buckets have two latencies.
    assert seconds(work, bucket_bytes=200.0) == 9 + 3 * (4.0 + 1.0 + 2.0) + 2 * 2 * 0.5


def test_exchange_beside_the_passes() -> None:
    # Backward passes of 2 s from 3 s on send off exchanges of 3 s at 5, 7 and 9 s, which take their turns: 8, 11, 14.
    assert seconds(handmade_work((3,), gradients=3.0, overlapped=True, optimizer=1.0)) == 14 + 3 * 1.0
    # An exchange of 1.5 s is hidden but for the last one.
    assert seconds(handmade_work((3,), gradients=1.5, overlapped=True)) == 9 + 1.5
    # What drives them takes a tenth of their time from the passes, but for the last one.
    driven = handmade_work((3,), gradients=1.5, overlapped=True, processor_usage=0.1)
    assert seconds(driven) == pytest.approx(9 + 2 * 0.15 + 1.5)
    # A single bucket is complete when the passes are over.
    assert seconds(handmade_work((3,), gradients=1.5, overlapped=True), bucket_bytes=300.0) == 9 + 4.5


def test_an_exchange_and_a_collective_share_their_port() -> None:
    # Forward to 2 s; products 2 to 4, collective 4 to 6, when the first exchange of 4 s begins. Product 6 to 8; then
    # the second collective of 2 s shares with the 2 s that are left of the exchange: both to 12. The second exchange
    # ends at 16 instead of 14.
    backward = (plain(2.0, "backward"), collective(2.0, "backward"))
    parts = {"pieces": ((plain(1.0),), backward), "gradients": 4.0, "overlapped": True}
    shared = simulate_step(step_of(handmade_work((2,), tiers=(0, 0, 0), **parts)))
    assert shared.contention
    assert shared.seconds == 16.0
    assert shared.ports.to_dicts() == [
        {"stage": 0, "tier": 0, "direction": direction, "filled": 12.0, "share": 0.75} for direction in ("in", "out")
    ]
    apart = simulate_step(step_of(handmade_work((2,), tiers=(0, 0, 1), **parts)))
    assert not apart.contention
    assert apart.seconds == 14.0
    assert seconds(handmade_work((2,), tiers=(0, 0, 0), **parts), contention=False) == 14.0


def test_a_message_shares_the_port_of_a_collective_of_its_receiver() -> None:
    # Passes of a collective of 2 s. The second one of stage 0 shares its port with the first message, both 2-6. From
    # 6 s on the second message shares the port of stage 1 with the collective there, both to 10. The last ends at 12.
    work = handmade_work(
        (1, 1), microbatches=2, training=False, pieces=((collective(2.0),), ()), message=2.0, tiers=(0, 0, 0)
    )
    assert seconds(work) == 12.0
    # Alone: message 2-4, collective of stage 1 4-6, second message 4-6, second collective 6-8.
    assert seconds(work, contention=False) == 8.0


@pytest.mark.parametrize(
    ("stages", "schedule", "training", "met"),
    [(4, "1f1b", True, True), (4, "gpipe", True, False), (4, "1f1b", False, False), (2, "1f1b", True, False)],
)
def test_messages_of_both_neighbours_meet(stages: int, schedule: str, training: bool, met: bool) -> None:
    work = handmade_work((1,) * stages, microbatches=4, message=2.0, training=training)
    step = step_of(work, schedule)
    assert shares_ports(step) == met
    alone, shared = _alone(step, False).makespan, _on_shared_ports(step, False).makespan
    if met:
        assert (alone, shared) == (42.0, 43.0)
    else:
        assert shared == pytest.approx(alone, rel=EXACT)


@pytest.mark.parametrize(
    ("tiers", "kinds", "shared"),
    [
        ((0, 1, 2), "tp pp dp", False),
        ((0, 0, 1), "tp pp", True),
        ((0, 1, 1), "pp dp", True),
        ((0, 1, 0), "tp dp", False),
        ((0, 1, 0), "tp overlapped", True),
        ((0, 1, 0), "overlapped", False),
        ((0, 1, 1), "dp", False),
        ((0, 1, 0), "hidden dp", True),
        ((0, 1, 2), "hidden dp", False),
    ],
)
def test_when_ports_are_shared(tiers: tuple[int, int, int], kinds: str, shared: bool) -> None:
    # Exchange after the passes meets no collective of the stage itself, but may meet a message of the stage before.
    backward = [plain(2.0, "backward")]
    if "tp" in kinds:
        backward.append(collective(1.0, "backward"))
    if "hidden" in kinds:
        backward.append(product(1.0, 0.5, "backward"))
    work = handmade_work(
        (1, 1) if "pp" in kinds else (2,),
        microbatches=2,
        pieces=((plain(1.0),), tuple(backward)),
        message=0.5,
        gradients=1.0 if "dp" in kinds or "overlapped" in kinds else 0.0,
        overlapped="overlapped" in kinds,
        tiers=tiers,
    )
    assert shares_ports(step_of(work)) == shared


def test_ports_change_nothing_where_transfers_do_not_meet() -> None:
    compared = 0
    for number, case in enumerate(_cases()):
        step = step_graph(case.work, granularity="chunk", options=StepOptions(messages=MESSAGES[number % 2]))
        if not any((stage.tier >= 0).any() for stage in step.stages):
            continue
        alone, shared = _alone(step, False).makespan, _on_shared_ports(step, False).makespan
        if shares_ports(step):
            assert alone <= shared * ROUNDING, str(case)
        else:
            compared += 1
            assert shared == pytest.approx(alone, rel=EXACT), str(case)
    assert compared >= 5


@cache
def _cases() -> list[StepCase]:
    return step_cases(51, 24, uneven=True, offload=True, dp_overlap=True, most_pp=5)


def test_contention_slows_down_by_no_more_than_what_else_is_on_the_wire() -> None:
    # While the transfer that everything waits for is slowed, its port is full, so others get on as much as it falls
    # behind: in all no more than all transfers take on the wire.
    slowed = 0
    for _, step in handmade():
        alone = _alone(step, False).makespan
        if not any((stage.tier >= 0).any() for stage in step.stages):
            continue
        shared = _on_shared_ports(step, False).makespan
        wires = sum(
            float((stage.wire * compile_program(stage.graph).executions)[stage.tier >= 0].sum())
            for stage in step.stages
        )
        assert alone <= shared * ROUNDING
        assert shared <= (alone + wires) * ROUNDING
        slowed += shared > alone * 1.05
    assert slowed > 15


@pytest.mark.parametrize("contention", [False, True])
def test_twice_the_bandwidth_is_never_slower_here(contention: bool) -> None:
    gained = 0
    for work, step in handmade():
        twice = step_of(faster(work, 2.0), messages=step.options.messages)
        before, after = (simulate_step(of, contention=contention).seconds for of in (step, twice))
        assert after <= before * ROUNDING
        gained += after < before / ROUNDING
    assert gained > 40


def test_a_little_more_bandwidth_may_be_slower() -> None:
    # Max-min fair sharing is not monotone: a transfer that ends earlier lets another begin, which delays a third one.
    work = handmade_work(
        (1,) * 4,
        microbatches=9,
        pieces=(
            (collective(1.89), plain(1.57), replace(product(1.57, 1.14), part="forward")),
            (plain(2.81, "backward"), collective(0.8, "backward")),
        ),
        message=2.23,
        tiers=(0, 0, 0),
    )
    before, after = seconds(work), seconds(faster(work, 1.01))
    assert before == pytest.approx(158.96)
    assert after == pytest.approx(159.16)
    assert seconds(faster(work, 1.01), contention=False) < seconds(work, contention=False)


def test_no_schedule_that_is_allowed_deadlocks() -> None:
    for stages in range(1, 5):
        for chunks in (1, 2) if stages > 1 else (1,):
            for microbatches in (1, stages, stages + 1, 2 * stages):
                work = handmade_work((chunks,) * stages, chunks=chunks, microbatches=microbatches, message=0.5)
                for schedule in SCHEDULES:
                    try:
                        check_schedule(schedule, stages=stages, chunks=chunks, microbatches=microbatches)
                    except InputError:
                        continue
                    for messages in MESSAGES:
                        assert seconds(work, schedule, contention=False, messages=messages) >= 3.0 * microbatches


@pytest.mark.parametrize("messages", MESSAGES)
def test_longest_paths_are_what_the_event_engine_finds_without_contention(messages: str) -> None:
    for case in _cases()[:14]:
        step = step_graph(case.work, granularity="chunk", options=StepOptions(messages=messages))
        events = simulate_step(step, contention=False)
        levels = simulate_step(step, engine="levels")
        assert levels.seconds == pytest.approx(events.seconds, rel=EXACT), str(case)
        assert levels.stages["end"] == pytest.approx(events.stages["end"], rel=EXACT)
        assert levels.simulation is None
        assert not levels.contention
        assert levels.ports["filled"].tolist() == events.ports["filled"].tolist()


def test_ports_are_filled_for_what_is_sent_and_received() -> None:
    # Two microbatches of 0.5 s messages each way, exchanges of 3 s: filled 1 s and 3 s.
    work = handmade_work((1, 1), microbatches=2, message=0.5, gradients=3.0)
    result = simulate_step(step_of(work))
    filled = {(row["stage"], row["tier"], row["direction"]): row["filled"] for row in result.ports.to_dicts()}
    assert filled == {
        (stage, tier, direction): amount
        for stage in (0, 1)
        for tier, amount in ((1, 1.0), (2, 3.0))
        for direction in ("in", "out")
    }
    assert result.ports["share"] == pytest.approx(result.ports["filled"] / result.seconds)


def test_ports_count_what_runs_in_loops() -> None:
    work = handmade_work((5,), microbatches=3, pieces=((collective(2.0),), (plain(1.0, "backward"),)))
    assert set(simulate_step(step_of(work)).ports["filled"]) == {5 * 3 * 2.0}


def test_a_step_without_transfers_has_no_ports() -> None:
    result = simulate_step(step_of(handmade_work((2,))))
    assert result.ports.rows == 0
    assert not result.contention


@pytest.mark.parametrize("serial", [True, False])
def test_messages_without_a_time_cost_nothing(serial: bool) -> None:
    work = handmade_work((1, 1, 1), microbatches=2, message=0.0)
    assert seconds(work, messages="serial" if serial else "asynchronous") == (2 + 2) * 3.0


def test_a_recorded_run_takes_as_long_and_has_a_critical_path() -> None:
    for contention in (True, False):
        for _, step in handmade()[:6]:
            plain_run = simulate_step(step, contention=contention)
            recorded = simulate_step(step, contention=contention, record=True)
            assert recorded.seconds == pytest.approx(plain_run.seconds, rel=1e-12)
            assert recorded.simulation is not None
            assert recorded.simulation.log is not None
            assert recorded.simulation.critical_path()[-1].end == pytest.approx(recorded.seconds, rel=1e-12)


def test_refused() -> None:
    step = step_of(handmade_work((2,)))
    with pytest.raises(InputError, match="engine 'event' is not known") as caught:
        simulate_step(step, engine="event")
    assert "events" in str(caught.value.hint)
    with pytest.raises(InputError, match="keeps no timeline"):
        simulate_step(step, engine="levels", record=True)
    with pytest.raises(InputError, match="equal stages"):
        simulate_step(step_of(handmade_work((2, 1))), engine="closed-form")
    with pytest.raises(InputError, match="overlapped"):
        simulate_step(step_of(handmade_work((2,), gradients=1.0, overlapped=True)), engine="closed-form")
