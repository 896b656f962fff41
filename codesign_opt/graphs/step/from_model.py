"""The work of a step from the analytical model: its operations, times and bytes, one strategy at a time."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical import estimate
from codesign_opt.analytical.block_spaces import BlockSpaces
from codesign_opt.analytical.errata import NONE, Erratum
from codesign_opt.analytical.groups import Group, Groups
from codesign_opt.analytical.hardware import Hardware
from codesign_opt.analytical.model import Model
from codesign_opt.analytical.operation_list import operation_list
from codesign_opt.analytical.parts import Part
from codesign_opt.analytical.weight_sharding import gradient_ratio
from codesign_opt.graphs.step.pieces import Passes, block_passes
from codesign_opt.graphs.step.stack import stack_order, stage_blocks
from codesign_opt.graphs.step.work import BlockWork, Exchange, GatheredWeights, Offload, StepWork, Transfer
from codesign_opt.strategies import Recompute, Strategy, StrategyTable
from codesign_opt.systems import System
from codesign_opt.workloads import Workload
from codesign_opt.workloads.kinds import block_kinds

Array = NDArray[Any]


def step_work(workload: Workload, system: System, strategy: Strategy, *, reproduce: Set[Erratum] = NONE) -> StepWork:
    """The work of a step.

    The strategy must be legal (`strategies.legality`); whether it fits in memory is not asked.
    """
    kinds = block_kinds(workload)
    whole = _Evaluated.of(workload, system, strategy, reproduce)
    model, hardware = whole.model, whole.model.inputs.hardware
    copies = 1 if workload.experts is None else workload.experts.top_k
    network = _Network(hardware, _groups(model.inputs.groups, strategy), copies)
    ends = {} if model.tables.ends is None else _ends(replace(whole, workload=kinds[0].workload))
    return StepWork(
        kinds=tuple(_block(whole.of_kind(kind.workload)) for kind in kinds),
        stack=stack_order(kinds),
        **ends,
        stage_blocks=stage_blocks(
            workload.blocks + workload.prediction_blocks,
            strategy.pp,
            first_less=strategy.first_stage_less,
            last_less=strategy.last_stage_less,
        ),
        recompute_blocks=strategy.recompute_blocks,
        schedule=strategy.schedule.value,
        chunks=strategy.vpp,
        microbatches=int(_one(model.counts.m)),
        replicas=strategy.tp * strategy.cp * strategy.dp,
        training=strategy.training,
        message=network.transfer("pp", "send", _one(model.tables.spaces.message)) if strategy.pp > 1 else None,
        transfer=network.transfer,
        gathered=_gathered(strategy),
        reduced_each=strategy.reduce_each_microbatch and not strategy.weight_sharding,
        overlapped=strategy.dp_overlap,
        processor_usage=_one(hardware.processor_usage(model.inputs.groups.replicas.tier)),
    )


@dataclass(frozen=True, slots=True)
class _Evaluated:
    """A workload under a strategy, and what the model says of it."""

    workload: Workload
    system: System
    strategy: Strategy
    reproduce: Set[Erratum]
    model: Model

    @classmethod
    def of(cls, workload: Workload, system: System, strategy: Strategy, reproduce: Set[Erratum]) -> _Evaluated:
        table = StrategyTable.from_strategies([strategy])
        model = estimate(workload, system, table, reproduce=reproduce).model
        return cls(workload, system, strategy, reproduce, model)

    def of_kind(self, workload: Workload) -> _Evaluated:
        """The same with blocks of one kind."""
        return self if workload == self.workload else self.of(workload, self.system, self.strategy, self.reproduce)

    def having(self, **changes: Any) -> _Evaluated:
        """The same with another strategy."""
        return self.of(self.workload, self.system, replace(self.strategy, **changes), self.reproduce)

    def passes(self, part: Part) -> tuple[Passes, Passes]:
        """Of a base block and of an edge block."""
        operations = operation_list(self.workload, self.system, self.strategy, part=part, reproduce=self.reproduce)
        rows = list(operations.to_dicts())
        base, edge = (
            block_passes(rows, block, overlap=self.strategy.tp_overlap, cp=self.strategy.cp)
            for block in ("base", "edge")
        )
        return base, edge

    def gradients(self, spaces: BlockSpaces, share: float = 1.0) -> tuple[Exchange, ...]:
        """What reduces the gradients of some weights: among those that split their state, then among their copies."""
        if not self.strategy.training:
            return ()
        ratio = _one(gradient_ratio(self.model.inputs.strategies)) * share
        opcode = "reduce-scatter" if self.strategy.optimizer_sharding else "all-reduce"
        groups = self.model.inputs.groups
        found = []
        for prefix, size, shards in _weights(spaces, groups):
            found.append(Exchange(f"{prefix}shards", opcode, size * ratio))
            found.append(Exchange(f"{prefix}copies", "all-reduce", size * ratio / shards))
        return self._needed(found)

    def weights(self, spaces: BlockSpaces, share: float = 1.0) -> tuple[Exchange, ...]:
        """What gathers some weights after the optimizer's step, or for a pass."""
        if not (self.strategy.training and self.strategy.optimizer_sharding):
            return ()
        groups = self.model.inputs.groups
        return self._needed(
            [Exchange(f"{prefix}shards", "all-gather", size * share) for prefix, size, _ in _weights(spaces, groups)]
        )

    def _needed(self, exchanges: list[Exchange]) -> tuple[Exchange, ...]:
        """Those of any bytes among several processors."""
        groups = _groups(self.model.inputs.groups, self.strategy)
        return tuple(exchange for exchange in exchanges if exchange.size and _one(groups[exchange.group].n) > 1)


