"""Graphs of stages: valid, written once and laid out many times, with all the work and messages of the step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from step_cases import StepCase, one, step_cases, times_of
from step_works import GRADIENT_BYTES, MESSAGE_BYTES, handmade_work
from today_step_cases import today_cases

from codesign_opt.graphs import Graph, GraphBuilder, Ragged, check_graph, read_graph, write_graph
from codesign_opt.graphs.step import (
    GRANULARITIES,
    MESSAGES,
    SCHEDULES,
    StageGraph,
    StepGraph,
    StepOptions,
    step_graph,
)
from codesign_opt.graphs.step.end_writer import end_template
from codesign_opt.graphs.step.instructions import Aside, Template
from codesign_opt.graphs.step.orders import pass_order
from codesign_opt.graphs.step.pass_writer import pass_template
from codesign_opt.graphs.step.passes import PassKind, PassOrder
from codesign_opt.graphs.step.pieces import PARTS
from codesign_opt.graphs.step.slots import Pass
from codesign_opt.graphs.step.stack import stage_blocks


@cache
def steps() -> list[tuple[StepCase, StepGraph]]:
    """Steps of all kinds, with the cases that they are of."""
    random = Random(1)
    cases = step_cases(31, 26, uneven=True, offload=True, dp_overlap=True)
    return [(case, step_graph(case.work, **_ways(random, case))) for case in cases]


@cache
def all_steps() -> list[tuple[StepCase, StepGraph]]:
    """The same, and steps of today's workloads with all schedules."""
    random = Random(2)
    today = [(case, _ways(random, case)) for case in today_cases(33, 16, everything=True)]
    return [*steps(), *((case, step_graph(case.work, **{**ways, "schedule": "auto"})) for case, ways in today)]


def _ways(random: Random, case: StepCase) -> dict[str, Any]:
    buckets = random.choice([None, 2.5 * case.work.kinds[0].gradient_bytes, 1e15])
    return {
        "schedule": random.choice(["auto", "gpipe"]),
        "granularity": random.choice(GRANULARITIES),
        "options": StepOptions(messages=random.choice(MESSAGES), bucket_bytes=buckets),
    }


def seconds_by_part(stage: StageGraph) -> dict[str, float]:
    """Seconds × executions of all instructions but transfers that go on beside computation."""
    streamed = np.isin(stage.part, [PARTS.index(name) for name in _STREAMED])
    ahead = (stage.aside == Aside.NOTHING) & ~streamed
    sums = np.bincount(stage.part, ahead * stage.alone, minlength=len(PARTS))
    return dict(zip(PARTS, sums.tolist(), strict=True))


def test_graphs_can_be_run() -> None:
    for _, step in all_steps():
        for stage in step.stages:
            check_graph(stage.graph)


@pytest.mark.parametrize("extension", ["pb", "textproto"])
def test_graphs_can_be_written_and_read(extension: str, tmp_path: Path) -> None:
    graphs = [stage.graph for _, step in all_steps() for stage in step.stages[-1:] if len(stage.graph) < 300]
    assert len(graphs) > 5
    for number, graph in enumerate(graphs):
        path = tmp_path / f"{number}.{extension}"
        write_graph(graph, path)
        assert _differences(read_graph(path), graph) == []


def test_columns_are_over_instructions() -> None:
    for _, step in all_steps():
        for place, stage in enumerate(step.stages):
            assert stage.graph.processor == place
            for field in fields(StageGraph):
                if field.name != "graph":
                    assert len(getattr(stage, field.name)) == len(stage.graph), field.name


def test_laid_out_templates_are_all_passes_written_one_after_the_other() -> None:
    for _, step in all_steps():
        for place, stage in enumerate(step.stages):
            assert _differences(stage.graph, _written_out(step, place)) == []


def test_the_root_waits_for_everything() -> None:
    for _, step in all_steps():
        for stage in step.stages:
            graph = stage.graph
            waited = np.zeros(len(graph), dtype=bool)
            waited[graph.root[0]] = True
            entry = graph.members[0].tolist()
            for place in reversed(entry):
                if waited[place]:
                    waited[graph.operands[place]] = True
            assert waited[entry].all()


