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
    matching = _matching(machine)
    inside = np.flatnonzero(matching[machine.subroutine] >= 0)
    columns = {name: getattr(machine, name).copy() for name in _COPIED}
    columns |= {name: getattr(machine, name).copy() for name in ("kind", "bonded", "executions")}
    for part, names in _TAKEN_FROM.items():
        source = inside[machine.kind[inside] == part]
        target = machine.caller[machine.subroutine[source]]
        for name in names:
            columns[name][target] = columns[name][source]
    fused = np.flatnonzero(matching >= 0)
    callers = machine.caller[fused]
    columns["kind"][callers] = matching[fused]
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


def _matching(machine: Machine) -> Array:
    """The kind of instruction that stands for each subroutine; -1 for none."""
    inner = machine.caller >= 0
    called_once = np.bincount(machine.caller[inner], minlength=len(machine)) == 1
    members = np.bincount(machine.subroutine, weights=_MEMBER_WEIGHT[machine.kind], minlength=len(machine.size))
    matching = np.full(len(machine.size), -1, dtype=np.int64)
    for pattern in _PATTERNS:
        alike = (machine.size == len(pattern.members)) & (members == sum(_MEMBER_WEIGHT[list(pattern.members)]))
        matching[inner & called_once[machine.caller] & alike] = pattern.kind
    # Edges are within subroutines, so those of candidates are all that count.
    source = np.repeat(np.arange(len(machine)), np.diff(machine.users.offsets))
    subroutine = machine.subroutine[source]
    of_candidate = matching[subroutine] >= 0
    source, subroutine = source[of_candidate], subroutine[of_candidate]
    edge = machine.kind[source] * len(Kind) + machine.kind[machine.users.values[of_candidate]]
    edges = np.bincount(subroutine, weights=_EDGE_WEIGHT[edge], minlength=len(machine.size))
    for pattern in _PATTERNS:
        needed = sum(_EDGE_WEIGHT[_edge(*pair)] for pair in pattern.needed)
        several = [0.0]
        for pair in pattern.allowed:
            several += [weight + _EDGE_WEIGHT[_edge(*pair)] for weight in several]
        matching[(matching == pattern.kind) & ~np.isin(edges, needed + np.array(several))] = -1
    return matching


def _edge(source: Kind, target: Kind) -> int:
    return source * len(Kind) + target


def _edge_weights() -> Array:
    """Powers of a number larger than any count of edges, one for each edge of a pattern; others weigh more than all."""
    edges = dict.fromkeys(edge for pattern in _PATTERNS for edge in (*pattern.needed, *pattern.allowed))
    weights = np.full(len(Kind) ** 2, 32.0 ** len(edges))
    for place, edge in enumerate(edges):
        weights[_edge(*edge)] = 32.0**place
    return weights


_EDGE_WEIGHT: Final = _edge_weights()
_MEMBER_WEIGHT: Final = 32.0 ** np.arange(len(Kind))
"""Sums of these say how many of each kind there are, up to 31."""
