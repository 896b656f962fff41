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
from codesign_opt.strategies import Attention, AttentionKernel, Datatype, ProductPrecision, Schedule
from codesign_opt.strategies.table import OPTION_CODES
from codesign_opt.studies.exact.fitting import FittedCapacity
from codesign_opt.studies.exact.question import ExactQuestion
from codesign_opt.systems import MemoryTier, System
from codesign_opt.workloads import Workload
from codesign_opt.workloads.kinds import block_kinds

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
    rate = _best_matrix_rate(question, memory)
    grid, counts = memory.grid, memory.counts
    passes = 3 if grid.fixed["training"] else 1
    block = passes * _least_forward_flops(question, memory) / rate
    m, N, R, C, v, p = (
        np.broadcast_to(x, (1,) * 7 + block.shape).ravel()
        for x in (counts.m, counts.N, counts.R, counts.C, counts.v, counts.p)
    )
    blocks = m * N + _bubble_chunks(memory, m, v, p) * C - R
    return np.asarray(block * np.maximum(blocks, m * N - R) * (1 - ROUNDING))


def _best_matrix_rate(question: ExactQuestion, memory: GridMemory) -> float:
    words = {question.datatype.value}
    if np.any(memory.grid.options["product_precision"] == OPTION_CODES[ProductPrecision.FLOAT8]):
        words.add(Datatype.FLOAT8.value)
    engines = [question.system.matrix[word] for word in words if word in question.system.matrix]
    fused = question.system.fused_attention
    shares = () if fused is None else (fused.forward_efficiency, fused.backward_efficiency)
    rates: list[float] = [engine.peak * max((*engine.efficiency.efficiencies, *shares)) for engine in engines]
    return max(rates)


def _least_forward_flops(question: ExactQuestion, memory: GridMemory) -> Array:
    """For each layout at most the matrix flop of a block's forward pass, whatever the options."""
    grid, w = memory.grid, question.workload
    t, b, c = (grid.layouts[name].astype(np.float64) for name in ("tp", "microbatch", "cp"))
    multiquery = bool(np.any(grid.options["attention"] == OPTION_CODES[Attention.MULTIQUERY]))
    flash = bool(np.any(grid.options["attention_kernel"] == OPTION_CODES[AttentionKernel.FLASH]))
    least = min(_block_flops(kind.workload, multiquery=multiquery, flash=flash) for kind in block_kinds(w))
    return np.asarray(b * w.sequence_length / c * least / t)


def _block_flops(w: Workload, *, multiquery: bool, flash: bool) -> float:
    """Matrix flop of one block for each token, at least."""
    width, latent, experts = w.attention_heads * w.head_size, w.latent_attention, w.experts
    keys = w.head_size if multiquery else w.kv_heads * w.head_size
    attention: float = w.hidden * (2 * width + (0 if multiquery else 2 * keys))
    score_width = 2.0 * width
    if latent is not None:
        key_size = w.head_size + latent.rotary_size
        into = latent.query_rank or w.hidden
        attention = w.attention_heads * (
            into * key_size + latent.key_value_rank * (w.head_size + latent.value_size) + w.hidden * latent.value_size
        )
        score_width = w.attention_heads * (key_size + latent.value_size)
    inner: float = w.feedforward
    if experts is not None:
        crowding = experts.imbalance if experts.capacity_factor is None else experts.capacity_factor
        inner = min(crowding, 1.0) * experts.top_k * experts.feedforward + experts.shared_feedforward
    attended: float = w.sequence_length
    if flash and w.windowed_blocks:
        attended = min(w.window, attended)
    if flash and w.causal:
        attended -= attended * attended / (2 * w.sequence_length)
    mlp = (3 if w.gated_mlp else 2) * w.hidden * inner
    return 2 * (attention + mlp) + 2 * score_width * attended


def _bubble_chunks(memory: GridMemory, m: Array, v: Array, p: Array) -> Array:
    """Chunks that the bubble is at least as long as."""
    if np.any(memory.grid.offloads["schedule"] != OPTION_CODES[Schedule.ONE_F_ONE_B]):
        return np.zeros_like(m)
    rest = m % p
    short = np.where(rest > 0, p - rest, 0.0)
    return np.asarray(p - 1 + (v - 1) * short)


def block_bound(memory: GridMemory, blocks: BlockTable) -> Array:
    """A step time that no strategy undercuts, for each (tp_tier, option, layout): blocks and bubble alone."""
    counts = memory.counts
    base = blocks.fw_T_b + blocks.exf_b + blocks.re_T_b + blocks.exr_b + blocks.ag_T_b + blocks.wg_T_b + blocks.exa_b
    edge = blocks.fw_T_e + blocks.exf_e + blocks.re_T_e + blocks.exr_e + blocks.ag_T_e + blocks.wg_T_e + blocks.exa_e
    cut = np.where(counts.x > 0, counts.R * (base + edge) / 2, counts.R * edge)
    chunk = counts.x * base + edge
    bubble = _bubble_chunks(memory, counts.m, counts.v, counts.p) * chunk - cut
    if np.any(memory.grid.offloads["schedule"] != OPTION_CODES[Schedule.ONE_F_ONE_B]):
        bubble = np.minimum(bubble, 0.0)
    time = counts.m * counts.v * chunk + bubble
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
