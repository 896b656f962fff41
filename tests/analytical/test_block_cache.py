"""Shared block tables: bit for bit those computed alone, and computed once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from analytical_cases import random_system, workload

from codesign_opt.analytical import ALL, NONE, block_cache
from codesign_opt.analytical.block import BLOCK_KEY, BlockTable, block_table
from codesign_opt.analytical.block_cache import shared_block_table
from codesign_opt.analytical.groups import tier_sizes
from codesign_opt.analytical.part_tables import block_keys_of, distinct
from codesign_opt.analytical.parts import Part
from codesign_opt.strategies import Datatype
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.systems import System

SHAPE = workload(blocks=6)
SYSTEM = random_system(Random(2))


def all_keys() -> dict[str, np.ndarray]:
    """The block keys of a small space on every network tier."""
    from codesign_opt.analytical.space_keys import SpaceKeys

    sizes = tier_sizes([SYSTEM])
    grids = StrategySpace().grids(
        SHAPE, processors=8, batch=8, datatype=Datatype.FLOAT16, tier_sizes=sizes[0], offload=False
    )
    keys = SpaceKeys.of(grids, sizes)
    every = keys.block_keys(np.arange(len(keys.splits)), len(SYSTEM.network_tiers))
    # Overlap without tensor parallelism is no strategy.
    return subset(every, np.flatnonzero((every["tp"] > 1) | (every["tp_overlap"] == 0)))


def subset(keys: dict[str, np.ndarray], rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[rows] for name, values in keys.items()}


def assert_equal(found: BlockTable, expected: BlockTable) -> None:
    for field in fields(BlockTable):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(expected, field.name), err_msg=field.name)


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    block_cache._rows.cache_clear()
    yield
    block_cache._rows.cache_clear()


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each computation had."""
    rows: list[int] = []

    def counted(workloads: Any, systems: Any, keys: Any, reproduce: Any, part: Any) -> BlockTable:
        rows.append(len(keys["tp"]))
        return block_table(workloads, systems, keys, reproduce, part)

    monkeypatch.setattr(block_cache, "block_table", counted)
    return rows


@pytest.mark.parametrize("reproduce", [NONE, ALL], ids=["corrected", "published"])
def test_rows_are_those_computed_alone(reproduce: Any) -> None:
    keys = all_keys()
    rng = np.random.default_rng(0)
    for _ in range(5):
        rows = rng.choice(len(keys["tp"]), size=60)
        part = subset(keys, rows)
        expected = block_table([SHAPE], [SYSTEM], part, reproduce)
        assert_equal(shared_block_table(SHAPE, SYSTEM, part, reproduce), expected)


def test_a_row_is_computed_once_for_machines_of_equal_speed(computed: list[int]) -> None:
    keys = all_keys()
    first, more = subset(keys, np.arange(50)), subset(keys, np.arange(20, 80))
    shared_block_table(SHAPE, SYSTEM, first, NONE)
    larger = replace(SYSTEM, name="larger", memory_tier1=replace(SYSTEM.memory_tier1, capacity=1e15))
    shared_block_table(SHAPE, larger, more, NONE)
    shared_block_table(SHAPE, SYSTEM, more, NONE)
    different = distinct(block_keys_of(SHAPE, {name: keys[name][:80] for name in BLOCK_KEY}))[0]
    assert sum(computed) == len(different["tp"]) > 30
    assert len(computed) == 2


def faster(system: System) -> Iterator[System]:
    yield replace(system, memory_tier1=replace(system.memory_tier1, bandwidth=2 * system.memory_tier1.bandwidth))
    yield replace(system, network_tiers=tuple(replace(tier, latency=7 * tier.latency) for tier in system.network_tiers))
    yield replace(system, roofline=not system.roofline)


def test_another_speed_another_table() -> None:
    keys = subset(all_keys(), np.arange(40))
    shared_block_table(SHAPE, SYSTEM, keys, NONE)
    for other in faster(SYSTEM):
        assert_equal(shared_block_table(SHAPE, other, keys, NONE), block_table([SHAPE], [other], keys, NONE))


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch, computed: list[int]) -> None:
    monkeypatch.setattr(block_cache, "KEPT_ROWS", 60)
    keys = all_keys()
    assert len(keys["tp"]) >= 150
    for first in (0, 50, 100):
        part = subset(keys, np.arange(first, first + 50))
        assert_equal(shared_block_table(SHAPE, SYSTEM, part, NONE), block_table([SHAPE], [SYSTEM], part, NONE))
    assert len(computed) == 3
    (rows,) = [block_cache._rows(SHAPE, block_cache._Speeds(SYSTEM), NONE, Part.BLOCK)]
    assert len(rows._number) <= 60
