"""Random small questions for the exact solver: workloads, systems, spaces, objectives and all else that is asked."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical import ALL, NONE, Erratum
from codesign_opt.errors import InfeasibleError
from codesign_opt.objectives import METRICS, Constraint, Objective, parse_objective
from codesign_opt.strategies import Attention, Datatype, Recompute, StrategyTable, TpCommunication, TpOverlap
from codesign_opt.strategies.grid import StrategyGrid
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.studies.exact import ExactQuestion
from codesign_opt.studies.exact.fitting import FittedCapacities, FittedCapacity
from codesign_opt.studies.exact.survey import space_of
from codesign_opt.systems import (
    CollectiveCost,
    EfficiencyCurve,
    Engine,
    MemoryTier,
    NetworkTier,
    Power,
    Price,
    PriceCurve,
    System,
)
from codesign_opt.workloads import Workload

Array = NDArray[Any]

MOST_STRATEGIES = 6_000
"""Larger spaces are limited further."""

OPTIONS: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
    ("recompute", Recompute.NONE, (Recompute.SELECTIVE, Recompute.FULL)),
    ("tp_communication", TpCommunication.ALL_REDUCE, tuple(TpCommunication)[1:]),
    ("tp_overlap", TpOverlap.NONE, (TpOverlap.RING, TpOverlap.PIPE)),
    ("gather_redo", False, (True,)),
    ("optimizer_sharding", False, (True,)),
    ("dp_overlap", False, (True,)),
    ("weight_offload", False, (True,)),
    ("activation_offload", False, (True,)),
    ("optimizer_offload", False, (True,)),
    ("tp_tier", 0, (1, 2)),
    ("pp_tier", 0, (1, 2)),
    ("dp_tier", 0, (1, 2)),
    ("vpp", 1, (2,)),
    ("microbatch", 1, (2, 4)),
)
"""What a space may be limited to: a value that is possible everywhere, and others."""

PACES = (
    "step_time",
    "minimize sample_rate_per_processor",
    "sample_rate",
    "sample_rate_per_processor",
    "token_rate",
    "token_rate_per_processor",
)
OTHERS = ("maximize step_time", "mfu", "memory_tier1_used", "bubble_share", "cost_per_million_tokens", "system_price")
SECOND = (
    "memory_tier1_used",
    "maximize memory_tier1_used",
    "memory_tier2_used",
    "activation_memory",
    "weight_memory",
    "optimizer_memory",
    "memory_tier1_capacity",
    "processor_price",
    "system_price",
    "cost_per_million_tokens",
    "memory_tier1_free",
    "bubble_time",
)


def varied_question(seed: int) -> ExactQuestion:
    """A question about a space that is not empty, though all of it may be infeasible."""
    rng = random.Random(seed)
    while True:
        question = ExactQuestion(
            workload=_workload(rng),
            system=_system(rng),
            processors=rng.choice([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64]),
            batch=rng.choice([1, 2, 4, 6, 8, 12, 24, 32, 64]),
            datatype=rng.choice([Datatype.FLOAT16, Datatype.FLOAT16, Datatype.FLOAT32]),
            space=_space(rng),
            objectives=_objectives(rng),
            top=rng.randint(1, 30),
            # Drawn apart, so that one erratum more does not change everything else.
            reproduce=_errata(random.Random(seed)),
        )
        try:
            question = _limited(rng, question)
        except InfeasibleError:
            continue
        return _constrained(rng, _with_capacities(rng, question))


def grids_of(question: ExactQuestion) -> list[StrategyGrid]:
    """The grids of a question's space."""
    return question.space.grids(
        question.workload,
        processors=question.processors,
        batch=question.batch,
        datatype=question.datatype,
        tier_sizes=[tier.size for tier in question.system.network_tiers],
        offload=question.system.memory_tier2.capacity > 0,
    )


