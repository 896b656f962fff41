"""Collectives as messages: who sends what to whom, and what waits for what."""

from codesign_opt.simulation.collectives.closed_forms import Round, closed_form, rounds
from codesign_opt.simulation.collectives.permute import collective_permute
from codesign_opt.simulation.collectives.registry import ALGORITHMS, Algorithm, collective_schedule
from codesign_opt.simulation.collectives.schedule import (
    RECV,
    REDUCE,
    ROW_OPCODES,
    SEND,
    SENDRECV,
    Phase,
    Schedule,
)

__all__ = [
    "ALGORITHMS",
    "RECV",
    "REDUCE",
    "ROW_OPCODES",
    "SEND",
    "SENDRECV",
    "Algorithm",
    "Phase",
    "Round",
    "Schedule",
    "closed_form",
    "collective_permute",
    "collective_schedule",
    "rounds",
]
