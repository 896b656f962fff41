"""Broadcast, reduce, scatter and gather; the first member of the group has, or gets, the vector."""

from __future__ import annotations

import numpy as np

from codesign_opt.graphs.graph import Array
from codesign_opt.simulation.collectives.composition import in_sequence
from codesign_opt.simulation.collectives.ring import unidirectional_all_gather, unidirectional_reduce_scatter
from codesign_opt.simulation.collectives.rows import RowBuilder
from codesign_opt.simulation.collectives.schedule import RECV, REDUCE, SEND, Schedule
from codesign_opt.simulation.collectives.team import Team

BINOMIAL = "binomial"
DIRECT = "direct"
SCATTER_ALL_GATHER = "scatter-all-gather"
REDUCE_SCATTER_GATHER = "reduce-scatter-gather"


def binomial_broadcast(team: Team) -> Schedule:
    """⌈log₂ n⌉ steps; in each, whoever has the vector sends it to one that has not."""
    rows = RowBuilder()
    rank = team.groups[0]
    latest = np.full(team.members, -1)
    for step in range(_tree_steps(team)):
        upper = np.arange(2**step, min(2 ** (step + 1), team.members))
        lower = upper - 2**step
        send = rows.add(SEND, rank=rank[lower], to=rank[upper], bytes_out=team.size, block=0, level=step)
        receive = rows.add(RECV, rank=rank[upper], level=step)
        rows.deliver(send, receive)
        rows.wait(send, latest[lower])
        latest[lower], latest[upper] = send, receive
    return rows.build("broadcast", BINOMIAL, team, blocks=team.vectors())


def binomial_reduce(team: Team) -> Schedule:
    """The binomial broadcast backwards; what arrives is added."""
    rows = RowBuilder()
    rank = team.groups[0]
    latest = np.full(team.members, -1)
    steps = _tree_steps(team)
    for step in range(steps):
        distance = 2 ** (steps - 1 - step)
        upper = np.arange(distance, min(2 * distance, team.members))
        lower = upper - distance
        send = rows.add(SEND, rank=rank[upper], to=rank[lower], bytes_out=team.size, block=0, level=2 * step)
        receive = rows.add(RECV, rank=rank[lower], adds=True, level=2 * step)
        reduction = rows.add(REDUCE, rank=rank[lower], scale=team.share, level=2 * step + 1)
        rows.deliver(send, receive)
        rows.wait(send, latest[upper])
        rows.wait(receive, latest[lower])
        rows.wait(reduction, receive)
        latest[lower] = reduction
    return rows.build("reduce", BINOMIAL, team, blocks=team.vectors())


def direct_scatter(team: Team, *, window: int = 1) -> Schedule:
    """The first member sends every other one its piece, `window` at a time."""
    rows = RowBuilder()
    level, root, others = _one_by_one(team, window)
    send = rows.add(
        SEND, rank=root, to=others, bytes_out=team.size / team.members, block=np.arange(1, team.members), level=level
    )
    rows.deliver(send, rows.add(RECV, rank=others, level=level))
    rows.wait(send[window:], send[:-window])
    return rows.build("scatter", DIRECT, team)


def direct_gather(team: Team, *, window: int = 1) -> Schedule:
    """The first member receives every other one's piece, `window` at a time."""
    rows = RowBuilder()
    level, root, others = _one_by_one(team, window)
    send = rows.add(
        SEND, rank=others, to=root, bytes_out=team.size / team.members, block=np.arange(1, team.members), level=0
    )
    receive = rows.add(RECV, rank=np.broadcast_to(root, others.shape), level=level)
    rows.deliver(send, receive)
    rows.wait(receive[window:], receive[:-window])
    return rows.build("gather", DIRECT, team)


def scatter_all_gather_broadcast(team: Team) -> Schedule:
    """A scatter, then an all-gather on a ring: 2 S (n - 1) / n bytes from a member instead of S ⌈log₂ n⌉."""
    parts = [("scatter", direct_scatter(team)), ("all-gather", unidirectional_all_gather(team))]
    return in_sequence("broadcast", SCATTER_ALL_GATHER, team, parts)


def reduce_scatter_gather_reduce(team: Team) -> Schedule:
    """A reduce-scatter on a ring, then a gather."""
    parts = [("reduce-scatter", unidirectional_reduce_scatter(team)), ("gather", direct_gather(team))]
    return in_sequence("reduce", REDUCE_SCATTER_GATHER, team, parts)


def _tree_steps(team: Team) -> int:
    return (team.members - 1).bit_length()


def _one_by_one(team: Team, window: int) -> tuple[Array, Array, Array]:
    """Levels of the messages of the other members, the first member, and the others."""
    return np.arange(team.members - 1) // window, team.groups[0, :1], team.groups[0, 1:]
