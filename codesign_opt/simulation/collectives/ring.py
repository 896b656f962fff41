"""Rings: every member sends to the next one and receives from the one before."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign_opt.simulation.collectives.composition import side_by_side
from codesign_opt.simulation.collectives.rows import RowBuilder
from codesign_opt.simulation.collectives.schedule import REDUCE, SENDRECV, Schedule
from codesign_opt.simulation.collectives.team import Team

UNIDIRECTIONAL = "unidir-ring"
BIDIRECTIONAL = "bidir-ring"


def unidirectional_all_gather(team: Team) -> Schedule:
    """In each of n - 1 steps a member passes on the block that it got in the step before, at first its own."""
    return _ring("all-gather", team, reduces=False)


def unidirectional_reduce_scatter(team: Team) -> Schedule:
    """In each of n - 1 steps a member adds its own part to the block that arrives, and passes it on."""
    return _ring("reduce-scatter", team, reduces=True)


def bidirectional_all_gather(team: Team) -> Schedule:
    """Two rings in opposite directions, each with half of every block."""
    return _both_ways("all-gather", team, unidirectional_all_gather)


def bidirectional_reduce_scatter(team: Team) -> Schedule:
    """Two rings in opposite directions, each with half of every block."""
    return _both_ways("reduce-scatter", team, unidirectional_reduce_scatter)


def _ring(opcode: str, team: Team, *, reduces: bool) -> Schedule:
    rows = RowBuilder()
    step = np.arange(team.members - 1)[:, np.newaxis, np.newaxis]
    position = np.arange(team.members)
    levels_per_step = 2 if reduces else 1
    exchange = rows.add(
        SENDRECV,
        rank=team.groups,
        to=np.roll(team.groups, -1, axis=1),
        bytes_out=team.size / team.members,
        block=team.first_block + (position - step - reduces) % team.members,
        adds=reduces,
        level=step * levels_per_step,
    )
    rows.deliver(np.roll(exchange, 1, axis=2), exchange)
    done = exchange
    if reduces:
        done = rows.add(REDUCE, rank=team.groups, scale=team.share / team.members, level=step * levels_per_step + 1)
        rows.wait(done, exchange)
    rows.wait(exchange[1:], done[:-1])
    return rows.build(opcode, UNIDIRECTIONAL, team)


def _both_ways(opcode: str, team: Team, ring: Callable[[Team], Schedule]) -> Schedule:
    clockwise = ring(team.part(0, 2))
    counterclockwise = ring(team.part(1, 2).reversed())
    return side_by_side(opcode, BIDIRECTIONAL, team, [("cw", clockwise), ("ccw", counterclockwise)])
