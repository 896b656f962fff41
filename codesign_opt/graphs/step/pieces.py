"""What a block does in one pass: pieces of computation and communication, in order, with their times when alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from codesign_opt.strategies import TpOverlap

PARTS: Final = (
    "forward", "backward", "recompute", "optimizer", "tp_communication", "recompute_communication",
    "cp_communication", "ep_communication", "pp_communication", "dp_communication",
    "forward_offload", "backward_offload", "order",
)  # fmt: skip
"""What an instruction of a step counts as; `order` does nothing but wait for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some work of a pass on one processor.

    Attributes:
        name: Of the operation.
        part: What its computation counts as; one of `PARTS`.
        compute: Seconds of computation.
        communication: What its communication counts as, or "" for none.
        group: The processors that communicate: tp, cp, ep or etp.
        collective: Opcode of the collective, or "ring": messages from neighbour to neighbour.
        size: Bytes of its vector, of a ring beside tiles without the tile that stays.
        transfers: In how many parts they go, each with the network's latency.
        link: Seconds of the collective when alone on its network tier.
        exposed: Seconds of communication that the piece's computation does not hide: all of it, where there is none.
    """

    name: str
    part: str
    compute: float = 0.0
    communication: str = ""
    group: str = ""
    collective: str = ""
    size: float = 0.0
    transfers: float = 0.0
    link: float = 0.0
    exposed: float = 0.0

    @property
    def seconds(self) -> float:
        """How long it takes when alone."""
        return self.compute + self.exposed


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """What a block does in each pass: a forward and a backward one, and the latter's two halves apart."""

    forward: tuple[Piece, ...]
    backward: tuple[Piece, ...]
    activation_gradient: tuple[Piece, ...] = ()
    weight_gradient: tuple[Piece, ...] = ()


def block_passes(
    operations: Iterable[Mapping[str, Any]],
    block: str = "base",
    *,
    overlap: TpOverlap = TpOverlap.NONE,
    cp: int = 1,
) -> Passes:
    """The passes of a block, or of an end of the stack.

    A backward pass is what is recomputed, then activation and weight gradients from the last operation to the first.

    Args:
        operations: Rows of `analytical.operation_list`.
        block: "base", or "edge" for the last block of a chunk.
        overlap: How products hide tensor-parallel communication.
        cp: Context-parallel degree.
    """
    of = _Operations(block, overlap, cp)
    rows = of.joined(operations)
    again = [of.again(row) for row in rows]
    gradients = [(of.activation_gradient(row), of.weight_gradient(row)) for row in reversed(rows)]
    return Passes(
        forward=_merged(of.forward(row) for row in rows),
        backward=_merged([*again, *(piece for both in gradients for piece in both)]),
        activation_gradient=_merged([*again, *(activation for activation, _ in gradients)]),
        weight_gradient=_merged(weight for _, weight in gradients),
    )


def condensed(pieces: Sequence[Piece]) -> list[Piece]:
    """The same work in at most one piece of computation for each part, and one for each collective and part.

    Computation comes first; what is hidden stays beside its own computation. The time alone is the same.
    """
    groups: dict[tuple[str, str, str, str, bool], list[Piece]] = {}
    for piece in pieces:
        key = (piece.part, piece.communication, piece.group, piece.collective, piece.compute > 0)
        groups.setdefault(key, []).append(piece)
    return [replace(_sum(members), name=members[0].part) for members in groups.values()]


def repeated(pieces: Sequence[Piece], times: int) -> list[Piece]:
    """Each piece as long as `times` of it."""
    return [_sum([piece] * times) for piece in pieces] if times else []


