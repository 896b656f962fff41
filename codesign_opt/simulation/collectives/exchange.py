"""All-to-all: every member has a block for every other one, number `sender * members + receiver`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codesign_opt.graphs.graph import Array, Ragged
from codesign_opt.simulation.collectives.composition import in_sequence
from codesign_opt.simulation.collectives.hierarchical import HIERARCHICAL, node_grid
from codesign_opt.simulation.collectives.pieces import Pieces
from codesign_opt.simulation.collectives.rows import RowBuilder
from codesign_opt.simulation.collectives.schedule import SENDRECV, Schedule
from codesign_opt.simulation.collectives.team import Team

DIRECT = "direct"
RING = "ring"


def direct_all_to_all(team: Team, *, window: int = 1) -> Schedule:
    """In round k of n - 1 a member sends a block k places on, and receives one from k places back.

    Args:
        team: The group.
        window: Rounds that a member may have in flight.
    """
    count = team.members
    return _rounds(team, np.arange(count * count).reshape(1, count, count, 1), window)


def ring_all_to_all(team: Team) -> Schedule:
    """Steps to the next member, of n - 1, n - 2, … 1 blocks: those of one member that have still to go on."""
    rows = RowBuilder()
    count, rank = team.members, team.groups[0]
    step = np.arange(1, count)[:, np.newaxis]
    exchange = rows.add(
        SENDRECV,
        rank=rank,
        to=np.roll(rank, -1),
        bytes_out=team.size / count * (count - step),
        block=(step - 1) * count + rank,
        level=step - 1,
    )
    rows.deliver(np.roll(exchange, 1, axis=1), exchange)
    rows.wait(exchange[1:], exchange[:-1])
    return rows.build("all-to-all", RING, team, blocks=_passing(count))


def hierarchical_all_to_all(team: Team, *, node_size: int, window: int = 1) -> Schedule:
    """Inside a node to the member on the receiver's rail, along the rails, and inside what stays in the node.

    Args:
        team: The group.
        node_size: Processors of a node.
        window: Messages that a member may have in flight.

    Raises:
        InputError: Nodes with different numbers of members.
    """
    grid = node_grid(team.processors, node_size)
    nodes = len(grid)
    others = grid[(np.arange(nodes)[:, np.newaxis] + np.arange(1, nodes)) % nodes]
    first = grid * team.members
    # The blocks in a message; shape (groups, senders, receivers, blocks).
    to_rail = first[:, :, np.newaxis, np.newaxis] + others.transpose(0, 2, 1)[:, np.newaxis]
    along_rail = first[np.newaxis, :, np.newaxis] + grid.T[:, np.newaxis, :, np.newaxis]
    inside = first[:, :, np.newaxis, np.newaxis] + grid[:, np.newaxis, :, np.newaxis]
    phases = [
        ("rails", grid.T, along_rail, team.size),
        ("inside", grid, inside, team.size / nodes),
    ]
    if nodes > 1:
        phases.insert(0, ("to_rail", grid, to_rail, team.size * (nodes - 1) / nodes))
    parts = [
        (label, _rounds(replace(team, groups=groups, size=size), blocks, window))
        for label, groups, blocks, size in phases
    ]
    return in_sequence("all-to-all", HIERARCHICAL, team, parts)


def _rounds(team: Team, blocks: Array, window: int) -> Schedule:
    """Direct exchange in the groups of a team; shape of `blocks`: (groups, senders, receivers, blocks of a message)."""
    rows = RowBuilder()
    groups, members = team.groups.shape
    shift = np.arange(1, members)[:, np.newaxis]
    position = np.arange(members)
    receiver = (position + shift) % members
    message = (np.arange(groups)[:, np.newaxis, np.newaxis] * members + position) * members + receiver
    exchange = rows.add(
        SENDRECV,
        rank=team.groups[:, np.newaxis, :],
        to=team.groups[:, receiver],
        bytes_out=team.size / members,
        block=message,
        level=(shift - 1) // window,
    )
    rows.deliver(np.take_along_axis(exchange, ((position - shift) % members)[np.newaxis], axis=2), exchange)
    rows.wait(exchange[:, window:], exchange[:, :-window])
    count = blocks.shape[-1]
    sets = Ragged(np.arange(0, blocks.size + 1, count), blocks.ravel())
    return rows.build("all-to-all", DIRECT, team, blocks=_all_blocks(len(team.processors)).unions(sets))


def _all_blocks(count: int) -> Pieces:
    """What goes from each member to each, the vectors of all members laid end to end."""
    start = np.arange(count)[:, np.newaxis] + np.arange(count) / count
    return Pieces.intervals(start.ravel(), np.full(count * count, 1 / count))


def _passing(count: int) -> Pieces:
    """What members pass on in a ring; block (step - 1) * members + member: the last blocks of an earlier member."""
    step = np.arange(1, count)[:, np.newaxis]
    origin = (np.arange(count) - step + 1) % count
    first = (origin + step) % count
    before_end = np.minimum(count - step, count - first)
    start = np.stack((origin + first / count, origin.astype(float)), axis=2)
    length = np.stack((before_end, count - step - before_end), axis=2) / count
    return Pieces(np.arange(0, start.size + 1, 2), start.ravel(), length.ravel())
