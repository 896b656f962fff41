"""Algorithms for members in one row: one all-gather and one reduce-scatter each, and what can be made of the two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from codesign_opt.simulation.collectives.barrier import after_barrier, centralized_barrier
from codesign_opt.simulation.collectives.composition import in_sequence
from codesign_opt.simulation.collectives.halving_doubling import (
    HALVING_DOUBLING,
    recursive_doubling_all_gather,
    recursive_halving_reduce_scatter,
)
from codesign_opt.simulation.collectives.line import (
    LINE,
    line_all_gather,
    line_reduce_scatter,
    mirrored_line_reduce_scatter,
)
from codesign_opt.simulation.collectives.ring import (
    BIDIRECTIONAL,
    UNIDIRECTIONAL,
    bidirectional_all_gather,
    bidirectional_reduce_scatter,
    unidirectional_all_gather,
    unidirectional_reduce_scatter,
)
from codesign_opt.simulation.collectives.schedule import Schedule
from codesign_opt.simulation.collectives.team import Team


@dataclass(frozen=True)
class OneDimensional:
    """How members in a row gather and reduce.

    Attributes:
        name: Of the algorithm.
        gather: The all-gather, without a barrier.
        reduce_scatter: The reduce-scatter, without a barrier.
    """

    name: str
    gather: Callable[[Team], Schedule]
    reduce_scatter: Callable[[Team], Schedule]


MIRRORED_LINE: Final = OneDimensional(LINE, line_all_gather, mirrored_line_reduce_scatter)
"""The line whose reduce-scatter is its all-gather backwards."""

ONE_DIMENSIONAL: Final = {
    algorithm.name: algorithm
    for algorithm in (
        OneDimensional(UNIDIRECTIONAL, unidirectional_all_gather, unidirectional_reduce_scatter),
        OneDimensional(BIDIRECTIONAL, bidirectional_all_gather, bidirectional_reduce_scatter),
        OneDimensional(LINE, line_all_gather, line_reduce_scatter),
        OneDimensional(HALVING_DOUBLING, recursive_doubling_all_gather, recursive_halving_reduce_scatter),
    )
}
"""By name."""


def all_gather(team: Team, algorithm: OneDimensional, *, barrier: bool = False) -> Schedule:
    """The all-gather, after a barrier where there shall be one."""
    schedule = algorithm.gather(team)
    return after_barrier(team, schedule) if barrier else schedule


def reduce_scatter(team: Team, algorithm: OneDimensional, *, barrier: bool = False) -> Schedule:
    """The reduce-scatter, after a barrier where there shall be one."""
    schedule = algorithm.reduce_scatter(team)
    return after_barrier(team, schedule) if barrier else schedule


def all_reduce(team: Team, algorithm: OneDimensional, *, barrier: bool = False) -> Schedule:
    """The reduce-scatter, then the all-gather; a barrier stands once, before both."""
    parts = [("reduce-scatter", algorithm.reduce_scatter(team)), ("all-gather", algorithm.gather(team))]
    if barrier:
        parts.insert(0, ("barrier", centralized_barrier(team)))
    return in_sequence("all-reduce", algorithm.name, team, parts)