def test_work_of_a_stage_is_that_of_the_estimate() -> None:
    for case, step in steps():
        times, blocks = times_of(case.estimate.times), case.work.stage_blocks
        [block] = case.work.kinds
        exchanges = sum(transfer.seconds for transfer in case.work.exchanges([block]))
        gathers = sum(transfer.seconds for transfer in case.work.gathers([block]))
        found = seconds_by_part(step.stages[0])
        for part in ("forward", "backward", "recompute", "recompute_communication", "tp_communication", "optimizer"):
            assert found[part] == pytest.approx(times[part], rel=1e-9, abs=1e-300), (part, case)
        if step.options.bucket_bytes is None and not case.work.overlapped:
            assert found["dp_communication"] == pytest.approx(blocks[0] * (exchanges + gathers), rel=1e-12)
        if case.even:
            for stage in step.stages[1:]:
                others = seconds_by_part(stage)
                assert [others[p] for p in _COMPUTED] == pytest.approx([found[p] for p in _COMPUTED], rel=1e-12)


def test_stages_with_less_blocks_do_less() -> None:
    work = handmade_work((3, 3, 2), microbatches=4, optimizer=0.5)
    step = step_graph(work)
    assert [seconds_by_part(stage)["forward"] for stage in step.stages] == [12, 12, 8]
    assert [seconds_by_part(stage)["backward"] for stage in step.stages] == [24, 24, 16]
    assert [seconds_by_part(stage)["optimizer"] for stage in step.stages] == [1.5, 1.5, 1.0]


@pytest.mark.parametrize(
    ("blocks", "stages", "split"),
    [(8, 4, (2, 2, 2, 2)), (10, 4, (3, 3, 2, 2)), (3, 4, (1, 1, 1, 0)), (5, 1, (5,)), (9, 4, (3, 2, 2, 2))],
)
def test_blocks_of_stages(blocks: int, stages: int, split: tuple[int, ...]) -> None:
    assert stage_blocks(blocks, stages) == split
    # The fullest stage comes first, and as many stages lack a block as the model says.
    assert split.count(split[0] - 1) == (-blocks) % stages


def test_missing_blocks_are_those_of_the_last_chunks() -> None:
    step = step_graph(handmade_work((4, 3), chunks=2, microbatches=2))
    last = step.stages[1]
    forward = last.part == PARTS.index("forward")
    by_chunk = np.bincount(last.chunk[forward], last.alone[forward])
    assert by_chunk.tolist() == [2 * 2.0, 2 * 1.0]


def test_every_message_is_sent_and_received_once() -> None:
    for case, step in steps():
        sent, received = Counter[tuple[int, int, int]](), Counter[tuple[int, int, int]]()
        sizes = set()
        for place, stage in enumerate(step.stages):
            for number in range(len(stage.graph)):
                opcode, groups = stage.graph.opcode_name(number), stage.graph.groups[number]
                if opcode == "send-start":
                    sent[place, groups[0][0], int(stage.graph.tag[number])] += 1
                    sizes.add(float(stage.graph.bytes_in[number]))
                elif opcode == "recv-start":
                    received[groups[0][0], place, int(stage.graph.tag[number])] += 1
        assert sent == received
        between = case.strategy.pp * case.strategy.vpp - 1 if case.strategy.pp > 1 else 0
        assert sent.total() == case.microbatches * between * (1 + case.strategy.training)
        message = one(case.estimate.model.tables.spaces.message)
        assert sizes == ({message} if between else set())


def test_serial_passes_pay_for_a_message_each() -> None:
    # Two stages, three microbatches: three passes of each direction send none, and wait as long.
    for messages, delays in (("serial", 6), ("asynchronous", 0)):
        step = step_graph(handmade_work((1, 1), microbatches=3, message=0.5), options=StepOptions(messages=messages))
        waits = [
            float(seconds)
            for stage in step.stages
            for name, seconds in zip(stage.graph.names, stage.graph.seconds, strict=True)
            if name == "message"
        ]
        assert waits == [0.5] * delays


@pytest.mark.parametrize("overlapped", [False, True])
def test_gradient_buckets(overlapped: bool) -> None:
    # Five blocks of 100 bytes: buckets of at most 250 bytes take two.
    for bucket, sizes in ((None, [1] * 5), (99.0, [1] * 5), (250.0, [2, 2, 1]), (500.0, [5]), (1e9, [5])):
        work = handmade_work((5,), microbatches=2, gradients=1.0, gather=0.5, overlapped=overlapped)
        [stage] = step_graph(work, options=StepOptions(bucket_bytes=bucket)).stages
        for name in ("gradients", "weights"):
            found = [float(stage.graph.bytes_out[place]) for place in _called(stage.graph, name)]
            assert found == [GRADIENT_BYTES * size for size in sizes], (bucket, name)
        aside = stage.aside[_called(stage.graph, "gradients")]
        assert (aside == (Aside.PASSES if overlapped else Aside.NOTHING)).all()