def _block(evaluated: _Evaluated) -> BlockWork:
    """A block of a workload that has one kind of them."""
    if evaluated.strategy.recompute_blocks:
        recomputed = _block(evaluated.having(recompute_blocks=0))
        kept = _block(evaluated.having(recompute_blocks=0, recompute=Recompute.NONE))
        return replace(recomputed, kept=kept)
    tables = evaluated.model.tables
    base, edge = evaluated.passes(Part.BLOCK)
    return BlockWork(
        base=base,
        edge=edge,
        offload=_offload(evaluated.model),
        optimizer=_one(tables.optimizer.T),
        gradients=evaluated.gradients(tables.spaces),
        weights=evaluated.weights(tables.spaces),
    )


def _ends(evaluated: _Evaluated) -> dict[str, Any]:
    """What stands before the first block and after the last one, and what they have in common."""
    ends, strategy = evaluated.model.tables.ends, evaluated.strategy
    assert ends is not None
    first, last = ends.held.first.spaces, ends.held.last.spaces
    shared = evaluated.workload.tied_embeddings and strategy.pp > 1
    projection = _end(evaluated, Part.LAST, last, _one(ends.last.optimizer.T * ends.held.own))
    embedding = _end(evaluated, Part.FIRST, first, _one(ends.first.optimizer.T))
    if not shared:
        return {"first": embedding, "last": projection}
    # Where both are on one stage all the same, the weights are there once, with the embedding.
    own = max(0.0, 1.0 - _one(first.spW) / _one(last.spW))
    beside = replace(
        projection,
        optimizer=own * projection.optimizer,
        gradients=evaluated.gradients(last, own),
        weights=evaluated.weights(last, own),
    )
    common = _one(last.spW * gradient_ratio(evaluated.model.inputs.strategies))
    tied = Exchange("ends", "all-reduce", common) if strategy.training else None
    return {"first": embedding, "last": projection, "last_beside_first": beside, "tied": tied}


def _end(evaluated: _Evaluated, part: Part, spaces: BlockSpaces, optimizer: float) -> BlockWork:
    passes, _ = evaluated.passes(part)
    return BlockWork(
        base=passes,
        edge=passes,
        optimizer=optimizer,
        gradients=evaluated.gradients(spaces),
        weights=evaluated.weights(spaces),
        # The gradient of the embedding does not need it; the output projection stays, as its backward pass comes first.
        regathered=False,
    )


