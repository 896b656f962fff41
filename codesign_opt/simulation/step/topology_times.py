"""A step on a topology: its transfers as long as their messages take there, all groups at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError
from codesign_opt.graphs.step import StepWork, Transfer
from codesign_opt.graphs.step.pieces import Passes, Piece
from codesign_opt.graphs.step.work import BlockWork
from codesign_opt.simulation.collectives import Schedule, collective_schedule
from codesign_opt.simulation.networks import max_min_rates
from codesign_opt.simulation.step.processor_groups import default_placement, processor_groups
from codesign_opt.simulation.topologies import Topology
from codesign_opt.strategies import Strategy

Array = NDArray[Any]

RING: Final = "unidir-ring"

DEFAULT_ALGORITHMS: Final = {
    "all-reduce": RING,
    "reduce-scatter": RING,
    "all-gather": RING,
    "all-to-all": "direct",
}
"""Collectives of a step, and how they are done where nothing is said."""


@dataclass(frozen=True, slots=True)
class LinearTime:
    """A transfer takes `latency` + `pace` · bytes seconds."""

    latency: float
    pace: float


def on_topology(
    work: StepWork,
    strategy: Strategy,
    topology: Topology,
    *,
    placement: str | None = None,
    algorithms: Mapping[str, str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> StepWork:
    """The step with the transfers of all groups run on a topology, those of one dimension at the same time.

    Steps of a collective follow each other as a whole: the next begins when the slowest message of one has arrived.
    What a collective takes beyond its messages, such as touching its buffers, stays.

    Args:
        work: The step.
        strategy: Its parallel dimensions.
        topology: With at least as many processors.
        placement: One of `PLACEMENTS`; the strategy's own order if None.
        algorithms: Opcode to algorithm; `DEFAULT_ALGORITHMS` where none is named.
        options: Opcode to options of its algorithm.

    Raises:
        InputError: For too small a topology, an unknown placement or algorithm, and a group that it cannot handle.
    """
    if topology.processors < strategy.processors:
        raise InputError(
            f"topology '{topology.name}' has {topology.processors} processors, and the strategy takes "
            f"{strategy.processors}",
            "give a larger topology",
        )
    groups = processor_groups(strategy, default_placement(strategy) if placement is None else placement)
    chosen = {**DEFAULT_ALGORITHMS, **(algorithms or {})}

    @cache
    def timed(group: str, opcode: str) -> LinearTime:
        return collective_time(topology, groups[group], opcode, chosen[opcode], (options or {}).get(opcode))

    @cache
    def ring(group: str) -> LinearTime:
        """The messages that an all-gather from neighbour to neighbour is made of, by the bytes that one sends."""
        members = groups[group].shape[1]
        time = collective_time(topology, groups[group], "all-gather", RING)
        return LinearTime(time.latency, time.pace * members / max(members - 1, 1))

    def transfer(group: str, collective: str, size: float) -> Transfer:
        time = ring(group) if collective == "ring" else timed(group, collective)
        before = work.transfer(group, collective, size)
        return replace(before, wire=time.pace * size, latency=time.latency)

    message = work.message
    if message is not None:
        message = _slowest_message(message, topology, groups["pp"], work)
    retimed = work.with_blocks(partial(_retimed_block, before=work.transfer, after=transfer))
    return replace(retimed, message=message, transfer=transfer)


def _slowest_message(message: Transfer, topology: Topology, pipelines: Array, work: StepWork) -> Transfer:
    """A message to the next stage, or to the one before, while all other stages of all pipelines send one as well."""
    here, there = pipelines[:, :-1], pipelines[:, 1:]
    if work.chunks > 1:
        # Behind the last stage comes the next chunk of the first one.
        here, there = pipelines, np.roll(pipelines, -1, axis=1)
    directions = [(here, there), (there, here)] if work.training else [(here, there)]
    times = [
        _level_time(topology, sources.ravel(), ends.ravel(), np.ones(sources.size)) for sources, ends in directions
    ]
    transfers = [replace(message, wire=time.pace * message.size, latency=time.latency) for time in times]
    return max(transfers, key=lambda transfer: transfer.seconds)


def collective_time(
    topology: Topology, groups: Array, opcode: str, algorithm: str, options: Mapping[str, Any] | None = None
) -> LinearTime:
    """A collective of every group at once, as a function of the bytes of its vector.

    Raises:
        InputError: For an unknown algorithm, and a group that it cannot handle.
    """
    if groups.shape[1] == 1:
        return LinearTime(0.0, 0.0)
    schedule = collective_schedule(opcode, algorithm, range(groups.shape[1]), 1.0, options=options)
    latency = pace = 0.0
    known: dict[bytes, LinearTime] = {}
    for rows in schedule.by_level:
        sends = rows[schedule.to[rows] >= 0]
        if not len(sends):
            continue
        key = _pattern(schedule, sends)
        if key not in known:
            sources, ends = groups[:, schedule.rank[sends]], groups[:, schedule.to[sends]]
            sizes = np.broadcast_to(schedule.bytes_out[sends], sources.shape)
            known[key] = _level_time(topology, sources.ravel(), ends.ravel(), sizes.ravel())
        latency, pace = latency + known[key].latency, pace + known[key].pace
    return LinearTime(latency, pace)


def _pattern(schedule: Schedule, rows: Array) -> bytes:
    """Equal for levels that send the same between the same ranks."""
    columns = np.stack([schedule.rank[rows], schedule.to[rows]], axis=1).astype(np.int64)
    order = np.lexsort(columns.T)
    return columns[order].tobytes() + schedule.bytes_out[rows][order].tobytes()


def _level_time(topology: Topology, sources: Array, ends: Array, sizes: Array) -> LinearTime:
    """Messages that start together, in bytes for each byte of the collective: the slowest of them."""
    routes = topology.routes(sources, ends)
    rates = max_min_rates(topology.capacity, routes)
    lengths = np.diff(routes.offsets)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    latencies = np.bincount(rows, topology.latency[routes.values], minlength=len(lengths))
    return LinearTime(float(latencies.max(initial=0.0)), float((sizes / rates).max(initial=0.0)))


Timing = Callable[[str, str, float], Transfer]
"""What a collective takes, given its group, opcode or "ring", and bytes."""


def _retimed_block(block: BlockWork, *, before: Timing, after: Timing) -> BlockWork:
    return replace(
        block, base=_retimed_passes(block.base, before, after), edge=_retimed_passes(block.edge, before, after)
    )


def _retimed_passes(passes: Passes, before: Timing, after: Timing) -> Passes:
    of_all = {
        field.name: tuple(_retimed(piece, before, after) for piece in getattr(passes, field.name))
        for field in fields(Passes)
    }
    return Passes(**of_all)


def _retimed(piece: Piece, before: Timing, after: Timing) -> Piece:
    """A piece whose collective takes as long as on the topology, or as its buffers take to be touched."""
    if not piece.collective:
        return piece
    old, new = (of(piece.group, piece.collective, piece.size) for of in (before, after))
    alone = old.wire + piece.transfers * old.latency
    # The messages of a ring are the steps of one collective; tiles of a product are collectives of their own.
    link = new.wire + new.latency * (1 if piece.collective == "ring" else piece.transfers)
    if piece.link > alone * (1 + _ROUNDING):
        link = max(link, piece.link)
    if not piece.compute:
        exposed = link
    elif piece.exposed:
        exposed = max(0.0, piece.exposed + link - piece.link)
    else:
        # All tiles of the product but the first run beside a transfer.
        exposed = max(0.0, link - piece.compute * piece.transfers / (piece.transfers + 1))
    return replace(piece, link=link, exposed=exposed)


_ROUNDING = 1e-12
