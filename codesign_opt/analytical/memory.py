"""Memory that a processor of the first stage needs (spec analytical-model section 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block_spaces import BlockSpaces
from codesign_opt.analytical.optimizer import OptimizerSpaces
from codesign_opt.analytical.schedule import ScheduleCounts
from codesign_opt.strategies import Recompute
from codesign_opt.strategies.table import OPTION_CODES

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeeds:
    """Bytes a processor.

    Attributes:
        tier1, tier2: What each memory tier must hold.
        weight, activation, weight_gradient, activation_gradient, optimizer: The parts of `tier1`; checkpoints of full
            recompute count as activations.
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
    strategies: Mapping[str, Array], spaces: BlockSpaces, state: OptimizerSpaces, counts: ScheduleCounts
) -> MemoryNeeds:
    """Needs of every strategy; they do not depend on the network or on any speed."""
    training = strategies["training"]
    full = strategies["recompute"] == OPTION_CODES[Recompute.FULL]
    N, p, v = counts.N, counts.p, counts.v
    mm = np.minimum(counts.m, p)
    in_flight = np.where(v > 1, mm * (1 + (p - 1) / (v * p)), mm)

    weight = N * spaces.spW
    act = np.where(training & ~full, spaces.wrk + spaces.sto * (N * in_flight - 1), spaces.wrk)
    ckpt = np.where(training & full, N * spaces.ckp * in_flight, 0.0)
    wgrad = np.where(N == 1, spaces.wgu, spaces.wgu + state.gradient * (N - 1))
    optim = N * state.space

    weight_min = 2 * spaces.spW
    act_min = np.where(full, spaces.wrk, spaces.wrk + spaces.sto)
    ckpt_min = np.where(full, 2 * spaces.ckp, 0.0)
    wgrad_min = spaces.wgu + state.gradient
    optim_min = 2 * state.space

    woff, aoff, ooff = (strategies[f"{what}_offload"] for what in ("weight", "activation", "optimizer"))
    m1_weight = np.where(woff, weight_min, weight)
    m1_activation = np.where(aoff, act_min + ckpt_min, act + ckpt)
    m1_gradient = np.where(ooff, wgrad_min, wgrad)
    m1_optimizer = np.where(ooff, optim_min, optim)
    offloadable = np.where(spaces.keeps_activations, np.where(full, ckpt, act), 0.0)
    tier2 = (
        np.where(woff, weight, 0.0) + np.where(aoff, offloadable, 0.0) + np.where(ooff, state.gradient * N + optim, 0.0)
    )
    return MemoryNeeds(
        tier1=m1_weight + m1_activation + (m1_gradient + m1_optimizer) + spaces.agr,
        tier2=tier2,
        weight=m1_weight,
        activation=m1_activation,
        weight_gradient=m1_gradient,
        activation_gradient=spaces.agr,
        optimizer=m1_optimizer,
        all_weight=weight,
        all_activation=act,
        all_checkpoint=ckpt,
        all_weight_gradient=wgrad,
        all_optimizer=optim,
        weight_min=weight_min,
        activation_min=act_min,
        checkpoint_min=ckpt_min,
        weight_gradient_min=wgrad_min,
        optimizer_min=optim_min,
    )