@dataclass(frozen=True, slots=True)
class _Operations:
    """Pieces of the rows of an operation list: those of one kind of block."""

    block: str
    overlap: TpOverlap
    cp: int

    def joined(self, operations: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The rows, with the messages of a ring in the row of the operation that they go beside."""
        rows: list[Mapping[str, Any]] = []
        for row in operations:
            if row["group"] == "cp" and row[f"{self.block}_forward_collective"] == "ring":
                rows[-1] = self._with_ring(rows[-1], row)
            else:
                rows.append({**row, _AGAIN: row[f"{self.block}_forward_time"]})
        return rows

    def forward(self, row: Mapping[str, Any]) -> Piece:
        return self._piece(row, "forward", "forward", row[f"{self.block}_forward_time"])

    def again(self, row: Mapping[str, Any]) -> Piece:
        """An operation of the recomputed forward pass, and what is communicated again ahead of everything else."""
        compute = row[_AGAIN] if row["recomputed"] else 0.0
        if row["recommunicated"] and (compute or not _is_product(row)):
            return self._piece(row, "recompute", "recompute", compute)
        return Piece(name=row["name"], part="recompute", compute=compute)

    def activation_gradient(self, row: Mapping[str, Any]) -> Piece:
        return self._piece(row, "backward", "backward", row[f"{self.block}_activation_gradient_time"])

    def weight_gradient(self, row: Mapping[str, Any]) -> Piece:
        """What a product that is not recomputed gathers again hides beside its weight gradient."""
        compute = row[f"{self.block}_weight_gradient_time"]
        if row["recommunicated"] and not row["recomputed"] and _is_product(row):
            return self._piece(row, "backward", "recompute", compute)
        return Piece(name=row["name"], part="backward", compute=compute)

    def _with_ring(self, row: Mapping[str, Any], ring: Mapping[str, Any]) -> dict[str, Any]:
        """An operation with what goes round beside it, and with what starting that takes."""
        exchanged = {name: value for name, value in ring.items() if _is_of_exchange(name)}
        passes = (f"{self.block}_{what}_time" for what in ("forward", "activation_gradient"))
        seconds = {name: row[name] + ring[name] for name in passes}
        return {**row, **exchanged, **seconds, "group": "cp", "recommunicated": ring["recommunicated"]}

    def _piece(self, row: Mapping[str, Any], part: str, what: str, compute: float) -> Piece:
        of = f"{self.block}_{what}_communication"
        link = row[f"{of}_time"]
        if not link:
            return Piece(name=row["name"], part=part, compute=compute)
        collective = row[f"{self.block}_{'backward' if what == 'backward' else 'forward'}_collective"]
        transfers, sent = self._transfers(row, collective)
        return Piece(
            name=row["name"],
            part=part,
            compute=compute,
            communication="recompute_communication" if what == "recompute" else _COUNTS_AS[row["group"]],
            group=row["group"],
            collective=collective,
            size=row[f"{of}_bytes"] * sent,
            transfers=transfers,
            link=link * sent,
            exposed=row[f"{of}_exposed_time"],
        )

    def _transfers(self, row: Mapping[str, Any], collective: str) -> tuple[float, float]:
        """In how many parts a transfer goes, and which share of it is on the wire."""
        if collective == "ring":
            return self.cp - 1, 1.0
        tiles = row["tiles"]
        if self.overlap is TpOverlap.RING and _is_product(row):
            # A ring passes on all tiles but its own.
            return tiles - 1, (tiles - 1) / tiles
        return tiles, 1.0


_COUNTS_AS: Final = {
    "tp": "tp_communication", "cp": "cp_communication", "ep": "ep_communication", "etp": "ep_communication",
}  # fmt: skip


_AGAIN: Final = "recompute_time"


def _is_product(row: Mapping[str, Any]) -> bool:
    """Whether an operation with communication is a product that hides it."""
    return bool(row["tiles"] > 1)


def _is_of_exchange(column: str) -> bool:
    return "_communication_" in column or column.endswith("_collective")


_TO = " to "


def _merged(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Computation without communication joined to that before it, if of the same part; what takes no time left out."""
    result: list[Piece] = []
    for piece in pieces:
        if not piece.seconds:
            continue
        before = result[-1] if result else None
        if before is not None and before.part == piece.part and not before.collective and not piece.collective:
            name = f"{before.name.partition(_TO)[0]}{_TO}{piece.name}"
            result[-1] = Piece(name=name, part=piece.part, compute=before.compute + piece.compute)
        else:
            result.append(piece)
    return tuple(result)


def _sum(pieces: Sequence[Piece]) -> Piece:
    first = pieces[0]
    return replace(
        first,
        compute=sum(piece.compute for piece in pieces),
        size=sum(piece.size for piece in pieces),
        transfers=sum(piece.transfers for piece in pieces),
        link=sum(piece.link for piece in pieces),
        exposed=sum(piece.exposed for piece in pieces),
    )
