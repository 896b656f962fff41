"""Translated programs as plain lists of work, without hierarchy, and how to compare them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from codesign_opt.graphs import Graph, GraphBuilder

Row = tuple[Any, ...]
"""What a piece of work is, then the places of the rows that it waits for."""


def composite(opcode: str, group: Sequence[int], size: float) -> Graph:
    """One collective; reducing takes size / 4 operations and size nanoseconds."""
    builder = GraphBuilder("program")
    entry = builder.subroutine("main")
    collective = builder.instruction(entry, "collective", opcode, bytes_out=size, groups=[group])
    if opcode in ("all-reduce", "reduce-scatter", "reduce"):
        reduction = builder.subroutine("sum", caller=collective)
        builder.instruction(
            reduction, "add", "delay", ops=size / 4, seconds=size * 1e-9, bytes_in=2 * size, bytes_out=size
        )
    return builder.build()


def flat_rows(graph: Graph, describe: Callable[[Graph, int], Row]) -> list[Row]:
    """All work of a graph in the order of the file, each with the nearest work that it waits for.

    An instruction with inner subroutines is over when all inside is, and what is inside waits for its operands; `null`
    is no work. Subroutines of one instruction follow each other.
    """
    begin: dict[int, set[int]] = {}
    end: dict[int, set[int]] = {}
    work = [place for place in range(len(graph)) if not len(graph.inner[place]) and graph.opcode_name(place) != "null"]

    def walk(subroutine: int, before: set[int]) -> set[int]:
        for place in graph.members[subroutine].tolist():
            waits = before.union(*(end[operand] for operand in graph.operands[place].tolist()))
            begin[place] = waits
            done = waits
            for inner in graph.inner[place].tolist():
                done = walk(inner, done)
            end[place] = {place} if place in work_set else done
        return before.union(*(end[place] for place in graph.members[subroutine].tolist()))

    work_set = set(work)
    walk(0, set())
    number = {place: index for index, place in enumerate(work)}
    reach: dict[int, set[int]] = {}
    rows = []
    for place in work:
        direct = begin[place]
        beyond = set().union(*(reach[operand] for operand in direct))
        reach[place] = direct | beyond
        rows.append((*describe(graph, place), sorted(number[operand] for operand in direct - beyond)))
    return rows


def canonical(rows: Sequence[Row]) -> list[str]:
    """Equal for lists that are the same but for their order: a digest of each row with all before and after it."""
    users: list[list[int]] = [[] for _ in rows]
    for index, row in enumerate(rows):
        for operand in row[-1]:
            users[operand].append(index)
    before = [""] * len(rows)
    after = [""] * len(rows)
    for index, row in enumerate(rows):
        before[index] = _digest(row[:-1], sorted(before[operand] for operand in row[-1]))
    for index in reversed(range(len(rows))):
        after[index] = _digest(rows[index][:-1], sorted(after[user] for user in users[index]))
    return sorted(first + second for first, second in zip(before, after, strict=True))


def longest_communication_chain(rows: Sequence[Row]) -> int:
    """Communications on the path with most of them."""
    length = [0] * len(rows)
    for index, row in enumerate(rows):
        own = 0 if row[0] == "delay" else 1
        length[index] = own + max((length[operand] for operand in row[-1]), default=0)
    return max(length, default=0)


def _digest(values: Sequence[Any], others: Sequence[str]) -> str:
    texts = [f"{value:.10e}" if isinstance(value, int | float) else str(value) for value in values]
    return hashlib.sha256("|".join([*texts, *others]).encode()).hexdigest()[:24]
