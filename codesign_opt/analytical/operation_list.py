"""The operations of a part of the stack under one strategy, one row an operation (spec analytical-model section 11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.errata import NONE, Erratum
from codesign_opt.analytical.groups import groups, tier_sizes
from codesign_opt.analytical.hardware import Hardware, hardware_columns
from codesign_opt.analytical.host import held_up
from codesign_opt.analytical.model import with_shards
from codesign_opt.analytical.operation_times import ExchangeTimes, OperationColumns, exchange_times, stage_times
from codesign_opt.analytical.operations import Operation
from codesign_opt.analytical.optimizer import gradient_bytes, optimizer_state, optimizer_work
from codesign_opt.analytical.parts import OPERATIONS, Part
from codesign_opt.analytical.shapes import BlockShapes, block_shapes, workload_columns
from codesign_opt.analytical.structure import structures
from codesign_opt.strategies import Strategy, StrategyTable
from codesign_opt.systems import System
from codesign_opt.tables import Table
from codesign_opt.workloads import Workload

Array = NDArray[Any]


def operation_list(
    workload: Workload,
    system: System,
    strategy: Strategy,
    *,
    part: Part = Part.BLOCK,
    reproduce: Set[Erratum] = NONE,
) -> Table:
    """What every operation of a block, or of an end of the stack, computes, touches, sends and keeps, for a microbatch.

    The strategy must be legal (`strategies.legality`), and the workload have blocks of one kind (`workloads.kinds`).
    The backward columns are filled in inference as well.

    Returns:
        One row an operation, in order. Columns, where `<block>` is `base` or `edge` (the last block of a chunk, which
        sends the pipeline message) and `<stage>` is `forward`, `activation_gradient` or `weight_gradient`:

        * `name`; `inputs` and `outputs`, elements.
        * `<stage>_flops`, `<stage>_bytes` touched in memory tier 1; `optimizer_flops`, `_bytes` and `_time` of a step.
        * `<block>_<stage>_time`: processing, seconds; 0 for a collective, which is communication only.
        * `recomputed`, `recommunicated`: whether the backward pass repeats it, and its communication.
        * `group`: the parallel dimension that an operation's communication belongs to: tp, cp, ep or etp.
        * `<block>_<what>_collective`, where `<what>` is `forward` or `backward`: all-gather, reduce-scatter,
          all-reduce, all-to-all or ring, or "" for no communication.
        * `<block>_<what>_communication_bytes`, `_time` on the link and `_exposed_time`, where `<what>` is `forward`,
          `backward` or `recompute`; and `<block>_weight_gradient_exposed_time`, exposed beside the weight gradient.
        * `tiles`: How many parts a transfer is cut into, to hide behind the operation's product.
        * `weight_memory`, `activation_memory`, `weight_gradient_memory` (a shard, where the optimizer is sharded),
          `activation_gradient_memory`, `optimizer_memory`: bytes.
    """
    table = StrategyTable.from_strategies([strategy])
    first = np.zeros(1, dtype=np.int64)
    hardware = hardware_columns([system], first, table["datatype"], reproduce)
    placed = groups(table, tier_sizes([system]), first)
    keys = {**table, **placed.columns(), "workload": first}
    structure, _, keys = next(structures([workload], keys))
    shapes = block_shapes(workload_columns([workload], first), structure, keys)
    listed = OPERATIONS[part](shapes, reproduce)
    operations = OperationColumns.stack(listed, 1)
    stages = stage_times(operations, shapes, hardware)
    alone = exchange_times(operations, stages, shapes, keys, hardware, reproduce)
    base, edge = (held_up(times, operations, hardware.launch) for times in alone)
    sharded = with_shards(table, placed)
    shards = np.where(operations.expert, sharded["expert_shards"], sharded["shards"])
    columns = {
        **_work(operations),
        "recomputed": operations["recomputed"],
        "recommunicated": operations["recommunicated"],
        **_collectives("base", base, shapes.sequence_parallel, operations),
        **_collectives("edge", edge, shapes.sequence_parallel | shapes.boundary, operations),
        **_optimizer(operations, shapes, keys, shards, hardware, reproduce),
        **{f"base_{name}": values for name, values in _exchange(base)},
        **{f"edge_{name}": values for name, values in _exchange(edge)},
        "tiles": np.where(operations.overlapped, shapes.t, 1.0),
        **_memory(operations, keys, shapes, shards),
    }
    rows = [_group(operation) for operation in listed]
    return Table(
        {
            "name": [operation.name for operation in listed],
            "group": rows,
            **{name: values[:, 0] for name, values in columns.items()},
        },
        {name: unit for name in columns if (unit := _unit(name))},
    )


def _work(operations: OperationColumns) -> dict[str, Array]:
    return {
        "inputs": operations["I"],
        "outputs": operations["O"],
        "forward_flops": operations["Ff"],
        "forward_bytes": operations["Yf"],
        "activation_gradient_flops": operations["Fa"],
        "activation_gradient_bytes": operations["Ya"],
        "weight_gradient_flops": operations["Fw"],
        "weight_gradient_bytes": operations["Yw"],
    }


def _collectives(block: str, exchange: ExchangeTimes, split: Array, operations: OperationColumns) -> dict[str, Array]:
    """Which collective runs (spec section 6): split is reduce-scatter and all-gather, otherwise all-reduce."""
    reduces = np.where(split, "reduce-scatter", "all-reduce")
    after, none = operations.row_split, np.array("")
    forward = np.where(exchange.qf > 0, np.where(after, reduces, "all-gather"), none)
    backward = np.where(exchange.qa > 0, np.where(after, "all-gather", reduces), none)
    for row, peer in operations.peers:
        forward[row], backward[row] = (
            np.where(size > 0, word, "")
            for size, word in ((exchange.qf[row], peer.forward), (exchange.qa[row], peer.backward))
        )
    return {f"{block}_forward_collective": forward, f"{block}_backward_collective": backward}


def _group(operation: Operation) -> str:
    """The parallel dimension that an operation's communication belongs to."""
    return "tp" if operation.peer is None else operation.peer.group


