"""Bounds on the step time and counts that precede it, against every strategy of small random spaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from brute_force import on_ideal_machine, random_question
from varied_questions import all_strategies, varied_question

from codesign_opt.analytical.block import BlockTable
from codesign_opt.analytical.estimate import Estimate
from codesign_opt.analytical.grid import GridMemory, GridTimes
from codesign_opt.objectives import METRICS, Objective
from codesign_opt.strategies import Recompute
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.legality import RULES, first_broken
from codesign_opt.strategies.table import OPTION_CODES
from codesign_opt.studies.exact import ExactQuestion
from codesign_opt.studies.exact.bounds import (
    MEMORY_METRICS,
    PACE_METRICS,
    block_bound,
    bound_applies,
    compute_bound,
    memory_objectives,
    pace,
)
from codesign_opt.studies.exact.question import with_fitted
from codesign_opt.studies.exact.survey import space_of, survey

QUESTIONS = range(60)

STEP_TIME = Objective("step_time", "minimize")


def estimated_grids(question: ExactQuestion) -> Iterator[tuple[GridMemory, BlockTable, Estimate]]:
    """Every grid of a question's space with its block times and its estimate."""
    space = space_of(question)
    pairs = np.arange(len(space.keys.splits))
    times = GridTimes(question.workload, question.system, space.keys, pairs, question.reproduce)
    for memory in space.memories:
        blocks = times.blocks(memory)
        yield memory, blocks, with_fitted(times.estimate(memory, blocks), question.fitted)


@pytest.mark.parametrize("seed", QUESTIONS)
def test_no_strategy_undercuts_a_bound(seed: int) -> None:
    for memory, blocks, estimated in estimated_grids(varied_question(seed)):
        total, by_blocks = estimated.times.total, block_bound(memory, blocks)
        by_layout = compute_bound(varied_question(seed), memory)
        assert by_layout.shape == memory.grid.shape[-1:]
        assert (by_layout > 0).all()
        assert (total >= by_layout).all()
        assert (total >= by_blocks).all()


@pytest.mark.parametrize("metric", sorted(PACE_METRICS))
def test_pace_is_the_metric_to_be_minimised(metric: str) -> None:
    objective = Objective(metric, METRICS[metric].direction)
    question = replace(varied_question(5), objectives=(objective,))
    for memory, _, estimated in estimated_grids(question):
        batch = memory.grid.columns()["batch"]
        expected = objective.minimized(METRICS[metric].evaluate(estimated))
        np.testing.assert_allclose(pace(question, batch, estimated.times.total), expected, rtol=1e-14)
        assert (pace(question, batch, compute_bound(question, memory)) <= expected).all()


@pytest.mark.parametrize("seed", range(6))
def test_bounds_are_tight_where_only_matrix_products_take_time(seed: int) -> None:
    """On such a machine the fastest strategy of a layout takes just the time of its products and of the bubble."""
    question = on_ideal_machine(random_question(seed, top=1, objectives=[STEP_TIME]))
    for memory, blocks, estimated in estimated_grids(question):
        shape = memory.grid.shape
        fastest = np.broadcast_to(estimated.times.total, shape).min(axis=tuple(range(len(shape) - 1)))
        by_blocks = np.broadcast_to(block_bound(memory, blocks), shape).min(axis=tuple(range(len(shape) - 1)))
        np.testing.assert_allclose(by_blocks, fastest, rtol=1e-6)
        if OPTION_CODES[Recompute.FULL] not in memory.grid.options["recompute"]:
            np.testing.assert_allclose(compute_bound(question, memory), fastest, rtol=1e-6)


@pytest.mark.parametrize("seed", QUESTIONS[::6])
def test_memory_objectives_are_those_of_the_estimate(seed: int) -> None:
    others = [Objective(name, METRICS[name].direction) for name in sorted(MEMORY_METRICS)]
    question = replace(varied_question(seed), objectives=(STEP_TIME, *others), constraints=())
    ranked = question.ranked[1:]
    assert bound_applies(question)
    assert {"memory_tier1_used", "activation_memory"} <= {objective.metric for objective in ranked}
    for memory, _, estimated in estimated_grids(question):
        for objective, values in zip(ranked, memory_objectives(question, memory), strict=True):
            expected = objective.minimized(METRICS[objective.metric].evaluate(estimated))
            assert (values == expected).all(), objective


def test_where_bounds_apply() -> None:
    """To questions for the fastest step, beside which there is nothing but memory; nothing else may exclude."""
    question = replace(varied_question(0), objectives=(STEP_TIME,), constraints=())
    memory, rate = Objective("memory_tier1_used", "maximize"), Objective("sample_rate", "maximize")
    applies = {
        (STEP_TIME,): True,
        (rate,): True,
        (STEP_TIME, memory): True,
        (memory, STEP_TIME): False,
        (STEP_TIME, rate): False,
        (Objective("step_time", "maximize"),): False,
        (Objective("sample_rate", "minimize"),): False,
        (Objective("mfu", "maximize"),): False,
    }
    for objectives, expected in applies.items():
        assert bound_applies(replace(question, objectives=objectives)) is expected, objectives


@pytest.mark.parametrize("seed", QUESTIONS)
def test_counts_are_those_of_one_strategy_after_the_other(seed: int) -> None:
    question = varied_question(seed)
    table, system = all_strategies(question), question.system
    broken = first_broken(Facts(table, [question.workload], [system]))
    assert {RULES[index].code for index in np.unique(broken[broken >= 0])} <= {"network_size", "network_fill"}
    memory = question.estimate(table).memory
    reasons = np.select(
        [broken >= 0, memory.tier1 > system.memory_tier1.capacity, memory.tier2 > system.memory_tier2.capacity],
        ["network", "memory_tier1", "memory_tier2"],
        default="",
    )
    expected = Counter(reasons.tolist())
    found = survey(question, space_of(question))
    assert found.fitting == expected.pop("", 0)
    assert found.excluded == expected
    assert found.legal == int((broken < 0).sum())
