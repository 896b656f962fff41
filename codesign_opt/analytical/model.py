"""The analytical model over columns: one row a strategy, each with its own workload and system if need be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.block import BLOCK_KEY, BlockTable, block_table
from codesign_opt.analytical.block_spaces import SPACE_KEY, BlockSpaces, block_spaces
from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.gradient_exchange import GradientExchange, gradient_exchange
from codesign_opt.analytical.groups import Groups, groups, tier_sizes
from codesign_opt.analytical.hardware import Hardware, hardware_columns
from codesign_opt.analytical.kinds import Kinds
from codesign_opt.analytical.memory import MemoryNeeds, memory_needs
from codesign_opt.analytical.optimizer import (
    OPTIMIZER_KEY,
    OptimizerSpaces,
    OptimizerTable,
    optimizer_spaces,
    optimizer_table,
)
from codesign_opt.analytical.overheads import overhead_columns
from codesign_opt.analytical.part_tables import PartTables, distinct, end_keys, mean_of_tables, partly_recomputed
from codesign_opt.analytical.parts import Part
from codesign_opt.analytical.schedule import (
    ChunkTimes,
    ScheduleCounts,
    bubble_time,
    chunk_times,
    schedule_counts,
)
from codesign_opt.analytical.shapes import WorkloadColumns, workload_columns
from codesign_opt.analytical.stack_ends import Ends, EndsHeld, EndWork, Held
from codesign_opt.analytical.weight_sharding import weight_exchange
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Seconds of one step. The parts add up to `total`; communication and offload are the exposed parts."""

    forward: Array
    backward: Array
    optimizer: Array
    recompute: Array
    recompute_communication: Array
    tp_communication: Array
    cp_communication: Array
    ep_communication: Array
    pp_communication: Array
    dp_communication: Array
    forward_offload: Array
    backward_offload: Array
    bubble: Array
    total: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the model is evaluated on; all arrays broadcast against each other.

    Attributes:
        strategies: Strategy columns, and `shards` and `expert_shards`: processors among which state is split.
        sizes: Workload sizes.
        groups: Groups of processors.
        hardware: System parameters.
        reproduce: Errata of the published tool to reproduce.
    """

    strategies: Mapping[str, Array]
    sizes: WorkloadColumns
    groups: Groups
    hardware: Hardware
    reproduce: Set[Erratum]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Totals of one block for each row, and of the ends of the stack, None where no workload has any: everything that
    needs a look at the single operations.
    """

    blocks: BlockTable
    spaces: BlockSpaces
    optimizer: OptimizerTable
    state: OptimizerSpaces
    ends: Ends | None


PartSource = Callable[[Sequence[Workload], Sequence[System], Mapping[str, Array], Set[Erratum], Part], PartTables]
"""Gives the tables of one part of the stack for rows that name their workload and system, as `part_tables` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Results for every row. All arrays broadcast against each other; none need have the full shape."""

    inputs: Inputs
    tables: Tables
    counts: ScheduleCounts
    chunk: ChunkTimes
    exchange: GradientExchange
    times: StepTimes
    memory: MemoryNeeds


def model(
    workloads: Sequence[Workload],
    systems: Sequence[System],
    strategies: Mapping[str, Array],
    *,
    workload: Array,
    system: Array,
    reproduce: Set[Erratum],
    source: PartSource | None = None,
) -> Model:
    """Evaluate rows that name their workload and system by index into `workloads` and `systems`.

    Args:
        workloads, systems: What rows name.
        strategies: Strategy columns.
        workload, system: Indices, one a row.
        reproduce: Errata of the published tool to reproduce.
        source: Where tables come from, for one who keeps what does not depend on the systems; else `part_tables`.
    """
    placed = groups(strategies, tier_sizes(systems), system)
    columns = with_shards(strategies, placed)
    rows = {**columns, **placed.columns(), "workload": workload, "system": system}
    inputs = Inputs(
        strategies=columns,
        sizes=workload_columns(workloads, workload),
        groups=placed,
        hardware=hardware_columns(systems, system, strategies["datatype"], reproduce),
        reproduce=reproduce,
    )
    counts = schedule_counts(inputs.sizes.L + inputs.sizes.prediction_blocks, strategies)
    tables = _tables(workloads, systems, rows, counts, reproduce, source or part_tables)
    held = None if tables.ends is None else tables.ends.held
    overheads = overhead_columns([machine.memory_overheads for machine in systems], system)
    memory = memory_needs(columns, tables.spaces, tables.state, counts, held, overheads)
    return completed(inputs, tables, counts, memory)


def with_shards(strategies: Mapping[str, Array], placed: Groups) -> dict[str, Array]:
    """Strategy columns, and among how many processors the state of weights, and of experts' weights, is split."""
    sharded = strategies["optimizer_sharding"]
    return {
        **strategies,
        "shards": np.where(sharded, placed.shards.n, 1),
        "expert_shards": np.where(sharded, placed.expert_shards.n, 1),
    }


def completed(inputs: Inputs, tables: Tables, counts: ScheduleCounts, memory: MemoryNeeds) -> Model:
    """The model, given its tables and memory needs (spec analytical-model sections 8.2 to 8.6)."""
    strategies, hardware, reproduce = inputs.strategies, inputs.hardware, inputs.reproduce
    weights = weight_exchange(strategies, tables.spaces, inputs.groups, hardware)
    chunk = chunk_times(strategies, tables.blocks, tables.spaces, tables.state, counts, hardware, reproduce, weights)
    exchange = gradient_exchange(
        strategies, tables.blocks, tables.spaces, tables.optimizer, counts, chunk, inputs.groups, hardware, reproduce
    )
    return Model(
        inputs=inputs,
        tables=tables,
        counts=counts,
        chunk=chunk,
        exchange=exchange,
        times=_step_times(inputs, tables, counts, chunk, exchange),
        memory=memory,
    )


