"""The simulated step takes what the estimate says, wherever the assumptions of the two are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from step_cases import SYSTEMS, StepCase, step_cases, times_of

from codesign_opt.graphs.step import GRANULARITIES, StepGraph, StepOptions, step_graph
from codesign_opt.simulation.step import simulate_step, simulated_estimate

FEW, MANY = 60, 250
EXACT = 1e-9
"""Relative."""


@cache
def few_cases() -> list[StepCase]:
    """Strategies with even stages, without overlapped gradient exchange and offload."""
    return step_cases(2028, FEW, catalogue=0.35, most_microbatches=8)


@cache
def many_cases() -> list[StepCase]:
    """More of the same."""
    return step_cases(2027, MANY)


def schedules(case: StepCase) -> list[str]:
    """Those that the case can run."""
    if case.strategy.vpp == 1:
        return ["gpipe", "1f1b"]
    return ["gpipe", "interleaved"] if case.full_rounds else ["gpipe"]


def serial_step(case: StepCase, schedule: str, granularity: str) -> StepGraph:
    return step_graph(case.work, schedule=schedule, granularity=granularity, options=StepOptions(messages="serial"))


def assert_agrees(case: StepCase, schedule: str, granularity: str, engine: str) -> None:
    result = simulate_step(serial_step(case, schedule, granularity), engine=engine, contention=False)
    assert result.seconds == pytest.approx(case.seconds, rel=EXACT), (schedule, granularity, engine, str(case))


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_the_simulated_step_takes_what_the_estimate_says(granularity: str) -> None:
    for number, case in enumerate(few_cases()):
        possible = schedules(case)
        assert_agrees(case, possible[number % len(possible)], granularity, "events")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_the_simulated_step_takes_what_the_estimate_says_in_many_cases(part: int) -> None:
    random = Random(part)
    for case in many_cases()[part::2]:
        assert_agrees(case, random.choice(schedules(case)), random.choice(GRANULARITIES), "events")


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_longest_paths_are_as_long_as_the_estimate_says(granularity: str) -> None:
    # The level engine unrolls every loop, so only what executes little is looked at.
    chosen = [case for case in few_cases() if case.workload.blocks * case.microbatches <= 60][:12]
    assert len(chosen) == 12
    for number, case in enumerate(chosen):
        possible = schedules(case)
        assert_agrees(case, possible[number % len(possible)], granularity, "levels")


def test_the_closed_form_is_the_estimate() -> None:
    for case in few_cases():
        assert_agrees(case, "gpipe", "chunk", "closed-form")


def test_parts_of_the_first_stage_are_those_of_the_estimate() -> None:
    # What the estimate calls a bubble the simulation calls message where one is under way.
    for number, case in enumerate(few_cases()[:30]):
        possible = schedules(case)
        step = serial_step(case, possible[number % len(possible)], GRANULARITIES[number % 3])
        result = simulate_step(step, contention=False)
        wanted, found = (
            times_of(times) for times in (case.estimate.times, simulated_estimate(case.estimate, result).times)
        )
        for times in (wanted, found):
            times["waiting"] = times.pop("pp_communication") + times.pop("bubble")
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9 * case.seconds), str(case)


@pytest.mark.parametrize(("cases", "least"), [(few_cases, 1), pytest.param(many_cases, 5, marks=pytest.mark.slow)])
def test_all_kinds_of_strategies_are_among_the_cases(cases: Callable[[], list[StepCase]], least: int) -> None:
    chosen = cases()
    features = Counter(feature for case in chosen for feature in _features(case))
    assert [feature for feature in _FEATURES if features[feature] < least] == []
    assert len({case.workload.name for case in chosen}) >= 10
    assert {case.system.name for case in chosen} == {"random", *SYSTEMS}


_TP_FEATURES = (
    *(f"{kind}" for kind in ("all_reduce", "stage_boundary", "sequence_parallel")),
    *(f"overlap {kind}" for kind in ("none", "ring", "pipe")),
)

_FEATURES = (
    *(f"schedule {schedule}" for schedule in ("gpipe", "1f1b", "interleaved")),
    "gpipe, incomplete rounds, vpp",
    "gpipe, fewer microbatches than stages",
    *_TP_FEATURES,
    *(f"recompute {kind}" for kind in ("none", "selective", "full")),
    "gather_redo",
    "gather_redo, overlap",
    "sharded",
    "plain exchange",
    "training",
    "inference",
    "one tier",
    "three tiers",
    *(f"{dimension}_tier {tier}" for dimension in ("tp", "pp", "dp") for tier in range(3)),
    "roofline",
    "no roofline",
    "latency",
    "catalogue",
    "random",
)


def _features(case: StepCase) -> set[str]:
    """What a case is an example of, in the words of `_FEATURES`."""
    strategy, system = case.strategy, case.system
    found = {f"schedule {schedule}" for schedule in schedules(case)} if strategy.pp > 1 else set()
    found |= {
        f"recompute {strategy.recompute.value}",
        "training" if strategy.training else "inference",
        "roofline" if system.roofline else "no roofline",
        "random" if system.name == "random" else "catalogue",
    }
    if strategy.tp > 1:
        found |= {
            strategy.tp_communication.value,
            f"overlap {strategy.tp_overlap.value}",
            f"tp_tier {strategy.tp_tier}",
        }
        if strategy.gather_redo:
            found.add("gather_redo" if strategy.tp_overlap.value == "none" else "gather_redo, overlap")
        if system.network_tiers[strategy.tp_tier].latency:
            found.add("latency")
    if strategy.pp > 1:
        found.add(f"pp_tier {strategy.pp_tier}")
        if strategy.vpp > 1 and not case.full_rounds:
            found.add("gpipe, incomplete rounds, vpp")
        if case.microbatches < strategy.pp:
            found.add("gpipe, fewer microbatches than stages")
    if strategy.dp > 1 and strategy.training:
        found |= {f"dp_tier {strategy.dp_tier}", "sharded" if strategy.optimizer_sharding else "plain exchange"}
    if min(strategy.tp, strategy.pp, strategy.dp) > 1:
        used = len({strategy.tp_tier, strategy.pp_tier, strategy.dp_tier})
        found |= {"one tier"} if used == 1 else {"three tiers"} if used == 3 else set()
    return found
