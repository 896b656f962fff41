"""Questions about small random spaces, and their answers by estimating every strategy on its own row."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical import NONE, Erratum, estimate
from codesign_opt.objectives import METRICS, Constraint, Objective
from codesign_opt.strategies import StrategyTable, TpOverlap
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.strategies.table import COLUMNS
from codesign_opt.studies.exact import ExactQuestion
from codesign_opt.systems import CollectiveCost, EfficiencyCurve, Engine, MemoryTier, NetworkTier, System
from codesign_opt.workloads import Workload

Array = NDArray[Any]


@dataclass(frozen=True)
class BruteForce:
    """Every strategy of a question's space, estimated row by row, in the order of the space."""

    question: ExactQuestion

    @cached_property
    def rows(self) -> tuple[StrategyTable, Array, Array]:
        """The strategies, whether the network takes them, and where they stand in the order of the space."""
        q = self.question
        table, allowed, place = StrategyTable.empty(), [], []
        grids = q.space.grids(
            q.workload,
            processors=q.processors,
            batch=q.batch,
            datatype=q.datatype,
            tier_sizes=[tier.size for tier in q.system.network_tiers],
            offload=q.system.memory_tier2.capacity > 0,
        )
        for number, grid in enumerate(grids):
            flat = np.arange(grid.size)
            table = table.concatenated(grid.table(flat))
            allowed.append(np.broadcast_to(grid.network_allows(q.system), grid.shape).ravel())
            place.append(np.stack([np.full(grid.size, number), grid.order(flat)], axis=1))
        return table, np.concatenate(allowed), np.concatenate(place)

    @cached_property
    def estimate(self) -> Any:
        return estimate(self.question.workload, self.question.system, self.rows[0], reproduce=self.question.reproduce)

    def metric(self, name: str) -> Array:
        return np.broadcast_to(METRICS[name].evaluate(self.estimate), self.rows[0].rows)

    @cached_property
    def missing(self) -> list[tuple[str, Array, float]]:
        """Reason, how much is missing, and the bound; in the order in which they are judged."""
        q, memory = self.question, self.estimate.memory
        return [
            ("memory_tier1", memory.tier1 - q.system.memory_tier1.capacity, q.system.memory_tier1.capacity),
            ("memory_tier2", memory.tier2 - q.system.memory_tier2.capacity, q.system.memory_tier2.capacity),
            *((str(c), c.violation(self.metric(c.metric)), abs(c.bound)) for c in q.constraints),
        ]

    @cached_property
    def reason(self) -> list[str]:
        """For each row the first reason that excludes it, or an empty word."""
        result = np.where(self.rows[1], "", "network").astype(object)
        for reason, missing, _ in self.missing:
            result[(result == "") & (missing > 0)] = reason
        return result.tolist()

    @cached_property
    def values(self) -> Array:
        """Objective values to be minimised, (row, objective)."""
        return np.stack([o.minimized(self.metric(o.metric)) for o in self.question.objectives], axis=1)

    @cached_property
    def ranking(self) -> Array:
        """Feasible rows, best first."""
        feasible = np.flatnonzero(np.array(self.reason) == "")
        number, order = self.rows[2][feasible].T
        keys = (order, number, self.estimate.memory.tier1[feasible], self.values[feasible, 0])
        return feasible[np.lexsort(keys)]

    @cached_property
    def front(self) -> Array:
        """Of the non-dominated feasible rows, the first in rank of those with equal values."""
        kept: dict[tuple[float, ...], int] = {}
        for row in self.ranking:
            kept.setdefault(tuple(self.values[row].tolist()), int(row))
        values = np.array(list(kept))
        dominated = [((values <= mine).all(axis=1) & (values < mine).any(axis=1)).any() for mine in values]
        return np.array(list(kept.values()))[~np.array(dominated)]


def plain(table: StrategyTable, index: Any = slice(None)) -> list[tuple[int, ...]]:
    """Rows as plain numbers, which compare and hash."""
    return list(zip(*(np.asarray(table[name])[index].astype(int).tolist() for name in COLUMNS), strict=True))


def random_question(seed: int, *, top: int, objectives: Sequence[Objective], reproduce: Any = NONE) -> ExactQuestion:
    """A question about a few hundred or thousand strategies, of which some fit."""
    return replace(_random_question(seed, frozenset(reproduce)), top=top, objectives=tuple(objectives))