def all_strategies(question: ExactQuestion) -> StrategyTable:
    """Every strategy of a question's space, in the documented order, whether or not the network takes it."""
    table = StrategyTable.empty()
    for grid in grids_of(question):
        flat = np.arange(grid.size)
        table = table.concatenated(grid.table(flat[np.argsort(grid.order(flat))]))
    return table


def _objectives(rng: random.Random) -> tuple[Objective, ...]:
    first = rng.choice(PACES) if rng.random() < 0.8 else rng.choice(OTHERS)
    second = rng.sample(SECOND, rng.choice([0, 0, 0, 1, 1, 2]))
    return tuple(parse_objective(text, where="") for text in (first, *second))


def _errata(rng: random.Random) -> frozenset[Erratum]:
    some = frozenset(rng.sample(list(Erratum), rng.randint(1, len(Erratum) - 1)))
    return rng.choice([NONE, NONE, ALL, some])


def _workload(rng: random.Random) -> Workload:
    heads = rng.choice([1, 2, 3, 4, 6, 8])
    return Workload(
        name="random",
        hidden=heads * rng.choice([2, 4, 8]),
        feedforward=heads * rng.choice([3, 8, 16]),
        sequence_length=rng.choice([4, 6, 8, 15, 16]),
        attention_heads=heads,
        head_size=rng.choice([2, 3, 8]),
        blocks=rng.choice([1, 2, 3, 4, 5, 6, 8, 12]),
    )


