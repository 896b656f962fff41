"""The work of a step in numbers: what each stage's passes, messages and gradient exchanges take when alone."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical import estimate
from codesign_opt.analytical.errata import NONE, Erratum
from codesign_opt.analytical.hardware import Hardware
from codesign_opt.analytical.model import Model
from codesign_opt.analytical.operation_list import operation_list
from codesign_opt.graphs.step.pieces import Piece, backward_pieces, forward_pieces
from codesign_opt.strategies import Strategy, StrategyTable
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes that cross a network tier.

    Attributes:
        tier: Index of the network tier.
        opcode: Of the collective, or "send".
        size: Bytes handed over; of a collective its vector.
        wire: Seconds in which they fill a processor's port, when alone.
        latency: Seconds more.
    """

    tier: int
    opcode: str
    size: float
    wire: float
    latency: float

    @property
    def seconds(self) -> float:
        """How long it takes when alone."""
        return self.wire + self.latency


@dataclass(frozen=True, slots=True)
class BlockWork:
    """One block in one direction.

    Attributes:
        pieces: What it does, in order.
        offload: Seconds that its streams to and from memory tier 2 and its own traffic of tier 1 take together; 0
            without offload.
        last_offload: The same in the pass of the step that also streams optimizer state.
    """

    pieces: tuple[Piece, ...]
    offload: float = 0.0
    last_offload: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWork:
    """A step, from the analytical model.

    Attributes:
        stage_blocks: Blocks of each pipeline stage.
        chunks, microbatches: vpp, and microbatches of a step.
        replicas: Processors that run each stage's program: tp · dp.
        training: Whether there are backward passes.
        forward_base, forward_edge, backward_base, backward_edge: One block; the edge block is the last of a chunk.
        message: Between stages, in either direction; None for a single stage.
        collective: Transfer of a tensor-parallel collective, given opcode and size.
        optimizer: Seconds of one block's optimizer step.
        gradient_bytes: Of one block; 0 where nothing is exchanged.
        exchange: Transfer that reduces gradients of so many bytes.
        gather: Transfer that gathers updated weights of so many bytes; None where the optimizer is not sharded.
        overlapped: Whether the exchange may run beside backward passes.
        processor_usage: Share of compute that it takes meanwhile.
    """

    stage_blocks: tuple[int, ...]
    chunks: int
    microbatches: int
    replicas: int
    training: bool
    forward_base: BlockWork
    forward_edge: BlockWork
    backward_base: BlockWork
    backward_edge: BlockWork
    message: Transfer | None
    collective: Callable[[str, float], Transfer]
    optimizer: float
    gradient_bytes: float
    exchange: Callable[[float], Transfer]
    gather: Callable[[float], Transfer] | None
    overlapped: bool
    processor_usage: float

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return len(self.stage_blocks)


def step_work(workload: Workload, system: System, strategy: Strategy, *, reproduce: Set[Erratum] = NONE) -> StepWork:
    """The work of a step.

    The strategy must be legal (`strategies.legality`); whether it fits in memory is not asked.
    """
    table = StrategyTable.from_strategies([strategy])
    model = estimate(workload, system, table, reproduce=reproduce).model
    hardware = model.inputs.hardware
    operations = operation_list(workload, system, strategy, reproduce=reproduce)
    forward, backward, last = _offload_seconds(model)
    overlap = strategy.tp_overlap
    exchanged = strategy.training and strategy.dp > 1
    sharded = exchanged and strategy.optimizer_sharding
    gradients = partial(_transfer, hardware, strategy.dp_tier, strategy.dp)
    return StepWork(
        stage_blocks=stage_blocks(workload.blocks, strategy.pp),
        chunks=strategy.vpp,
        microbatches=int(_one(model.counts.m)),
        replicas=strategy.tp * strategy.dp,
        training=strategy.training,
        forward_base=BlockWork(tuple(forward_pieces(operations, "base", overlap)), forward, forward),
        forward_edge=BlockWork(tuple(forward_pieces(operations, "edge", overlap)), forward, forward),
        backward_base=BlockWork(tuple(backward_pieces(operations, "base", overlap)), backward, last),
        backward_edge=BlockWork(tuple(backward_pieces(operations, "edge", overlap)), backward, last),
        message=_transfer(hardware, strategy.pp_tier, 2, "send", _one(model.tables.spaces.message))
        if strategy.pp > 1
        else None,
        collective=partial(_transfer, hardware, strategy.tp_tier, strategy.tp),
        optimizer=_one(model.tables.optimizer.T),
        gradient_bytes=_one(model.exchange.size) if exchanged else 0.0,
        exchange=partial(gradients, "reduce-scatter" if sharded else "all-reduce"),
        gather=partial(gradients, "all-gather") if sharded else None,
        overlapped=strategy.dp_overlap,
        processor_usage=_one(hardware.processor_usage(np.array([strategy.dp_tier]))),
    )


def stage_blocks(blocks: int, stages: int) -> tuple[int, ...]:
    """Blocks of each stage: the first stages have one more where they do not divide evenly."""
    most = -(-blocks // stages)
    fuller = blocks - stages * (most - 1)
    return tuple(most if stage < fuller else most - 1 for stage in range(stages))


_COSTS = {"send": "p2p", "all-reduce": "all_reduce", "reduce-scatter": "reduce_scatter", "all-gather": "all_gather"}


def _transfer(hardware: Hardware, tier: int, participants: int, opcode: str, size: float) -> Transfer:
    """A transfer of `size` bytes among some participants (spec analytical-model section 4)."""
    tiers = np.array([tier])
    latency = _one(hardware.latency(tiers))
    seconds = _one(hardware.transfer_time(tiers, _COSTS[opcode], np.array([size]), np.array([participants])))
    return Transfer(tier, opcode, size, seconds - latency, latency)


def _offload_seconds(model: Model) -> tuple[float, float, float]:
    """For a forward, a backward and the last backward pass of a block (spec analytical-model section 8.2, E15)."""
    chunk, hardware = model.chunk, model.inputs.hardware

    def seconds(bytes_: Array, own_traffic: Array) -> float:
        return _one(hardware.offload_time(bytes_) + own_traffic) if _one(bytes_) else 0.0

    return seconds(chunk.fo, chunk.fmm), seconds(chunk.bo_each, chunk.bmm), seconds(chunk.bo, chunk.bmm)


def _one(values: Array) -> float:
    """The only entry."""
    return float(np.asarray(values).reshape(-1)[0])
