"""Which communication groups an instruction may have (spec graph-simulation sections 1.5 and 1.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from codesign_opt.graphs.graph import Groups
from codesign_opt.graphs.opcodes import COLLECTIVES, COMMUNICATION


def group_faults(opcode: str, groups: Groups, processor: int | None) -> Iterator[str]:
    """What is wrong with the groups of an instruction, in the graph of one processor or, where it is None, of all."""
    if opcode not in COMMUNICATION:
        if groups:
            yield f"{opcode} has {len(groups)} communication groups, but does not communicate"
        return
    negative = sorted({member for group in groups for member in group if member < 0})
    if negative:
        yield f"processor {negative[0]} in a communication group, but processors are counted from 0"
    if processor is None:
        yield from _composite(opcode, groups)
    elif len(groups) != 1:
        yield f"{opcode} of processor {processor} has {len(groups)} communication groups, but must have one"
    elif opcode in COLLECTIVES:
        yield from _members(opcode, groups)
        if processor not in groups[0]:
            yield f"{opcode} of processor {processor} has the group {_text(groups[0])}, but must contain the processor"
    else:
        expected = 2 if opcode == "sendrecv" else 1
        if len(groups[0]) != expected:
            yield f"{opcode} has the group {_text(groups[0])}, but must have {expected} in it: the peers"
        if processor in groups[0]:
            yield f"{opcode} of processor {processor} has that processor itself as a peer"


def owner_position(opcode: str) -> int:
    """Where in its groups the processor stands that runs a `send`, `recv`, `sendrecv` or one half of them."""
    return 0 if opcode in ("send", "send-start", "send-done") else 1


def _composite(opcode: str, groups: Groups) -> Iterator[str]:
    if opcode in COLLECTIVES:
        yield from _members(opcode, groups)
        return
    expected = 3 if opcode == "sendrecv" else 2
    owners = set()
    for group in groups:
        if len(group) != expected:
            yield f"{opcode} has the group {_text(group)}, but must have {expected} in it"
            continue
        own = group[owner_position(opcode)]
        if group.count(own) > 1:
            yield f"{opcode} has the group {_text(group)}, in which processor {own} is a peer of itself"
        if own in owners:
            yield f"{opcode} belongs to processor {own} by two groups, but must by one at most"
        owners.add(own)


def _members(opcode: str, groups: Groups) -> Iterator[str]:
    """The groups of a collective: none empty, nobody in two of them."""
    if not all(groups):
        yield f"{opcode} has a group without processors"
    counts = Counter(chain.from_iterable(groups))
    twice = [member for member, count in counts.items() if count > 1]
    if twice:
        yield f"{opcode} has processor {min(twice)} in its groups {counts[min(twice)]} times, but must have it once"


def _text(group: tuple[int, ...]) -> str:
    shown = ", ".join(str(member) for member in group[:8])
    return f"{{{shown}, … {len(group)} processors}}" if len(group) > 8 else f"{{{shown}}}"
