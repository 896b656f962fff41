"""Where the time of a step goes, and how that compares with the estimate."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from step_cases import step_cases, times_of
from step_works import handmade_work

from codesign_opt.analytical import StepTimes
from codesign_opt.graphs.step import GRANULARITIES, MESSAGES, StepOptions, step_graph
from codesign_opt.simulation.step import compare, simulate_step, simulated_estimate
from codesign_opt.simulation.step.breakdown import BREAKDOWN, Activities, breakdown

Activity = tuple[int, str, float, float]
"""Stage, what it counts as, start and end."""


def parts_of(activities: Sequence[Activity], *, stages: int = 1, seconds: float = 10.0) -> list[dict[str, float]]:
    """For each stage the parts that are not 0."""
    columns = [np.array(column) for column in zip(*activities, strict=True)] if activities else [np.zeros(0)] * 4
    columns[1] = np.array([BREAKDOWN.index(name) for _, name, _, _ in activities], dtype=np.int64)
    columns[0] = columns[0].astype(np.int64)
    parts = breakdown(Activities(*columns), stages=stages, seconds=seconds)
    assert tuple(parts) == BREAKDOWN
    return [{name: float(values[stage]) for name, values in parts.items() if values[stage]} for stage in range(stages)]


def test_one_after_the_other() -> None:
    activities = [(0, "forward", 0.0, 2.0), (0, "backward", 3.0, 7.0), (0, "optimizer", 7.0, 9.0)]
    assert parts_of(activities) == [{"forward": 2.0, "backward": 4.0, "optimizer": 2.0, "bubble": 2.0}]


def test_computation_comes_before_communication_and_that_before_messages() -> None:
    activities = [
        (0, "pp_communication", 0.0, 9.0),
        (0, "tp_communication", 1.0, 6.0),
        (0, "forward", 2.0, 4.0),
        (0, "backward_offload", 5.0, 8.0),
    ]
    assert parts_of(activities) == [
        {"forward": 2.0, "tp_communication": 3.0, "backward_offload": 2.0, "pp_communication": 2.0, "bubble": 1.0}
    ]


def test_what_goes_on_twice_counts_once() -> None:
    activities = [(0, "dp_communication", 0.0, 5.0), (0, "dp_communication", 2.0, 7.0), (0, "forward", 3.0, 3.0)]
    assert parts_of(activities) == [{"dp_communication": 7.0, "bubble": 3.0}]


def test_a_part_may_begin_again_when_another_ends() -> None:
    activities = [(0, "forward", 0.0, 1.0), (0, "forward", 1.0, 2.0), (0, "backward", 0.0, 3.0)]
    assert parts_of(activities, seconds=3.0) == [{"forward": 2.0, "backward": 1.0}]


def test_stages_do_not_mix() -> None:
    activities = [(1, "forward", 0.0, 4.0), (0, "forward", 6.0, 7.0), (2, "backward", 0.0, 10.0)]
    assert parts_of(activities, stages=4) == [
        {"forward": 1.0, "bubble": 9.0},
        {"forward": 4.0, "bubble": 6.0},
        {"backward": 10.0},
        {"bubble": 10.0},
    ]


def test_nothing_at_all_is_a_bubble() -> None:
    assert parts_of([]) == [{"bubble": 10.0}]


def test_random_activities_against_looking_at_every_moment() -> None:
    random = Random(3)
    for _ in range(30):
        activities = [
            (random.randrange(3), random.choice(BREAKDOWN[:-1]), float(start), float(start + random.randint(0, 6)))
            for start in (random.randint(0, 14) for _ in range(random.randint(1, 20)))
        ]
        wanted = []
        for stage in range(3):
            parts: dict[str, float] = {}
            for moment in range(20):
                going_on = {name for at, name, start, end in activities if at == stage and start <= moment < end}
                part = next((name for name in BREAKDOWN if name in going_on), "bubble")
                parts[part] = parts.get(part, 0.0) + 1
            wanted.append(parts)
        assert parts_of(activities, stages=3, seconds=20.0) == wanted


def test_parts_are_those_of_the_model() -> None:
    assert {*BREAKDOWN, "total"} == set(StepTimes.__dataclass_fields__)


def test_parts_of_each_stage_add_up_to_the_step() -> None:
    random = Random(5)
    for case in step_cases(61, 24, uneven=True, offload=True, dp_overlap=True, most_pp=5):
        step = step_graph(
            case.work,
            granularity=random.choice(GRANULARITIES),
            options=StepOptions(messages=random.choice(MESSAGES)),
        )
        result = simulate_step(step, contention=random.random() < 0.7)
        stages = result.stages
        assert stages["stage"].tolist() == list(range(case.strategy.pp))
        total = np.sum([stages[name] for name in BREAKDOWN], axis=0)
        assert total == pytest.approx(np.full(case.strategy.pp, result.seconds), rel=1e-9)
        assert all((stages[name] >= -1e-12 * result.seconds).all() for name in BREAKDOWN)
        assert stages["end"].max() == result.seconds
        # What is computed does not depend on what it waits for.
        times = times_of(case.estimate.times)
        for name in ("forward", "backward", "recompute", "optimizer"):
            assert stages[name][0] == pytest.approx(times[name], rel=1e-9, abs=1e-300), (name, str(case))


def test_a_pipeline_by_hand() -> None:
    # Messages take 1 s to leave and 1 s more to arrive: stage 1 works from 3 s to 6 s.
    work = handmade_work((1, 1), message=1.0, message_latency=1.0, optimizer=0.5)
    stages = simulate_step(step_graph(work)).stages
    found = [{name: row[name] for name in BREAKDOWN if row[name]} for row in stages.to_dicts()]
    # 0-1 forward, 1-2 sends, 2-6 nothing, 6-8 receives, 8-10 backward, optimizer to 10.5.
    assert found[0] == {
        "forward": 1.0, "backward": 2.0, "optimizer": 0.5, "pp_communication": 3.0, "bubble": 4.0,
    }  # fmt: skip
    # 1-3 receives, 3-6 works, the optimizer beside the message that leaves, then nothing.
    assert found[1] == {
        "forward": 1.0, "backward": 2.0, "optimizer": 0.5, "pp_communication": 2.5, "bubble": 4.5,
    }  # fmt: skip
    assert stages["end"].tolist() == [10.5, 7.0]


def test_a_simulated_step_beside_its_estimate() -> None:
    case = step_cases(62, 30, least_pp=2)[0]
    result = simulate_step(step_graph(case.work))
    simulated = simulated_estimate(case.estimate, result)
    parts, first = times_of(simulated.times), result.stages.row(0)
    assert parts.pop("total") == result.seconds
    assert parts == {name: first[name] for name in BREAKDOWN}
    assert simulated.memory is case.estimate.memory

    table = compare(case.estimate, simulated)
    before, after = times_of(case.estimate.times), times_of(simulated.times)
    assert table["part"][-1] == "total"
    assert sorted(table["part"]) == sorted(before)
    assert (np.diff(np.abs(table["difference"][:-1])) <= 0).all()
    for row in table.to_dicts():
        assert (row["estimate"], row["simulated"]) == (before[row["part"]], after[row["part"]])
        assert row["difference"] == pytest.approx(after[row["part"]] - before[row["part"]], abs=1e-11 * case.seconds)
        assert row["share"] == pytest.approx(row["difference"] / case.seconds)


def test_rounding_is_no_difference() -> None:
    case = next(case for case in step_cases(63, 30) if case.strategy.pp == 1)
    step = step_graph(case.work, options=StepOptions(messages="serial"))
    table = compare(case.estimate, simulated_estimate(case.estimate, simulate_step(step)))
    assert np.abs(table["difference"]).max() <= 1e-9 * case.seconds
    assert (table["difference"][np.abs(table["simulated"] - table["estimate"]) <= 1e-12 * case.seconds] == 0).all()
