"""One instruction for a whole subroutine of messages, so that there is less to execute.

A translated sendrecv is a caller of five instructions, a send or recv one of two. What they take and when they are over
follows from their messages alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codesign_opt.simulation.machine import Machine
from codesign_opt.simulation.program import Kind

Array = NDArray[Any]
Edge = tuple[Kind, Kind]


def fuse(machine: Machine) -> Machine:
    """The machine with one instruction for each subroutine that only sends, receives, or does both at once.

    Times stay the same. The instructions of such subroutines remain, but are not executed.
    """
    columns = {name: getattr(machine, name).copy() for name in _COPIED}
    columns |= {name: getattr(machine, name).copy() for name in ("kind", "bonded", "executions")}
    called_once = np.bincount(machine.caller[machine.caller >= 0], minlength=len(machine)) == 1
    single = (machine.caller >= 0) & called_once[machine.caller]
    for pattern in _PATTERNS:
        matching = single & _consists_of(machine, pattern.members) & _ordered_by(machine, pattern)
        inside = np.flatnonzero(matching[machine.subroutine])
        for part, names in _TAKEN_FROM.items():
            source = inside[machine.kind[inside] == part]
            for name in names:
                columns[name][machine.caller[machine.subroutine[source]]] = columns[name][source]
        callers = machine.caller[matching]
        columns["kind"][callers] = pattern.kind
        columns["bonded"][callers] = callers
        columns["executions"][inside] = 0
    return replace(machine, **columns)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A subroutine that one instruction of `kind` stands for: its members, edges it must have and may have."""

    kind: Kind
    members: tuple[Kind, ...]
    needed: tuple[Edge, ...]
    allowed: tuple[Edge, ...] = ()


_SENT: Final = (Kind.SEND_START, Kind.SEND_DONE)
_RECEIVED: Final = (Kind.RECEIVE_START, Kind.RECEIVE_DONE)
_PATTERNS: Final = (
    _Pattern(Kind.SEND, _SENT, (_SENT,)),
    _Pattern(Kind.RECEIVE, _RECEIVED, (_RECEIVED,)),
    _Pattern(
        Kind.EXCHANGE,
        (*_SENT, *_RECEIVED, Kind.NULL),
        (_SENT, _RECEIVED, (Kind.SEND_DONE, Kind.NULL), (Kind.RECEIVE_DONE, Kind.NULL)),
        ((Kind.RECEIVE_START, Kind.SEND_START), (Kind.SEND_START, Kind.RECEIVE_DONE)),
    ),
)
_TAKEN_FROM: Final = {
    Kind.SEND_START: ("sends", "pair", "route", "bytes", "stream", "priority"),
    Kind.RECEIVE_START: ("asks",),
}
"""Columns of the one instruction, by the part that it gets them from."""

_COPIED: Final = tuple(name for names in _TAKEN_FROM.values() for name in names)


def _consists_of(machine: Machine, members: tuple[Kind, ...]) -> Array:
    """Whether a subroutine has exactly these members, in any order."""
    kinds = len(Kind)
    counts = np.bincount(machine.subroutine * kinds + machine.kind, minlength=len(machine.size) * kinds)
    wanted = np.bincount(members, minlength=kinds)
    return np.asarray((counts.reshape(-1, kinds) == wanted).all(axis=1))


def _ordered_by(machine: Machine, pattern: _Pattern) -> Array:
    """Whether a subroutine has all edges that are needed, and no others than are allowed."""
    source = np.repeat(np.arange(len(machine)), np.diff(machine.users.offsets))
    subroutine = machine.subroutine[source]
    edge = machine.kind[source] * len(Kind) + machine.kind[machine.users.values]

    def has(edges: Array) -> Array:
        return np.bincount(subroutine[edges], minlength=len(machine.size)) > 0

    codes = [first * len(Kind) + second for first, second in pattern.needed]
    others = ~np.isin(edge, [*codes, *(first * len(Kind) + second for first, second in pattern.allowed)])
    ordered = ~has(others)
    for code in codes:
        ordered &= has(edge == code)
    return ordered
