"""A block and a machine whose times are whole seconds, and generators of random cases.

The block of `workload` has 6,656 flop in matrix products forward and twice that backward, and the machine computes
6,656 flop/s: a block takes 1 s forward and 2 s backward, half of it on two processors. Vectors and memory take no
time unless a test slows them down. The networks move one 64-byte activation (tier 0), or the 1,600 bytes of a block's
weights (tier 1), in one second.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence, Set
from dataclasses import fields
from math import gcd
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from codesign_opt.analytical import ALL, NONE, Erratum, StepTimes, estimate, statistics
from codesign_opt.analytical.model import model
from codesign_opt.strategies import (
    Attention,
    Datatype,
    Recompute,
    Strategy,
    StrategyTable,
    TpCommunication,
    TpOverlap,
)
from codesign_opt.systems import CollectiveCost, EfficiencyCurve, Engine, MemoryTier, NetworkTier, System
from codesign_opt.workloads import Workload

NO_LIMIT = 1e30
BLOCK_FLOPS = 6656.0
ACTIVATION_BYTES = 64.0
WEIGHT_BYTES = 1600.0

ALWAYS = EfficiencyCurve((0.0,), (1.0,))


def workload(blocks: int = 4) -> Workload:
    """Blocks of width 8 with two heads of 4, on sequences of four tokens."""
    return Workload(
        name="clock", hidden=8, feedforward=32, sequence_length=4, attention_heads=2, head_size=4, blocks=blocks
    )


def strategy(**changes: Any) -> Strategy:
    """One processor and one sequence a step, float16, nothing switched on; `batch` and `processors` follow."""
    values: dict[str, Any] = {"tp": 1, "pp": 1, "dp": 1, "microbatch": 1, **changes}
    values.setdefault("batch", values["dp"] * values["microbatch"])
    return Strategy(processors=values["tp"] * values["pp"] * values["dp"], **values)


def network(*, bandwidth: float, latency: float = 0.0, usage: float = 0.0) -> NetworkTier:
    """A tier with ring collectives: among two processors, all-reduce puts every byte on the wire once."""
    return NetworkTier(
        bandwidth=bandwidth,
        efficiency=1.0,
        size=10**9,
        must_be_filled=False,
        latency=latency,
        processor_usage=usage,
        p2p=CollectiveCost(scalar=1.0, offset=0.0),
        reduce_scatter=CollectiveCost(scalar=1.0, offset=-1.0),
        all_gather=CollectiveCost(scalar=1.0, offset=-1.0),
        all_reduce=CollectiveCost(scalar=2.0, offset=-1.0),
    )


def machine(
    *,
    vector: float = NO_LIMIT,
    memory1: float = NO_LIMIT,
    memory2: float = NO_LIMIT,
    roofline: bool = False,
    curve: EfficiencyCurve = ALWAYS,
    tiers: Sequence[NetworkTier] | None = None,
) -> System:
    """The machine; `vector` flop/s, `memory1` and `memory2` bytes/s, `curve` of the matrix engine."""
    return System(
        name="clock",
        matrix={"float16": Engine(peak=BLOCK_FLOPS, efficiency=curve)},
        vector={"float16": Engine(peak=vector, efficiency=ALWAYS)},
        memory_tier1=MemoryTier(capacity=NO_LIMIT, bandwidth=memory1, efficiency=ALWAYS),
        memory_tier2=MemoryTier(capacity=NO_LIMIT, bandwidth=memory2, efficiency=ALWAYS),
        roofline=roofline,
        network_tiers=tuple(tiers or (network(bandwidth=ACTIVATION_BYTES), network(bandwidth=WEIGHT_BYTES))),
    )


def statistics_of(
    chosen: Strategy, system: System, *, blocks: int = 4, reproduce: Set[Erratum] = NONE
) -> dict[str, float]:
    """The published statistics of one strategy."""
    table = StrategyTable.from_strategies([chosen])
    found = statistics(estimate(workload(blocks), system, table, reproduce=reproduce).model)
    return {name: float(values[0]) for name, values in found.items()}


def with_and_without(
    erratum: Erratum, chosen: Strategy, system: System, *, blocks: int = 4, also: Set[Erratum] = NONE
) -> tuple[dict[str, float], dict[str, float]]:
    """The statistics with all errata but `also` reproduced, and those with `erratum` corrected as well."""
    return (
        statistics_of(chosen, system, blocks=blocks, reproduce=ALL - also),
        statistics_of(chosen, system, blocks=blocks, reproduce=ALL - also - {erratum}),
    )


def changed(published: dict[str, float], corrected: dict[str, float]) -> set[str]:
    """The names of the statistics that differ."""
    return {
        name
        for name, value in published.items()
        if not np.isclose(value, corrected[name], rtol=1e-12, atol=0.0, equal_nan=True)
    }


@dataclasses.dataclass(frozen=True)
class Cases:
    """Random legal strategies, each of a random workload on a random system; one entry a row."""

    workloads: tuple[Workload, ...]
    systems: tuple[System, ...]
    table: StrategyTable

    def on(self, change: Callable[[System], System]) -> Cases:
        """The same strategies on changed systems."""
        return dataclasses.replace(self, systems=tuple(map(change, self.systems)))

    def having(self, **columns: Any) -> Cases:
        """The same strategies with some columns set, each to one value or to an array."""
        changed_columns = {name: np.broadcast_to(value, self.table.rows) for name, value in columns.items()}
        return dataclasses.replace(self, table=StrategyTable({**self.table, **changed_columns}))

    def take(self, rows: Sequence[int]) -> Cases:
        """Some of the rows, in that order."""
        return Cases(
            tuple(self.workloads[row] for row in rows), tuple(self.systems[row] for row in rows), self.table.take(rows)
        )


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Corrected times (every field of `StepTimes`) and needs of memory tier 1, one entry a row."""

    times: dict[str, NDArray[Any]]
    tier1: NDArray[Any]

    @property
    def total(self) -> NDArray[Any]:
        return self.times["total"]


