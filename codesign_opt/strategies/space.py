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
from codesign_opt.strategies.defaults import LIMITABLE, default_values
from codesign_opt.strategies.grid import (
    FIXED_COLUMNS,
    LAYOUT_COLUMNS,
    OFFLOAD_COLUMNS,
    OPTION_COLUMNS,
    SHARDING_COLUMNS,
    StrategyGrid,
)
from codesign_opt.strategies.options import (
    AttentionKernel,
    CpExchange,
    Datatype,
    Placement,
    Recompute,
    Schedule,
    TpCommunication,
    TpOverlap,
)
from codesign_opt.strategies.placement import reaches, tier_of
from codesign_opt.strategies.table import DEFAULT_COLUMNS, OPTION_CODES
from codesign_opt.strategies.targets import find_target
from codesign_opt.workloads import Workload

__all__ = ["LIMITABLE", "StrategySpace"]

Array = NDArray[Any]

BOTH = (True, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategySpace:
    """Which strategies are considered.

    Attributes:
        limits: Dimension (one of `LIMITABLE`) to the values it may take; all legal ones where it is missing.
        uneven_stages: Whether `pp` may leave stages with different numbers of blocks.
        all_divisors: Whether to add what is legal but the published search leaves out: microbatches whose tokens
            tensor parallelism does not divide (under all_reduce), pipelines longer than the number of blocks (with
            uneven stages), and activation offload under full recompute.
        target: Framework that is to run them (`strategies.targets`): strategies that it refuses are masked.
    """

    limits: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    uneven_stages: bool = False
    all_divisors: bool = False
    target: str = "free"

    def grids(
        self,
        workload: Workload,
        *,
        processors: int,
        batch: int,
        datatype: Datatype,
        tier_sizes: Sequence[int],
        offload: bool,
    ) -> list[StrategyGrid]:
        """The space as grids, in a fixed order.

        Args:
            workload: The workload.
            processors: All processors.
            batch: The largest global batch; each strategy uses the largest multiple of its `dp` within it.
            datatype: Number format.
            tier_sizes: Processors that each network tier of the system connects.
            offload: Whether the system has a memory tier 2.

        Raises:
            InfeasibleError: When limits and divisibility leave nothing.
        """
        machine = _Machine(processors, datatype, tuple(tier_sizes), offload)
        allowed = self._allowed(workload)
        grids = []
        for training in allowed["training"]:
            for fixed in _fixed(allowed, training):
                layouts = self._columns_of_layouts(workload, allowed, fixed, processors, batch)
                for full, (members, pattern) in product(BOTH, list(_patterns(layouts, workload, allowed, fixed))):
                    part = {name: values[members] for name, values in layouts.items()}
                    grid = self._grid(machine, part, pattern, _Choice(allowed, fixed, training, full))
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
        """`LAYOUT_COLUMNS`: all legal combinations for stages of equal size, in rising order."""
        allowed = self._allowed(workload)
        return self._columns_of_layouts(workload, allowed, DEFAULT_COLUMNS, processors, batch)

    def _allowed(self, workload: Workload) -> dict[str, tuple[Any, ...]]:
        """What each dimension may be; empty for whatever divides."""
        of_target = find_target(self.target).choices if workload.vocabulary else {}
        defaults = {**default_values(workload), **of_target}
        return {name: tuple(self.limits.get(name, values)) for name, values in defaults.items()}

    def _columns_of_layouts(
        self,
        workload: Workload,
        allowed: Mapping[str, tuple[Any, ...]],
        fixed: Mapping[str, Any],
        processors: int,
        batch: int,
    ) -> dict[str, Array]:
        less = fixed["first_stage_less"], fixed["last_stage_less"]
        rows = list(self._layouts(workload, allowed, less, processors, batch))
        columns = np.array(rows, dtype=np.int64).reshape(len(rows), len(LAYOUT_COLUMNS))
        return {name: columns[:, index] for index, name in enumerate(LAYOUT_COLUMNS)}

    def _layouts(
        self,
        workload: Workload,
        allowed: Mapping[str, tuple[Any, ...]],
        less: tuple[int, int],
        processors: int,
        batch: int,
    ) -> Iterator[tuple[int, ...]]:
        all_reduce = TpCommunication.ALL_REDUCE in allowed["tp_communication"]
        for t in self._within("tp", _divisors(processors)):
            if not _splits(workload, t):
                continue
            for p in self._within("pp", _divisors(processors // t)):
                stages = self._stage_blocks(workload, p, less)
                if stages is None:
                    continue
                for c in self._context_degrees(workload, allowed, processors // (t * p)):
                    D = processors // (t * p * c)
                    if batch < D or not self._within("dp", [D]):
                        continue
                    replica_batch = batch // D
                    experts = list(self._expert_degrees(workload, allowed, t, c, D))
                    for v in self._within("vpp", [1] if p == 1 else _divisors(stages)):
                        for b in self._within("microbatch", _divisors(replica_batch)):
                            splits = (b * workload.sequence_length // c) % t == 0
                            if splits or (self.all_divisors and all_reduce):
                                for ep, etp in experts:
                                    yield t, p, D, v, b, D * replica_batch, c, ep, etp

    def _context_degrees(self, workload: Workload, allowed: Mapping[str, tuple[Any, ...]], most: int) -> Iterator[int]:
        """Degrees of context parallelism: each processor has a part of both halves of a sequence, to share the work."""
        for c in _divisors(most):
            balanced = c == 1 or workload.sequence_length % (2 * c) == 0
            if balanced and (c in allowed["cp"] or not allowed["cp"]):
                yield c

    def _expert_degrees(
        self, workload: Workload, allowed: Mapping[str, tuple[Any, ...]], t: int, c: int, D: int
    ) -> Iterator[tuple[int, int]]:
        """Degrees of expert parallelism, and of tensor parallelism inside an expert: none, or that of the rest."""
        experts = workload.experts
        if experts is None:
            yield 1, 1
            return
        for etp in allowed["etp"] or sorted({1, t}):
            if etp > 1 and (t % etp or experts.feedforward % etp):
                continue
            for ep in _divisors(experts.count):
                if (t * c * D) % (ep * etp) == 0 and (ep in allowed["ep"] or not allowed["ep"]):
                    yield ep, etp

    def _stage_blocks(self, workload: Workload, p: int, less: tuple[int, int]) -> int | None:
        """Blocks on the fullest stage, or None for a pipeline that this space does not have."""
        if any(less) and p == 1:
            return None
        blocks = workload.blocks + workload.prediction_blocks + sum(less)
        stages = -(-blocks // p)
        if max(less) > stages:
            return None
        if blocks % p and (not self.uneven_stages or (p > blocks and not self.all_divisors)):
            return None
        return stages

    def _grid(
        self, machine: _Machine, layouts: dict[str, Array], pattern: _Pattern, choice: _Choice
    ) -> StrategyGrid | None:
        allowed, training = choice.allowed, choice.training
        options = list(_options(pattern, choice))
        offloads = list(self._offloads(machine, pattern, choice))
        sharding = list(_sharding(pattern, choice))
        dp_overlap = [value for value in allowed["dp_overlap"] if (pattern.replicas and training) or not value]
        ordered = choice.fixed["placement"] != OPTION_CODES[Placement.TIERS]
        tiers = {
            name: self._within(f"{name}_tier", range(len(machine.tier_sizes)))
            if getattr(pattern, name) and not ordered
            else [0]
            for name in ("tp", "pp", "dp")
        }
        if ordered:
            layouts = {**layouts, **_tiers_in_order(layouts, choice.fixed, machine.tier_sizes)}
        considered = len(options) * len(offloads) * len(sharding) * len(dp_overlap)
        considered *= len(tiers["tp"]) * len(tiers["pp"]) * len(tiers["dp"]) * len(layouts["tp"])
        if not pattern.offload:
            offloads = [row for row in offloads if not any(row[:-1])]
        if not considered or not offloads:
            return None
        return StrategyGrid(
            layouts=layouts,
            options=_columns(options, OPTION_COLUMNS),
            offloads=_columns(offloads, OFFLOAD_COLUMNS),
            sharding=_columns(sharding, SHARDING_COLUMNS),
            dp_overlap=np.array(dp_overlap),
            tp_tier=np.array(tiers["tp"]),
            pp_tier=np.array(tiers["pp"]),
            dp_tier=np.array(tiers["dp"]),
            fixed={
                **choice.fixed, "training": training, "datatype": OPTION_CODES[machine.datatype],
                "processors": machine.processors,
            },
            considered=considered,
        )  # fmt: skip

    def _offloads(self, machine: _Machine, pattern: _Pattern, choice: _Choice) -> Iterator[tuple[Any, ...]]:
        allowed = choice.allowed
        for schedule in allowed["schedule"]:
            if schedule is not Schedule.ONE_F_ONE_B and not (
                pattern.pp and not pattern.interleaved and choice.training
            ):
                continue
            if schedule is Schedule.DUALPIPE and not pattern.fills_from_both_ends:
                continue
            if schedule is Schedule.ZB_V and not pattern.even_stages:
                continue
            for flags in product(*(allowed[name] for name in OFFLOAD_COLUMNS[:-1])):
                _, activations, optimizer = flags
                if any(flags) and not machine.offload:
                    continue
                if (activations and choice.full and not self.all_divisors) or (optimizer and not choice.training):
                    continue
                yield *flags, OPTION_CODES[schedule]

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
    tier_sizes: tuple[int, ...]
    offload: bool


@dataclass(frozen=True, slots=True)
class _Choice:
    """What a grid may vary, and what all of it shares."""

    allowed: Mapping[str, tuple[Any, ...]]
    fixed: Mapping[str, Any]
    training: bool
    full: bool


@dataclass(frozen=True, slots=True)
class _Pattern:
    """What all layouts of a grid share: which degrees exceed 1, and which options are open to them."""

    tp: bool
    pp: bool
    dp: bool
    cp: bool
    offload: bool
    splits_sequence: bool
    interleaved: bool
    heads_by_cp: bool
    even_stages: bool
    fills_from_both_ends: bool

    @property
    def replicas(self) -> bool:
        """Whether several processors hold the same weights."""
        return self.dp or self.cp


def _splits(workload: Workload, t: int) -> bool:
    """Whether tensor parallelism divides what it splits; key and value heads may also be repeated."""
    heads = workload.attention_heads % t == 0 and (workload.kv_heads % t == 0 or t % workload.kv_heads == 0)
    shared = 0 if workload.experts is None else workload.experts.shared_feedforward
    dense = workload.experts is None or workload.experts.leading_dense_blocks or workload.experts.every > 1
    widths = [workload.hidden, shared, workload.feedforward if dense else 0]
    return heads and all(width % t == 0 for width in widths)


def _fixed(allowed: Mapping[str, tuple[Any, ...]], training: bool) -> Iterator[dict[str, Any]]:
    """Every combination of what is the same for a whole grid, as codes."""
    names = [name for name in FIXED_COLUMNS if name != "training"]
    for values in product(*(allowed[name] for name in names)):
        fixed = {name: OPTION_CODES.get(value, value) for name, value in zip(names, values, strict=True)}
        ordered = fixed["placement"] != OPTION_CODES[Placement.TIERS]
        if ordered and (fixed["cp_tier"], fixed["ep_tier"]) != (allowed["cp_tier"][0], allowed["ep_tier"][0]):
            continue
        if training or not fixed["recompute_blocks"]:
            yield fixed


def _patterns(
    layouts: dict[str, Array], workload: Workload, allowed: Mapping[str, tuple[Any, ...]], fixed: Mapping[str, Any]
) -> Iterator[tuple[Array, _Pattern]]:
    # What no option asks for does not divide layouts into grids.
    scheduled = any(schedule is not Schedule.ONE_F_ONE_B for schedule in allowed["schedule"])
    less = fixed["first_stage_less"] + fixed["last_stage_less"]
    stage = -(-(workload.blocks + workload.prediction_blocks + less) // layouts["pp"])
    microbatches = layouts["batch"] // (layouts["dp"] * layouts["microbatch"])
    heads = layouts["tp"] * layouts["cp"]
    fits = np.ones(len(stage), dtype=np.bool_)
    if fixed["recompute_blocks"]:
        fits &= fixed["recompute_blocks"] <= stage
    if fixed["shard_group"]:
        fits &= (layouts["dp"] * layouts["cp"]) % fixed["shard_group"] == 0
    flags = np.stack(
        [
            layouts["tp"] > 1,
            layouts["pp"] > 1,
            layouts["dp"] > 1,
            layouts["cp"] > 1,
            stage > 2,
            (layouts["microbatch"] * workload.sequence_length // layouts["cp"]) % layouts["tp"] == 0,
            scheduled & (layouts["vpp"] > 1),
            (layouts["cp"] > 1) & (workload.attention_heads % heads == 0) & (workload.kv_heads % heads == 0),
            scheduled & (stage % 2 == 0) & (workload.blocks % layouts["pp"] == 0),
            scheduled & (layouts["pp"] % 2 == 0) & (microbatches % 2 == 0) & (microbatches >= 2 * layouts["pp"]),
        ]
    )
    patterns, group = np.unique(flags, axis=1, return_inverse=True)
    for index in range(patterns.shape[1]):
        members = np.flatnonzero((group.ravel() == index) & fits)
        if len(members):
            yield members, _Pattern(*patterns[:, index].tolist())


def _options(pattern: _Pattern, choice: _Choice) -> Iterator[tuple[Any, ...]]:
    allowed, full = choice.allowed, choice.full
    some = choice.fixed["recompute_blocks"] > 0
    for row in product(*(allowed[name] for name in OPTION_COLUMNS)):
        recompute, communication, redo, overlap, _, _, kernel, exchange, _ = row
        if (recompute is Recompute.FULL) is not full or (recompute is not Recompute.NONE and not choice.training):
            continue
        if redo and (communication is not TpCommunication.SEQUENCE_PARALLEL or full):
            continue
        if overlap is not TpOverlap.NONE and not pattern.tp:
            continue
        if communication is not TpCommunication.ALL_REDUCE and not pattern.splits_sequence:
            continue
        if some and not full:
            continue
        if not pattern.cp and exchange is not allowed["cp_exchange"][0]:
            continue
        if pattern.cp and exchange is CpExchange.ALL_TO_ALL and not pattern.heads_by_cp:
            continue
        if pattern.cp and exchange is CpExchange.RING and kernel is not AttentionKernel.FLASH:
            continue
        yield tuple(OPTION_CODES.get(word, word) for word in row)


def _sharding(pattern: _Pattern, choice: _Choice) -> Iterator[tuple[bool, bool, bool]]:
    """Optimizer, gradients and weights in shards, each only with those before it."""
    allowed, fixed = choice.allowed, choice.fixed
    changed = any(fixed[name] != DEFAULT_COLUMNS[name] for name in ("prefetch", "keep_gathered"))
    for optimizer, gradients, weights in product(*(allowed[name] for name in SHARDING_COLUMNS)):
        if optimizer and not pattern.replicas:
            continue
        # Without a sharded optimizer there is nothing to say of gradients.
        if not optimizer and gradients is not allowed["gradient_sharding"][0]:
            continue
        if weights and not (optimizer and gradients and choice.training):
            continue
        if weights or not changed:
            yield optimizer, gradients, weights


def _tiers_in_order(layouts: Mapping[str, Array], fixed: Mapping[str, Any], sizes: Sequence[int]) -> dict[str, Array]:
    reach = reaches(list(Placement)[fixed["placement"]], layouts)
    return {f"{name}_tier": tier_of(values, sizes) for name, values in reach.items()}


def _columns(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> dict[str, Array]:
    return {name: np.array([row[index] for row in rows]) for index, name in enumerate(names)}


def _divisors(number: int) -> list[int]:
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})
