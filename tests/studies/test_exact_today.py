"""The exact solver on spaces of today's workloads: experts, grouped heads, schedules, orders of placement, ZeRO."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from brute_force import BruteForce, plain

from codesign_opt.analytical.grid import GridTimes
from codesign_opt.catalog import resolve_system, resolve_workload
from codesign_opt.objectives import Constraint, Objective
from codesign_opt.strategies import (
    AttentionKernel,
    CpExchange,
    Datatype,
    GradientPrecision,
    Placement,
    Recompute,
    Schedule,
    StrategyTable,
    TpCommunication,
    TpOverlap,
)
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.grid import StrategyGrid
from codesign_opt.strategies.legality import RULES, first_broken
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.studies.exact import ExactQuestion, solve
from codesign_opt.studies.exact.bounds import block_bound, compute_bound
from codesign_opt.studies.exact.survey import space_of
from codesign_opt.systems import (
    CollectiveCost,
    EfficiencyCurve,
    Engine,
    FusedAttention,
    MemoryTier,
    NetworkTier,
    System,
)
from codesign_opt.workloads import Workload
from codesign_opt.workloads.transformer import Experts, LatentAttention

STEP_TIME = Objective("step_time", "minimize")
MEMORY = Objective("memory_tier1_used", "minimize")

DENSE = Workload(
    name="dense", hidden=64, feedforward=96, sequence_length=64, attention_heads=8, head_size=8, blocks=8,
    key_value_heads=4, gated_mlp=True, vocabulary=1000, tied_embeddings=False, root_mean_square_norm=True, rotary=True,
    dropout=False,
)  # fmt: skip

WORKLOADS = (
    DENSE,
    replace(DENSE, window=16, windowed_blocks=4, tied_embeddings=True, head_size=16),
    replace(DENSE, experts=Experts(count=8, top_k=2, feedforward=32, imbalance=1.2)),
    replace(
        DENSE,
        experts=Experts(count=8, top_k=2, feedforward=16, shared_feedforward=32, leading_dense_blocks=1),
        key_value_heads=None,
        latent_attention=LatentAttention(query_rank=24, key_value_rank=16, rotary_size=4, value_size=8),
        prediction_blocks=1,
    ),
)

MOST_STRATEGIES, MOST_GRIDS = 1_000, 24

ALWAYS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("weight_offload", (False,)),
    ("activation_offload", (False,)),
    ("optimizer_offload", (False,)),
    ("tp_overlap", (TpOverlap.NONE,)),
)

CHOICES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("schedule", (Schedule.ONE_F_ONE_B, Schedule.ZB_1P, Schedule.ZB_V, Schedule.DUALPIPE, Schedule.GPIPE)),
    ("placement", (Placement.TP_CP_DP_PP, Placement.TP_CP_PP_DP, Placement.CP_TP_DP_PP, Placement.TIERS)),
    ("recompute", (Recompute.FULL, Recompute.NONE, Recompute.SELECTIVE)),
    ("recompute_blocks", (0, 1, 2)),
    ("shard_group", (0, 2)),
    ("first_stage_less", (0, 1)),
    ("last_stage_less", (0, 1)),
    ("prefetch", (1, 0)),
    ("keep_gathered", (False, True)),
    ("reduce_each_microbatch", (False, True)),
    ("gradient_precision", (GradientPrecision.FLOAT32, GradientPrecision.SAME, GradientPrecision.BOTH)),
    ("attention_kernel", (AttentionKernel.FLASH, AttentionKernel.UNFUSED)),
    ("cp_exchange", (CpExchange.ALL_GATHER, CpExchange.RING, CpExchange.ALL_TO_ALL)),
    ("weight_sharding", (False, True)),
    ("gradient_sharding", (True, False)),
    ("tp_communication", (TpCommunication.SEQUENCE_PARALLEL, TpCommunication.ALL_REDUCE)),
    ("dp_overlap", (False, True)),
    ("gather_redo", (False, True)),
    ("cp", (1, 2)),
    ("ep", (1, 2, 4)),
    ("etp", (1, 2)),
    ("vpp", (1, 2)),
    ("microbatch", (1, 2)),
)
"""Dimensions and what they may be: one value in some spaces, two or all in others."""


def tier(rng: random.Random, size: int) -> NetworkTier:
    ring = CollectiveCost(scalar=1.0, offset=-1.0)
    return NetworkTier(
        bandwidth=rng.uniform(1e6, 1e8), efficiency=rng.uniform(0.5, 1), size=size, must_be_filled=rng.random() < 0.2,
        latency=rng.choice([0.0, 1e-5]), processor_usage=rng.uniform(0, 0.5),
        p2p=CollectiveCost(scalar=1.0, offset=0.0), reduce_scatter=ring, all_gather=ring,
        all_reduce=CollectiveCost(scalar=2.0, offset=-1.0),
    )  # fmt: skip


def machine(rng: random.Random) -> System:
    """Slow enough for everything to count; some have attention in one pass that is faster than other products."""
    curve = EfficiencyCurve((1e6, 0.0), (0.7, rng.uniform(0.2, 0.7)))
    fused = FusedAttention(forward_efficiency=0.9, backward_efficiency=0.8, half_head_size=1.0)
    memory = MemoryTier(capacity=1e30, bandwidth=rng.uniform(1e8, 1e9), efficiency=EfficiencyCurve((0.0,), (0.9,)))
    return System(
        name="today",
        matrix={"bfloat16": Engine(peak=rng.uniform(1e8, 1e10), efficiency=curve)},
        vector={"bfloat16": Engine(peak=rng.uniform(1e8, 1e9), efficiency=curve)},
        memory_tier1=memory,
        memory_tier2=replace(memory, capacity=0.0),
        roofline=rng.random() < 0.5,
        network_tiers=(tier(rng, rng.choice([2, 4])), tier(rng, 64)),
        fused_attention=fused if rng.random() < 0.5 else None,
        launch=rng.choice([0.0, 1e-6]),
    )


def grids_of(question: ExactQuestion) -> list[StrategyGrid]:
    return question.space.grids(
        question.workload, processors=question.processors, batch=question.batch, datatype=question.datatype,
        tier_sizes=[network.size for network in question.system.network_tiers], offload=False,
    )  # fmt: skip


@cache
def question_of(seed: int) -> ExactQuestion:
    """A question about some thousand strategies, a part of which fits."""
    rng = random.Random(seed)
    question = ExactQuestion(
        workload=WORKLOADS[seed % len(WORKLOADS)],
        system=machine(rng),
        processors=rng.choice([4, 8]),
        batch=rng.choice([16, 32]),
        datatype=Datatype.BFLOAT16,
        space=StrategySpace(limits=dict(ALWAYS), uneven_stages=rng.random() < 0.3),
        objectives=(STEP_TIME,),
        top=10,
    )
    # Starts from one value a dimension, and adds values as long as the space stays small.
    limits = {**question.space.limits, **{name: values[:1] for name, values in CHOICES}}
    question = replace(question, space=replace(question.space, limits=limits))
    for name, values in rng.sample(CHOICES, len(CHOICES)):
        wider = replace(question, space=replace(question.space, limits={**question.space.limits, name: values}))
        grids = grids_of(wider)
        if len(grids) <= MOST_GRIDS and sum(grid.size for grid in grids) <= MOST_STRATEGIES:
            question = wider
    needs = np.concatenate([np.ravel(memory.needs.tier1) for memory in space_of(question).memories])
    capacity = float(np.quantile(needs, rng.choice([0.3, 0.6, 1.0])))
    tier1 = replace(question.system.memory_tier1, capacity=capacity)
    return replace(question, system=replace(question.system, memory_tier1=tier1))


SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_ten_best_of_all(seed: int) -> None:
    question = question_of(seed)
    brute, answer = BruteForce(question), solve(question)
    best = brute.ranking[:10]
    assert len(best)
    assert answer.estimate is not None
    np.testing.assert_allclose(answer.estimate.times.total, brute.metric("step_time")[best], rtol=1e-12)
    np.testing.assert_allclose(answer.estimate.memory.tier1, brute.metric("memory_tier1_used")[best], rtol=1e-12)
    assert plain(answer.strategies) == plain(brute.rows[0], best)
    reasons = Counter(brute.reason)
    assert answer.feasible == reasons.pop("")
    assert answer.excluded == reasons


@pytest.mark.parametrize("seed", SEEDS[::4])
def test_front_of_time_and_memory(seed: int) -> None:
    question = replace(question_of(seed), objectives=(STEP_TIME, MEMORY), top=5)
    brute, answer = BruteForce(question), solve(question)
    top, front = plain(brute.rows[0], brute.ranking[:5]), plain(brute.rows[0], brute.front)
    assert plain(answer.strategies) == top + [row for row in front if row not in top]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_strategy_undercuts_a_bound(seed: int) -> None:
    question = question_of(seed)
    space = space_of(question)
    times = GridTimes(
        question.workload, question.system, space.keys, np.arange(len(space.keys.splits)), question.reproduce
    )
    for memory in space.memories:
        blocks = times.blocks(memory)
        total = times.estimate(memory, blocks).times.total
        assert (total >= block_bound(memory, blocks)).all()
        assert (total >= compute_bound(question, memory)).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "constrained"])
def test_reductions_change_nothing(seed: int, bounded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random.Random(seed).choice([1, 300, 10**6])
    monkeypatch.setattr("codesign_opt.studies.exact.solver.PART_STRATEGIES", rows)
    question = question_of(seed)
    if not bounded:
        question = replace(question, constraints=(Constraint("bubble_share", "<=", 0.2),))
    reduced, full = solve(question), solve(question, reduced=False)
    assert plain(reduced.strategies) == plain(full.strategies)
    assert (reduced.legal, reduced.feasible, reduced.excluded) == (full.legal, full.feasible, full.excluded)


def listed(question: ExactQuestion) -> StrategyTable:
    """All strategies of the space that the network takes."""
    table = StrategyTable.empty()
    for grid in grids_of(question):
        allowed = np.broadcast_to(grid.network_allows(question.system), grid.shape).ravel()
        table = table.concatenated(grid.table(np.flatnonzero(allowed)))
    return table


@pytest.mark.parametrize("seed", range(16))
def test_every_listed_strategy_is_legal_and_listed_once(seed: int) -> None:
    question = question_of(seed)
    table = listed(question)
    broken = first_broken(Facts(table, [question.workload], [question.system]))
    assert {RULES[rule].code for rule in np.unique(broken) if rule >= 0} == set()
    rows = plain(table)
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize("name", ["llama3-8b", "mixtral-8x7b", "deepseek-v3", "gemma2-9b", "gpt-oss-20b"])
def test_spaces_of_shipped_models_are_legal(name: str) -> None:
    """A sample of every grid."""
    rng = random.Random(name)
    workload, system = resolve_workload(name), resolve_system("h100-sxm")
    limits: dict[str, tuple[Any, ...]] = {"schedule": tuple(Schedule), "recompute": tuple(Recompute), "vpp": (1,)}
    for placement in ((Placement.TP_CP_DP_PP,), (Placement.TP_CP_PP_DP,), (Placement.TIERS,)):
        question = ExactQuestion(
            workload=workload, system=system, processors=16, batch=32, datatype=Datatype.BFLOAT16,
            space=StrategySpace(limits={**limits, "placement": placement}, uneven_stages=True),
        )  # fmt: skip
        for grid in grids_of(question):
            flat = np.array(rng.sample(range(grid.size), min(grid.size, 60)))
            allowed = np.broadcast_to(grid.network_allows(system), grid.shape).ravel()[flat]
            table = grid.table(flat[allowed])
            assert (first_broken(Facts(table, [workload], [system])) < 0).all()


def test_questions_are_varied() -> None:
    """Every dimension has all of its values in some space."""
    questions = [question_of(seed) for seed in SEEDS]
    assert {question.workload for question in questions} == set(WORKLOADS)
    for name, values in CHOICES:
        assert any(question.space.limits[name] == values for question in questions), name
