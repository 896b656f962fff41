"""Spaces of strategies: everything legal for a workload on a number of processors, within limits.

The space is that of spec analytical-model section 12, with one correction (erratum E20: tensor parallelism must also
divide the feed-forward width). It is enumerated as a few grids; no illegal strategy is generated, except those that
the network refuses, which each grid masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InfeasibleError
from codesign_opt.strategies.grid import StrategyGrid
from codesign_opt.strategies.options import Attention, Datatype, Recompute, TpCommunication, TpOverlap
from codesign_opt.strategies.table import OPTION_CODES
from codesign_opt.workloads import Workload

Array = NDArray[Any]

BOTH = (True, False)

DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "attention": (Attention.MULTIHEAD,),
    "fused_activation": (True,),
    "training": (True,),
    "recompute": tuple(Recompute),
    "tp_communication": tuple(TpCommunication),
    "tp_overlap": tuple(TpOverlap),
    "gather_redo": BOTH,
    "optimizer_sharding": BOTH,
    "dp_overlap": BOTH,
    "weight_offload": BOTH,
    "activation_offload": BOTH,
    "optimizer_offload": BOTH,
}
"""What each option may be where the space does not limit it."""

LIMITABLE = ("tp", "pp", "dp", "vpp", "microbatch", *DEFAULTS, "tp_tier", "pp_tier", "dp_tier")
"""The dimensions that a space may limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategySpace:
    """Which strategies are considered.

    Attributes:
        limits: Dimension (one of `LIMITABLE`) to the values it may take; all legal ones where it is missing.
        uneven_stages: Whether `pp` may leave stages with different numbers of blocks.
        all_divisors: Whether to add what is legal but the published search leaves out: microbatches whose tokens
            tensor parallelism does not divide (under all_reduce), pipelines longer than the number of blocks (with
            uneven stages), and activation offload under full recompute.
    """

    limits: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    uneven_stages: bool = False
    all_divisors: bool = False

    def grids(
        self,
        workload: Workload,
        *,
        processors: int,
        batch: int,
        datatype: Datatype,
        network_tiers: int,
        offload: bool,
    ) -> list[StrategyGrid]:
        """The space as grids, in a fixed order.

        Args:
            workload: The workload.
            processors: All processors.
            batch: The largest global batch; each strategy uses the largest multiple of its `dp` within it.
            datatype: Number format.
            network_tiers: Network tiers of the system.
            offload: Whether the system has a memory tier 2.

        Raises:
            InfeasibleError: When limits and divisibility leave nothing.
        """
        layouts = self.layouts(workload, processors=processors, batch=batch)
        machine = _Machine(processors, datatype, network_tiers, offload)
        grids = []
        for training, full in product(self._allowed("training"), BOTH):
            for members, pattern in _patterns(layouts, workload):
                part = {name: values[members] for name, values in layouts.items()}
                grid = self._grid(machine, part, pattern, training, full)
                if grid is not None:
                    grids.append(grid)
        if not grids:
            raise InfeasibleError(
                f"no legal strategy for {workload.name} on {processors} processors with batch {batch}",
                self._what_limits(workload, processors, batch),
                "empty_space",
            )
        return grids

    def layouts(self, workload: Workload, *, processors: int, batch: int) -> dict[str, Array]:
        """Columns tp, pp, dp, vpp, microbatch and batch: all legal combinations, in rising order."""
        rows = list(self._layouts(workload, processors, batch))
        names = ("tp", "pp", "dp", "vpp", "microbatch", "batch")
        columns = np.array(rows, dtype=np.int64).reshape(len(rows), len(names))
        return {name: columns[:, index] for index, name in enumerate(names)}

    def _layouts(self, workload: Workload, processors: int, batch: int) -> Iterator[tuple[int, ...]]:
        all_reduce = TpCommunication.ALL_REDUCE in self._allowed("tp_communication")
        for t in self._within("tp", _divisors(processors)):
            if workload.hidden % t or workload.attention_heads % t or workload.feedforward % t:
                continue
            for p in self._within("pp", _divisors(processors // t)):
                stages = self._stage_blocks(workload.blocks, p)
                D = processors // (t * p)
                if stages is None or batch < D or not self._within("dp", [D]):
                    continue
                replica_batch = batch // D
                for v in self._within("vpp", [1] if p == 1 else _divisors(stages)):
                    for b in self._within("microbatch", _divisors(replica_batch)):
                        splits = (b * workload.sequence_length) % t == 0
                        if splits or (self.all_divisors and all_reduce):
                            yield t, p, D, v, b, D * replica_batch

    def _stage_blocks(self, blocks: int, p: int) -> int | None:
        """Blocks on the fullest stage, or None for a pipeline that this space does not have."""
        if blocks % p == 0:
            return blocks // p
        if not self.uneven_stages or (p > blocks and not self.all_divisors):
            return None
        return -(-blocks // p)

    def _grid(
        self, machine: _Machine, layouts: dict[str, Array], pattern: _Pattern, training: bool, full: bool
    ) -> StrategyGrid | None:
        options = list(self._options(pattern, training, full))
        offloads = list(self._offloads(machine, training, full))
        replicated = pattern.dp and training
        sharding = self._flag("optimizer_sharding", pattern.dp)
        dp_overlap = self._flag("dp_overlap", replicated)
        tiers = {
            name: self._within(f"{name}_tier", range(machine.network_tiers)) if getattr(pattern, name) else [0]
            for name in ("tp", "pp", "dp")
        }
        considered = len(options) * len(offloads) * len(sharding) * len(dp_overlap)
        considered *= len(tiers["tp"]) * len(tiers["pp"]) * len(tiers["dp"]) * len(layouts["tp"])
        if not pattern.offload:
            offloads = [row for row in offloads if not any(row)]
        if not considered or not offloads:
            return None
        return StrategyGrid(
            layouts=layouts,
            options=_columns(options, _OPTION_NAMES),
            offloads=_columns(offloads, _OFFLOAD_NAMES),
            optimizer_sharding=np.array(sharding),
            dp_overlap=np.array(dp_overlap),
            tp_tier=np.array(tiers["tp"]),
            pp_tier=np.array(tiers["pp"]),
            dp_tier=np.array(tiers["dp"]),
            training=training,
            datatype=machine.datatype,
            processors=machine.processors,
            considered=considered,
        )

    def _options(self, pattern: _Pattern, training: bool, full: bool) -> Iterator[tuple[Any, ...]]:
        names = ("recompute", "tp_communication", "gather_redo", "tp_overlap", "fused_activation", "attention")
        for row in product(*(self._allowed(name) for name in names)):
            recompute, communication, redo, overlap, *_ = row
            if (recompute is Recompute.FULL) is not full or (recompute is not Recompute.NONE and not training):
                continue
            if redo and (communication is not TpCommunication.SEQUENCE_PARALLEL or full):
                continue
            if overlap is not TpOverlap.NONE and not pattern.tp:
                continue
            if communication is not TpCommunication.ALL_REDUCE and not pattern.splits_sequence:
                continue
            yield tuple(OPTION_CODES.get(word, word) for word in row)

    def _offloads(self, machine: _Machine, training: bool, full: bool) -> Iterator[tuple[bool, ...]]:
        for weights, activations, optimizer in product(*(self._allowed(name) for name in _OFFLOAD_NAMES)):
            if (weights or activations or optimizer) and not machine.offload:
                continue
            if (activations and full and not self.all_divisors) or (optimizer and not training):
                continue
            yield weights, activations, optimizer

    def _flag(self, name: str, possible: bool) -> list[bool]:
        return [value for value in self._allowed(name) if possible or not value]

    def _allowed(self, name: str) -> tuple[Any, ...]:
        return tuple(self.limits.get(name, DEFAULTS.get(name, ())))

    def _within(self, name: str, values: Sequence[int]) -> list[int]:
        allowed = self.limits.get(name)
        return [value for value in values if allowed is None or value in allowed]

    def _what_limits(self, workload: Workload, processors: int, batch: int) -> str:
        if not self.limits:
            smallest = self._smallest_dp(workload, processors)
            return f"batch must be at least {smallest}, the smallest dp of a legal layout" if smallest else ""
        uneven = [p for p in self.limits.get("pp", ()) if workload.blocks % p]
        if uneven and not self.uneven_stages:
            return f"{workload.blocks} blocks are not a multiple of pp {uneven[0]}; uneven_stages would allow it"
        return "the limits on " + ", ".join(self.limits) + " exclude every combination that divides"

    def _smallest_dp(self, workload: Workload, processors: int) -> int:
        layouts = self.layouts(workload, processors=processors, batch=processors)
        return int(layouts["dp"].min(initial=processors))


@dataclass(frozen=True, slots=True)
class _Machine:
    """What a space needs to know of the machine."""

    processors: int
    datatype: Datatype
    network_tiers: int
    offload: bool


@dataclass(frozen=True, slots=True)
class _Pattern:
    """What all layouts of a grid share: which degrees exceed 1, and which options are open to them."""

    tp: bool
    pp: bool
    dp: bool
    offload: bool
    splits_sequence: bool


_OPTION_NAMES = ("recompute", "tp_communication", "gather_redo", "tp_overlap", "fused_activation", "attention")
_OFFLOAD_NAMES = ("weight_offload", "activation_offload", "optimizer_offload")


def _patterns(layouts: dict[str, Array], workload: Workload) -> Iterator[tuple[Array, _Pattern]]:
    flags = np.stack(
        [
            layouts["tp"] > 1,
            layouts["pp"] > 1,
            layouts["dp"] > 1,
            -(-workload.blocks // layouts["pp"]) > 2,
            (layouts["microbatch"] * workload.sequence_length) % layouts["tp"] == 0,
        ]
    )
    patterns, group = np.unique(flags, axis=1, return_inverse=True)
    for index in range(patterns.shape[1]):
        yield np.flatnonzero(group.ravel() == index), _Pattern(*patterns[:, index].tolist())


def _columns(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> dict[str, Array]:
    return {name: np.array([row[index] for row in rows]) for index, name in enumerate(names)}


def _divisors(number: int) -> list[int]:
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})
