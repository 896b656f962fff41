"""How long a collective takes where its messages share nothing: one level of its schedule after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codesign_opt.simulation.collectives import REDUCE, Schedule
from codesign_opt.simulation.topologies import Topology
from codesign_opt.simulation.topologies.topology import offsets_of
from codesign_opt.simulation.wires import pair_costs

Array = NDArray[Any]


def collective_ends(
    schedule: Schedule, topology: Topology, *, reduction_seconds: float = 0.0, start: ArrayLike = 0.0
) -> Array:
    """Seconds at which each member is done, by rank.

    A message takes the latency of its links, and its bytes over the least capacity among them; neither messages nor
    reductions of one member wait for each other unless the schedule says so.

    Args:
        schedule: The messages; its processors are those of the topology.
        topology: The network.
        reduction_seconds: Of reducing the whole vector once.
        start: Seconds at which each member begins, or all of them.

    Raises:
        InputError: For a processor that the topology does not have.
    """
    rows = schedule.by_level.values
    number = np.empty(len(rows), dtype=np.int64)
    number[rows] = np.arange(len(rows))
    lengths = np.diff(schedule.operands.offsets)[rows]
    operands_from = offsets_of(lengths)
    first = np.repeat(schedule.operands.offsets[rows], lengths) - np.repeat(operands_from[:-1], lengths)
    operands = number[schedule.operands.values[first + np.arange(operands_from[-1])]]
    sender = np.where(schedule.sender >= 0, number[schedule.sender], -1)[rows]
    leaving, travelling = _message_seconds(schedule, topology, rows)
    reducing = np.where(schedule.opcode[rows] == REDUCE, schedule.scale[rows] * reduction_seconds, 0.0)
    lasting = leaving + reducing

    begins = np.broadcast_to(np.asarray(start, dtype=np.float64), len(schedule.processors))
    end = begins[schedule.rank[rows]]
    arrival = np.empty(len(rows))
    bounds = schedule.by_level.offsets
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        begin = end[low:high]
        _wait(begin, end[operands[operands_from[low] : operands_from[high]]], lengths[low:high])
        arrival[low:high] = begin + travelling[low:high]
        begin += lasting[low:high]
        receiving = np.flatnonzero(sender[low:high] >= 0)
        begin[receiving] = np.maximum(begin[receiving], arrival[sender[low:high][receiving]])
    ends = begins.copy()
    np.maximum.at(ends, schedule.rank[rows], end)
    return ends


def _message_seconds(schedule: Schedule, topology: Topology, rows: Array) -> tuple[Array, Array]:
    """Until the last byte has left the sender, and until it has arrived; 0 for rows that send nothing."""
    members = len(schedule.processors)
    sends = np.flatnonzero(schedule.to[rows] >= 0)
    key = schedule.rank[rows[sends]] * members + schedule.to[rows[sends]]
    pairs, pair = np.unique(key, return_inverse=True)
    latency, pace = pair_costs(topology, *(schedule.processors[ranks] for ranks in np.divmod(pairs, members)))
    leaving, travelling = np.zeros(len(rows)), np.zeros(len(rows))
    leaving[sends] = schedule.bytes_out[rows[sends]] * pace[pair]
    travelling[sends] = leaving[sends] + latency[pair]
    return leaving, travelling


def _wait(begin: Array, operand_ends: Array, lengths: Array) -> None:
    """Move beginnings to the last end of their operands."""
    if len(operand_ends) == len(begin) and (lengths == 1).all():
        np.maximum(begin, operand_ends, out=begin)
    elif len(operand_ends):
        waiting = np.flatnonzero(lengths)
        latest = np.maximum.reduceat(operand_ends, offsets_of(lengths[waiting])[:-1])
        begin[waiting] = np.maximum(begin[waiting], latest)
