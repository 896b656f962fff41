"""The centralized barrier: everybody reports to the first member, which then lets everybody go."""

from __future__ import annotations

import numpy as np

from codesign_opt.simulation.collectives.composition import in_sequence
from codesign_opt.simulation.collectives.rows import RowBuilder
from codesign_opt.simulation.collectives.schedule import RECV, SEND, Schedule
from codesign_opt.simulation.collectives.team import Team

CENTRALIZED = "centralized"


def centralized_barrier(team: Team) -> Schedule:
    """Messages of 0 bytes to the first member of a group and back; it answers when all have reported."""
    rows = RowBuilder()
    coordinator, others = team.groups[:, :1], team.groups[:, 1:]
    report = rows.add(SEND, rank=others, to=coordinator, level=0)
    reported = rows.add(RECV, rank=np.broadcast_to(coordinator, others.shape), level=0)
    release = rows.add(SEND, rank=coordinator, to=others, level=1)
    released = rows.add(RECV, rank=others, level=1)
    rows.deliver(report, reported)
    rows.deliver(release, released)
    rows.wait(released, report)
    rows.wait(release[:, :, np.newaxis], reported[:, np.newaxis, :])
    return rows.build("barrier", CENTRALIZED, team)


def after_barrier(team: Team, schedule: Schedule) -> Schedule:
    """A schedule that every member of a group starts only when all of them are there."""
    whole = schedule.phases[0]
    parts = [("barrier", centralized_barrier(team)), ("", schedule)]
    return in_sequence(whole.opcode, whole.algorithm, team, parts)
