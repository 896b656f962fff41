"""A line without wrap-around (`mesh-1d`): blocks travel from neighbour to neighbour, up and down at the same time."""

from __future__ import annotations

import numpy as np

from codesign_opt.graphs.graph import Array
from codesign_opt.simulation.collectives.rows import RowBuilder
from codesign_opt.simulation.collectives.schedule import RECV, REDUCE, SEND, SENDRECV, Schedule
from codesign_opt.simulation.collectives.team import Team

LINE = "mesh-1d"


def line_all_gather(team: Team) -> Schedule:
    """In iteration t of n - 1 a member passes on, up and down, what comes from t places away."""
    sends, block = _gathering(team.members)
    return _line("all-gather", team, sends, block, reduces=False)


def line_reduce_scatter(team: Team) -> Schedule:
    """The messages of the all-gather, with a reduction after each that arrives.

    These are the messages of the ParaGraph translator. For more than two members no choice of contents makes them a
    reduce-scatter: only one block crosses the first link upwards, and n - 1 would have to. So they state no contents.
    """
    if team.members == 2:
        return mirrored_line_reduce_scatter(team)
    sends, block = _gathering(team.members)
    return _line("reduce-scatter", team, sends, np.full_like(block, -1), reduces=True)


def mirrored_line_reduce_scatter(team: Team) -> Schedule:
    """The all-gather backwards in time: every message goes the other way, and what arrives is added."""
    sends, block = _gathering(team.members)
    # What a member received from a neighbour in the all-gather it now sends to that neighbour.
    return _line("reduce-scatter", team, _arrivals(sends)[::-1], _arrivals(block)[::-1], reduces=True)


def _gathering(members: int) -> tuple[Array, Array]:
    """Whether a member sends in an all-gather, and whose block; shape (iterations, members, [up, down])."""
    iteration = np.arange(members - 1)[:, np.newaxis]
    position = np.arange(members)
    up = (position < members - 1) & (position - iteration >= 0)
    down = (position > 0) & (position + iteration <= members - 1)
    return np.stack((up, down), axis=2), np.stack((position - iteration, position + iteration), axis=2)


def _arrivals(sent: Array) -> Array:
    """For each member what its neighbours, above and below it, send to it."""
    arrives = np.zeros_like(sent)
    arrives[:, :-1, 0] = sent[:, 1:, 1]
    arrives[:, 1:, 1] = sent[:, :-1, 0]
    return arrives


def _line(opcode: str, team: Team, sends: Array, block: Array, *, reduces: bool) -> Schedule:
    """Rows of shape (groups, iterations, members, [up, down])."""
    rows = RowBuilder()
    receives = _arrivals(sends)
    lines = (len(team.groups), 1, 1, 1)
    rank = team.groups[:, np.newaxis, :, np.newaxis]
    level = np.arange(len(sends))[:, np.newaxis, np.newaxis] * (2 if reduces else 1)
    neighbour = np.stack((np.roll(team.groups, -1, axis=1), np.roll(team.groups, 1, axis=1)), axis=2)[:, np.newaxis]
    exchange = rows.add(
        np.where(sends, np.where(receives, SENDRECV, SEND), RECV),
        rank=rank,
        to=np.where(sends, neighbour, -1),
        bytes_out=np.where(sends, team.size / team.members, 0.0),
        block=np.where(sends & (block >= 0), block + team.first_block.reshape(lines), -1),
        adds=receives & reduces,
        level=level,
        where=sends | receives,
    )
    sent = np.where(sends, exchange, -1)
    rows.deliver(sent[:, :, 1:, 1], np.where(receives, exchange, -1)[:, :, :-1, 0])
    rows.deliver(sent[:, :, :-1, 0], np.where(receives, exchange, -1)[:, :, 1:, 1])
    done = exchange
    if reduces:
        reduction = rows.add(REDUCE, rank=rank, scale=team.share / team.members, level=level + 1, where=receives)
        rows.wait(reduction, exchange)
        done = np.where(receives, reduction, exchange)
    for direction in (0, 1):
        rows.wait(exchange[:, 1:], done[:, :-1, :, direction, np.newaxis])
    return rows.build(opcode, LINE, team)
