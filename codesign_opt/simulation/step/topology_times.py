"""A step on a topology: its transfers as long as their messages take there, all groups at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError
from codesign_opt.graphs.step import StepWork, Transfer
from codesign_opt.graphs.step.pieces import Piece
from codesign_opt.graphs.step.work import BlockWork
from codesign_opt.simulation.collectives import Schedule, collective_schedule
from codesign_opt.simulation.networks import max_min_rates
from codesign_opt.simulation.topologies import Topology
from codesign_opt.strategies import Strategy

Array = NDArray[Any]

PLACEMENTS: Final = ("tp-dp-pp", "tp-pp-dp", "dp-tp-pp", "dp-pp-tp", "pp-tp-dp", "pp-dp-tp")
"""Orders of the parallel dimensions over the processors, the first one between neighbours."""

DEFAULT_ALGORITHMS: Final = dict.fromkeys(("all-reduce", "reduce-scatter", "all-gather"), "unidir-ring")


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
    placement: str = "tp-dp-pp",
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
        placement: One of `PLACEMENTS`.
        algorithms: Opcode to algorithm; rings where none is named.
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
    groups = processor_groups(strategy, placement)
    chosen = {**DEFAULT_ALGORITHMS, **(algorithms or {})}

    @cache
    def timed(dimension: str, opcode: str) -> LinearTime:
        members = groups[dimension]
        return collective_time(topology, members, opcode, chosen[opcode], (options or {}).get(opcode))

    def transfer(dimension: str, tier: int, opcode: str, size: float) -> Transfer:
        time = timed(dimension, opcode)
        return Transfer(tier, opcode, size, time.pace * size, time.latency)

    message = work.message
    if message is not None:
        message = _slowest_message(message, topology, groups["pp"], work)
    exchange = partial(transfer, "dp", work.exchange(0.0).tier)
    reduces = work.exchange(0.0).opcode
    collective = partial(transfer, "tp", work.collective("all-reduce", 0.0).tier)
    retimed = partial(_retimed_block, before=work.collective, after=collective)
    return replace(
        work,
        forward_base=retimed(work.forward_base),
        forward_edge=retimed(work.forward_edge),
        backward_base=retimed(work.backward_base),
        backward_edge=retimed(work.backward_edge),
        message=message,
        collective=collective,
        exchange=partial(exchange, reduces),
        gather=None if work.gather is None else partial(exchange, "all-gather"),
    )


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


def processor_groups(strategy: Strategy, placement: str) -> dict[str, Array]:
    """For each dimension its groups of processors, a row each.

    Raises:
        InputError: For an unknown placement.
    """
    if placement not in PLACEMENTS:
        raise InputError(f"placement '{placement}' is not known", "one of " + ", ".join(PLACEMENTS))
    names = placement.split("-")
    sizes = [getattr(strategy, name) for name in names]
    # The first dimension is between neighbours, so it is the last axis.
    numbers = np.arange(strategy.processors).reshape(sizes[::-1])
    axes = {name: len(names) - 1 - place for place, name in enumerate(names)}
    return {name: np.moveaxis(numbers, axis, -1).reshape(-1, numbers.shape[axis]) for name, axis in axes.items()}


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


def _retimed_block(
    block: BlockWork, *, before: Callable[[str, float], Transfer], after: Callable[[str, float], Transfer]
) -> BlockWork:
    return replace(block, pieces=tuple(_retimed(piece, before, after) for piece in block.pieces))


def _retimed(piece: Piece, before: Callable[[str, float], Transfer], after: Callable[[str, float], Transfer]) -> Piece:
    """A piece whose collective takes as long as on the topology, or as its buffers take to be touched."""
    if not piece.collective:
        return piece
    old, new = (_in_parts(of(piece.collective, piece.size), piece.transfers) for of in (before, after))
    link = max(new, piece.link) if piece.link > old * (1 + _ROUNDING) else new
    if not piece.compute:
        exposed = link
    elif piece.exposed:
        exposed = max(0.0, piece.exposed + link - piece.link)
    else:
        # All tiles of the product but the first run beside a transfer.
        exposed = max(0.0, link - piece.compute * piece.transfers / (piece.transfers + 1))
    return replace(piece, link=link, exposed=exposed)


def _in_parts(transfer: Transfer, parts: float) -> float:
    """Seconds of a transfer cut into parts that each have its latency."""
    return transfer.wire + parts * transfer.latency


_ROUNDING = 1e-12
