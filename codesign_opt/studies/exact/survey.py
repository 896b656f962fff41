"""Which strategies of a space fit, before any time is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.grid import GridMemory, grid_memories
from codesign_opt.analytical.overheads import overhead_columns
from codesign_opt.analytical.space_keys import SpaceKeys
from codesign_opt.errors import InfeasibleError
from codesign_opt.strategies import Datatype, Placement, ProductPrecision, StrategyTable
from codesign_opt.strategies.defaults import default_values
from codesign_opt.strategies.grid import StrategyGrid
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.strategies.targets import refused_by
from codesign_opt.studies.exact.question import ExactQuestion, NearestMiss
from codesign_opt.systems import MemoryOverheads
from codesign_opt.workloads import Workload

Array = NDArray[Any]

KEPT_SPACES = 8
"""Spaces whose memory needs are kept for further questions; one of them takes some ten megabytes."""


@dataclass(frozen=True, slots=True)
class Space:
    """The grids of a space, their keys, and what they need of memory."""

    grids: tuple[StrategyGrid, ...]
    keys: SpaceKeys
    memories: tuple[GridMemory, ...]

    @property
    def considered(self) -> int:
        """Strategies, counted as the published search counts them."""
        return sum(grid.considered for grid in self.grids)


@dataclass(frozen=True, slots=True)
class Fit:
    """Which strategies of a grid fit: `placed` by network and target, `held` by memory; both broadcast to its shape."""

    placed: Array
    held: Array

    @property
    def layouts(self) -> Array:
        """Whether each layout has any strategy that fits."""
        axes = tuple(range(self.placed.ndim - 1))
        return np.asarray(self.placed.any(axis=axes) & self.held.any(axis=axes))

    def take(self, layouts: Array, options: Array) -> Fit:
        """The fit of some layouts and options."""
        return Fit(*(_along(mask, layouts, options) for mask in (self.placed, self.held)))


def _along(mask: Array, layouts: Array, options: Array) -> Array:
    """Some layouts and options of a mask, where it depends on them."""
    some = mask if mask.shape[-1] == 1 else mask[..., layouts]
    return some if some.shape[-2] == 1 else some[..., options, :]


@dataclass(frozen=True, slots=True)
class Survey:
    """Counts before any time is computed.

    Attributes:
        legal: Strategies that network and target allow.
        fitting: Those that memory holds as well.
        excluded: Reason code to number of strategies, under the first that applies.
        fits: For each grid, what fits.
    """

    legal: int
    fitting: int
    excluded: dict[str, int]
    fits: tuple[Fit, ...]


def space_of(question: ExactQuestion) -> Space:
    """The space of a question.

    Raises:
        InfeasibleError: When it is empty.
    """
    system = question.system
    # Of the system, a space depends on what is named here alone.
    return _space(
        question.workload,
        question.processors,
        question.batch,
        question.datatype,
        _Hashable(_with_engines(question)),
        _tier_sizes(question),
        system.memory_overheads,
        system.memory_tier2.capacity > 0,
        question.reproduce,
    )


def _with_engines(question: ExactQuestion) -> StrategySpace:
    """The question's space without products in 8 bits where the system has no engine for them.

    Raises:
        InfeasibleError: When it has none but these.
    """
    asked = question.space.limits.get("product_precision", ())
    possible = tuple(precision for precision in asked if precision is not ProductPrecision.FLOAT8)
    if possible == asked or Datatype.FLOAT8.value in question.system.matrix:
        return question.space
    if not possible:
        raise InfeasibleError(
            f"{question.system.name} has no float8 engine for product_precision float8",
            f"it has {', '.join(question.system.matrix)}",
            "datatype_missing",
        )
    return replace(question.space, limits={**question.space.limits, "product_precision": possible})


def _tier_sizes(question: ExactQuestion) -> tuple[int, ...]:
    """Sizes of the network tiers where an order of dimensions decides the tiers; without one the space is the same."""
    tiers = question.system.network_tiers
    placements = question.space.limits.get("placement", default_values(question.workload)["placement"])
    ordered = any(placement is not Placement.TIERS for placement in placements)
    return tuple(tier.size if ordered else 1 for tier in tiers)


def survey(question: ExactQuestion, space: Space) -> Survey:
    """What of the space fits the question's system."""
    excluded = {"network": 0, "target": 0, "memory_tier1": 0, "memory_tier2": 0}
    legal, fits = 0, []
    for memory in space.memories:
        grid = memory.grid
        placed = grid.network_allows(question.system)
        fits1 = memory.needs.tier1 <= question.system.memory_tier1.capacity
        fits2 = memory.needs.tier2 <= question.system.memory_tier2.capacity
        refused = refused_by(question.space.target, grid.columns(), question.workload, question.system)
        if refused is None:
            counts = _counts(grid, placed, fits1, fits2)
        else:
            counts = _counts_with_target(grid, placed, refused, fits1, fits2)
            placed = placed & ~refused
        fits.append(Fit(placed, fits1 & fits2))
        for reason, count in counts.items():
            excluded[reason] += count
        legal += grid.size - counts["network"] - counts.get("target", 0)
    fitting = legal - excluded["memory_tier1"] - excluded["memory_tier2"]
    return Survey(legal, fitting, {reason: count for reason, count in excluded.items() if count}, tuple(fits))