def on_ideal_machine(question: ExactQuestion) -> ExactQuestion:
    """The question on a machine that takes time for matrix products only, so that bounds on the step time are tight."""
    always = EfficiencyCurve((0.0,), (1.0,))
    system = question.system
    free = CollectiveCost(scalar=0.0, offset=0.0)
    tiers = tuple(
        replace(tier, latency=0.0, processor_usage=0.0, p2p=free, reduce_scatter=free, all_gather=free, all_reduce=free)
        for tier in system.network_tiers
    )
    ideal = replace(
        system,
        matrix={"float16": Engine(peak=1e9, efficiency=always)},
        vector={"float16": Engine(peak=1e30, efficiency=always)},
        memory_tier1=replace(system.memory_tier1, bandwidth=1e30, efficiency=always),
        memory_tier2=replace(system.memory_tier2, bandwidth=1e30, efficiency=always),
        roofline=True,
        network_tiers=tiers,
    )
    return replace(question, system=ideal)


def constrained(question: ExactQuestion, seed: int) -> ExactQuestion:
    """The question with two constraints that exclude some strategies."""
    rng = random.Random(seed)
    brute = BruteForce(question)
    constraints = [
        Constraint(name, "<=", float(np.quantile(brute.metric(name), rng.uniform(0.3, 0.9))))
        for name in ("step_time", "exposed_communication_time")
    ]
    return replace(question, constraints=tuple(constraints))


@cache
def _random_question(seed: int, reproduce: frozenset[Erratum]) -> ExactQuestion:
    rng = random.Random(seed)
    heads, d = rng.choice([2, 4, 6]), rng.choice([4, 8])
    workload = Workload(
        name=f"random {seed}",
        hidden=heads * d,
        feedforward=heads * d * rng.choice([3, 4]),
        sequence_length=rng.choice([8, 15, 16]),
        attention_heads=heads,
        head_size=d,
        blocks=rng.choice([2, 3, 4, 6]),
    )
    matrix = Engine(peak=rng.uniform(1e8, 1e9), efficiency=_random_curve(rng, 1e6))
    vector = Engine(peak=rng.uniform(1e7, 1e8), efficiency=_random_curve(rng, 1e5))
    fast, wide = _random_network(rng), replace(_random_network(rng), size=64, must_be_filled=False)
    system = System(
        name="random",
        matrix={"float16": matrix},
        vector={"float16": vector},
        memory_tier1=_memory_tier(1e30, rng.uniform(1e8, 1e9), _random_curve(rng, 1e4)),
        memory_tier2=_memory_tier(rng.choice([0.0, 1e30]), rng.uniform(1e6, 1e8), _random_curve(rng, 1e4)),
        roofline=rng.random() < 0.5,
        network_tiers=rng.choice([(wide,), (fast, wide)]),
    )
    question = ExactQuestion(
        workload=workload,
        system=system,
        processors=rng.choice([2, 4, 6]),
        batch=rng.choice([4, 6, 8]),
        space=StrategySpace(
            limits={
                "tp_overlap": (TpOverlap.NONE, rng.choice([TpOverlap.RING, TpOverlap.PIPE])),
                "training": rng.choice([(True,), (False,), (True, False)]),
            },
            uneven_stages=rng.random() < 0.5,
            all_divisors=rng.random() < 0.3,
        ),
        reproduce=reproduce,
    )
    memory = BruteForce(question).estimate.memory
    tier1 = float(np.quantile(memory.tier1, rng.uniform(0.2, 0.9)))
    tier2 = float(np.quantile(memory.tier2, rng.uniform(0.6, 1.0))) if system.memory_tier2.capacity else 0.0
    fitting = replace(
        system,
        memory_tier1=replace(system.memory_tier1, capacity=tier1),
        memory_tier2=replace(system.memory_tier2, capacity=tier2),
    )
    return replace(question, system=fitting)


def _random_network(rng: random.Random) -> NetworkTier:
    return NetworkTier(
        bandwidth=rng.uniform(1e6, 1e8),
        efficiency=rng.uniform(0.5, 1),
        size=rng.choice([2, 4, 8]),
        must_be_filled=rng.random() < 0.3,
        latency=rng.choice([0.0, 1e-5]),
        processor_usage=rng.uniform(0, 0.5),
        p2p=_random_cost(rng),
        reduce_scatter=_random_cost(rng),
        all_gather=_random_cost(rng),
        all_reduce=_random_cost(rng),
    )


def _random_cost(rng: random.Random) -> CollectiveCost:
    return CollectiveCost(scalar=rng.choice([1.0, 2.0]), offset=rng.choice([-1.0, 0.0, 1.0]))


def _random_curve(rng: random.Random, largest: float) -> EfficiencyCurve:
    thresholds = sorted({largest * rng.random() for _ in range(rng.randrange(3))}, reverse=True)
    return EfficiencyCurve((*thresholds, 0.0), tuple(rng.uniform(0.1, 1) for _ in range(len(thresholds) + 1)))


def _memory_tier(capacity: float, bandwidth: float, curve: EfficiencyCurve) -> MemoryTier:
    return MemoryTier(capacity=capacity, bandwidth=bandwidth, efficiency=curve)