def _optimizer(
    operations: OperationColumns,
    s: BlockShapes,
    keys: Mapping[str, Array],
    shards: Array,
    hardware: Hardware,
    reproduce: Set[Erratum],
) -> dict[str, Array]:
    each = gradient_bytes(s.e, keys["gradient_precision"])
    flops, bytes_ = optimizer_work(operations["weights"], s.e, shards, each, reproduce)
    return {
        "optimizer_flops": flops,
        "optimizer_bytes": bytes_,
        "optimizer_time": hardware.combine(hardware.vector_time(flops), hardware.memory_time(bytes_)),
        "optimizer_memory": optimizer_state(operations["weights"], s.e, shards),
    }


def _exchange(block: ExchangeTimes) -> Iterator[tuple[str, Array]]:
    yield "forward_time", block.Tf
    yield "activation_gradient_time", block.Ta
    yield "weight_gradient_time", block.Tw
    for what, size, time, exposed in (
        ("forward", block.qf, block.lf, block.Ef),
        ("backward", block.qa, block.la, block.Ea),
        ("recompute", block.qr, block.lr, block.Er),
    ):
        yield f"{what}_communication_bytes", size
        yield f"{what}_communication_time", time
        yield f"{what}_communication_exposed_time", exposed
    yield "weight_gradient_exposed_time", block.Ew


def _memory(operations: OperationColumns, keys: Mapping[str, Array], s: BlockShapes, shards: Array) -> dict[str, Array]:
    gradient = gradient_bytes(s.e, keys["gradient_precision"]) * operations["weights"]
    return {
        "weight_memory": s.e * operations["weights"],
        "activation_memory": operations["Kb"],
        "weight_gradient_memory": gradient / np.where(keys["gradient_sharding"], shards, 1),
        "activation_gradient_memory": operations["Gb"],
    }


_UNITS: Mapping[str, str] = {"flops": "flop", "bytes": "B", "memory": "B", "time": "s"}


def _unit(name: str) -> str:
    """The unit that the last word of a column's name says; counts have none."""
    return _UNITS.get(name.rpartition("_")[2], "")
