"""Steps of today's workloads as they run: every schedule, on shared ports, with all that may be exchanged."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import numpy as np
import pytest
from step_cases import StepCase, one
from today_step_cases import today_cases

from codesign_opt.graphs import check_graph
from codesign_opt.graphs.step import GRANULARITIES, MESSAGES, StepGraph, StepOptions, step_graph
from codesign_opt.graphs.step.instructions import Aside
from codesign_opt.graphs.step.orders import chunks_of
from codesign_opt.graphs.step.passes import PassKind
from codesign_opt.graphs.step.pieces import PARTS
from codesign_opt.simulation.step import simulate_step
from codesign_opt.simulation.step.breakdown import BREAKDOWN
from codesign_opt.strategies import Schedule, TpCommunication
from codesign_opt.workloads.kinds import block_kinds

ROUNDING = 1 + 1e-9


@cache
def steps() -> list[tuple[StepCase, StepGraph]]:
    random = Random(5)
    return [
        (
            case,
            step_graph(
                case.work,
                granularity=random.choice(GRANULARITIES),
                options=StepOptions(messages=random.choice(MESSAGES), bucket_bytes=random.choice([None, 1e5, 1e12])),
            ),
        )
        for case in today_cases(61, 40, everything=True)
    ]


def test_every_schedule_is_among_the_steps() -> None:
    assert {step.schedule for _, step in steps()} >= {schedule.value for schedule in Schedule}
    assert any(case.strategy.dp_overlap for case, _ in steps())
    assert any(case.strategy.first_stage_less for case, _ in steps())


def test_graphs_can_be_run() -> None:
    for _, step in steps():
        for stage in step.stages:
            check_graph(stage.graph)


def test_every_message_is_sent_and_received_once() -> None:
    for case, step in steps():
        sent, received = Counter[tuple[int, int, int]](), Counter[tuple[int, int, int]]()
        for place, stage in enumerate(step.stages):
            for number, groups in enumerate(stage.graph.groups):
                tag = int(stage.graph.tag[number])
                match stage.graph.opcode_name(number):
                    case "send-start":
                        sent[place, groups[0][0], tag] += 1
                    case "recv-start":
                        received[groups[0][0], place, tag] += 1
        assert sent == received
        # In a V the two chunks of the last stage are beside each other, and need none.
        pp, chunks = case.strategy.pp, chunks_of(step.schedule, case.strategy.vpp)
        between = {"zb_v": 2 * (pp - 1), "dualpipe": pp - 1}.get(step.schedule, pp * chunks - 1) if pp > 1 else 0
        assert sent.total() == case.microbatches * between * (1 + case.strategy.training)


def test_work_of_a_stage_is_that_of_the_estimate() -> None:
    def alike(case: StepCase) -> bool:
        plain = not case.workload.vocabulary and len(block_kinds(case.workload)) == 1
        boundary = case.strategy.tp_communication is TpCommunication.STAGE_BOUNDARY
        # In a V every chunk has an edge block.
        return plain and case.even and not (boundary and case.strategy.schedule is Schedule.ZB_V)

    names = ("forward", "backward", "recompute", "tp_communication", "cp_communication", "ep_communication")
    fixed = {"first_stage_less": 0, "last_stage_less": 0, "recompute_blocks": 0}
    for number, case in enumerate(today_cases(62, 16, wanted=alike, everything=True, **fixed)):
        for stage in step_graph(case.work, granularity=GRANULARITIES[number % 3]).stages:
            sums = np.bincount(stage.part, (stage.aside == Aside.NOTHING) * stage.alone, minlength=len(PARTS))
            for name in names:
                wanted, found = one(getattr(case.estimate.times, name)), float(sums[PARTS.index(name)])
                assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12 * case.seconds), (name, str(case))


def test_streams_are_beside_whole_passes_or_their_first_half() -> None:
    streams = {PARTS.index("forward_offload"), PARTS.index("backward_offload")}
    for _, step in steps():
        for stage in step.stages:
            kinds = set(stage.kind[np.isin(stage.part, list(streams))].tolist())
            assert PassKind.WEIGHT_GRADIENT not in kinds


def test_parts_of_each_stage_add_up_to_the_step() -> None:
    for case, step in steps():
        result = simulate_step(step)
        total = np.sum([result.stages[name] for name in BREAKDOWN], axis=0)
        assert total == pytest.approx(np.full(case.strategy.pp, result.seconds), rel=1e-9)
        assert all((result.stages[name] >= -1e-12 * result.seconds).all() for name in BREAKDOWN)


def test_contention_never_makes_a_step_faster_here() -> None:
    slower = 0
    for case, step in steps():
        alone, shared = (simulate_step(step, contention=contention) for contention in (False, True))
        assert alone.seconds <= shared.seconds * ROUNDING, str(case)
        assert shared.contention or shared.seconds == alone.seconds
        slower += shared.seconds > alone.seconds * ROUNDING
    assert slower >= 5


def test_longest_paths_are_what_the_event_engine_finds_without_contention() -> None:
    compared = 0
    for case, step in steps():
        # Passes beside each other take turns as they are ready, not as they are written.
        if step.schedule == "dualpipe" or case.workload.blocks * case.microbatches > 60:
            continue
        compared += 1
        levels, events = simulate_step(step, engine="levels"), simulate_step(step, contention=False)
        assert levels.seconds == pytest.approx(events.seconds, rel=1e-9), str(case)
    assert compared >= 10


def test_asynchronous_messages_are_never_slower() -> None:
    faster = 0
    for case, step in steps():
        serial, asynchronous = (
            simulate_step(
                step_graph(case.work, granularity="chunk", options=StepOptions(messages=messages)), contention=False
            ).seconds
            for messages in ("serial", "asynchronous")
        )
        assert asynchronous <= serial * ROUNDING, (step.schedule, str(case))
        faster += asynchronous < serial / 1.001
    assert faster >= 10
