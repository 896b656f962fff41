"""Block tables that questions about the same workload and machines of equal speed share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block import BLOCK_KEY, BlockTable, block_table
from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.part_tables import block_keys_of, distinct, end_keys
from codesign_opt.analytical.parts import Part
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

Array = NDArray[Any]

KEPT_MACHINES = 16
"""Kinds of blocks and ends of a workload on a machine whose tables are kept."""

KEPT_ROWS = 1 << 15
"""Rows kept for each of them; some ten megabytes."""


def shared_block_table(
    workload: Workload, system: System, keys: Mapping[str, Array], reproduce: Set[Erratum], part: Part = Part.BLOCK
) -> BlockTable:
    """The block table of one workload on one system; only keys that no earlier call asked for are computed.

    Neither the number of processors nor a capacity or price enters a row, so machines that differ in these alone share.
    """
    named = {name: keys[name] for name in (*BLOCK_KEY, "workload", "system")}
    rows, index = distinct(end_keys(named) if part is not Part.BLOCK else block_keys_of(workload, named))
    return _rows(workload, _Speeds(system), frozenset(reproduce), part).table(rows).take(index)


class _Rows:
    """The rows of one workload on machines of one speed, in the order first asked for."""

    def __init__(self, workload: Workload, system: System, reproduce: Set[Erratum], part: Part) -> None:
        self._workload, self._system, self._reproduce, self._part = workload, system, reproduce, part
        self._number: dict[bytes, int] = {}
        self._table: BlockTable | None = None

    def table(self, keys: Mapping[str, Array]) -> BlockTable:
        packed = np.stack([keys[name].astype(np.int64) for name in BLOCK_KEY], axis=1)
        names = [row.tobytes() for row in packed]
        new = self._new(names)
        if len(self._number) + len(new) > KEPT_ROWS:
            self._number, self._table = {}, None
            new = self._new(names)
        if new:
            rows = list(new.values())
            chosen = {name: values[rows] for name, values in keys.items()}
            added = block_table([self._workload], [self._system], chosen, self._reproduce, self._part)
            self._number |= {name: number for number, name in enumerate(new, start=len(self._number))}
            self._table = added if self._table is None else _stacked(self._table, added)
        assert self._table is not None
        return self._table.take(np.array([self._number[name] for name in names], dtype=np.int64))

    def _new(self, names: Sequence[bytes]) -> dict[bytes, int]:
        """The keys that have no row yet, each with the first place where it stands."""
        new: dict[bytes, int] = {}
        for place, name in enumerate(names):
            if name not in self._number:
                new.setdefault(name, place)
        return new


class _Speeds:
    """A system as a key: systems are equal that no block can tell apart."""

    def __init__(self, system: System) -> None:
        self.system = system
        first, second = (replace(tier, capacity=0.0) for tier in (system.memory_tier1, system.memory_tier2))
        bare = replace(system, name="", price=None, power=None, memory_tier1=first, memory_tier2=second)
        self._key = repr(bare)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Speeds) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=KEPT_MACHINES)
def _rows(workload: Workload, speeds: _Speeds, reproduce: frozenset[Erratum], part: Part) -> _Rows:
    return _Rows(workload, speeds.system, reproduce, part)


def _stacked(first: BlockTable, second: BlockTable) -> BlockTable:
    return BlockTable(
        **{
            field.name: np.concatenate([getattr(first, field.name), getattr(second, field.name)])
            for field in fields(BlockTable)
        }
    )
