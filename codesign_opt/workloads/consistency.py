"""What the numbers of a workload must be to each other."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

from codesign_opt.configuration import at
from codesign_opt.errors import InputError
from codesign_opt.workloads.transformer import QueryKeyNorm, Workload

_NEED_A_VOCABULARY = (
    "vocabulary_multiple",
    "tied_embeddings",
    "learned_positions",
    "output_bias",
    "prediction_blocks",
)


def check_workload(workload: Workload, *, where: str) -> None:
    """Refuse a workload whose values contradict each other.

    Args:
        workload: What to check.
        where: Beginning of the message: the file, and the key path of the workload in it.

    Raises:
        InputError: For the first contradiction, naming both values.
    """
    for problem in _problems(workload):
        raise InputError(f"{at(where, problem.key)}: {problem.what}", problem.hint)


@dataclass(frozen=True, slots=True)
class _Problem:
    key: str
    what: str
    hint: str


def _problems(workload: Workload) -> Iterator[_Problem]:
    yield from _attention_problems(workload)
    yield from _window_problems(workload)
    yield from _expert_problems(workload)
    yield from _vocabulary_problems(workload)


def _attention_problems(workload: Workload) -> Iterator[_Problem]:
    heads, groups = workload.attention_heads, workload.kv_heads
    if heads % groups:
        yield _Problem(
            "key_value_heads",
            f"{groups} does not divide attention_heads = {heads}",
            f"every head of keys serves as many attention heads: {_nearest_divisors(heads, groups)}",
        )
    if workload.latent_attention is None:
        return
    if groups != heads:
        yield _Problem(
            "key_value_heads",
            f"{groups} beside latent_attention",
            f"latent attention makes keys and values for all {heads} heads: leave key_value_heads out",
        )
    if workload.query_key_norm is not QueryKeyNorm.NONE:
        yield _Problem(
            "query_key_norm",
            f"'{workload.query_key_norm.value}' beside latent_attention",
            "latent attention has norms of its latent vectors: leave query_key_norm out",
        )


def _window_problems(workload: Workload) -> Iterator[_Problem]:
    window, windowed = workload.window, workload.windowed_blocks
    if windowed > workload.blocks:
        yield _Problem("windowed_blocks", f"{windowed} is more than blocks = {workload.blocks}", "at most all blocks")
    if window and not windowed:
        yield _Problem("window", f"{window} without windowed_blocks", "say how many blocks have the window")
    if windowed and not window:
        yield _Problem("windowed_blocks", f"{windowed} without window", "say how many tokens one sees in these blocks")


def _expert_problems(workload: Workload) -> Iterator[_Problem]:
    experts = workload.experts
    if experts is None:
        return
    if experts.top_k > experts.count:
        yield _Problem(
            "experts.top_k",
            f"{experts.top_k} is more than experts.count = {experts.count}",
            "a token visits top_k of count experts",
        )
    after = workload.blocks - experts.leading_dense_blocks
    if after < 1:
        yield _Problem(
            "experts.leading_dense_blocks",
            f"{experts.leading_dense_blocks} is not less than blocks = {workload.blocks}",
            "at least one block must have experts",
        )
    elif after < experts.every:
        yield _Problem(
            "experts.every",
            f"{experts.every} is more than the {after} blocks after the leading dense ones",
            "at least one block must have experts",
        )
    if experts.shared_gate and not experts.shared_feedforward:
        yield _Problem("experts.shared_gate", "true without shared experts", "set experts.shared_feedforward")
    if experts.capacity_factor is not None and experts.imbalance != 1:
        yield _Problem(
            "experts.imbalance",
            f"{experts.imbalance:g} beside experts.capacity_factor = {experts.capacity_factor:g}",
            "a capacity drops what is out of balance: set one of the two",
        )


def _vocabulary_problems(workload: Workload) -> Iterator[_Problem]:
    if 0 < workload.learned_positions < workload.sequence_length:
        yield _Problem(
            "learned_positions",
            f"{workload.learned_positions} is less than sequence_length = {workload.sequence_length}",
            "every token of a sequence needs a row",
        )
    if workload.vocabulary:
        return
    plain = {field.name: field.default for field in dataclasses.fields(Workload)}
    for name in _NEED_A_VOCABULARY:
        if getattr(workload, name) != plain[name]:
            yield _Problem(
                name,
                f"{_written(getattr(workload, name))} without vocabulary",
                "without a vocabulary there are blocks alone: set vocabulary",
            )


def _nearest_divisors(number: int, value: int) -> str:
    """The divisors of `number` next to `value`: "2 or 4"."""
    low = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    divisors = {*low, *(number // divisor for divisor in low)}
    below, above = (divisor for divisor in divisors if divisor < value), (d for d in divisors if d > value)
    return " or ".join(str(divisor) for divisor in (max(below, default=0), min(above, default=0)) if divisor)


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
