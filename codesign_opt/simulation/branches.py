"""Branches of conditionals: drawn with their weights, or their weighted time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError
from codesign_opt.graphs.graph import Graph, Ragged
from codesign_opt.graphs.opcodes import CODES, COMMUNICATION

Array = NDArray[Any]


def draw_branch(weights: Array, count: int, *, seed: int, ordinal: int) -> Array:
    """Branch numbers of `count` executions of the conditional number `ordinal`, drawn with weights that need no sum 1.

    The generator is PCG64 seeded with (seed, ordinal); each draw takes the upper 53 bits of its next number.
    """
    raw = np.random.PCG64(np.random.SeedSequence((seed, ordinal))).random_raw(int(count))
    uniform = (raw >> np.uint64(11)) * 2.0**-53
    bounds = np.cumsum(weights) / np.sum(weights)
    picks: Array = np.minimum(np.searchsorted(bounds, uniform, side="right"), np.flatnonzero(weights)[-1])
    return picks


def expected_seconds(graph: Graph, timed: Array, iterations: Array) -> Array:
    """Seconds of each instruction; a conditional takes those of its branches one after the other, times their weights.

    Args:
        graph: Of one processor.
        timed: Whether an instruction takes its own seconds.
        iterations: How often a caller runs its subroutines.

    Raises:
        InputError: For a conditional with communication inside.
    """
    seconds = np.where(timed, graph.seconds, 0.0)
    leaf = np.diff(graph.inner.offsets) == 0
    communicates = leaf & np.isin(graph.opcode, [CODES[name] for name in COMMUNICATION])
    conditional = graph.opcode == CODES["conditional"]
    for layer in reversed(subroutine_layers(graph.caller, graph.subroutine)[1:]):
        for subroutine in layer:
            caller = graph.caller[subroutine]
            members = graph.members[subroutine]
            if communicates[members].any():
                if conditional[caller]:
                    raise InputError(
                        f"graph '{graph.name}': conditional '{graph.names[caller]}' communicates: no expected time",
                        "draw its branches instead",
                    )
                communicates[caller] = True
            weight = graph.probability[subroutine] if conditional[caller] else 1.0
            seconds[caller] += weight * iterations[caller] * seconds[members].sum()
    return seconds


def subroutine_layers(caller: Array, subroutine: Array) -> list[Array]:
    """Subroutines by depth, those that nothing calls first.

    Args:
        caller: Instruction that calls a subroutine; negative for none.
        subroutine: That an instruction stands in.
    """
    outer = np.where(caller < 0, -1, subroutine[caller])
    inside = Ragged.grouped(outer, len(outer))
    layers = [np.flatnonzero(outer < 0)]
    while len(layers[-1]):
        layers.append(np.concatenate([inside[number] for number in layers[-1].tolist()]))
    return layers[:-1]
