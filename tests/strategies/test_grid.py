"""A grid of strategies: columns that broadcast, rows by flat index, order and placement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codesign_opt.strategies import Datatype, Recompute
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.grid import AXES, StrategyGrid
from codesign_opt.strategies.legality import RULES, first_broken
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.strategies.table import COLUMNS
from codesign_opt.systems import System
from codesign_opt.workloads import Workload


def grids_of(space: StrategySpace, workload: Workload, system: System, *, processors: int) -> list[StrategyGrid]:
    return space.grids(
        workload,
        processors=processors,
        batch=8,
        datatype=Datatype.FLOAT16,
        tier_sizes=[tier.size for tier in system.network_tiers],
        offload=True,
    )


@pytest.fixture(scope="module")
def grids(workload: Workload, system: System) -> list[StrategyGrid]:
    return grids_of(StrategySpace(), workload, system, processors=8)


@pytest.fixture(scope="module")
def largest(grids: list[StrategyGrid]) -> StrategyGrid:
    return max(grids, key=lambda grid: grid.size)


def test_columns_broadcast_to_the_shape(grids: list[StrategyGrid]) -> None:
    for grid in grids:
        columns = grid.columns()
        assert set(columns) == set(COLUMNS)
        assert np.broadcast_shapes(*(values.shape for values in columns.values())) == grid.shape
        assert len(grid.shape) == len(AXES)
        assert grid.size == np.prod(grid.shape)


def test_every_column_lies_along_one_axis(largest: StrategyGrid) -> None:
    along = {
        "tp": "layout",
        "batch": "layout",
        "recompute": "option",
        "attention": "option",
        "weight_offload": "offload",
        "optimizer_sharding": "sharding",
        "dp_overlap": "dp_overlap",
        "tp_tier": "tp_tier",
        "pp_tier": "pp_tier",
        "dp_tier": "dp_tier",
    }
    for name, axis in along.items():
        expected = [length if other == axis else 1 for other, length in zip(AXES, largest.shape, strict=True)]
        assert list(largest.columns()[name].shape) == expected, name
    assert largest.columns()["processors"].shape == (1,) * len(AXES)


def test_table_holds_the_rows_at_flat_indices(largest: StrategyGrid) -> None:
    flat = np.random.default_rng(0).integers(0, largest.size, 50)
    table = largest.table(flat)
    for name, values in largest.columns().items():
        everywhere = np.broadcast_to(values, largest.shape).ravel()
        assert (table[name] == everywhere[flat]).all(), name
    assert (table["tp"] * table["pp"] * table["dp"] == 8).all()


def test_order_is_a_permutation(grids: list[StrategyGrid]) -> None:
    for grid in grids:
        assert sorted(grid.order(np.arange(grid.size)).tolist()) == list(range(grid.size))


def test_order_goes_by_layout_then_option(largest: StrategyGrid) -> None:
    flat = np.argsort(largest.order(np.arange(largest.size)))
    index = dict(zip(AXES, np.unravel_index(flat, largest.shape), strict=True))
    significance = ("layout", "option", "tp_tier", "offload", "sharding", "pp_tier", "dp_tier", "dp_overlap")
    rows = list(zip(*(index[axis].tolist() for axis in significance), strict=True))
    assert rows == sorted(rows)


def test_some_layouts_and_options(largest: StrategyGrid) -> None:
    part = largest.take(np.array([2, 1]), np.array([0, 3, 5]))
    assert part.shape == (*largest.shape[:-2], 3, 2)
    # What the published search counts belongs to the whole grid.
    assert (part.considered, largest.considered > 0) == (0, True)
    for name, values in largest.columns().items():
        whole = np.broadcast_to(values, largest.shape)[..., [0, 3, 5], :][..., [2, 1]]
        assert (part.table(np.arange(part.size))[name] == whole.ravel()).all(), name


def network(system: System, *sizes: tuple[int, bool]) -> System:
    tier = system.network_tiers[0]
    return replace(system, network_tiers=tuple(replace(tier, size=n, must_be_filled=fill) for n, fill in sizes))


@pytest.mark.parametrize(
    "tiers",
    [
        [(8, True), (1000, False)],
        [(8, False)],
        [(4, True), (6, True)],
        [(12, True), (2, False), (64, True)],
        [(1, False), (8, False)],
        [(2, True), (2, True), (2, True)],
    ],
    ids=str,
)
def test_placements_that_the_network_allows(tiers: list[tuple[int, bool]], workload: Workload, system: System) -> None:
    machine = network(system, *tiers)
    limits: dict[str, Any] = {"recompute": (Recompute.NONE,), "dp_overlap": (False,), "weight_offload": (False,)}
    space = StrategySpace(limits=limits)
    for processors in (4, 6, 8):
        for grid in grids_of(space, workload, machine, processors=processors):
            allowed = np.broadcast_to(grid.network_allows(machine), grid.shape).ravel()
            first = first_broken(Facts(grid.table(np.arange(grid.size)), [workload], [machine]))
            codes = np.array(["", *(rule.code for rule in RULES)])[first + 1]
            assert set(codes) <= {"", "network_size", "network_fill"}
            assert (allowed == (codes == "")).all()


def test_placement_depends_on_degrees_and_places_only(largest: StrategyGrid, system: System) -> None:
    along = dict(zip(AXES, largest.network_allows(system).shape, strict=True))
    assert {axis for axis, length in along.items() if length > 1} <= {"layout", "tp_tier", "pp_tier", "dp_tier"}