def _counts(grid: StrategyGrid, placed: Array, fits1: Array, fits2: Array) -> dict[str, int]:
    """Strategies excluded, by reason: placement and memory share no axis but the layouts, so that counts multiply."""
    placements = _per_layout(placed, grid, ("dp_tier", "pp_tier", "tp_tier")) * len(grid.dp_overlap)
    return {
        "network": grid.size - int((placements * _memory_rows(grid)).sum()),
        "memory_tier1": int((placements * _per_layout(~fits1, grid, _MEMORY_AXES)).sum()),
        "memory_tier2": int((placements * _per_layout(fits1 & ~fits2, grid, _MEMORY_AXES)).sum()),
    }


def _counts_with_target(
    grid: StrategyGrid, placed: Array, refused: Array, fits1: Array, fits2: Array
) -> dict[str, int]:
    """The same where a target may refuse any combination."""

    def number(mask: Array) -> int:
        return int(np.count_nonzero(np.broadcast_to(mask, grid.shape)))

    left = placed & ~refused
    return {
        "network": number(~placed),
        "target": number(placed & refused),
        "memory_tier1": number(left & ~fits1),
        "memory_tier2": number(left & fits1 & ~fits2),
    }


def nearest_memory_miss(question: ExactQuestion, space: Space, found: Survey) -> NearestMiss | None:
    """The strategy that the network allows and whose worst overflow is least, as a share of the tier's capacity."""
    best: NearestMiss | None = None
    tiers = {"memory_tier1": question.system.memory_tier1, "memory_tier2": question.system.memory_tier2}
    for memory, fit in zip(space.memories, found.fits, strict=True):
        needs = (memory.needs.tier1, memory.needs.tier2)
        missing = [need - tier.capacity for need, tier in zip(needs, tiers.values(), strict=True)]
        shares = [over / (tier.capacity or 1.0) for over, tier in zip(missing, tiers.values(), strict=True)]
        worst = np.maximum(*shares)
        at, least = least_of(worst, fit.placed & (worst > 0), memory.grid)
        if at is not None and (best is None or least < best.share):
            tier = next(i for i, share in enumerate(shares) if np.broadcast_to(share, memory.grid.shape)[at] == least)
            amount = float(np.broadcast_to(missing[tier], memory.grid.shape)[at])
            best = NearestMiss(list(tiers)[tier], amount, least, row_at(memory.grid, at))
    return best


def least_of(values: Array, among: Array, grid: StrategyGrid) -> tuple[tuple[int, ...] | None, float]:
    """Where in the grid the smallest of some values is, and what it is."""
    chosen = np.where(among, values, np.inf)
    at = tuple(int(i) for i in np.unravel_index(int(np.argmin(chosen)), chosen.shape))
    least = float(chosen[at])
    return ((0,) * (len(grid.shape) - len(at)) + at if least < np.inf else None), least


def row_at(grid: StrategyGrid, at: tuple[int, ...]) -> StrategyTable:
    """The strategy at an index of the grid, as a table."""
    return grid.table(np.array([np.ravel_multi_index(at, grid.shape)]))


_MEMORY_AXES = ("sharding", "offload", "option")
_AXIS = {"dp_overlap": 0, "dp_tier": 1, "pp_tier": 2, "sharding": 3, "offload": 4, "tp_tier": 5, "option": 6}


def _per_layout(mask: Array, grid: StrategyGrid, axes: Sequence[str]) -> Array:
    """For each layout the number of true entries along some axes."""
    shape = [1] * len(grid.shape)
    shape[-1] = grid.shape[-1]
    for axis in axes:
        shape[_AXIS[axis]] = grid.shape[_AXIS[axis]]
    return np.asarray(np.count_nonzero(np.broadcast_to(mask, shape), axis=tuple(range(len(shape) - 1))))


def _memory_rows(grid: StrategyGrid) -> int:
    return int(np.prod([grid.shape[_AXIS[axis]] for axis in _MEMORY_AXES]))


class _Hashable:
    """A strategy space as a key: spaces with equal limits are equal."""

    def __init__(self, space: StrategySpace) -> None:
        self.space = space
        limits = tuple(sorted((name, tuple(values)) for name, values in space.limits.items()))
        self._key = (repr(limits), space.uneven_stages, space.all_divisors, space.target)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashable) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=KEPT_SPACES)
def _space(
    workload: Workload,
    processors: int,
    batch: int,
    datatype: Datatype,
    limits: _Hashable,
    sizes: tuple[int, ...],
    overheads: MemoryOverheads,
    offload: bool,
    reproduce: frozenset[Erratum],
) -> Space:
    grids = limits.space.grids(
        workload,
        processors=processors,
        batch=batch,
        datatype=datatype,
        tier_sizes=sizes,
        offload=offload,
    )
    table = np.array([sizes])
    keys = SpaceKeys.of(grids, table)
    taken = overhead_columns([overheads], np.zeros((), dtype=np.int64))
    memories = grid_memories(workload, grids, keys, reproduce, sizes=table, overheads=taken)
    return Space(tuple(grids), keys, tuple(memories))
