"""Strategy columns beside the workloads and systems that they are judged for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies.options import Attention
from codesign_opt.strategies.table import DEFAULT_COLUMNS, OPTION_CODES
from codesign_opt.systems import NetworkTier, System
from codesign_opt.workloads import Workload

Array = NDArray[Any]


class Facts:
    """Strategy columns beside the workload and the system that each row is judged for.

    Args:
        strategies: The columns; one that is missing holds the default of `Strategy`.
        workloads, systems: What rows may name.
        workload, system: Each row's index in them; the first for all rows by default.
        layout: Whether a framework is told the blocks of every stage (`strategies.targets`), so that stages may differ.
    """

    def __init__(
        self,
        strategies: Mapping[str, Array],
        workloads: Sequence[Workload],
        systems: Sequence[System],
        workload: Array | None = None,
        system: Array | None = None,
        *,
        layout: bool = False,
    ) -> None:
        self.columns = strategies
        self.workloads, self.systems = workloads, systems
        first = np.zeros(np.shape(strategies["tp"]), dtype=np.int64)
        self.workload = first if workload is None else workload
        self.system = first if system is None else system
        self.tiers = max(len(machine.network_tiers) for machine in systems)
        self.layout = layout

    def __getitem__(self, name: str) -> Array:
        if name in self.columns:
            return self.columns[name]
        return np.broadcast_to(np.asarray(DEFAULT_COLUMNS[name]), np.shape(self.columns["tp"]))

    def divisor(self, name: str) -> Array:
        """The column with values below 1 replaced by 1: other rules catch those."""
        return np.maximum(self[name], 1)

    def is_word(self, name: str, *words: Any) -> Array:
        """Whether the column holds one of the words."""
        return np.isin(self[name], [OPTION_CODES[word] for word in words])

    def of_workload(self, value: Callable[[Workload], Any]) -> Array:
        """A property of each row's workload."""
        return np.array([value(shape) for shape in self.workloads])[self.workload]

    def size(self, name: str) -> Array:
        """An attribute of each row's workload."""
        return self.of_workload(lambda shape: getattr(shape, name))

    def experts(self, name: str) -> Array:
        """An attribute of each row's experts; 0 where the workload has none."""
        return self.of_workload(lambda shape: getattr(shape.experts, name, 0))

    def of_system(self, value: Callable[[System], Any]) -> Array:
        """A property of each row's system."""
        return np.array([value(machine) for machine in self.systems])[self.system]

    def of_tier(self, tier: int, value: Callable[[NetworkTier], Any], absent: Any) -> Array:
        """A property of one network tier of each row's system, or `absent` where there is no such tier."""
        return self.of_system(
            lambda machine: value(machine.network_tiers[tier]) if tier < len(machine.network_tiers) else absent
        )

    @property
    def has_experts(self) -> Array:
        """Whether blocks have experts."""
        return self.experts("count") > 0

    @property
    def kv_heads(self) -> Array:
        """Heads of keys and values: one under multiquery attention, else those of the workload."""
        return np.where(self.is_word("attention", Attention.MULTIQUERY), 1, self.size("kv_heads"))

    @property
    def grouped_heads(self) -> Array:
        """Whether there are fewer key and value heads than query heads; not in latent attention, which makes them."""
        latent = self.of_workload(lambda workload: workload.latent_attention is not None)
        return ~latent & (self.kv_heads < self.size("attention_heads"))

    @property
    def counted_blocks(self) -> Array:
        """Blocks, those for prediction among them, and as many more as the first and last stage have less."""
        blocks: Array = self.size("blocks") + self.size("prediction_blocks")
        return blocks + self["first_stage_less"] + self["last_stage_less"]

    @property
    def stage_blocks(self) -> Array:
        """Blocks on the fullest stage."""
        return -(-self.counted_blocks // self.divisor("pp"))

    @property
    def microbatches(self) -> Array:
        """Microbatches of a step."""
        count: Array = self["batch"] // (self.divisor("dp") * self.divisor("microbatch"))
        return count

    @property
    def replicas(self) -> Array:
        """Processors that hold the same weights."""
        return self.divisor("dp") * self.divisor("cp")

    @property
    def zero_stage(self) -> Array:
        """What is split over the replicas: 0 nothing, 1 optimizer state, 2 gradients too, 3 weights too."""
        gradients = self["gradient_sharding"].astype(np.int64)
        stage: Array = self["optimizer_sharding"] * (1 + gradients * (1 + self["weight_sharding"]))
        return stage
