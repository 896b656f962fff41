"""Whether a graph can be run (spec graph-simulation sections 1.3, 1.4 and 1.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np

from codesign_opt.errors import InputError
from codesign_opt.graphs.dependencies import find_cycle
from codesign_opt.graphs.graph import Graph
from codesign_opt.graphs.group_rules import group_faults
from codesign_opt.graphs.opcodes import CODES, OPCODES, PROTOCOL

_SHOWN = 5
"""Violations that a message lists."""

_TOLERANCE = 1e-6
"""How far the weights of the branches of a conditional may be from 1 altogether."""

_INNER: Final = {"conditional": (2, None), "while": (2, 2), "call": (1, None), "delay": (0, 0)}
"""Inner subroutines of these opcodes, at least and at most; others have none or one."""

_PARTNERS: Final = {
    "send-start": "send-done",
    "send-done": "send-start",
    "recv-start": "recv-done",
    "recv-done": "recv-start",
}

Faults = Iterator[tuple[int, str]]
"""Instruction (or subroutine) and what is wrong with it."""


def check_graph(graph: Graph) -> None:
    """Refuse a graph that cannot be run.

    Raises:
        InputError: Names the graph and the first few instructions that break a rule, with the rule and the values, and
            says how many more there are.
    """
    violations = [
        *(f"{_instruction(graph, place)}: {what}" for rule in _INSTRUCTION_RULES for place, what in rule(graph)),
        *(f"{_subroutine(graph, place)}: {what}" for rule in _SUBROUTINE_RULES for place, what in rule(graph)),
    ]
    if violations:
        shown = "; ".join(violations[:_SHOWN])
        more = f"; and {len(violations) - _SHOWN} more" if len(violations) > _SHOWN else ""
        raise InputError(f"graph '{graph.name}' cannot be run: {shown}{more}")


def _numbers(graph: Graph) -> Faults:
    for name in ("ops", "transcendentals", "bytes_in", "bytes_out", "seconds"):
        values = getattr(graph, name)
        for place in np.flatnonzero(~((values >= 0) & np.isfinite(values))):
            yield int(place), f"{name} is {values[place]:g}, but must be finite and not negative"


def _identifiers(graph: Graph) -> Faults:
    for place in np.flatnonzero(graph.identifier <= 0):
        yield int(place), "the id must be positive"
    order = np.argsort(graph.identifier, kind="stable")
    for place in np.flatnonzero(np.diff(graph.identifier[order]) == 0):
        yield int(order[place + 1]), f"the id is that of '{graph.names[order[place]]}' as well, but must be unique"


def _operands(graph: Graph) -> Faults:
    user = np.repeat(np.arange(len(graph)), np.diff(graph.operands.offsets))
    used = graph.operands.values
    for place in np.flatnonzero(graph.subroutine[user] != graph.subroutine[used]):
        yield int(user[place]), f"operand '{graph.names[used[place]]}' is in another subroutine"
    cycle = find_cycle(graph.operands)
    if cycle:
        yield cycle[0], "waits for itself: its operands form a cycle"


def _inner_counts(graph: Graph) -> Faults:
    counts = np.diff(graph.inner.offsets)
    lowest, highest = np.zeros(len(OPCODES)), np.ones(len(OPCODES))
    for opcode, (least, most) in _INNER.items():
        lowest[CODES[opcode]] = least
        highest[CODES[opcode]] = np.inf if most is None else most
    for place in np.flatnonzero((counts < lowest[graph.opcode]) | (counts > highest[graph.opcode])).tolist():
        opcode = graph.opcode_name(place)
        least, most = _INNER.get(opcode, (0, 1))
        allowed = f"at least {least}" if most is None else str(least) if least == most else f"{least} or {most}"
        yield place, f"{opcode} has {counts[place]} inner subroutines, but must have {allowed}"


def _branches(graph: Graph) -> Faults:
    """Weights of the branches of conditionals; in the graph of one processor their sum is not looked at."""
    if graph.processor is not None:
        return
    for place in np.flatnonzero(graph.opcode == CODES["conditional"]).tolist():
        weights = graph.probability[graph.inner[place]]
        if len(weights) and abs(weights.sum() - 1) > _TOLERANCE:
            yield place, f"the probabilities of the branches sum to {weights.sum():.9g}, but must sum to 1"


def _bonds(graph: Graph) -> Faults:
    positions = dict(zip(graph.identifier.tolist(), range(len(graph)), strict=True))
    is_protocol = np.isin(graph.opcode, [CODES[name] for name in PROTOCOL])
    for place in np.flatnonzero(is_protocol | (graph.bonded != 0)).tolist():
        opcode, bonded = graph.opcode_name(place), int(graph.bonded[place])
        partner = positions.get(bonded)
        if not is_protocol[place]:
            yield place, f"{opcode} is bonded to {bonded}, but only the protocol opcodes are bonded"
        elif not bonded:
            yield place, f"{opcode} must be bonded to its {_PARTNERS[opcode]}"
        elif partner is None:
            yield place, f"bonded to {bonded}, which does not exist"
        elif graph.opcode_name(partner) != _PARTNERS[opcode] or graph.bonded[partner] != graph.identifier[place]:
            found = f"'{graph.names[partner]}' ({graph.opcode_name(partner)}, bonded to {graph.bonded[partner]})"
            yield place, f"bonded to {found}, but must be to its {_PARTNERS[opcode]}, and that to it"


def _roots(graph: Graph) -> Faults:
    outside = graph.subroutine[graph.root] != np.arange(len(graph.root))
    used = np.zeros(len(graph), dtype=bool)
    used[graph.operands.values] = True
    for place in np.flatnonzero(outside | used[graph.root]).tolist():
        root = graph.names[graph.root[place]]
        what = "is not in it" if outside[place] else "has users, but nothing may wait for a root"
        yield place, f"its root '{root}' {what}"


def _counts(graph: Graph) -> Faults:
    in_loop = (graph.caller >= 0) & (graph.opcode[graph.caller] == CODES["while"])
    for place in np.flatnonzero(np.where(in_loop, graph.count < 1, graph.count != 1)).tolist():
        expected = "at least 1" if in_loop[place] else "1, since it is not part of a while"
        yield place, f"execution_count is {graph.count[place]}, but must be {expected}"


def _probabilities(graph: Graph) -> Faults:
    is_branch = (graph.caller >= 0) & (graph.opcode[graph.caller] == CODES["conditional"])
    within = (graph.probability >= 0) & (graph.probability <= 1)
    for place in np.flatnonzero(np.where(is_branch, ~within, graph.probability != 1)).tolist():
        expected = "from 0 to 1" if is_branch[place] else "1, since it is no branch of a conditional"
        yield place, f"execution_probability is {graph.probability[place]:g}, but must be {expected}"


def _groups(graph: Graph) -> Faults:
    for place, (code, groups) in enumerate(zip(graph.opcode.tolist(), graph.groups, strict=True)):
        yield from ((place, what) for what in group_faults(OPCODES[code], groups, graph.processor))


_INSTRUCTION_RULES: Iterable[Callable[[Graph], Faults]] = (
    _numbers, _identifiers, _operands, _inner_counts, _groups, _bonds, _branches,
)  # fmt: skip
_SUBROUTINE_RULES: Iterable[Callable[[Graph], Faults]] = (_roots, _counts, _probabilities)


def _instruction(graph: Graph, place: int) -> str:
    return f"instruction '{graph.names[place]}' (id {graph.identifier[place]})"


def _subroutine(graph: Graph, place: int) -> str:
    caller = graph.caller[place]
    inside = f" of '{graph.names[caller]}'" if caller >= 0 else ""
    return f"subroutine '{graph.subroutine_names[place]}'{inside}"
