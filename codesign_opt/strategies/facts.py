"""Strategy columns beside the workloads and systems that they are judged for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies.table import OPTION_CODES
from codesign_opt.systems import NetworkTier, System
from codesign_opt.workloads import Workload

Array = NDArray[Any]


class Facts:
    """Strategy columns beside the workload and the system that each row is judged for.

    Args:
        strategies: The columns.
        workloads, systems: What rows may name.
        workload, system: Each row's index in them; the first for all rows by default.
    """

    def __init__(
        self,
        strategies: Mapping[str, Array],
        workloads: Sequence[Workload],
        systems: Sequence[System],
        workload: Array | None = None,
        system: Array | None = None,
    ) -> None:
        self.columns = strategies
        self.workloads, self.systems = workloads, systems
        first = np.zeros(np.shape(strategies["tp"]), dtype=np.int64)
        self.workload = first if workload is None else workload
        self.system = first if system is None else system
        self.tiers = max(len(machine.network_tiers) for machine in systems)

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def divisor(self, name: str) -> Array:
        """The column with values below 1 replaced by 1: other rules catch those."""
        return np.maximum(self.columns[name], 1)

    def is_word(self, name: str, *words: Any) -> Array:
        """Whether the column holds one of the words."""
        return np.isin(self.columns[name], [OPTION_CODES[word] for word in words])

    def size(self, name: str) -> Array:
        """An attribute of each row's workload."""
        return np.array([getattr(shape, name) for shape in self.workloads])[self.workload]

    def of_system(self, value: Callable[[System], Any]) -> Array:
        """A property of each row's system."""
        return np.array([value(machine) for machine in self.systems])[self.system]

    def of_tier(self, tier: int, value: Callable[[NetworkTier], Any], absent: Any) -> Array:
        """A property of one network tier of each row's system, or `absent` where there is no such tier."""
        return self.of_system(
            lambda machine: value(machine.network_tiers[tier]) if tier < len(machine.network_tiers) else absent
        )

    @property
    def stage_blocks(self) -> Array:
        """Blocks on the fullest stage."""
        return -(-self.size("blocks") // self.divisor("pp"))
