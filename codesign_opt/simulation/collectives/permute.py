"""Collective-permute: a list of pairs, each of which says who sends a vector to whom."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codesign_opt.errors import InputError
from codesign_opt.simulation.collectives.pieces import Pieces
from codesign_opt.simulation.collectives.rows import RowBuilder
from codesign_opt.simulation.collectives.schedule import RECV, SEND, SENDRECV, Schedule
from codesign_opt.simulation.collectives.team import Team


def collective_permute(pairs: Sequence[tuple[int, int]], size: float) -> Schedule:
    """One row for each processor that sends, receives or both; a pair of a processor with itself costs nothing.

    Member i's vector is the interval [i, i + 1). Ranks are in ascending order of the processors.

    Args:
        pairs: Sender and receiver; every processor is at most once in each role.
        size: Bytes of a vector.

    Raises:
        InputError: A processor that sends or receives twice.
    """
    for role, processors in zip(("sends", "receives"), zip(*pairs, strict=True), strict=False):
        twice = [processor for processor in processors if processors.count(processor) > 1]
        if twice:
            raise InputError(f"collective-permute: processor {twice[0]} {role} twice", "at most once each")
    members, places = np.unique(np.array(pairs, dtype=np.int64).reshape(-1, 2), return_inverse=True)
    senders, receivers = places.reshape(-1, 2).T
    count = len(members)
    to = np.full(count, -1)
    to[senders] = receivers
    to[to == np.arange(count)] = -1
    sends = to >= 0
    receives = np.isin(np.arange(count), to)
    rows = RowBuilder()
    transfer = rows.add(
        np.where(sends, np.where(receives, SENDRECV, SEND), RECV),
        rank=np.arange(count),
        to=to,
        bytes_out=np.where(sends, size, 0.0),
        block=np.where(sends, np.arange(count), -1),
        level=0,
        where=sends | receives,
    )
    rows.deliver(transfer[sends], transfer[to[sends]])
    blocks = Pieces.intervals(np.arange(count, dtype=float), np.ones(count))
    team = Team(processors=members, groups=np.arange(count)[np.newaxis], blocks=blocks, size=float(size), share=0.0)
    return rows.build("collective-permute", "direct", team)
