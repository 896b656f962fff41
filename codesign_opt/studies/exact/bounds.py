"""Lower bounds on the step time, which spare the solver strategies that cannot be among the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block import BlockTable
from codesign_opt.analytical.estimate import Estimate
from codesign_opt.analytical.grid import GridMemory
from codesign_opt.analytical.memory import MemoryNeeds
from codesign_opt.objectives import METRICS
from codesign_opt.strategies import Attention
from codesign_opt.strategies.table import OPTION_CODES
from codesign_opt.studies.exact.fitting import FittedCapacity
from codesign_opt.studies.exact.question import ExactQuestion
from codesign_opt.systems import MemoryTier, System

Array = NDArray[Any]

PACE_METRICS = frozenset(
    {
        "step_time",
        "sample_rate",
        "token_rate",
        "sample_rate_per_processor",
        "token_rate_per_processor",
    }
)
"""Metrics that are better the shorter the step is, all else equal."""

MEMORY_METRICS = frozenset(
    {
        "memory_tier1_used",
        "memory_tier2_used",
        "memory_tier1_capacity",
        "memory_tier2_capacity",
        "weight_memory",
        "activation_memory",
        "optimizer_memory",
        "processor_price",
        "system_price",
    }
)
"""Metrics that do not depend on any time."""

ROUNDING = 1e-9
"""Bounds are lowered by this share, more than sums of positive numbers can be off."""


def pace(question: ExactQuestion, batch: Array, time: Array) -> Array:
    """The value of the question's first ranked objective, to be minimised, of strategies with these step times."""
    metric = question.ranked[0].metric
    if metric == "step_time":
        return time
    per_step = batch * (question.workload.sequence_length if metric.startswith("token") else 1)
    shared = question.processors if metric.endswith("per_processor") else 1
    return np.asarray(-per_step / time / shared)


def compute_bound(question: ExactQuestion, memory: GridMemory) -> Array:
    """For each layout a step time that no strategy of the grid undercuts: matrix flops at the best efficiency."""
    engine = question.system.matrix[question.datatype.value]
    rate = engine.peak * max(engine.efficiency.efficiencies)
    grid, w = memory.grid, question.workload
    t, b = grid.layouts["tp"].astype(np.float64), grid.layouts["microbatch"].astype(np.float64)
    width = w.attention_heads * w.head_size
    tokens = b * w.sequence_length
    shared_heads = bool(np.any(grid.options["attention"] == OPTION_CODES[Attention.MULTIQUERY]))
    weights = w.hidden * ((2 if shared_heads else 4) * width + 2 * w.feedforward) / t
    scores = 4 * (b * w.attention_heads / t) * w.sequence_length**2 * w.head_size
    passes = 3 if grid.training else 1
    block = passes * (2 * tokens * weights + scores) / rate
    counts = memory.counts
    m, N, R, C, v, p = (
        np.broadcast_to(x, (1,) * 7 + t.shape).ravel()
        for x in (counts.m, counts.N, counts.R, counts.C, counts.v, counts.p)
    )
    rest = m % p
    short = np.where(rest > 0, p - rest, 0.0)
    blocks = m * N + (p - 1 + (v - 1) * short) * C - R
    return np.asarray(block * blocks * (1 - ROUNDING))


def block_bound(memory: GridMemory, blocks: BlockTable) -> Array:
    """A step time that no strategy undercuts, for each (tp_tier, option, layout): blocks and bubble alone."""
    counts = memory.counts
    base = blocks.fw_T_b + blocks.exf_b + blocks.re_T_b + blocks.exr_b + blocks.ag_T_b + blocks.wg_T_b + blocks.exa_b
    edge = blocks.fw_T_e + blocks.exf_e + blocks.re_T_e + blocks.exr_e + blocks.ag_T_e + blocks.wg_T_e + blocks.exa_e
    rest = counts.m % counts.p
    short = np.where(rest > 0, counts.p - rest, 0.0)
    cut = np.where(counts.x > 0, counts.R * (base + edge) / 2, counts.R * edge)
    chunk = counts.x * base + edge
    time = counts.m * counts.v * chunk + (counts.p - 1 + (counts.v - 1) * short) * chunk - cut
    return np.asarray(time * (1 - ROUNDING))


def bound_applies(question: ExactQuestion) -> bool:
    """Whether a bound on the step time bounds the first objective, and memory alone decides all others."""
    first, *others = question.ranked
    better = "minimize" if first.metric == "step_time" else "maximize"
    return (
        first.metric in PACE_METRICS
        and first.direction == better
        and all(objective.metric in MEMORY_METRICS for objective in others)
        and not question.constraints
    )


def memory_objectives(question: ExactQuestion, memory: GridMemory) -> list[Array]:
    """Values of the ranked objectives but the first, to be minimised: they are known before any time is."""
    fitted, system = question.fitted, question.system
    untimed = _Untimed(
        system,
        memory.grid.columns(),
        memory.needs,
        _capacity(fitted.memory_tier1, memory.needs.tier1, system.memory_tier1),
        _capacity(fitted.memory_tier2, memory.needs.tier2, system.memory_tier2),
    )
    return [
        objective.minimized(METRICS[objective.metric].evaluate(cast(Estimate, untimed)))
        for objective in question.ranked[1:]
    ]


def _capacity(fitted: FittedCapacity | None, need: Array, tier: MemoryTier) -> Array:
    return np.asarray(tier.capacity) if fitted is None else fitted.fit(need)


@dataclass(frozen=True, slots=True)
class _Untimed:
    """What `MEMORY_METRICS` read of an estimate."""

    system: System
    strategies: Mapping[str, Array]
    memory: MemoryNeeds
    memory_capacity: Array
    offload_capacity: Array
