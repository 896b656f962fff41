"""The simulated step takes what the estimate says for today's workloads as well, where both assume the same."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import pytest
from step_cases import StepCase, times_of
from today_step_cases import coincides, today_cases

from codesign_opt.graphs.step import GRANULARITIES, StepGraph, StepOptions, step_graph
from codesign_opt.simulation.step import simulate_step, simulated_estimate
from codesign_opt.simulation.step.breakdown import BREAKDOWN
from codesign_opt.strategies import AttentionKernel, CpExchange, Placement, ProductPrecision, Schedule
from codesign_opt.workloads.kinds import block_kinds

FEW, MANY = 40, 220
EXACT = 1e-9
"""Relative."""


def schedules(case: StepCase) -> list[str]:
    """Those under which simulation and estimate assume the same."""
    strategy = case.strategy
    if strategy.schedule is Schedule.ZB_1P:
        possible = ["zb_1p"]
    elif strategy.vpp == 1:
        possible = ["gpipe", "1f1b"]
    else:
        possible = ["gpipe", "interleaved"] if case.full_rounds else ["gpipe"]
    return [schedule for schedule in possible if coincides(case, schedule)]


def cases(seed: int, count: int) -> list[StepCase]:
    """Some of each of what is rare: split backward passes, weights in shards, split experts, two chunks."""
    part = count // 8
    return [
        *today_cases(seed, count - 4 * part, wanted=schedules),
        *today_cases(seed + 4, part, wanted=schedules, pp=2, vpp=2),
        *today_cases(
            seed + 3, part, wanted=lambda case: schedules(case) and case.strategy.etp > 1, tp=4, etp=2, ep=2
        ),
        *today_cases(seed + 1, part, wanted=schedules, schedule=Schedule.ZB_1P, training=True, vpp=1, pp=2),
        *today_cases(
            seed + 2, part, wanted=schedules, optimizer_sharding=True, gradient_sharding=True, weight_sharding=True,
            training=True, dp=4,
        ),
    ]  # fmt: skip


@cache
def few_cases() -> list[StepCase]:
    return cases(91, FEW)


@cache
def many_cases() -> list[StepCase]:
    return cases(95, MANY)


def serial_step(case: StepCase, schedule: str, granularity: str) -> StepGraph:
    return step_graph(case.work, schedule=schedule, granularity=granularity, options=StepOptions(messages="serial"))


def assert_agrees(case: StepCase, schedule: str, granularity: str, engine: str) -> None:
    result = simulate_step(serial_step(case, schedule, granularity), engine=engine, contention=False)
    assert result.seconds == pytest.approx(case.seconds, rel=EXACT), (schedule, granularity, str(case), case.workload)


def test_the_simulated_step_takes_what_the_estimate_says() -> None:
    random = Random(1)
    for number, case in enumerate(few_cases()):
        assert_agrees(case, random.choice(schedules(case)), GRANULARITIES[number % 3], "events")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_the_simulated_step_takes_what_the_estimate_says_in_many_cases(part: int) -> None:
    random = Random(part)
    for case in many_cases()[part::2]:
        assert_agrees(case, random.choice(schedules(case)), random.choice(GRANULARITIES), "events")


def test_longest_paths_are_as_long_as_the_estimate_says() -> None:
    random = Random(2)
    chosen = [case for case in few_cases() if case.workload.blocks * case.microbatches <= 24][:12]
    assert len(chosen) == 12
    for case in chosen:
        assert_agrees(case, random.choice(schedules(case)), random.choice(GRANULARITIES), "levels")


def test_the_closed_form_is_the_estimate() -> None:
    for case in few_cases():
        if not case.strategy.reduce_each_microbatch:
            # One form for all that do not split passes.
            schedule = "zb_1p" if case.strategy.schedule is Schedule.ZB_1P else "gpipe"
            if schedule in schedules(case):
                assert_agrees(case, schedule, "chunk", "closed-form")


def test_parts_of_the_busiest_stage_are_those_of_the_estimate() -> None:
    # Messages are bubbles to the estimate; with several stages, so is what only one of the ends does.
    compared = 0
    for case in few_cases():
        if case.strategy.pp > 1 and case.workload.vocabulary:
            continue
        compared += 1
        step = serial_step(case, schedules(case)[0], "block")
        result = simulate_step(step, contention=False)
        wanted, found = (
            times_of(times) for times in (case.estimate.times, simulated_estimate(case.estimate, result).times)
        )
        for times in (wanted, found):
            times["waiting"] = times.pop("pp_communication") + times.pop("bubble")
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9 * case.seconds), str(case)
        parts = sum(result.stages[name] for name in BREAKDOWN)
        assert parts == pytest.approx([result.seconds] * case.strategy.pp, rel=1e-9)
    assert compared >= 30


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_all_kinds_of_strategies_are_among_the_cases(many: bool) -> None:
    chosen = many_cases() if many else few_cases()
    features = Counter(feature for case in chosen for feature in _features(case))
    assert [feature for feature in _FEATURES if features[feature] < (5 if many else 1)] == []


_FEATURES = (
    "vocabulary",
    "vocabulary, several stages",
    "grouped heads",
    "latent attention",
    "experts",
    "blocks of several kinds",
    "prediction blocks",
    *(f"{name} > 1" for name in ("tp", "pp", "dp", "cp", "ep", "etp", "vpp")),
    *(f"cp {exchange.value}" for exchange in CpExchange),
    *(f"ZeRO {stage}" for stage in range(4)),
    "HSDP",
    "prefetch",
    "no prefetch",
    "gathered weights kept",
    "gradients each microbatch",
    "some blocks recompute",
    "8-bit products",
    "flash",
    "host holds passes up",
    "an order of dimensions",
    "tiers",
    "inference",
    *(f"schedule {schedule}" for schedule in ("gpipe", "1f1b", "interleaved", "zb_1p")),
)


def _features(case: StepCase) -> set[str]:
    """What a case is an example of, in the words of `_FEATURES`."""
    strategy, workload = case.strategy, case.workload
    sharded = strategy.optimizer_sharding and strategy.training
    zero = sharded * (1 + strategy.gradient_sharding * (1 + strategy.weight_sharding))
    several = strategy.pp > 1
    named = {
        "vocabulary": workload.vocabulary,
        "vocabulary, several stages": workload.vocabulary and several,
        "grouped heads": workload.kv_heads < workload.attention_heads,
        "latent attention": workload.latent_attention,
        "experts": workload.experts,
        "blocks of several kinds": len(block_kinds(workload)) > 1,
        "prediction blocks": workload.prediction_blocks,
        **{f"{name} > 1": getattr(strategy, name) > 1 for name in ("tp", "pp", "dp", "cp", "ep", "etp", "vpp")},
        f"cp {strategy.cp_exchange.value}": strategy.cp > 1,
        f"ZeRO {zero}": strategy.dp * strategy.cp > 1,
        "HSDP": sharded and strategy.shard_group and strategy.shard_group < strategy.dp * strategy.cp,
        "prefetch": strategy.weight_sharding and strategy.prefetch,
        "no prefetch": strategy.weight_sharding and not strategy.prefetch,
        "gathered weights kept": strategy.weight_sharding and strategy.keep_gathered,
        "gradients each microbatch": strategy.reduce_each_microbatch and case.microbatches > 1 and strategy.training,
        "some blocks recompute": strategy.recompute_blocks,
        "8-bit products": strategy.product_precision is ProductPrecision.FLOAT8,
        "flash": strategy.attention_kernel is AttentionKernel.FLASH,
        "host holds passes up": case.system.launch,
        "an order of dimensions": strategy.placement is not Placement.TIERS,
        "tiers": strategy.placement is Placement.TIERS,
        "inference": not strategy.training,
        **{f"schedule {schedule}": several for schedule in schedules(case)},
    }
    return {name for name, present in named.items() if present}
