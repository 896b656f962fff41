"""A grid of strategies, evaluated by broadcasting, has the results of its rows evaluated one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Set
from random import Random

import numpy as np
import pytest
from analytical_cases import random_system, workload

from codesign_opt.analytical import ALL, NONE, Erratum, estimate
from codesign_opt.analytical.estimate import Estimate
from codesign_opt.analytical.grid import GridTimes, grid_memories
from codesign_opt.analytical.groups import tier_sizes
from codesign_opt.analytical.space_keys import SpaceKeys
from codesign_opt.strategies import Attention, Datatype, StrategyTable
from codesign_opt.strategies.grid import StrategyGrid
from codesign_opt.strategies.space import BOTH, StrategySpace

SPACE = StrategySpace(
    limits={"attention": tuple(Attention), "training": BOTH, "microbatch": (1, 2)},
    uneven_stages=True,
    all_divisors=True,
)
SHAPE = workload(blocks=6)
SYSTEM = random_system(Random(1))
SIZES = tier_sizes([SYSTEM])
ROWS = 400
"""Rows of every grid that are compared."""


def grids() -> list[StrategyGrid]:
    return SPACE.grids(
        SHAPE,
        processors=8,
        batch=8,
        datatype=Datatype.FLOAT16,
        tier_sizes=[tier.size for tier in SYSTEM.network_tiers],
        offload=True,
    )


def assert_same(grid: StrategyGrid, found: Estimate, reproduce: Set[Erratum]) -> None:
    """Some rows of a grid's estimate are those of the strategies at the same flat indices."""
    flat = np.random.default_rng(0).integers(0, grid.size, ROWS)
    table: StrategyTable = grid.table(flat)
    expected = estimate(SHAPE, SYSTEM, table, reproduce=reproduce)
    for part in ("times", "memory"):
        for field in dataclasses.fields(getattr(expected, part)):
            values = np.broadcast_to(getattr(getattr(found, part), field.name), grid.shape).ravel()[flat]
            np.testing.assert_allclose(
                values, getattr(getattr(expected, part), field.name), rtol=1e-12, err_msg=field.name
            )


@pytest.mark.parametrize("reproduce", [NONE, ALL], ids=["corrected", "published"])
def test_every_grid_equals_its_rows(reproduce: Set[Erratum]) -> None:
    of_space = grids()
    assert {bool(grid.fixed["training"]) for grid in of_space} == {True, False}
    keys = SpaceKeys.of(of_space, SIZES)
    times = GridTimes(SHAPE, SYSTEM, keys, np.arange(len(keys.splits)), reproduce)
    for memory in grid_memories(SHAPE, of_space, keys, reproduce, sizes=SIZES):
        assert_same(memory.grid, times.estimate(memory, times.blocks(memory)), reproduce)


def test_part_of_a_grid_equals_its_rows() -> None:
    of_space = grids()
    keys = SpaceKeys.of(of_space, SIZES)
    memory = max(grid_memories(SHAPE, of_space, keys, NONE, sizes=SIZES), key=lambda one: one.grid.size)
    some_layouts = np.flatnonzero(memory.keys.split == memory.keys.split[-1])
    some_options = np.arange(1, memory.grid.shape[-2], 2)
    part = memory.take(some_layouts, some_options)
    times = GridTimes(SHAPE, SYSTEM, keys, part.keys.split, NONE)
    assert part.grid.size < memory.grid.size
    assert_same(part.grid, times.estimate(part, times.blocks(part)), NONE)


def test_a_strategy_alone_has_to_the_last_bit_the_results_it_has_among_others() -> None:
    grid = max(grids(), key=lambda one: one.size)
    table = grid.table(np.random.default_rng(2).integers(0, grid.size, 60))
    together = estimate(SHAPE, SYSTEM, table)
    for row in range(table.rows):
        alone = estimate(SHAPE, SYSTEM, table.take([row]))
        for part in ("times", "memory"):
            for field in dataclasses.fields(getattr(alone, part)):
                among = np.broadcast_to(getattr(getattr(together, part), field.name), (table.rows,))[row]
                assert getattr(getattr(alone, part), field.name)[0] == among, field.name
