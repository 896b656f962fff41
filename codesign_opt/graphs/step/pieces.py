"""What a block does in one pass: pieces of computation and communication, in order, with their times when alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from codesign_opt.strategies import TpOverlap
from codesign_opt.tables import Table

PARTS: Final = (
    "forward", "backward", "recompute", "optimizer", "tp_communication", "recompute_communication",
    "cp_communication", "ep_communication",
    "pp_communication", "dp_communication", "forward_offload", "backward_offload", "order",
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
        collective: Opcode of the collective.
        size: Bytes of its vector, of a ring beside tiles without the tile that stays.
        transfers: In how many parts they go, each with the network's latency.
        link: Seconds of the collective when alone on its network tier.
        exposed: Seconds of communication that the piece's computation does not hide: all of it, where there is none.
    """

    name: str
    part: str
    compute: float = 0.0
    communication: str = ""
    collective: str = ""
    size: float = 0.0
    transfers: float = 0.0
    link: float = 0.0
    exposed: float = 0.0

    @property
    def seconds(self) -> float:
        """How long it takes when alone."""
        return self.compute + self.exposed


def forward_pieces(operations: Table, block: str, overlap: TpOverlap) -> list[Piece]:
    """The forward pass of a block.

    Args:
        operations: From `analytical.operation_list`.
        block: "base", or "edge" for the last block of a chunk.
        overlap: How products hide communication.
    """
    rows = _Rows(block, overlap)
    return _merged(rows.forward(row) for row in operations.to_dicts())


def backward_pieces(operations: Table, block: str, overlap: TpOverlap) -> list[Piece]:
    """What is recomputed, then activation and weight gradients from the last operation to the first."""
    rows = _Rows(block, overlap)
    listed = list(operations.to_dicts())
    again = [piece for row in listed for piece in rows.again(row)]
    return _merged([*again, *(piece for row in reversed(listed) for piece in rows.backward(row))])


def condensed(pieces: Sequence[Piece]) -> list[Piece]:
    """The same work in at most one piece of computation for each part, and one for each collective and part.

    Computation comes first; what is hidden stays beside its own computation. The time alone is the same.
    """
    groups: dict[tuple[str, str, str, bool], list[Piece]] = {}
    for piece in pieces:
        groups.setdefault((piece.part, piece.communication, piece.collective, piece.compute > 0), []).append(piece)
    return [replace(_sum(members), name=members[0].part) for members in groups.values()]


def repeated(pieces: Sequence[Piece], times: int) -> list[Piece]:
    """Each piece as long as `times` of it."""
    return [_sum([piece] * times) for piece in pieces] if times else []


@dataclass(frozen=True, slots=True)
class _Rows:
    """Pieces of the rows of an operation list: those of one kind of block."""

    block: str
    overlap: TpOverlap

    def forward(self, row: Mapping[str, Any]) -> Piece:
        return self._piece(row, "forward", "forward", row[f"{self.block}_forward_time"])

    def again(self, row: Mapping[str, Any]) -> Iterator[Piece]:
        """An operation of the recomputed forward pass, and what is communicated again ahead of everything else."""
        compute = row[f"{self.block}_forward_time"] if row["recomputed"] else 0.0
        if row["recommunicated"] and (compute or not _is_product(row)):
            yield self._piece(row, "recompute", "recompute", compute)
        else:
            yield Piece(name=row["name"], part="recompute", compute=compute)

    def backward(self, row: Mapping[str, Any]) -> Iterator[Piece]:
        """The gradients. What a product that is not recomputed gathers again hides beside its weight gradient."""
        yield self._piece(row, "backward", "backward", row[f"{self.block}_activation_gradient_time"])
        compute = row[f"{self.block}_weight_gradient_time"]
        if row["recommunicated"] and not row["recomputed"] and _is_product(row):
            yield self._piece(row, "backward", "recompute", compute)
        else:
            yield Piece(name=row["name"], part="backward", compute=compute)

    def _piece(self, row: Mapping[str, Any], part: str, what: str, compute: float) -> Piece:
        of = f"{self.block}_{what}_communication"
        link = row[f"{of}_time"]
        if not link:
            return Piece(name=row["name"], part=part, compute=compute)
        # A ring passes on all tiles but its own.
        tiles = row["tiles"]
        transfers = tiles - 1 if self.overlap is TpOverlap.RING and _is_product(row) else tiles
        collective = row[f"{self.block}_{'backward' if what == 'backward' else 'forward'}_collective"]
        return Piece(
            name=row["name"],
            part=part,
            compute=compute,
            communication="recompute_communication" if what == "recompute" else "tp_communication",
            collective=collective,
            size=row[f"{of}_bytes"] * transfers / tiles,
            transfers=transfers,
            link=link * transfers / tiles,
            exposed=row[f"{of}_exposed_time"],
        )


def _is_product(row: Mapping[str, Any]) -> bool:
    """Whether an operation with communication is a product that hides it."""
    return bool(row["tiles"] > 1)


_TO = " to "


def _merged(pieces: Iterator[Piece] | Sequence[Piece]) -> list[Piece]:
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
    return result


def _sum(pieces: Sequence[Piece]) -> Piece:
    first = pieces[0]
    return Piece(
        name=first.name,
        part=first.part,
        compute=sum(piece.compute for piece in pieces),
        communication=first.communication,
        collective=first.collective,
        size=sum(piece.size for piece in pieces),
        transfers=sum(piece.transfers for piece in pieces),
        link=sum(piece.link for piece in pieces),
        exposed=sum(piece.exposed for piece in pieces),
    )
