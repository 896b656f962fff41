"""Collectives made of others: one after the other, or at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from codesign_opt.graphs.graph import Array, Ragged
from codesign_opt.simulation.collectives.pieces import Pieces
from codesign_opt.simulation.collectives.rows import RowBuilder, ragged_pairs
from codesign_opt.simulation.collectives.schedule import Phase, Schedule
from codesign_opt.simulation.collectives.team import Team

Part = tuple[str, Schedule]
"""A schedule, and its name among the parts of the collective; rows under an empty name are the collective's own."""

_ROWS = ("opcode", "rank", "to", "source", "bytes_out", "bytes_in", "scale", "adds")


def in_sequence(opcode: str, algorithm: str, team: Team, parts: Sequence[Part]) -> Schedule:
    """Parts, each of which starts at a member when the one before has ended at that member."""
    return _joined(opcode, algorithm, team, parts, wait=True)


def side_by_side(opcode: str, algorithm: str, team: Team, parts: Sequence[Part]) -> Schedule:
    """Parts that all start at once."""
    return _joined(opcode, algorithm, team, parts, wait=False)


def nothing(opcode: str, algorithm: str, team: Team) -> Schedule:
    """A collective without rows."""
    return RowBuilder().build(opcode, algorithm, team)


def _joined(opcode: str, algorithm: str, team: Team, parts: Sequence[Part], *, wait: bool) -> Schedule:
    whole = nothing(opcode, algorithm, team)
    parts = [(label, part) for label, part in parts if len(part)]
    if not parts:
        return whole
    schedules = [part for _, part in parts]
    first_row = _starts([len(part) for part in schedules])
    first_block = _starts([len(part.blocks) for part in schedules])
    first_level = _starts([part.levels for part in schedules]) if wait else np.zeros(len(parts), dtype=np.int64)
    phases: list[Phase] = list(whole.phases)
    columns: dict[str, list[Array]] = {name: [] for name in ("phase", "sender", "block", "level")}
    for (label, part), row, block, level in zip(parts, first_row, first_block, first_level, strict=True):
        numbers = _adopt(phases, label, part.phases)
        columns["phase"].append(numbers[part.phase])
        columns["sender"].append(np.where(part.sender < 0, -1, part.sender + row))
        columns["block"].append(np.where(part.block < 0, -1, part.block + block))
        columns["level"].append(part.level + level)
    return replace(
        whole,
        **{name: np.concatenate([getattr(part, name) for part in schedules]) for name in _ROWS},
        **_narrowed(whole, columns),
        operands=_operands(schedules, first_row, len(team.processors), wait=wait),
        phases=tuple(phases),
        blocks=Pieces.concatenated([part.blocks for part in schedules]),
    )


def _adopt(phases: list[Phase], label: str, added: tuple[Phase, ...]) -> Array:
    """Append the phases of a part; where each of them is now."""
    merged = 0 if label else 1
    numbers = np.arange(len(added)) + len(phases) - merged
    if merged:
        numbers[0] = 0
    for phase in added[merged:]:
        parent = 0 if phase.parent < 0 else int(numbers[phase.parent])
        phases.append(replace(phase, label=label if phase.parent < 0 else phase.label, parent=parent))
    return numbers


def _operands(schedules: Sequence[Schedule], first_row: Array, ranks: int, *, wait: bool) -> Ragged:
    """The operands within the parts, and where a part waits, its first rows' on the last ones before it."""
    users: list[Array] = []
    operands: list[Array] = []
    ends: list[tuple[Array, Array]] = []
    for part, row in zip(schedules, first_row, strict=True):
        lengths = np.diff(part.operands.offsets)
        users.append(np.repeat(np.arange(len(part)), lengths) + row)
        operands.append(part.operands.values + row)
        if not wait:
            continue
        begins = np.flatnonzero(lengths == 0)
        final = np.flatnonzero(part.final)
        if ends:
            rows, owners = (np.concatenate(column) for column in zip(*ends, strict=True))
            waiting = part.rank[begins]
            last = Ragged.grouped(owners, ranks).take(waiting)
            users.append(np.repeat(begins + row, np.diff(last.offsets)))
            operands.append(rows[last.values])
            # A member that has rows in this part has nothing left before it that others could wait for.
            left = np.isin(owners, waiting, invert=True)
            ends = [(rows[left], owners[left])]
        ends.append((final + row, part.rank[final]))
    count = int(first_row[-1]) + len(schedules[-1])
    return ragged_pairs(np.concatenate(users), np.concatenate(operands), count)


def _starts(lengths: Sequence[int]) -> Array:
    return np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64)


def _narrowed(like: Schedule, columns: dict[str, list[Array]]) -> dict[str, Any]:
    """Columns put together, in the types that a schedule has."""
    kinds = {entry.name: getattr(like, entry.name) for entry in fields(like)}
    return {name: np.concatenate(parts).astype(kinds[name].dtype) for name, parts in columns.items()}
