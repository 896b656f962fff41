"""Where the simulated step and the estimate differ, by how much, and why: docs/simulation.md derives the formulas."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from step_cases import StepCase, one, step_cases

from codesign_opt.graphs.step import StepOptions, StepWork, step_graph
from codesign_opt.graphs.step.pass_writer import Messages
from codesign_opt.simulation.step import simulate_step

EXACT = 1e-9
"""Relative."""
ROUNDING = 1 + 1e-12


@cache
def uneven_cases() -> list[StepCase]:
    return step_cases(41, 36, even=False, uneven=True, least_pp=2, most_pp=8, catalogue=0.7)


@cache
def offloading_cases() -> list[StepCase]:
    cases = step_cases(42, 36, offload=True, most_pp=5, catalogue=0.7)
    return [
        case
        for case in cases
        if case.strategy.weight_offload or case.strategy.activation_offload or case.strategy.optimizer_offload
    ]


@cache
def piped_cases() -> list[StepCase]:
    return step_cases(43, 14, least_pp=2, most_pp=5)


@cache
def overlapping_cases() -> list[StepCase]:
    return [case for case in step_cases(44, 36, dp_overlap=True, most_pp=5, least_dp=2) if case.strategy.dp_overlap]


def other_schedule(case: StepCase) -> str | None:
    """1F1B or its interleaved form, if the case can run it."""
    if case.strategy.vpp == 1:
        return "1f1b"
    return "interleaved" if case.full_rounds else None


@cache
def simulated(work: StepWork, schedule: str = "gpipe", messages: Messages = "serial") -> float:
    """Seconds of the step without contention."""
    step = step_graph(work, schedule=schedule, granularity="chunk", options=StepOptions(messages=messages))
    return simulate_step(step, contention=False).seconds


class Times:
    """The model's times of a case: of base and edge blocks, messages, chunks, and how many chunk passes a step takes.

    `f`, `b` and `fn`, `bn` are forward and backward pass of a block with and without exposed offload, `_b` of a base
    and `_e` of an edge block, which includes its message.
    """

    def __init__(self, case: StepCase) -> None:
        model, strategy = case.estimate.model, case.strategy
        chunk, counts = model.chunk, model.counts
        self.f_b, self.f_e, self.b_b, self.b_e = map(one, (chunk.f_b, chunk.f_e, chunk.b_b, chunk.b_e))
        self.fn_e, self.bn_e = one(chunk.fn_e), one(chunk.bn_e)
        self.once_b, self.once_e = one(chunk.once_b), one(chunk.once_e)
        self.cf, self.cb = one(chunk.cf), one(chunk.cb)
        self.chunk = one(chunk.chf) + one(chunk.chb)
        self.x, self.R = one(counts.x), int(one(counts.R))
        short = -case.microbatches % strategy.pp
        self.passes = case.microbatches * strategy.vpp + strategy.pp - 1 + (strategy.vpp - 1) * short
        self.after = one(model.times.optimizer) + one(model.times.dp_communication)

    @property
    def missing(self) -> float:
        """Forward and backward pass of the block that later stages lack: a base block, or all of a chunk's only one."""
        return self.f_b + self.b_b if self.x else self.f_e + self.b_e - self.cf - self.cb


def test_uneven_stages_with_gpipe() -> None:
    for case in uneven_cases():
        t = Times(case)
        # The estimate gives back half a base and half an edge block, or an edge block with its messages.
        edge, base = t.f_e + t.b_e, t.f_b + t.b_b
        more = t.R * (edge - base) / 2 if t.x else t.R * (t.cf + t.cb)
        assert simulated(case.work) == pytest.approx(case.seconds + more, rel=EXACT), str(case)
        assert simulated(case.work) == pytest.approx(t.passes * t.chunk - t.R * t.missing + t.after, rel=EXACT)


def test_the_cases_of_uneven_stages_are_of_all_kinds() -> None:
    for kind in (
        lambda case: Times(case).x > 0,
        lambda case: case.strategy.vpp > 1,
        lambda case: case.full_rounds,
        lambda case: case.strategy.training,
        lambda case: case.microbatches < case.strategy.pp,
    ):
        assert {bool(kind(case)) for case in uneven_cases()} == {True, False}


def test_uneven_stages_with_1f1b_are_between_the_fullest_stage_and_gpipe() -> None:
    for case in uneven_cases():
        schedule = other_schedule(case)
        if schedule is None:
            continue
        t = Times(case)
        # The last of the full stages does all its passes, after one pass of each stage before it, and before another.
        least = (case.microbatches * case.strategy.vpp + case.strategy.pp - t.R - 1) * t.chunk + t.after
        seconds = simulated(case.work, schedule)
        assert least <= seconds * ROUNDING, str(case)
        assert seconds <= simulated(case.work) * ROUNDING, str(case)


def test_uneven_stages_with_1f1b_gain_the_missing_blocks_twice() -> None:
    exact = 0
    for case in uneven_cases():
        t = Times(case)
        if case.strategy.vpp > 1 or not case.strategy.training or case.microbatches < t.R + 2:
            continue
        seconds = simulated(case.work, "1f1b")
        twice = t.passes * t.chunk - 2 * t.R * t.missing + t.after
        assert twice <= seconds * ROUNDING, str(case)
        # Where short stages take longer in each direction than what they lack in both.
        if t.x and min((t.x - 1) * t.f_b + t.f_e, (t.x - 1) * t.b_b + t.b_e) >= t.missing:
            exact += 1
            assert seconds == pytest.approx(twice, rel=EXACT), str(case)
    assert exact >= 5


