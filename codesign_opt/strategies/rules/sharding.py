"""Rules for state that is split over the replicas (ZeRO, FSDP, HSDP)."""

from __future__ import annotations

from codesign_opt.strategies.rules.published import SWITCH_OFF
from codesign_opt.strategies.rules.rule import Rule, constant, nearest_divisors
from codesign_opt.strategies.table import DEFAULT_COLUMNS

RULES: tuple[Rule, ...] = (
    Rule(
        "negative", True,
        lambda f: (f["shard_group"] < 0) | (f["prefetch"] < 0),
        "shard_group {shard_group} and prefetch {prefetch} must not be negative",
        constant("each must be at least 0"),
    ),
    Rule(
        "weight_sharding_alone", True,
        lambda f: f["weight_sharding"] & ~(f["optimizer_sharding"] & f["gradient_sharding"]),
        "weight_sharding without optimizer_sharding and gradient_sharding: weights are split last (ZeRO-3)",
        constant("switch those on, or weight_sharding off"),
    ),
    Rule(
        "weight_sharding_inference", True,
        lambda f: f["weight_sharding"] & ~f["training"],
        "weight_sharding without training: there is no optimizer to share",
        SWITCH_OFF,
    ),
    Rule(
        "shard_group_replicas", True,
        lambda f: (f["shard_group"] > 0) & (f.replicas % f.divisor("shard_group") != 0),
        "shard_group {shard_group} does not divide the {replicas} processors with the same weights (dp {dp} x cp {cp})",
        lambda v: f"shard_group may be 0 (all) or {nearest_divisors(v['replicas'], v['shard_group'])}",
    ),
    Rule(
        "prefetch_alone", True,
        lambda f: (f["prefetch"] != DEFAULT_COLUMNS["prefetch"]) & ~f["weight_sharding"],
        "prefetch {prefetch} without weight_sharding: no weights are gathered",
        constant(f"prefetch must be left at {DEFAULT_COLUMNS['prefetch']}"),
    ),
    Rule(
        "keep_gathered_alone", True,
        lambda f: f["keep_gathered"] & ~f["weight_sharding"],
        "keep_gathered without weight_sharding: no weights are gathered",
        SWITCH_OFF,
    ),
)  # fmt: skip
"""In the order in which they are judged."""
