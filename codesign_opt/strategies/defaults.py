"""What each dimension of a strategy may be where a space does not limit it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codesign_opt.strategies.options import (
    Attention,
    AttentionKernel,
    CpExchange,
    GradientPrecision,
    Placement,
    ProductPrecision,
    Recompute,
    Schedule,
    TpCommunication,
    TpOverlap,
)
from codesign_opt.workloads import Workload

BOTH = (True, False)

DEGREES = ("tp", "pp", "dp", "vpp", "microbatch", "cp", "ep", "etp")
"""Dimensions that may be whatever divides."""

BLOCKS_ALONE: Mapping[str, tuple[Any, ...]] = {
    "attention": (Attention.MULTIHEAD,),
    "fused_activation": (True,),
    "training": (True,),
    "recompute": tuple(Recompute),
    "tp_communication": tuple(TpCommunication),
    "tp_overlap": tuple(TpOverlap),
    "gather_redo": BOTH,
    "optimizer_sharding": BOTH,
    "dp_overlap": BOTH,
    "weight_offload": BOTH,
    "activation_offload": BOTH,
    "optimizer_offload": BOTH,
    "cp": (1,),
    "ep": (),
    "etp": (),
    "product_precision": (ProductPrecision.SAME,),
    "gradient_precision": (GradientPrecision.SAME,),
    "attention_kernel": (AttentionKernel.UNFUSED,),
    "cp_exchange": (CpExchange.RING,),
    "schedule": (Schedule.ONE_F_ONE_B,),
    "first_stage_less": (0,),
    "last_stage_less": (0,),
    "recompute_blocks": (0,),
    "gradient_sharding": (True,),
    "weight_sharding": (False,),
    "shard_group": (0,),
    "prefetch": (1,),
    "keep_gathered": (False,),
    "reduce_each_microbatch": (False,),
    "cp_tier": (0,),
    "ep_tier": (0,),
    "placement": (Placement.TIERS,),
}
"""For workloads of blocks alone: the space of the published search. An empty tuple stands for whatever divides."""

WHOLE_MODELS: Mapping[str, tuple[Any, ...]] = {
    **BLOCKS_ALONE,
    "recompute": (Recompute.NONE, Recompute.FULL),
    "tp_communication": (TpCommunication.ALL_REDUCE, TpCommunication.SEQUENCE_PARALLEL),
    "cp": (),
    "gradient_precision": (GradientPrecision.FLOAT32,),
    "attention_kernel": (AttentionKernel.FLASH,),
    "cp_exchange": tuple(CpExchange),
    "gradient_sharding": (False, True),
    "weight_sharding": BOTH,
    "placement": (Placement.TP_CP_DP_PP,),
}
"""For workloads with embedding and output projection: what today's frameworks run, in their order of processors."""

LIMITABLE = (
    "tp", "pp", "dp", "vpp", "microbatch", *(name for name in BLOCKS_ALONE if name not in ("cp", "ep", "etp")),
    "cp", "ep", "etp", "tp_tier", "pp_tier", "dp_tier",
)  # fmt: skip
"""The dimensions that a space may limit."""


def default_values(workload: Workload) -> Mapping[str, tuple[Any, ...]]:
    """For each dimension but degrees and tiers of the search what it may be; empty for whatever divides."""
    if not workload.vocabulary:
        return BLOCKS_ALONE
    experts = {} if workload.experts is None else {"tp_communication": (TpCommunication.SEQUENCE_PARALLEL,)}
    return {**WHOLE_MODELS, **experts}