def test_buckets_hold_all_gradients() -> None:
    for case, step in steps():
        for stage, blocks in zip(step.stages, case.work.stage_blocks, strict=True):
            [block] = case.work.kinds
            for name, exchanges in (("gradients", block.gradients), ("weights", block.weights)):
                total = stage.graph.bytes_out[_called(stage.graph, name)].sum()
                wanted = blocks * block.gradient_bytes if exchanges else 0.0
                assert total == pytest.approx(wanted, rel=1e-12)


def test_buckets_do_not_reach_over_chunks() -> None:
    work = handmade_work((4, 4), chunks=2, microbatches=2, gradients=1.0, overlapped=True)
    for stage in step_graph(work, options=StepOptions(bucket_bytes=1e9)).stages:
        chosen = _called(stage.graph, "gradients")
        assert stage.graph.bytes_out[chosen].tolist() == [200.0, 200.0]
        assert stage.chunk[chosen].tolist() == [1, 0]


def test_what_drives_an_exchange_takes_compute_beside_later_blocks_only() -> None:
    work = handmade_work((3,), microbatches=2, gradients=4.0, overlapped=True, processor_usage=0.25)
    [stage] = step_graph(work).stages
    driving = _called(stage.graph, "drive_gradients")
    # The last block's exchange has nothing beside it.
    assert stage.graph.seconds[driving].tolist() == [1.0, 1.0]
    assert (stage.microbatch[driving] == 1).all()


def test_optimizer_state_is_streamed_in_the_last_backward_passes() -> None:
    work = handmade_work((2, 2), chunks=2, microbatches=2, offload=(3.0, 4.0, 5.0))
    for stage in step_graph(work, schedule="gpipe", granularity="block").stages:
        streams = _called(stage.graph, "offload")
        found = {
            (PassKind(stage.kind[place]), int(stage.microbatch[place])): float(stage.graph.seconds[place])
            for place in streams
        }
        forward, backward = PassKind.FORWARD, PassKind.BACKWARD
        assert found == {(forward, 0): 3.0, (forward, 1): 3.0, (backward, 0): 4.0, (backward, 1): 5.0}


def test_inference_is_forward_only() -> None:
    work = handmade_work((2, 2), microbatches=3, training=False, message=0.5)
    for place, stage in enumerate(step_graph(work).stages):
        assert set(stage.kind.tolist()) <= {PassKind.FORWARD, -1}
        assert {PARTS[part] for part in stage.part} <= {"forward", "pp_communication", "order"}
        assert stage.graph.opcode_name(len(stage.graph) - 1) == "null"
        assert len(_called(stage.graph, "send")) == (3 if place == 0 else 0)


def test_microbatch_chunk_and_direction_of_instructions() -> None:
    work = handmade_work((2, 2), chunks=2, microbatches=2, message=1.0, optimizer=1.0)
    step = step_graph(work, schedule="interleaved")
    for place, stage in enumerate(step.stages):
        order = pass_order("interleaved", stages=2, stage=place, chunks=2, microbatches=2)
        outside = stage.microbatch < 0
        assert {stage.graph.names[number] for number in np.flatnonzero(outside)} == {"optimizer", "end"}
        assert (stage.kind[outside] == -1).all()
        assert (stage.chunk[outside] == -1).all()
        rows = np.stack([stage.kind, stage.microbatch, stage.chunk])[:, ~outside]
        kept = np.append(True, (np.diff(rows, axis=1) != 0).any(axis=0))
        assert rows[:, kept].tolist() == np.stack([order.kind, order.microbatch, order.chunk]).tolist()


def test_size_of_a_message_and_its_ports() -> None:
    [first, last] = step_graph(handmade_work((1, 1), microbatches=1, message=2.0, message_latency=0.5)).stages
    [place] = _called(first.graph, "send")
    assert first.graph.bytes_in[place] == MESSAGE_BYTES
    assert (first.tier[place], first.wire[place], first.latency[place]) == (1, 2.0, 0.5)
    assert first.aside[place] == Aside.NOTHING
    assert len(_called(last.graph, "send")) == 1


def test_processors_of_a_step() -> None:
    assert step_graph(handmade_work((1, 1, 1), microbatches=1)).processors == 12


_COMPUTED = ("forward", "backward", "recompute", "recompute_communication", "tp_communication", "optimizer")

_STREAMED = ("forward_offload", "backward_offload")


