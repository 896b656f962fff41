"""Why a run came to a stop before its end."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError
from codesign_opt.simulation.machine import Machine
from codesign_opt.simulation.program import Kind

Array = NDArray[Any]

_SHOWN: Final = 4
"""Instructions that the message names."""


def deadlock(machine: Machine, *, ended: Array, waiting: Array) -> InputError:
    """The error that says which processors and instructions wait, and for which messages.

    Args:
        machine: What ran.
        ended: Seconds at which each program was over; negative for those that are not.
        waiting: Instructions that wait for messages.
    """
    stuck = waiting[machine.kind[waiting] != Kind.SEND_DONE]
    if not len(stuck):
        place = int(np.argmin(ended))
        return InputError(
            f"graph '{machine.programs[place].graph.name}': instructions wait for one another in a circle",
            "an operand stands before its users",
        )
    named = "; ".join(_waiting(machine, int(instruction)) for instruction in stuck[:_SHOWN])
    more = f"; and {len(stuck) - _SHOWN} more" if len(stuck) > _SHOWN else ""
    return InputError(
        f"deadlock: {(ended >= 0).sum()} of {len(ended)} programs are over, the others wait for messages that are not "
        f"sent: {named}{more}",
        "what sends such a message waits for one of these receives: send it before, or receive later",
    )


def _waiting(machine: Machine, instruction: int) -> str:
    asking = instruction if machine.asks[instruction] >= 0 else int(machine.bonded[instruction])
    channel = machine.asks[asking]
    source = machine.processors[machine.pair_source[machine.channel_pair[channel]]]
    return f"{machine.described(instruction)} for tag {machine.channel_tag[channel]} from processor {source}"