def outcomes(*variants: Cases) -> list[Outcome]:
    """The outcome of each variant, from one evaluation of the model over the rows of all."""
    rows = np.arange(sum(variant.table.rows for variant in variants))
    found = model(
        [shape for variant in variants for shape in variant.workloads],
        [system for variant in variants for system in variant.systems],
        {name: np.concatenate([variant.table[name] for variant in variants]) for name in variants[0].table},
        workload=rows,
        system=rows,
        reproduce=NONE,
    )
    ends = np.cumsum([variant.table.rows for variant in variants])[:-1]
    times = {
        field.name: np.split(np.broadcast_to(getattr(found.times, field.name), len(rows)), ends)
        for field in fields(StepTimes)
    }
    return [
        Outcome({name: parts[index] for name, parts in times.items()}, tier1)
        for index, tier1 in enumerate(np.split(found.memory.tier1, ends))
    ]


def random_cases(**limits: Any) -> st.SearchStrategy[Cases]:
    """Up to fifty cases; limits as for `random_strategy`.

    They are made from a seed, which is much faster than drawing each number and loses little: what shrinks is the
    number of cases.
    """

    def assembled(seed: int, rows: int) -> Cases:
        random = Random(seed)
        workloads = tuple(random_workload(random) for _ in range(rows))
        systems = tuple(random_system(random) for _ in range(rows))
        strategies = [
            random_strategy(random, shape, len(system.network_tiers), **limits)
            for shape, system in zip(workloads, systems, strict=True)
        ]
        return Cases(workloads, systems, StrategyTable.from_strategies(strategies))

    return st.builds(assembled, seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 50))


def random_curve(random: Random, *, rising: bool = True) -> EfficiencyCurve:
    """An efficiency curve of one to three steps; larger sizes are never less efficient where `rising`."""
    thresholds = sorted((_power(random, 3, 12) for _ in range(random.randint(0, 2))), reverse=True)
    efficiencies = [random.uniform(0.05, 1) for _ in range(len(thresholds) + 1)]
    return EfficiencyCurve((*thresholds, 0.0), tuple(sorted(efficiencies, reverse=True) if rising else efficiencies))