def _tables(
    workloads: Sequence[Workload],
    systems: Sequence[System],
    rows: Mapping[str, Array],
    counts: ScheduleCounts,
    reproduce: Set[Erratum],
    source: PartSource,
) -> Tables:
    """The tables of every row, computed once for each distinct key."""
    kinds = Kinds.all_of(workloads)
    shares = kinds.shares(rows["workload"], counts.N)

    def tables(part: Part, shapes: Sequence[Workload], of: Mapping[str, Array]) -> PartTables:
        return source(shapes, systems, of, reproduce, part)

    def mean_block(of: Mapping[str, Array]) -> PartTables:
        number = kinds.of[of["workload"]].T
        return mean_of_tables([tables(Part.BLOCK, kinds.workloads, {**of, "workload": n}) for n in number], shares)

    block = partly_recomputed(rows, counts.N, mean_block)
    present = np.array([shape.vocabulary > 0 for shape in workloads])[rows["workload"]]
    ends = None
    if present.any():
        keys = end_keys(rows)
        first, last = tables(Part.FIRST, workloads, keys), tables(Part.LAST, workloads, keys)
        tied = np.array([shape.tied_embeddings for shape in workloads])[rows["workload"]]
        at_first, at_last = (Held(spaces=end.spaces, state=end.state) for end in (first, last))
        ends = Ends(
            first=EndWork(blocks=first.blocks, optimizer=first.optimizer),
            last=EndWork(blocks=last.blocks, optimizer=last.optimizer),
            held=EndsHeld.of(at_first, at_last, rows, present=present, tied=tied),
        )
    return Tables(blocks=block.blocks, spaces=block.spaces, optimizer=block.optimizer, state=block.state, ends=ends)


def part_tables(
    workloads: Sequence[Workload],
    systems: Sequence[System],
    rows: Mapping[str, Array],
    reproduce: Set[Erratum],
    part: Part,
) -> PartTables:
    """Tables of one part of the stack for every row."""
    block, of_block = distinct({name: rows[name] for name in (*BLOCK_KEY, "workload", "system")})
    space, of_space = distinct({name: rows[name] for name in (*SPACE_KEY, "workload")})
    names = (*OPTIMIZER_KEY, "shards", "expert_shards", "workload", "system")
    optimizer, of_optimizer = distinct({name: rows[name] for name in names})
    return PartTables(
        blocks=block_table(workloads, systems, block, reproduce, part).take(of_block),
        spaces=block_spaces(workloads, space, reproduce, part).take(of_space),
        optimizer=optimizer_table(workloads, systems, optimizer, reproduce, part).take(of_optimizer),
        state=optimizer_spaces(workloads, optimizer, reproduce, part).take(of_optimizer),
    )


def _step_times(
    inputs: Inputs, tables: Tables, counts: ScheduleCounts, chunk: ChunkTimes, exchange: GradientExchange
) -> StepTimes:
    tr = inputs.strategies["training"].astype(np.float64)
    blocks, over = tables.blocks, counts.over_batch
    forward = over(blocks.fw_T_b, blocks.fw_T_e)
    backward = over(blocks.ag_T_b + blocks.wg_T_b, blocks.ag_T_e + blocks.wg_T_e)
    optimizer = counts.N * tables.optimizer.T
    recompute = over(blocks.re_T_b, blocks.re_T_e)
    recompute_communication = over(blocks.exr_b, blocks.exr_e)
    cp_communication, ep_communication = over(blocks.excp, blocks.excp), over(blocks.exep, blocks.exep)
    tp_communication = over(blocks.exf_b + blocks.exa_b, blocks.exf_e + blocks.exa_e)
    tp_communication = tp_communication - cp_communication - ep_communication
    pp_communication = np.where(counts.p > 1, counts.m * counts.v * (chunk.cf + tr * chunk.cb), 0.0)
    forward_offload = over(chunk.fv_b, chunk.fv_e)
    once = counts.v * (counts.x * chunk.once_b + chunk.once_e)
    backward_offload = tr * (over(chunk.bv_b, chunk.bv_e) + once)
    bubble = bubble_time(counts, chunk, inputs.strategies, blocks)
    exchange_exposed = exchange.exposed
    if np.any(chunk.gathered_e):
        exchange_exposed = exchange_exposed + over(chunk.gathered_b, chunk.gathered_e)
    if tables.ends is not None:
        stage = counts.v * (chunk.chf + chunk.chb)
        added = tables.ends.times(inputs.strategies, counts, stage, inputs.groups, inputs.hardware, inputs.reproduce)
        forward, backward = forward + added.forward, backward + added.backward
        optimizer, bubble = optimizer + added.optimizer, bubble + added.bubble
        tp_communication = tp_communication + added.tp_communication
        exchange_exposed = exchange_exposed + added.dp_communication
    # Added from the smallest shape to the largest, so that a whole grid of strategies is touched once.
    total = (
        (forward + backward + recompute + recompute_communication + tp_communication)
        + cp_communication + ep_communication
        + pp_communication + optimizer + forward_offload + backward_offload + bubble + exchange_exposed
    )  # fmt: skip
    return StepTimes(
        forward=forward,
        backward=backward,
        optimizer=optimizer,
        recompute=recompute,
        recompute_communication=recompute_communication,
        tp_communication=tp_communication,
        cp_communication=cp_communication,
        ep_communication=ep_communication,
        pp_communication=pp_communication,
        dp_communication=exchange_exposed,
        forward_offload=forward_offload,
        backward_offload=backward_offload,
        bubble=bubble,
        total=total,
    )
