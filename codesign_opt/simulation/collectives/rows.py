"""Write the rows of a phase, whole arrays of them at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from codesign_opt.graphs.graph import Array, Ragged
from codesign_opt.simulation.collectives.pieces import Pieces
from codesign_opt.simulation.collectives.schedule import Phase, Schedule
from codesign_opt.simulation.collectives.team import Team

_COLUMNS = {
    "opcode": np.int8,
    "rank": np.int32,
    "to": np.int32,
    "bytes_out": np.float64,
    "scale": np.float64,
    "block": np.int32,
    "adds": np.bool_,
    "level": np.int32,
}


@dataclass
class RowBuilder:
    """The rows of a phase as they are added. Arguments are broadcast against each other."""

    _parts: list[dict[str, Array]] = field(default_factory=list)
    _waits: list[tuple[Array, Array]] = field(default_factory=list)
    _deliveries: list[tuple[Array, Array]] = field(default_factory=list)
    _count: int = 0

    def add(
        self,
        opcode: ArrayLike,
        *,
        rank: ArrayLike,
        level: ArrayLike,
        to: ArrayLike = -1,
        bytes_out: ArrayLike = 0.0,
        scale: ArrayLike = 0.0,
        block: ArrayLike = -1,
        adds: ArrayLike = False,
        where: ArrayLike = True,
    ) -> Array:
        """Add rows where `where` is true; their numbers, -1 elsewhere, in the shape of the arguments."""
        given = (opcode, rank, to, bytes_out, scale, block, adds, level)
        *columns, chosen = np.broadcast_arrays(*given, where)
        numbers = np.full(chosen.shape, -1, dtype=np.int64)
        added = int(np.count_nonzero(chosen))
        numbers[chosen] = np.arange(self._count, self._count + added)
        self._count += added
        self._parts.append(
            {name: column[chosen].astype(kind) for (name, kind), column in zip(_COLUMNS.items(), columns, strict=True)}
        )
        return numbers

    def wait(self, rows: Array, operands: Array) -> None:
        """Let rows wait for others of the same member; pairs with a -1 are left out."""
        self._waits.append(_pairs(rows, operands))

    def deliver(self, senders: Array, receivers: Array) -> None:
        """Let rows receive what others send; pairs with a -1 are left out."""
        self._deliveries.append(_pairs(senders, receivers))

    def build(self, opcode: str, algorithm: str, team: Team, *, blocks: Pieces | None = None) -> Schedule:
        """The rows as a schedule of one phase, ordered by level.

        Args:
            opcode: Of the collective.
            algorithm: How it is done.
            team: Whose rows they are.
            blocks: What messages carry; the blocks of the team by default.
        """
        columns = {
            name: np.concatenate([part[name] for part in self._parts] or [np.zeros(0, dtype=kind)])
            for name, kind in _COLUMNS.items()
        }
        order = np.argsort(columns["level"], kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
        place = np.empty(self._count, dtype=np.int64)
        place[order] = np.arange(self._count)
        sender = np.full(self._count, -1, dtype=np.int64)
        for senders, receivers in self._deliveries:
            sender[place[receivers]] = place[senders]
        return Schedule(
            processors=team.processors,
            **columns,
            **received(columns, sender),
            operands=_operands(self._waits, place),
            sender=sender,
            phase=np.zeros(self._count, dtype=np.int32),
            phases=(
                Phase(label="", opcode=opcode, algorithm=algorithm, parent=-1, size=team.size, groups=team.groups),
            ),
            blocks=team.blocks if blocks is None else blocks,
        )


def received(columns: dict[str, Any], sender: Array) -> dict[str, Array]:
    """The columns of a schedule that say what its rows receive."""
    receives = sender >= 0
    return {
        "source": np.where(receives, columns["rank"][sender], -1).astype(np.int32)
        if len(sender)
        else np.zeros(0, dtype=np.int32),
        "bytes_in": np.where(receives, columns["bytes_out"][sender], 0.0) if len(sender) else np.zeros(0),
    }


def ragged_pairs(users: Array, operands: Array, count: int) -> Ragged:
    """For each of `count` rows its operands, in the order in which the pairs are given."""
    order = np.argsort(users, kind="stable")
    offsets = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(users, minlength=count), out=offsets[1:])
    return Ragged(offsets, operands[order])


def _operands(waits: list[tuple[Array, Array]], place: Array) -> Ragged:
    users = np.concatenate([place[users] for users, _ in waits] or [np.zeros(0, dtype=np.int64)])
    operands = np.concatenate([place[operands] for _, operands in waits] or [np.zeros(0, dtype=np.int64)])
    return ragged_pairs(users, operands, len(place))


def _pairs(first: Array, second: Array) -> tuple[Array, Array]:
    first, second = np.broadcast_arrays(first, second)
    both = (first >= 0) & (second >= 0)
    return first[both], second[both]
