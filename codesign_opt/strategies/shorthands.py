"""Shorter ways to say several keys of a strategy: a ZeRO stage, and steps of gradient accumulation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codesign_opt.errors import InputError

ZERO_STAGES: Mapping[int, Mapping[str, bool]] = {
    0: {"optimizer_sharding": False, "gradient_sharding": True, "weight_sharding": False},
    1: {"optimizer_sharding": True, "gradient_sharding": False, "weight_sharding": False},
    2: {"optimizer_sharding": True, "gradient_sharding": True, "weight_sharding": False},
    3: {"optimizer_sharding": True, "gradient_sharding": True, "weight_sharding": True},
}
"""What each stage splits; at stage 0 gradient sharding says nothing, and keeps its default."""


def expanded_zero_stage(keys: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """The keys of a strategy with those that `zero_stage` stands for in its place.

    Raises:
        InputError: For another stage, or where one of those keys is given too; the message starts with `where`.
    """
    others = {name: value for name, value in keys.items() if name != "zero_stage"}
    if "zero_stage" not in keys:
        return others
    stage = keys["zero_stage"]
    if isinstance(stage, bool) or stage not in ZERO_STAGES:
        raise InputError(f"{where}: {stage!r} is not allowed", "a ZeRO stage is 0, 1, 2 or 3")
    twice = [name for name in ZERO_STAGES[stage] if name in others]
    if twice:
        raise InputError(f"{where}: {stage} says what {', '.join(twice)} would be, which is given too", "keep one")
    return {**others, **ZERO_STAGES[stage]}


def accumulated_batch(
    *, microbatch: int, accumulation: int, dp: int, batch: int | None = None, where: str = "accumulation"
) -> int:
    """The global batch of `accumulation` microbatches on each of `dp` replicas, sequences.

    Raises:
        InputError: Where a batch is given that is another one; the message starts with `where`.
    """
    product = microbatch * accumulation * dp
    if batch is not None and batch != product:
        raise InputError(
            f"{where}: batch {batch} is not "
            f"microbatch {microbatch} x accumulation {accumulation} x dp {dp} = {product}",
            "leave one of them out",
        )
    return product