def test_uneven_stages_in_inference() -> None:
    # There is one way through the pipeline only, so all schedules are GPipe.
    for case in uneven_cases():
        schedule = other_schedule(case)
        if not case.strategy.training and schedule is not None:
            assert simulated(case.work, schedule) == pytest.approx(simulated(case.work), rel=EXACT)


def test_offload_hides_beside_its_block_and_not_beside_the_message() -> None:
    # The estimate lets the streams of an edge block go on beside its message. In the simulation the message comes after
    # the block, so it adds what of the streams the block does not hide, up to the message. State of the optimizer is
    # streamed in the last backward pass of each chunk on each stage; the last ones follow each other from stage to
    # stage, so the step pays for pp of them a chunk, where the estimate pays for one.
    later = often = 0
    for case in offloading_cases():
        t, work, strategy = Times(case), case.work, case.strategy
        [block] = work.kinds
        streams, gradients, last = block.offload.forward, block.offload.backward, block.offload.last
        forward = min(t.cf, max(0.0, streams - (t.fn_e - t.cf)))
        backward = min(t.cb, max(0.0, gradients - (t.bn_e - t.cb)))
        paid = t.x * t.once_b + max(t.bn_e - t.cb, last) - max(t.bn_e - t.cb, gradients)
        once = t.x * t.once_b + t.once_e
        more = t.passes * (forward + backward) + strategy.pp * strategy.vpp * paid - strategy.vpp * once
        for schedule in {"gpipe", other_schedule(case)} - {None}:
            seconds = simulated(work, str(schedule))
            assert seconds == pytest.approx(case.seconds + more, rel=EXACT), (schedule, str(case))
        later += forward + backward > 0
        often += paid > 0 and strategy.pp > 1
    assert min(later, often) >= 4


def test_without_messages_only_the_optimizer_state_makes_a_difference() -> None:
    for case in offloading_cases():
        if case.strategy.pp == 1 or not case.strategy.optimizer_offload:
            assert simulated(case.work) >= case.seconds / ROUNDING
        if case.strategy.pp == 1:
            assert simulated(case.work) == pytest.approx(case.seconds, rel=EXACT), str(case)


def test_asynchronous_messages_are_never_slower() -> None:
    faster = 0
    for case in [*piped_cases(), *uneven_cases()[:10], *offloading_cases()[:10]]:
        for schedule in {"gpipe", other_schedule(case)} - {None}:
            serial = simulated(case.work, str(schedule))
            asynchronous = simulated(case.work, str(schedule), "asynchronous")
            assert asynchronous <= serial * ROUNDING, (schedule, str(case))
            faster += asynchronous < serial * (1 - 1e-6)
    assert faster > 20


def test_asynchronous_messages_save_no_more_than_the_estimate_counts() -> None:
    # pp_communication counts m · vpp messages each way, and the bubble those of its chunk times.
    for case in piped_cases():
        t = Times(case)
        messages = t.passes * (t.cf + t.cb)
        for schedule in {"gpipe", other_schedule(case)} - {None}:
            saved = simulated(case.work, str(schedule)) - simulated(case.work, str(schedule), "asynchronous")
            assert saved <= messages + 1e-12 * case.seconds, (schedule, str(case))


def test_the_first_stage_of_two_sends_as_many_messages_as_it_receives() -> None:
    # One microbatch: a message each way is exposed, and the estimate counts four, two of them in the bubble.
    for case in piped_cases():
        if case.strategy.pp == 2 and case.strategy.vpp == 1 and case.strategy.training:
            t = Times(case)
            single = replace(case.work, microbatches=1)
            wanted = 2 * t.chunk - t.cf - t.cb + t.after
            assert simulated(single, "1f1b", "asynchronous") == pytest.approx(wanted, rel=EXACT)


@pytest.mark.parametrize("schedule", ["gpipe", "other"])
def test_overlapped_exchange_is_between_none_and_one_after_the_other(schedule: str) -> None:
    hidden = 0
    for case in overlapping_cases():
        chosen = other_schedule(case) if schedule == "other" else schedule
        if chosen is None:
            continue
        work = case.work
        [block] = work.kinds
        exchange = sum(transfer.seconds for transfer in work.exchanges([block]))
        alone = work.with_blocks(lambda of: replace(of, gradients=(), weights=()))
        # What drives the exchange slows the chain of the last backward passes of all stages.
        driving = len(work.stage_blocks) * work.stage_blocks[0] * work.processor_usage * exchange
        without, overlapped, afterwards = (
            simulated(of, chosen, "asynchronous") for of in (alone, work, replace(work, overlapped=False))
        )
        assert without <= overlapped * ROUNDING, str(case)
        assert overlapped <= (afterwards + driving) * ROUNDING, str(case)
        # At least the last block's exchange, and all gathering, is exposed.
        gather = work.stage_blocks[0] * sum(transfer.seconds for transfer in work.gathers([block]))
        assert without + exchange + gather <= overlapped * ROUNDING, str(case)
        hidden += overlapped < afterwards * (1 - 1e-6)
    assert hidden >= 5
