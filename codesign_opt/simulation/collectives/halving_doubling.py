"""Recursive halving and doubling: pairs at distance n/2, n/4, … 1 share out the vector, and gather it the other way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codesign_opt.errors import InputError
from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.collectives.rows import RowBuilder
from codesign_opt.simulation.collectives.schedule import REDUCE, SENDRECV, Schedule
from codesign_opt.simulation.collectives.team import Team

HALVING_DOUBLING = "halving-doubling"


def recursive_doubling_all_gather(team: Team) -> Schedule:
    """log₂ n steps of S/n, 2S/n, … S/2: a pair exchanges all that each of the two has."""
    return _pairwise("all-gather", team, [2**k for k in range(_steps(team))], reduces=False)


def recursive_halving_reduce_scatter(team: Team) -> Schedule:
    """log₂ n steps of S/2, S/4, … S/n: each of a pair keeps one half of what the two share."""
    return _pairwise("reduce-scatter", team, [2**k for k in reversed(range(_steps(team)))], reduces=True)


def _pairwise(opcode: str, team: Team, distances: Sequence[int], *, reduces: bool) -> Schedule:
    rows = RowBuilder()
    position = np.arange(team.members)
    previous = np.array(-1)
    for step, distance in enumerate(distances):
        partner = position ^ distance
        # A reduce-scatter sends the half that the partner keeps, an all-gather the half that the member has.
        half = (partner if reduces else position) // distance
        exchange = rows.add(
            SENDRECV,
            rank=team.groups,
            to=team.groups[:, partner],
            bytes_out=team.size * distance / team.members,
            block=_first_range(team, distance) + half,
            adds=reduces,
            level=step * (2 if reduces else 1),
        )
        rows.deliver(exchange[:, partner], exchange)
        rows.wait(exchange, previous)
        previous = exchange
        if reduces:
            scale = team.share * distance / team.members
            previous = rows.add(REDUCE, rank=team.groups, scale=scale, level=2 * step + 1)
            rows.wait(previous, exchange)
    return rows.build(opcode, HALVING_DOUBLING, team, blocks=team.blocks.unions(_ranges(team)))


def _steps(team: Team) -> int:
    steps = team.members.bit_length() - 1
    if team.members != 2**steps:
        raise InputError(
            f"'{HALVING_DOUBLING}': a group of {team.members} members", "the number of members must be a power of two"
        )
    return steps


def _ranges(team: Team) -> Ragged:
    """Members' blocks taken together, 1, 2, 4, … at a time."""
    blocks = np.arange(len(team.blocks))
    widths = [2**k for k in range(_steps(team))]
    lengths = np.concatenate([np.full(len(blocks) // width, width) for width in widths] or [blocks[:0]])
    return Ragged(np.concatenate(([0], np.cumsum(lengths))), np.tile(blocks, len(widths)))


def _first_range(team: Team, width: int) -> np.ndarray:
    """Where the blocks of each group begin among those taken `width` at a time."""
    narrower = sum(len(team.blocks) // smaller for smaller in (2**k for k in range(width.bit_length() - 1)))
    first: np.ndarray = narrower + team.first_block // width
    return first
