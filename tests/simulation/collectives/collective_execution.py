"""Collectives carried out on real vectors, in any order that their operands allow; and random collectives."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from codesign_opt.graphs import Ragged
from codesign_opt.simulation.collectives import REDUCE, Schedule, collective_schedule

LINES = ("unidir-ring", "bidir-ring", "mesh-1d", "halving-doubling")
GATHERING = ("all-gather", "reduce-scatter", "all-reduce")


@dataclass(frozen=True)
class Case:
    """A collective of a group; `mirrored` as far as that matters, so that the result is right."""

    opcode: str
    algorithm: str
    processors: tuple[int, ...]
    options: dict[str, Any]

    def schedule(self, size: float = 1.0) -> Schedule:
        return collective_schedule(self.opcode, self.algorithm, self.processors, size, options=self.options)


def run(schedule: Schedule, vectors: np.ndarray, points: int, random: Random) -> np.ndarray:
    """The vectors of all ranks at the end; shape (ranks, points of the domain), `points` to the length of a vector.

    A message holds what the sender has when the sending row starts. Which of the rows that could start or end next does
    so is drawn: a right result does not depend on it.
    """
    vectors = vectors.copy()
    users = Ragged.grouped(schedule.operands.values, len(schedule))
    user = np.repeat(np.arange(len(schedule)), np.diff(schedule.operands.offsets))
    waits = np.diff(schedule.operands.offsets)
    receiver = {sender: row for row, sender in enumerate(schedule.sender.tolist()) if sender >= 0}
    messages: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    arrived: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    started = np.zeros(len(schedule), dtype=bool)
    ended = np.zeros(len(schedule), dtype=bool)
    able = [(row, False) for row in np.flatnonzero(waits == 0).tolist()]
    while able:
        row, ends = able.pop(random.randrange(len(able)))
        rank, sender = schedule.rank[row], int(schedule.sender[row])
        if ends:
            ended[row] = True
            message = messages.get(sender)
            if message is not None and schedule.adds[row]:
                arrived[row] = message
            elif message is not None:
                vectors[rank, message[0]] = message[1]
            for follower in user[users[row]].tolist():
                waits[follower] -= 1
                if waits[follower] == 0:
                    able.append((follower, False))
            continue
        started[row] = True
        if schedule.block[row] >= 0:
            where = _places(schedule, schedule.block[row], points)
            messages[row] = (where, vectors[rank, where].copy())
        if schedule.opcode[row] == REDUCE:
            for operand in schedule.operands[row].tolist():
                where, values = arrived.pop(operand)
                vectors[rank, where] += values
        if sender < 0 or started[sender]:
            able.append((row, True))
        if row in receiver and started[receiver[row]]:
            able.append((receiver[row], True))
    assert ended.all(), "nothing can go on"
    assert not arrived, "a message that should be added was not"
    return vectors


def _places(schedule: Schedule, block: int, points: int) -> np.ndarray:
    starts, lengths = (column * points for column in schedule.blocks[block])
    assert np.allclose(starts, np.round(starts))
    assert np.allclose(lengths, np.round(lengths))
    return np.concatenate(
        [np.arange(round(start), round(start + length)) for start, length in zip(starts, lengths, strict=True)]
    )


def makespan(schedule: Schedule, *, latency: float, bandwidth: float, reduction_seconds: float) -> float:
    """Seconds until the last row ends, without contention: a row that sends or receives takes a message's time."""
    start = np.zeros(len(schedule))
    end = np.zeros(len(schedule))
    for rows in schedule.by_level:
        for row in rows:
            start[row] = end[schedule.operands[row]].max(initial=0.0)
        for row in rows:
            if schedule.opcode[row] == REDUCE:
                end[row] = start[row] + schedule.scale[row] * reduction_seconds
                continue
            together = start[row]
            if schedule.sender[row] >= 0:
                together = max(together, start[schedule.sender[row]])
            bytes_moved = max(schedule.bytes_out[row], schedule.bytes_in[row])
            end[row] = together + latency + bytes_moved / bandwidth
    return float(end.max(initial=0.0))