def _gathered(strategy: Strategy) -> GatheredWeights | None:
    if not strategy.weight_sharding:
        return None
    return GatheredWeights(
        ahead=strategy.prefetch > 0, keep=strategy.keep_gathered, scatter_each=strategy.reduce_each_microbatch
    )


def _offload(model: Model) -> Offload:
    """For a forward, a backward and the last backward pass of a block (spec analytical-model section 8.2, E15)."""
    chunk, hardware = model.chunk, model.inputs.hardware

    def seconds(bytes_: Array, own_traffic: Array) -> float:
        return _one(hardware.offload_time(bytes_) + own_traffic) if _one(bytes_) else 0.0

    return Offload(
        forward=seconds(chunk.fo, chunk.fmm),
        backward=seconds(chunk.bo_each, chunk.bmm),
        last=seconds(chunk.bo, chunk.bmm),
    )


def _weights(spaces: BlockSpaces, groups: Groups) -> list[tuple[str, float, float]]:
    """Weights of routed experts and others: prefix of their groups' names, bytes, and in how many shards they are."""
    experts = _one(spaces.spX)
    return [
        ("", _one(spaces.spW) - experts, _one(groups.shards.n)),
        ("expert_", experts, _one(groups.expert_shards.n)),
    ]


_PAIR: Final = np.array([2.0])
_ALONE: Final = np.array([1])


def _groups(groups: Groups, strategy: Strategy) -> dict[str, Group]:
    """Every group of a strategy by name."""
    stages = Group(n=_PAIR, tier=np.array([strategy.pp_tier]), inner=_ALONE)
    etp = np.array([strategy.etp])
    return {
        "tp": groups.tp,
        "cp": groups.cp,
        "ep": groups.ep,
        "etp": Group(n=etp, tier=groups.tp.tier, inner=np.minimum(groups.tp.inner, etp)),
        "pp": stages,
        "ends": stages,
        "shards": groups.shards,
        "expert_shards": groups.expert_shards,
        "copies": _copies(groups.replicas, groups.shards),
        "expert_copies": _copies(groups.expert_replicas, groups.expert_shards),
    }


def _copies(replicas: Group, shards: Group) -> Group:
    return Group(n=replicas.n / shards.n, tier=replicas.tier, inner=np.ones_like(replicas.inner))


_COSTS: Final = {
    "send": "p2p", "ring": "p2p", "all-reduce": "all_reduce", "reduce-scatter": "reduce_scatter",
    "all-gather": "all_gather",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Network:
    """What transfers take when alone (spec analytical-model section 4, and docs/model.md).

    Attributes:
        hardware: The network tiers.
        groups: By name.
        copies: Destinations of a token that experts exchange.
    """

    hardware: Hardware
    groups: Mapping[str, Group]
    copies: int

    def transfer(self, group: str, collective: str, size: float) -> Transfer:
        """A transfer of `size` bytes in a group."""
        latency, seconds = (self._seconds(group, collective, bytes_) for bytes_ in (0.0, size))
        # To those who get them, the messages of a ring are what an all-gather brings.
        opcode = "all-gather" if collective == "ring" else collective
        return Transfer(int(_one(self.groups[group].tier)), opcode, size, seconds - latency, latency)

    def _seconds(self, group: str, collective: str, size: float) -> float:
        among, bytes_ = self.groups[group], np.array([size])
        if collective == "all-to-all":
            copies = self.copies if group == "ep" else 1
            return _one(self.hardware.all_to_all_time(among.tier, bytes_, among.n, among.inner, copies))
        if _COSTS[collective] == "p2p":
            return _one(self.hardware.transfer_time(among.tier, "p2p", bytes_, _PAIR))
        return _one(self.hardware.transfer_time(among.tier, _COSTS[collective], bytes_, among.n, among.inner))


def _one(values: Array) -> float:
    """The only entry."""
    return float(np.asarray(values).reshape(-1)[0])