def _called(graph: Graph, name: str) -> list[int]:
    return [place for place, found in enumerate(graph.names) if found == name]


def _differences(first: Graph, second: Graph) -> list[str]:
    """The columns in which two graphs differ."""
    return [
        field.name for field in fields(Graph) if not _equal(getattr(first, field.name), getattr(second, field.name))
    ]


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, Ragged):
        return [entry.tolist() for entry in first] == [entry.tolist() for entry in second]
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(first, second)
    return bool(first == second)


def _written_out(step: StepGraph, stage: int) -> Graph:
    """A stage's program by copying each instruction of each pass in turn."""
    work = step.work
    order = pass_order(
        step.schedule, stages=work.stages, stage=stage, chunks=work.chunks, microbatches=work.microbatches,
        training=work.training,
    )  # fmt: skip
    builder = GraphBuilder(f"stage_{stage}", stage)
    entry = builder.subroutine("step")
    last: int | None = None
    exchanges: list[int] = []
    loose: list[int] = []
    for template in _templates(step, stage, order):
        numbers = _copied(builder, entry, template, last)
        last = numbers[template.last]
        if template.joins_exchanges >= 0:
            builder.depend(numbers[template.joins_exchanges], exchanges)
        exchanges += [numbers[place] for place in template.exchanges]
        loose += [numbers[place] for place in template.loose]
    assert last is not None
    builder.depend(last, loose)
    return builder.build()


def _templates(step: StepGraph, stage: int, order: PassOrder) -> Iterator[Template]:
    rows = list(zip(map(PassKind, order.kind.tolist()), order.chunk.tolist(), order.paired.tolist(), strict=True))
    unit: list[Pass] = []
    for place, (kind, chunk, paired) in enumerate(rows):
        later = [(after, other) for after, other, _ in rows[place + 1 :]]
        last = kind is not PassKind.FORWARD and not any((like, chunk) in later for like in _LIKE[kind])
        final = not any(after in (PassKind.BACKWARD, PassKind.WEIGHT_GRADIENT) for after, _ in later)
        unit.append(Pass(kind, chunk, last=last, final=final))
        if not paired:
            yield pass_template(step.work, step.layout, stage, step.options, unit)
            unit = []
    yield end_template(step.work, step.layout, stage, step.options)


_HALVES = (PassKind.ACTIVATION_GRADIENT, PassKind.WEIGHT_GRADIENT)
_LIKE = {
    PassKind.BACKWARD: (PassKind.BACKWARD, *_HALVES),
    **{half: (PassKind.BACKWARD, half) for half in _HALVES},
}


def _copied(builder: GraphBuilder, entry: int, template: Template, before: int | None) -> list[int]:
    """Add the instructions of a template but the first, which stands for `before`; returns their new numbers."""
    graph = template.graph
    numbers: list[int] = [-1 if before is None else before]
    subroutines = {0: entry}
    place_of = {int(identifier): place for place, identifier in enumerate(graph.identifier)}
    for place in range(1, len(graph)):
        inside = int(graph.subroutine[place])
        if inside not in subroutines:
            subroutines[inside] = builder.subroutine(
                graph.subroutine_names[inside],
                caller=numbers[int(graph.caller[inside])],
                count=int(graph.count[inside]),
            )
        numbers.append(
            builder.instruction(
                subroutines[inside],
                graph.names[place],
                graph.opcode_name(place),
                operands=[numbers[operand] for operand in graph.operands[place] if numbers[operand] >= 0],
                seconds=float(graph.seconds[place]),
                bytes_in=float(graph.bytes_in[place]),
                bytes_out=float(graph.bytes_out[place]),
                groups=graph.groups[place],
                tag=int(graph.tag[place]),
            )
        )
        partner = place_of.get(int(graph.bonded[place]), place)
        if partner < place:
            builder.bond(numbers[partner], numbers[place])
    return numbers


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("messages", MESSAGES)
def test_stage_graphs_of_every_schedule_are_all_passes(schedule: str, messages: Any) -> None:
    work = handmade_work(
        (2, 2, 2, 2), chunks=2 if schedule == "interleaved" else 1, microbatches=8, backward=1.0, weight_gradient=1.0,
        message=1.0, gradients=1.0, overlapped=True,
    )  # fmt: skip
    step = step_graph(work, schedule=schedule, options=StepOptions(messages=messages))
    for place, stage in enumerate(step.stages):
        check_graph(stage.graph)
        assert _differences(stage.graph, _written_out(step, place)) == []