@st.composite
def lines(draw: st.DrawFn, opcodes: tuple[str, ...] = GATHERING, shuffled: bool = True) -> Case:
    """A group of up to 9 in one row."""
    opcode = draw(st.sampled_from(opcodes))
    algorithm = draw(st.sampled_from(LINES))
    count = 2 ** draw(st.integers(0, 3)) if algorithm == "halving-doubling" else draw(st.integers(1, 9))
    numbers = draw(st.permutations(range(12))) if shuffled else range(12)
    options = draw(_barriers())
    if algorithm == "mesh-1d" and opcode != "all-gather":
        options["mirrored"] = True
    return Case(opcode, algorithm, tuple(numbers[:count]), options)


@st.composite
def grids(draw: st.DrawFn, whole: bool = False) -> Case:
    """A group on a grid: all of it, or some rows, columns and places on a node, in any order."""
    opcode = draw(st.sampled_from(GATHERING))
    algorithm = draw(st.sampled_from(("mesh-2d", "torus-2d", "ring-2d-grid")))
    width, height = draw(st.integers(2, 4)), draw(st.integers(2, 3))
    concentration = draw(st.integers(1, 3))
    options: dict[str, Any] = {"concentration": concentration, **draw(_barriers())}
    if algorithm == "ring-2d-grid":
        width += width % 2
    else:
        options["integrated_local_exchange"] = draw(st.booleans())
    options["dimension_widths"] = [width, height]
    if algorithm == "mesh-2d" and opcode != "all-gather":
        options["mirrored"] = True
    axes = (width, height, concentration)
    x, y, c = (range(axis) if whole else sorted(draw(st.sets(st.integers(0, axis - 1), min_size=1))) for axis in axes)
    processors = [place + concentration * (column + width * row) for row in y for column in x for place in c]
    return Case(opcode, algorithm, tuple(processors if whole else draw(st.permutations(processors))), options)


@st.composite
def nodes(draw: st.DrawFn, opcodes: tuple[str, ...] = (*GATHERING, "all-to-all"), whole: bool = False) -> Case:
    """A group on several nodes with the same number of members each."""
    opcode = draw(st.sampled_from(opcodes))
    node_size = draw(st.integers(1, 4))
    count, members = draw(st.integers(1, 4)), draw(st.integers(1, node_size))
    options: dict[str, Any] = {"node_size": node_size}
    if whole:
        members = node_size
    if opcode == "all-to-all":
        options["window"] = draw(st.integers(1, 3))
    else:
        lengths = {"inside": members, "rails": count}
        options |= {name: draw(_line_of(length)) for name, length in lengths.items()}
    processors = [node * node_size + place for node in range(count) for place in range(members)]
    return Case(opcode, "hierarchical", tuple(processors if whole else draw(st.permutations(processors))), options)


@st.composite
def others(draw: st.DrawFn, opcode: str, algorithm: str, option: str | None) -> Case:
    """Another collective of a group of up to 9, with an option from 1 to 4 if it has one."""
    count = 2 ** draw(st.integers(0, 3)) if algorithm == "dissemination" else draw(st.integers(1, 9))
    options = {option: draw(st.integers(1, 4))} if option else {}
    return Case(opcode, algorithm, tuple(draw(st.permutations(range(12)))[:count]), options)


OTHERS = [
    ("all-reduce", "dissemination", None),
    ("all-reduce", "double-binary-tree", "chunks"),
    ("all-to-all", "direct", "window"),
    ("all-to-all", "ring", None),
    ("broadcast", "binomial", None),
    ("broadcast", "scatter-all-gather", None),
    ("reduce", "binomial", None),
    ("reduce", "reduce-scatter-gather", None),
    ("scatter", "direct", "window"),
    ("gather", "direct", "window"),
]

FAMILIES: dict[str, st.SearchStrategy[Case]] = {
    "lines": lines(),
    "grids": grids(),
    "nodes": nodes(opcodes=GATHERING),
    "all-to-all hierarchical": nodes(opcodes=("all-to-all",)),
    **{f"{opcode} {algorithm}": others(opcode, algorithm, option) for opcode, algorithm, option in OTHERS},
}
"""All algorithms, together as far as they are built from the same parts."""


def _barriers() -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from([{}, {"barrier": {"algorithm": "centralized"}}]).map(dict)


def _line_of(length: int) -> st.SearchStrategy[str]:
    """Line algorithms that end with the right result for so many members."""
    names = ["unidir-ring", "bidir-ring"]
    if length <= 2:
        names.append("mesh-1d")
    if length & (length - 1) == 0:
        names.append("halving-doubling")
    return st.sampled_from(names)
