"""Memory that a processor of the fullest stage needs (spec analytical-model section 9).

docs/model.md derives what the specification does not have: the ends of the stack, weights in shards, other schedules,
first-n recompute, and what frameworks take besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block_spaces import BlockSpaces
from codesign_opt.analytical.optimizer import OptimizerSpaces
from codesign_opt.analytical.overheads import OverheadColumns
from codesign_opt.analytical.schedule import ScheduleCounts
from codesign_opt.analytical.stack_ends import EndsHeld, Held
from codesign_opt.strategies import GradientPrecision, Recompute, Schedule
from codesign_opt.strategies.table import OPTION_CODES

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeeds:
    """Bytes a processor.

    Attributes:
        tier1, tier2: What each memory tier must hold.
        weight, activation, weight_gradient, activation_gradient, optimizer: The parts of `tier1`; checkpoints of full
            recompute count as activations, and `overhead` is what a framework takes besides.
        all_weight, all_activation, all_checkpoint, all_weight_gradient, all_optimizer: What there is altogether,
            wherever it is kept.
        weight_min, activation_min, checkpoint_min, weight_gradient_min, optimizer_min: What stays in tier 1 while the
            rest is offloaded.
    """

    tier1: Array
    tier2: Array
    weight: Array
    activation: Array
    weight_gradient: Array
    activation_gradient: Array
    optimizer: Array
    overhead: Array
    all_weight: Array
    all_activation: Array
    all_checkpoint: Array
    all_weight_gradient: Array
    all_optimizer: Array
    weight_min: Array
    activation_min: Array
    checkpoint_min: Array
    weight_gradient_min: Array
    optimizer_min: Array


def memory_needs(
    strategies: Mapping[str, Array],
    spaces: BlockSpaces,
    state: OptimizerSpaces,
    counts: ScheduleCounts,
    ends: EndsHeld | None = None,
    overheads: OverheadColumns | None = None,
) -> MemoryNeeds:
    """Needs of every strategy; they do not depend on the network or on any speed."""
    first = _stage(strategies, spaces, state, counts.N - strategies["first_stage_less"], _in_flight(strategies, counts))
    in_tier1 = _in_tier1(strategies, spaces, state, first)
    if ends is not None:
        in_tier1 = _fullest(strategies, spaces, state, counts, ends, in_tier1)
    # In this order the sum is the published tool's to the last bit.
    tier1 = in_tier1.weight + in_tier1.activation + (in_tier1.gradient + in_tier1.optimizer)
    tier1 = tier1 + in_tier1.activation_gradient
    overhead = np.zeros_like(tier1)
    if overheads is not None:
        overhead = overheads.bytes(strategies, in_tier1.activation + in_tier1.activation_gradient)
        tier1 = tier1 + overhead
    full = strategies["recompute"] == OPTION_CODES[Recompute.FULL]
    offloadable = np.where(spaces.keeps_activations, np.where(full, first.checkpoint, first.activation), 0.0)
    woff, aoff, ooff = _offloads(strategies)
    with_state = state.gradient * counts.N + first.optimizer
    return MemoryNeeds(
        tier1=tier1,
        tier2=np.where(woff, first.weight, 0.0) + np.where(aoff, offloadable, 0.0) + np.where(ooff, with_state, 0.0),
        weight=in_tier1.weight,
        activation=in_tier1.activation,
        weight_gradient=in_tier1.gradient,
        activation_gradient=in_tier1.activation_gradient,
        optimizer=in_tier1.optimizer,
        overhead=overhead,
        all_weight=first.weight,
        all_activation=first.activation,
        all_checkpoint=first.checkpoint,
        all_weight_gradient=first.gradient,
        all_optimizer=first.optimizer,
        weight_min=2 * spaces.spW,
        activation_min=np.where(full, spaces.wrk, spaces.wrk + spaces.sto),
        checkpoint_min=np.where(full, 2 * spaces.ckp, 0.0),
        weight_gradient_min=spaces.wgu + state.gradient,
        optimizer_min=2 * state.space,
    )


@dataclass(frozen=True, slots=True)
class _Stage:
    """Bytes of the blocks of one stage, wherever they are kept."""

    weight: Array
    activation: Array
    checkpoint: Array
    gradient: Array
    optimizer: Array


def _stage(
    strategies: Mapping[str, Array], spaces: BlockSpaces, state: OptimizerSpaces, N: Array, in_flight: Array
) -> _Stage:
    """N blocks that hold the activations of `in_flight` microbatches."""
    training = strategies["training"]
    full = strategies["recompute"] == OPTION_CODES[Recompute.FULL]
    keeps = ~full | (strategies["recompute_blocks"] > 0)
    weight = N * spaces.spW
    gradient = np.where(N == 1, spaces.wgu, spaces.wgu + state.gradient * (N - 1))
    both = strategies["gradient_precision"] == OPTION_CODES[GradientPrecision.BOTH]
    gradient = np.where(both, N * state.gradient, gradient)
    if np.any(strategies["weight_sharding"]):
        weight = np.where(strategies["weight_sharding"], _held_in_shards(strategies, spaces, N), weight)
    optimizer = N * state.space
    both_directions = strategies["schedule"] == OPTION_CODES[Schedule.DUALPIPE]
    if np.any(both_directions):
        # DualPipe runs two stages on each processor, one in each direction.
        copies = np.where(both_directions, 2.0, 1.0)
        weight, gradient, optimizer = copies * weight, copies * gradient, copies * optimizer
    return _Stage(
        weight=weight,
        activation=np.where(training & keeps, spaces.wrk + spaces.sto * (N * in_flight - 1), spaces.wrk),
        checkpoint=np.where(training & full, N * spaces.ckp * in_flight, 0.0),
        gradient=gradient,
        optimizer=optimizer,
    )


def _held_in_shards(strategies: Mapping[str, Array], spaces: BlockSpaces, N: Array) -> Array:
    """Weights in shards, and whole those of the block at work and of those gathered ahead of it."""
    gathered = np.where(strategies["keep_gathered"], N, np.minimum(1 + strategies["prefetch"], N))
    shared = spaces.spW - spaces.spX
    in_shards = shared / strategies["shards"] + spaces.spX / strategies["expert_shards"]
    return np.asarray(N * in_shards + gathered * spaces.spW)


@dataclass(frozen=True, slots=True)
class _Tier1:
    """Bytes in memory tier 1."""

    weight: Array
    activation: Array
    gradient: Array
    optimizer: Array
    activation_gradient: Array

    def __add__(self, other: _Tier1) -> _Tier1:
        return _Tier1(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    @property
    def total(self) -> Array:
        return self.weight + self.activation + self.gradient + self.optimizer + self.activation_gradient


def _in_tier1(strategies: Mapping[str, Array], spaces: BlockSpaces, state: OptimizerSpaces, stage: _Stage) -> _Tier1:
    """What of a stage stays in memory tier 1."""
    full = strategies["recompute"] == OPTION_CODES[Recompute.FULL]
    woff, aoff, ooff = _offloads(strategies)
    activation_min = np.where(full, spaces.wrk, spaces.wrk + spaces.sto) + np.where(full, 2 * spaces.ckp, 0.0)
    return _Tier1(
        weight=np.where(woff, 2 * spaces.spW, stage.weight),
        activation=np.where(aoff, activation_min, stage.activation + stage.checkpoint),
        gradient=np.where(ooff, spaces.wgu + state.gradient, stage.gradient),
        optimizer=np.where(ooff, 2 * state.space, stage.optimizer),
        activation_gradient=spaces.agr,
    )


def _offloads(strategies: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    weight, activation, optimizer = (strategies[f"{what}_offload"] for what in ("weight", "activation", "optimizer"))
    return weight, activation, optimizer


def _fullest(
    strategies: Mapping[str, Array],
    spaces: BlockSpaces,
    state: OptimizerSpaces,
    counts: ScheduleCounts,
    ends: EndsHeld,
    first: _Tier1,
) -> _Tier1:
    """The fullest of the first stage with the embedding, the second, and the last with the output projection."""
    p = counts.p
    in_flight = _in_flight(strategies, counts)

    def stage(less: Array | float, in_flight: Array) -> _Tier1:
        return _in_tier1(strategies, spaces, state, _stage(strategies, spaces, state, counts.N - less, in_flight))

    embedding, projection = (_held_by(strategies, end, ends.present) for end in (ends.first, ends.last))
    candidates = [
        first + _only(embedding, p >= 1) + _only(projection, p == 1),
        stage(strategies["last_stage_less"], _in_flight_last(strategies, counts, in_flight)) + _only(projection, p > 1),
    ]
    if np.any(strategies["first_stage_less"]):
        fewer = np.where(p > 2, np.maximum(in_flight - in_flight / p, 1.0), 0.0)
        candidates.append(stage(0.0, fewer))
    fullest = candidates[0]
    for other in candidates[1:]:
        less = (other.total > fullest.total) & (p > 1)
        fullest = _Tier1(
            *(np.where(less, getattr(other, field.name), getattr(fullest, field.name)) for field in fields(_Tier1))
        )
    return fullest


def _held_by(strategies: Mapping[str, Array], end: Held, present: Array) -> _Tier1:
    training = strategies["training"]
    in_shards = np.where(strategies["weight_sharding"], end.spaces.spW / strategies["shards"], 0.0)
    return _only(
        _Tier1(
            # Weights in shards are gathered for each pass and given back.
            weight=end.spaces.spW + in_shards,
            activation=np.where(training, end.spaces.sto, end.spaces.wrk),
            gradient=end.state.gradient,
            optimizer=end.state.space,
            activation_gradient=end.spaces.agr,
        ),
        present,
    )


def _only(held: _Tier1, where: Array) -> _Tier1:
    return _Tier1(*(np.where(where, getattr(held, field.name), 0.0) for field in fields(held)))


def _in_flight(strategies: Mapping[str, Array], counts: ScheduleCounts) -> Array:
    """Microbatches whose activations the first stage holds at once."""
    p, v, m = counts.p, counts.v, counts.m
    mm = np.minimum(m, p)
    in_flight = np.where(v > 1, mm * (1 + (p - 1) / (v * p)), mm)
    schedule = strategies["schedule"]
    if not np.any(schedule):
        return in_flight
    in_flight = np.where(schedule == OPTION_CODES[Schedule.GPIPE], m, in_flight)
    return np.where(schedule == OPTION_CODES[Schedule.DUALPIPE], np.minimum(m, p + 1), in_flight)


def _in_flight_last(strategies: Mapping[str, Array], counts: ScheduleCounts, first: Array) -> Array:
    """The same on the last stage: one microbatch; of an interleaved schedule all chunks but the last of p others.

    Schedules that put weight gradients off hold as many on every stage.
    """
    p, v = counts.p, counts.v
    few = np.minimum(((v - 1) * p + 1) / v, first)
    in_turn = strategies["schedule"] == OPTION_CODES[Schedule.ONE_F_ONE_B]
    return np.where(in_turn & (p > 1), few, first)