def _system(rng: random.Random) -> System:
    matrix = Engine(peak=10 ** rng.uniform(6, 9), efficiency=_curve(rng, 1e5))
    vector = Engine(peak=10 ** rng.uniform(6, 9), efficiency=_curve(rng, 1e4))
    tiers = [_network(rng) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.3:
        # Placements on equal tiers tie.
        tiers = [replace(tiers[0], size=64, must_be_filled=False)] * len(tiers)
    elif rng.random() < 0.8:
        tiers[-1] = replace(tiers[-1], size=64, must_be_filled=False)
    return System(
        name="random",
        matrix={"float16": matrix, "float32": replace(matrix, peak=matrix.peak / 2)},
        vector={"float16": vector, "float32": vector},
        memory_tier1=MemoryTier(capacity=1e30, bandwidth=10 ** rng.uniform(6, 9), efficiency=_curve(rng, 1e4)),
        memory_tier2=MemoryTier(
            capacity=rng.choice([0.0, 1e30]), bandwidth=10 ** rng.uniform(5, 9), efficiency=_curve(rng, 1e4)
        ),
        roofline=rng.random() < 0.5,
        network_tiers=tuple(tiers),
        price=Price(
            processor=rng.choice([0.0, 10.0]),
            memory_tier1=PriceCurve((0.0, 1e5), (0.0, rng.uniform(1, 100))),
            memory_tier2=rng.choice([None, PriceCurve((0.0, 1e4, 1e5), (0.0, 5.0, rng.uniform(5, 50)))]),
        ),
        power=Power(busy=400.0, idle=100.0),
    )


def _curve(rng: random.Random, largest: float) -> EfficiencyCurve:
    steps = rng.randint(0, 2)
    thresholds = sorted({round(rng.uniform(1, largest)) for _ in range(steps)}, reverse=True)
    return EfficiencyCurve((*thresholds, 0.0), tuple(rng.uniform(0.05, 1) for _ in range(len(thresholds) + 1)))


def _network(rng: random.Random) -> NetworkTier:
    def cost() -> CollectiveCost:
        return CollectiveCost(scalar=rng.choice([1.0, 2.0]), offset=rng.choice([-1.0, 0.0, 1.0]))

    return NetworkTier(
        bandwidth=10 ** rng.uniform(4, 8),
        efficiency=rng.uniform(0.5, 1),
        size=rng.choice([1, 2, 4, 8, 32]),
        must_be_filled=rng.random() < 0.3,
        latency=rng.choice([0.0, 1e-5, 1e-3]),
        processor_usage=rng.choice([0.0, rng.uniform(0, 0.9)]),
        p2p=cost(),
        reduce_scatter=cost(),
        all_gather=cost(),
        all_reduce=cost(),
    )


def _space(rng: random.Random) -> StrategySpace:
    limits: dict[str, tuple[Any, ...]] = {}
    if rng.random() < 0.3:
        limits["attention"] = rng.choice([(Attention.MULTIQUERY,), tuple(Attention)])
    if rng.random() < 0.3:
        limits["fused_activation"] = rng.choice([(False,), (True, False)])
    if rng.random() < 0.25:
        limits["training"] = rng.choice([(False,), (True, False)])
    return StrategySpace(limits=limits, uneven_stages=rng.random() < 0.4, all_divisors=rng.random() < 0.4)


def _limited(rng: random.Random, question: ExactQuestion) -> ExactQuestion:
    """The question with its space limited, option by option, until it is small enough.

    Raises:
        InfeasibleError: When the space is empty.
    """
    options = list(OPTIONS)
    rng.shuffle(options)
    while sum(grid.size for grid in grids_of(question)) > MOST_STRATEGIES and options:
        name, always, others = options.pop()
        allowed = (always, *rng.sample(others, rng.randint(0, 1)))
        limits = {**question.space.limits, name: allowed}
        question = replace(question, space=replace(question.space, limits=limits))
    return question


def _with_capacities(rng: random.Random, question: ExactQuestion) -> ExactQuestion:
    """The question with memory that some of the strategies fit into, and perhaps capacities that are fitted."""
    needs = [memory.needs for memory in space_of(question).memories]
    all1, all2 = (np.concatenate([getattr(need, tier).ravel() for need in needs]) for tier in ("tier1", "tier2"))
    tier1 = float(np.quantile(all1, rng.choice([0, 0, 0.2, 0.5, 0.9, 1]))) * rng.choice([0.9, 1.0, 1.1])
    tier2 = float(np.quantile(all2, rng.choice([0.7, 0.9, 1])))
    fitted = FittedCapacities(
        memory_tier1=_fitted(rng, tier1) if rng.random() < 0.4 else None,
        memory_tier2=_fitted(rng, tier2) if tier2 and rng.random() < 0.4 else None,
    )
    system = replace(
        question.system,
        memory_tier1=replace(question.system.memory_tier1, capacity=tier1),
        memory_tier2=replace(question.system.memory_tier2, capacity=tier2),
    )
    return replace(question, system=system, fitted=fitted)


def _fitted(rng: random.Random, largest: float) -> FittedCapacity:
    if rng.random() < 0.5:
        return FittedCapacity(low=largest * rng.uniform(0, 0.7), high=largest)
    return FittedCapacity(choices=(*(largest * share for share in (0.3, 0.5, 0.8)), largest))


def _constrained(rng: random.Random, question: ExactQuestion) -> ExactQuestion:
    """The question with up to two constraints that exclude some of the strategies, or all of them."""
    metrics = ["step_time", "bubble_share", "memory_tier1_used", "sample_rate"]
    names = rng.sample(metrics, rng.choice([0, 0, 0, 0, 1, 2]))
    if not names:
        return question
    estimated = question.estimate(_sample(rng, question))
    constraints = []
    for name in names:
        bound = float(np.quantile(METRICS[name].evaluate(estimated), rng.choice([0.0, 0.3, 0.6, 0.9])))
        constraints.append(Constraint(name, ">=" if name == "sample_rate" else "<=", bound * rng.choice([1.0, 0.9])))
    return replace(question, constraints=tuple(constraints))


def _sample(rng: random.Random, question: ExactQuestion) -> StrategyTable:
    """A few strategies of every grid."""
    table = StrategyTable.empty()
    for grid in grids_of(question):
        flat = rng.sample(range(grid.size), min(grid.size, 50))
        table = table.concatenated(grid.table(np.array(flat)))
    return table
