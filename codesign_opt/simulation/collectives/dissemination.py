"""Dissemination all-reduce: whole vectors over distances 1, 2, 4 and so on."""

from __future__ import annotations

import numpy as np

from codesign_opt.simulation.collectives.rows import RowBuilder
from codesign_opt.simulation.collectives.schedule import REDUCE, SENDRECV, Schedule
from codesign_opt.simulation.collectives.team import Team

DISSEMINATION = "dissemination"


def dissemination_all_reduce(team: Team) -> Schedule:
    """⌈log₂ n⌉ rounds; in round k a member sends what it has 2^k places back, and adds what arrives.

    The sum is right for n a power of two. Otherwise some vectors are added twice, which is harmless for a maximum only.
    """
    rows = RowBuilder()
    groups = team.groups
    previous = np.array(-1)
    for k in range((team.members - 1).bit_length()):
        exchange = rows.add(
            SENDRECV,
            rank=groups,
            to=np.roll(groups, 2**k, axis=1),
            bytes_out=team.size,
            block=np.arange(len(groups))[:, np.newaxis],
            adds=True,
            level=2 * k,
        )
        rows.deliver(np.roll(exchange, -(2**k), axis=1), exchange)
        rows.wait(exchange, previous)
        previous = rows.add(REDUCE, rank=groups, scale=team.share, level=2 * k + 1)
        rows.wait(previous, exchange)
    return rows.build("all-reduce", DISSEMINATION, team, blocks=team.vectors())
