"""Small workloads of today's kinds, a machine that takes time where a test says so, and random legal strategies.

The shapes are small enough for their flop and bytes to be worked out by hand: sequences of 32 tokens, 8 heads of 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from analytical_cases import ALWAYS, NO_LIMIT, network

from codesign_opt.analytical import Estimate, estimate
from codesign_opt.analytical.operation_list import operation_list
from codesign_opt.analytical.parts import Part
from codesign_opt.errors import InfeasibleError
from codesign_opt.strategies import (
    AttentionKernel,
    CpExchange,
    Datatype,
    GradientPrecision,
    Placement,
    Recompute,
    Schedule,
    Strategy,
    StrategyTable,
    TpCommunication,
    TpOverlap,
)
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.legality import first_broken
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.systems import Engine, MemoryTier, NetworkTier, System
from codesign_opt.workloads import Workload
from codesign_opt.workloads.transformer import Experts, LatentAttention

H, F, S, A, D, G = 64, 96, 32, 8, 8, 4
"""Hidden and feed-forward width, sequence, heads, their size, heads of keys and values."""

VOCABULARY = 100
PADDED = 104
"""The vocabulary at tp 1: it is padded to a multiple of 8."""

DENSE = Workload(
    name="dense", hidden=H, feedforward=F, sequence_length=S, attention_heads=A, head_size=D, blocks=4,
    key_value_heads=G, gated_mlp=True, vocabulary=VOCABULARY, vocabulary_multiple=8, tied_embeddings=False, rotary=True,
    root_mean_square_norm=True, attention_bias=False, attention_output_bias=False, mlp_bias=False, dropout=False,
)  # fmt: skip
"""Grouped heads and a gated MLP, as in Llama."""

E, K, FE, FS = 8, 2, 48, 32
"""Experts, those that a token visits, and the inner widths of one and of the shared ones."""

ROUTED = replace(DENSE, name="routed", experts=Experts(count=E, top_k=K, feedforward=FE))
SHARED = replace(DENSE, name="shared", experts=Experts(count=E, top_k=K, feedforward=FE, shared_feedforward=FS))

LATENT = replace(
    SHARED,
    name="latent",
    key_value_heads=None,
    latent_attention=LatentAttention(query_rank=24, key_value_rank=16, rotary_size=4, value_size=6),
)
"""As in DeepSeek, but for its leading dense blocks."""

CLASSIC = Workload(
    name="classic", hidden=H, feedforward=4 * H, sequence_length=S, attention_heads=A, head_size=D, blocks=4,
    vocabulary=VOCABULARY, vocabulary_multiple=8,
)  # fmt: skip
"""As GPT-3."""


def strategy(**changes: Any) -> Strategy:
    """One processor, two sequences, bfloat16 and attention in one pass; `batch` and `processors` follow."""
    values: dict[str, Any] = {
        "tp": 1, "pp": 1, "dp": 1, "cp": 1, "microbatch": 2, "datatype": Datatype.BFLOAT16,
        "attention_kernel": AttentionKernel.FLASH, **changes,
    }  # fmt: skip
    values.setdefault("batch", values["dp"] * values["microbatch"])
    return Strategy(processors=values["tp"] * values["pp"] * values["dp"] * values["cp"], **values)


def sequence_parallel(**changes: Any) -> Strategy:
    """The same with sequence parallelism, and inputs gathered again."""
    return strategy(tp_communication=TpCommunication.SEQUENCE_PARALLEL, gather_redo=True, **changes)


def machine(
    *,
    matrix: float = NO_LIMIT,
    matrix8: float | None = None,
    vector: float = NO_LIMIT,
    memory: float = NO_LIMIT,
    tiers: Sequence[NetworkTier] = (),
) -> System:
    """A machine with rates in flop/s and bytes/s; what is not named takes no time."""
    engines = {"bfloat16": matrix, "float32": matrix, **({} if matrix8 is None else {"float8": matrix8})}
    return System(
        name="today",
        matrix={word: Engine(peak=peak, efficiency=ALWAYS) for word, peak in engines.items()},
        vector={word: Engine(peak=vector, efficiency=ALWAYS) for word in engines},
        memory_tier1=MemoryTier(capacity=NO_LIMIT, bandwidth=memory, efficiency=ALWAYS),
        memory_tier2=MemoryTier(capacity=0.0, bandwidth=NO_LIMIT, efficiency=ALWAYS),
        roofline=True,
        network_tiers=tuple(tiers or (network(bandwidth=NO_LIMIT),)),
    )


def judged(workload: Workload, chosen: Strategy | Sequence[Strategy], system: System | None = None) -> Estimate:
    """The estimate of one or several strategies."""
    rows = [chosen] if isinstance(chosen, Strategy) else list(chosen)
    return estimate(workload, machine() if system is None else system, StrategyTable.from_strategies(rows))


def number(values: Any) -> float:
    """The one number of an array."""
    return float(np.ravel(values)[0])


def operations(
    workload: Workload, chosen: Strategy, system: System | None = None, *, part: Part = Part.BLOCK
) -> dict[str, dict[str, Any]]:
    """The operations of a block or an end, by name."""
    listed = operation_list(workload, machine() if system is None else system, chosen, part=part).to_dicts()
    return {row["name"]: row for row in listed}


def forward_flops(workload: Workload, chosen: Strategy, *names: str) -> list[float]:
    """Forward flop of some operations of a block."""
    found = operations(workload, chosen)
    return [found[name]["forward_flops"] for name in names]


RANDOM_LIMITS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("recompute", tuple(Recompute)),
    ("attention_kernel", (AttentionKernel.FLASH, AttentionKernel.UNFUSED)),
    ("cp_exchange", tuple(CpExchange)),
    ("schedule", tuple(Schedule)),
    ("gradient_precision", tuple(GradientPrecision)),
    ("recompute_blocks", (0, 1)),
    ("shard_group", (0, 2)),
    ("keep_gathered", (False, True)),
    ("prefetch", (0, 1)),
    ("reduce_each_microbatch", (False, True)),
    ("first_stage_less", (0, 1)),
    ("last_stage_less", (0, 1)),
)
"""What random strategies vary besides what whole models do by default: the first value alone, or all."""


def random_strategies(
    random: Random, workload: Workload, system: System, *, rows: int = 40, **limits: tuple[Any, ...]
) -> StrategyTable:
    """Random legal strategies on 4, 8 or 16 processors, without offload; `limits` as in `StrategySpace`."""
    table = StrategyTable.empty()
    while not table.rows:
        table = _sample(random, workload, system, rows, limits)
    return table


def _sample(
    random: Random, workload: Workload, system: System, rows: int, limits: dict[str, tuple[Any, ...]]
) -> StrategyTable:
    """Some of one random space; none where it is empty."""
    chosen = {name: values if random.random() < 0.5 else values[:1] for name, values in RANDOM_LIMITS}
    space = StrategySpace(
        limits={**chosen, "placement": (random.choice(list(Placement)),), "tp_overlap": (TpOverlap.NONE,), **limits},
        uneven_stages=random.random() < 0.5,
    )
    try:
        grids = space.grids(
            workload, processors=random.choice([4, 8, 16]), batch=16, datatype=Datatype.BFLOAT16,
            tier_sizes=[tier.size for tier in system.network_tiers], offload=False,
        )  # fmt: skip
    except InfeasibleError:
        return StrategyTable.empty()
    table = StrategyTable.empty()
    for grid in random.sample(grids, min(len(grids), 5)):
        chosen_rows = random.sample(range(grid.size), min(grid.size, rows // 5))
        table = table.concatenated(grid.table(np.array(chosen_rows)))
    return table.take(np.flatnonzero(first_broken(Facts(table, [workload], [system])) < 0))
