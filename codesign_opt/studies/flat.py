"""One trial of a flat study: a machine and a single strategy, both proposed by the sampler.

The strategy's coordinates are positions from 0 to 1 along what is legal after the coordinates before them, so that
every point is a legal strategy and no coordinate's range depends on another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from codesign_opt.analytical.errata import parse_errata
from codesign_opt.analytical.estimate import estimate
from codesign_opt.errors import InfeasibleError
from codesign_opt.strategies import StrategyTable
from codesign_opt.strategies.grid import AXES, StrategyGrid
from codesign_opt.strategies.targets import refused_by
from codesign_opt.studies.outcome import Outcome, candidates, objective_values, violations
from codesign_opt.studies.points import Dimension, Point, machine
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.systems import System

_LAYOUT = ("tp", "pp", "vpp", "microbatch")
_OPTIONS = ("recompute", "tp_communication", "gather_redo", "tp_overlap", "fused_activation", "attention")
_OFFLOADS = ("weight_offload", "activation_offload", "optimizer_offload")
_PLACES = ("optimizer_sharding", "dp_overlap", "tp_tier", "pp_tier", "dp_tier")
_AXIS_OF = {"optimizer_sharding": "sharding"}

COORDINATES = tuple(f"strategy.{name}" for name in (*_LAYOUT, *_OPTIONS, *_OFFLOADS, *_PLACES))


def strategy_dimensions() -> tuple[Dimension, ...]:
    """The coordinates of a strategy."""
    return tuple(Dimension(name=name, low=0.0, high=1.0) for name in COORDINATES)


def evaluate_strategy(specification: StudySpecification, point: Point) -> Outcome:
    """The strategy of a point on its machine."""
    system, processors = machine(specification, point)
    if processors < 1:
        return Outcome(state="failed", reason="the budget buys no processors", values={}, constraints={})
    try:
        grids = specification.strategies.grids(
            specification.workload,
            processors=processors,
            batch=specification.batch,
            datatype=specification.datatype,
            tier_sizes=[tier.size for tier in system.network_tiers],
            offload=system.memory_tier2.capacity > 0,
        )
    except InfeasibleError as error:
        return Outcome(state="failed", reason=str(error), values={}, constraints={})
    row, placed = _strategy(grids, system, point)
    estimated = estimate(specification.workload, system, row, reproduce=parse_errata(specification.reproduce))
    shares = violations(estimated, specification.constraints, 0)
    shares["network"] = 0.0 if placed else 1.0
    refused = refused_by(specification.strategies.target, row, specification.workload, system)
    if refused is not None:
        shares["target"] = float(refused.any())
    values = objective_values(estimated, specification.objectives, 0)
    broken = [name for name, share in shares.items() if share > 0]
    if broken:
        reason = f"{broken[0]} is not kept, by {shares[broken[0]]:.2%}"
        return Outcome(state="infeasible", reason=reason, values=values, constraints=shares)
    return Outcome(
        state="complete",
        values=values,
        constraints=shares,
        candidates=candidates(row, np.ones(1, dtype=np.bool_), estimated),
    )


def _strategy(grids: Sequence[StrategyGrid], system: System, point: Point) -> tuple[StrategyTable, bool]:
    """A table of the point's strategy, and whether the network tiers allow its placement."""
    shares = {name.removeprefix("strategy."): float(point[name]) for name in COORDINATES}
    rows = [
        {"grid": number, "layout": layout, **{name: int(grid.layouts[name][layout]) for name in _LAYOUT}}
        for number, grid in enumerate(grids)
        for layout in range(len(grid.layouts["tp"]))
    ]
    rows = _narrowed(rows, _LAYOUT, shares)
    options = [
        {**row, "option": option, **{name: grids[row["grid"]].options[name][option].item() for name in _OPTIONS}}
        for row in rows
        for option in range(len(grids[row["grid"]].options["recompute"]))
    ]
    chosen = _narrowed(options, _OPTIONS, shares)[0]
    grid = grids[chosen["grid"]]
    offloads = [
        {"offload": offload, **{name: grid.offloads[name][offload].item() for name in _OFFLOADS}}
        for offload in range(len(grid.offloads["weight_offload"]))
    ]
    offload = _narrowed(offloads, _OFFLOADS, shares)[0]["offload"]
    lengths = dict(zip(AXES, grid.shape, strict=True))
    places = {name: _position(lengths[_AXIS_OF.get(name, name)], shares[name]) for name in _PLACES}
    index = (
        places["dp_overlap"], places["dp_tier"], places["pp_tier"], places["optimizer_sharding"],
        offload, places["tp_tier"], chosen["option"], chosen["layout"],
    )  # fmt: skip
    allowed = np.broadcast_to(grid.network_allows(system), grid.shape)[index]
    return grid.table(np.array([np.ravel_multi_index(index, grid.shape)])), bool(allowed)


def _narrowed(rows: list[dict[str, Any]], names: Sequence[str], shares: dict[str, float]) -> list[dict[str, Any]]:
    for name in names:
        values = sorted({row[name] for row in rows})
        value = values[_position(len(values), shares[name])]
        rows = [row for row in rows if row[name] == value]
    return rows


def _position(length: int, share: float) -> int:
    return min(int(share * length), length - 1)
