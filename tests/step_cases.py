"""Random strategies of catalogue and random workloads and systems, whose steps tests build and simulate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from random import Random
from typing import Any

import numpy as np

from codesign_opt.analytical import Estimate, StepTimes, estimate
from codesign_opt.analytical.feasibility import overflowing_tier
from codesign_opt.catalog import resolve_system, resolve_workload
from codesign_opt.graphs.step import StepWork, step_work
from codesign_opt.strategies import (
    Attention,
    Datatype,
    Recompute,
    Strategy,
    StrategyTable,
    TpCommunication,
    TpOverlap,
)
from codesign_opt.strategies.legality import violations
from codesign_opt.systems import CollectiveCost, EfficiencyCurve, Engine, MemoryTier, NetworkTier, System
from codesign_opt.workloads import Workload

WORKLOADS = (
    "anthropic-52b", "chinchilla", "gopher-280b", "gpt3-13b", "gpt3-175b", "lamda", "megatron-126m", "megatron-1t",
    "megatron-22b", "megatron-40b", "megatron-5b", "palm-540b", "turing-530b",
)  # fmt: skip
SYSTEMS = ("a100-80e", "a100-80g", "h100-80g-nvl8", "h100-price-study")
"""Of the catalogue, by name: what is added to it changes no case."""


@dataclass(frozen=True)
class StepCase:
    """A strategy of a workload on a system."""

    workload: Workload
    system: System
    strategy: Strategy

    @cached_property
    def estimate(self) -> Estimate:
        return estimate(self.workload, self.system, StrategyTable.from_strategies([self.strategy]))

    @property
    def seconds(self) -> float:
        """Of the estimated step."""
        return one(self.estimate.times.total)

    @cached_property
    def work(self) -> StepWork:
        return step_work(self.workload, self.system, self.strategy)

    @property
    def even(self) -> bool:
        """Whether all stages have equally many blocks."""
        return self.workload.blocks % self.strategy.pp == 0

    @property
    def microbatches(self) -> int:
        return self.strategy.batch // self.strategy.dp // self.strategy.microbatch

    @property
    def full_rounds(self) -> bool:
        """Whether the microbatches fill whole rounds of the pipeline."""
        return self.microbatches % self.strategy.pp == 0

    def having(self, **changes: Any) -> StepCase:
        """The case with another strategy."""
        return StepCase(self.workload, self.system, replace(self.strategy, **changes))

    def __str__(self) -> str:
        return f"{self.workload.name} on {self.system.name}: {self.strategy}"


def one(values: Any) -> float:
    """The only entry."""
    return float(np.asarray(values).reshape(-1)[0])


def times_of(times: StepTimes) -> dict[str, float]:
    """The parts of a step time, and its total, as numbers."""
    return {name: one(getattr(times, name)) for name in StepTimes.__dataclass_fields__}


def step_cases(
    seed: int,
    count: int,
    *,
    catalogue: float = 0.5,
    even: bool = True,
    uneven: bool = False,
    offload: bool = False,
    dp_overlap: bool = False,
    most_microbatches: int = 9,
    least_pp: int = 1,
    most_pp: int = 16,
    least_dp: int = 1,
) -> list[StepCase]:
    """So many legal cases that fit in memory, made from a seed.

    Args:
        seed: Of all chance.
        count: How many.
        catalogue: Share of those with workload and system of the catalogue.
        even, uneven: Whether stages may have equally, and differently many blocks.
        offload, dp_overlap: Whether these may be switched on.
        most_microbatches: Of a step.
        least_pp, most_pp, least_dp: Smallest and largest degrees.
    """
    random = Random(seed)
    limits = {
        "offload": offload, "dp_overlap": dp_overlap, "most_microbatches": most_microbatches,
        "least_pp": least_pp, "most_pp": most_pp, "least_dp": least_dp,
    }  # fmt: skip
    shipped = [resolve_workload(name) for name in WORKLOADS], [resolve_system(name) for name in SYSTEMS]

    def drawn() -> Iterator[StepCase]:
        while True:
            workload, system = (
                (random.choice(shipped[0]), random.choice(shipped[1]))
                if random.random() < catalogue
                else (random_workload(random), random_system(random))
            )
            # A few strategies of each, as most of them do not fit.
            for _ in range(20):
                case = StepCase(workload, system, random_strategy(random, workload, system, **limits))
                wanted = (even and case.even) or (uneven and not case.even)
                if wanted and not violations(case.strategy, workload, system) and fits(case):
                    yield case
                    break

    source = drawn()
    return [next(source) for _ in range(count)]


def fits(case: StepCase) -> bool:
    """Whether the strategy fits in memory."""
    return not str(overflowing_tier(case.estimate.model)[0])


def random_workload(random: Random) -> Workload:
    """A workload that two, three or four processors can split."""
    common = random.choice([4, 6, 8, 12])
    return Workload(
        name="random",
        hidden=common * random.choice([16, 64, 256]),
        feedforward=common * random.choice([64, 512]),
        sequence_length=random.choice([12, 128, 2048]),
        attention_heads=common,
        head_size=random.choice([4, 16, 128]),
        blocks=random.choice([1, 2, 3, 4, 6, 8, 12, 20, 24]),
    )


def random_system(random: Random) -> System:
    """One to three network tiers, roofline or not, and memory that holds anything."""

    def power(low: float, high: float) -> float:
        return float(10.0 ** random.uniform(low, high))

    def curve() -> EfficiencyCurve:
        thresholds = sorted((power(3, 12) for _ in range(random.randint(0, 2))), reverse=True)
        efficiencies = sorted((random.uniform(0.05, 1) for _ in range(len(thresholds) + 1)), reverse=True)
        return EfficiencyCurve((*thresholds, 0.0), tuple(efficiencies))

    def engines(low: float, high: float) -> dict[str, Engine]:
        return {word.value: Engine(peak=power(low, high), efficiency=curve()) for word in Datatype}

    def memory(low: float, high: float) -> MemoryTier:
        return MemoryTier(capacity=1e15, bandwidth=power(low, high), efficiency=curve())

    def cost(offset: float) -> CollectiveCost:
        return CollectiveCost(scalar=random.uniform(0.5, 3), offset=offset)

    def tier() -> NetworkTier:
        return NetworkTier(
            bandwidth=power(9, 12),
            efficiency=random.uniform(0.5, 1),
            size=10**6,
            must_be_filled=False,
            latency=random.choice([0.0, power(-6, -4)]),
            processor_usage=random.choice([0.0, random.uniform(0, 0.5)]),
            p2p=cost(0.0),
            reduce_scatter=cost(-1.0),
            all_gather=cost(-1.0),
            all_reduce=cost(-1.0),
        )

    return System(
        name="random",
        matrix=engines(12, 15),
        vector=engines(10, 13),
        memory_tier1=memory(11, 13),
        memory_tier2=memory(9, 12),
        roofline=random.random() < 0.5,
        network_tiers=tuple(tier() for _ in range(random.randint(1, 3))),
    )


def random_strategy(
    random: Random,
    shape: Workload,
    system: System,
    *,
    offload: bool,
    dp_overlap: bool,
    most_microbatches: int,
    least_pp: int,
    most_pp: int,
    least_dp: int,
) -> Strategy:
    """A strategy that is legal but for memory and network sizes."""

    def flag(possible: bool = True) -> bool:
        return possible and random.random() < 0.5

    tp = random.choice(
        [d for d in (1, 2, 3, 4, 8) if gcd(shape.hidden, shape.feedforward, shape.attention_heads) % d == 0]
    )
    pp = random.choice([p for p in (1, 2, 3, 4, 5, 8, 16) if least_pp <= p <= most_pp])
    dp = random.choice([d for d in (1, 2, 4, 8) if d >= least_dp])
    stage_blocks = -(-shape.blocks // pp)
    microbatch = random.choice([1, 2])
    rounds = pp * random.randint(1, max(1, most_microbatches // pp))
    microbatches = rounds if flag() and rounds <= most_microbatches else random.randint(1, most_microbatches)
    training = random.random() < 0.8
    recompute = random.choice(list(Recompute)) if training else Recompute.NONE
    splits = microbatch * shape.sequence_length % tp == 0
    communication = random.choice(list(TpCommunication)) if splits else TpCommunication.ALL_REDUCE
    offloads = offload and stage_blocks > 2
    tiers = len(system.network_tiers)
    return Strategy(
        processors=tp * pp * dp,
        tp=tp,
        pp=pp,
        dp=dp,
        vpp=random.choice([v for v in range(1, 5) if stage_blocks % v == 0]) if pp > 1 else 1,
        batch=dp * microbatch * microbatches,
        microbatch=microbatch,
        datatype=random.choice([word for word in Datatype if word.value in system.matrix]),
        fused_activation=flag(),
        attention=random.choice(list(Attention)),
        recompute=recompute,
        tp_communication=communication,
        tp_overlap=random.choice(list(TpOverlap)) if tp > 1 else TpOverlap.NONE,
        gather_redo=flag(communication is TpCommunication.SEQUENCE_PARALLEL and recompute is not Recompute.FULL),
        optimizer_sharding=flag(dp > 1),
        dp_overlap=flag(dp_overlap and dp > 1 and training),
        weight_offload=flag(offloads),
        activation_offload=flag(offloads),
        optimizer_offload=flag(offloads and training),
        training=training,
        tp_tier=random.randrange(tiers),
        pp_tier=random.randrange(tiers),
        dp_tier=random.randrange(tiers),
    )