def random_system(random: Random) -> System:
    """One to three network tiers, roofline or not, every datatype, and memory that holds anything."""

    def engines(low: float, high: float) -> dict[str, Engine]:
        engine = Engine(peak=_power(random, low, high), efficiency=random_curve(random))
        return {word.value: engine for word in Datatype}

    def memory(low: float, high: float) -> MemoryTier:
        return MemoryTier(capacity=1e15, bandwidth=_power(random, low, high), efficiency=random_curve(random))

    def ring() -> CollectiveCost:
        return CollectiveCost(scalar=random.uniform(0.5, 3), offset=-1.0)

    def tier() -> NetworkTier:
        return dataclasses.replace(
            network(
                bandwidth=_power(random, 8, 12),
                latency=random.choice([0.0, _power(random, -6, -2)]),
                usage=random.choice([0.0, random.uniform(0, 0.9)]),
            ),
            reduce_scatter=ring(),
            all_gather=ring(),
            all_reduce=ring(),
        )

    return System(
        name="random",
        matrix=engines(10, 15),
        vector=engines(8, 13),
        memory_tier1=memory(10, 13),
        memory_tier2=memory(8, 12),
        roofline=random.random() < 0.5,
        network_tiers=tuple(tier() for _ in range(random.randint(1, 3))),
    )


def random_workload(random: Random) -> Workload:
    """A workload that two, three or four processors can split."""
    common = random.choice([2, 3, 4, 6, 8])
    return Workload(
        name="random",
        hidden=common * random.choice([4, 16, 64, 256]),
        feedforward=common * random.choice([8, 64, 512]),
        sequence_length=random.choice([4, 12, 128, 2048]),
        attention_heads=common * random.randint(1, 3),
        head_size=random.choice([4, 16, 128]),
        blocks=random.choice([1, 2, 3, 4, 6, 8, 12, 24]),
    )


def random_strategy(
    random: Random,
    shape: Workload,
    tiers: int,
    *,
    training: bool | None = None,
    least_tp: int = 1,
    least_pp: int = 1,
    least_dp: int = 1,
    offload: bool = True,
    full_rounds: bool = False,
) -> Strategy:
    """A legal strategy of a workload on a system with so many network tiers.

    Args:
        random: Source of chance.
        shape: The workload.
        tiers: Network tiers.
        training: Whether to train; either if None.
        least_tp, least_pp, least_dp: Smallest degrees.
        offload: Whether anything may be offloaded.
        full_rounds: Whether microbatches fill whole rounds of the pipeline.
    """

    def flag(possible: bool = True) -> bool:
        return possible and random.random() < 0.5

    t = random.choice([d for d in _divisors(_common_width(shape)) if d >= least_tp])
    p = random.choice([p for p in (1, 2, 3, 4, 8) if p >= least_pp])
    D = random.choice([d for d in (1, 2, 3, 16) if d >= least_dp])
    stage_blocks = -(-shape.blocks // p)
    b = random.choice([1, 2])
    m = random.choice([1, 2, 3, 5, 8]) * (p if full_rounds else 1)
    trains = flag() if training is None else training
    recompute = random.choice(list(Recompute)) if trains else Recompute.NONE
    splits = b * shape.sequence_length % t == 0
    communication = random.choice(list(TpCommunication)) if splits else TpCommunication.ALL_REDUCE
    offloads = offload and stage_blocks > 2
    return Strategy(
        processors=t * p * D,
        tp=t,
        pp=p,
        dp=D,
        vpp=random.choice(_divisors(stage_blocks)) if p > 1 else 1,
        batch=D * b * m,
        microbatch=b,
        datatype=random.choice(list(Datatype)),
        fused_activation=flag(),
        attention=random.choice(list(Attention)),
        recompute=recompute,
        tp_communication=communication,
        tp_overlap=random.choice(list(TpOverlap)) if t > 1 else TpOverlap.NONE,
        gather_redo=flag(communication is TpCommunication.SEQUENCE_PARALLEL and recompute is not Recompute.FULL),
        optimizer_sharding=flag(D > 1),
        dp_overlap=flag(D > 1 and trains),
        weight_offload=flag(offloads),
        activation_offload=flag(offloads),
        optimizer_offload=flag(offloads and trains),
        training=trains,
        tp_tier=random.randrange(tiers),
        pp_tier=random.randrange(tiers),
        dp_tier=random.randrange(tiers),
    )


def _power(random: Random, low: float, high: float) -> float:
    return float(10.0 ** random.uniform(low, high))


def _common_width(shape: Workload) -> int:
    return gcd(shape.hidden, shape.feedforward, shape.attention_heads)


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]
