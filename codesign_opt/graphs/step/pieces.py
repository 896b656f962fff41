"""What a block does in one pass: pieces of computation and communication, in order, with their times when alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from codesign_opt.tables import Table

PARTS: Final = (
    "forward", "backward", "recompute", "optimizer", "tp_communication", "recompute_communication",
    "pp_communication", "dp_communication", "offload", "order",
)  # fmt: skip
"""What an instruction of a step counts as; `order` does nothing but wait for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some work of a pass on one processor.

    Attributes:
        name: Of the operation.
        part: What its computation counts as, or its communication where it computes nothing; one of `PARTS`.
        compute: Seconds of computation.
        collective: Opcode of the collective, or "".
        size: Bytes of its vector.
        link: Seconds of the collective when alone on its network tier.
        exposed: Seconds of communication that the piece's computation does not hide: all of it, where there is none.
    """

    name: str
    part: str
    compute: float = 0.0
    collective: str = ""
    size: float = 0.0
    link: float = 0.0
    exposed: float = 0.0

    @property
    def seconds(self) -> float:
        """How long it takes when alone."""
        return self.compute + self.exposed


def forward_pieces(operations: Table, block: str) -> list[Piece]:
    """The forward pass of a block.

    Args:
        operations: From `analytical.operation_list`.
        block: "base", or "edge" for the last block of a chunk.
    """
    return _merged(piece for row in operations.to_dicts() for piece in _forward(row, block))


def backward_pieces(operations: Table, block: str) -> list[Piece]:
    """What is recomputed, then activation and weight gradients from the last operation to the first."""
    rows = list(operations.to_dicts())
    again = [piece for row in rows for piece in _again(row, block)]
    return _merged([*again, *(piece for row in reversed(rows) for piece in _backward(row, block))])


def condensed(pieces: Sequence[Piece]) -> list[Piece]:
    """The same work in at most one piece of computation for each part, and one for each collective and part.

    Computation comes first; what is hidden stays beside its own computation. The time alone is the same.
    """
    groups: dict[tuple[str, str, bool], list[Piece]] = {}
    for piece in pieces:
        groups.setdefault((piece.part, piece.collective, piece.compute > 0), []).append(piece)
    return [_sum(members) for members in groups.values()]


def repeated(pieces: Sequence[Piece], times: int) -> list[Piece]:
    """Each piece as long as `times` of it."""
    return [_sum([piece] * times) for piece in pieces] if times else []


def _forward(row: Mapping[str, Any], block: str) -> Iterator[Piece]:
    yield _piece(row, block, "forward", "forward", "forward_time")


def _again(row: Mapping[str, Any], block: str) -> Iterator[Piece]:
    """An operation of the recomputed forward pass; a product's communication where that is repeated with it."""
    if row["recomputed"]:
        yield Piece(name=row["name"], part="recompute", compute=row[f"{block}_forward_time"])
    exposed = row[f"{block}_recompute_communication_exposed_time"]
    if row["recommunicated"] and exposed:
        yield Piece(
            name=row["name"],
            part="recompute_communication",
            collective=row[f"{block}_forward_collective"],
            size=row[f"{block}_recompute_communication_bytes"],
            link=exposed,
            exposed=exposed,
        )


def _backward(row: Mapping[str, Any], block: str) -> Iterator[Piece]:
    yield _piece(row, block, "backward", "backward", "activation_gradient_time")
    yield Piece(name=row["name"], part="backward", compute=row[f"{block}_weight_gradient_time"])


def _piece(row: Mapping[str, Any], block: str, part: str, what: str, time: str) -> Piece:
    compute = row[f"{block}_{time}"]
    link = row[f"{block}_{what}_communication_time"]
    if not link:
        return Piece(name=row["name"], part=part, compute=compute)
    return Piece(
        name=row["name"],
        part=part if compute else "tp_communication",
        compute=compute,
        collective=row[f"{block}_{what}_collective"],
        size=row[f"{block}_{what}_communication_bytes"],
        link=link,
        exposed=row[f"{block}_{what}_communication_exposed_time"],
    )


def _merged(pieces: Iterator[Piece] | Sequence[Piece]) -> list[Piece]:
    """Computation without communication joined to that before it, if of the same part; what takes no time left out."""
    result: list[Piece] = []
    for piece in pieces:
        if not piece.seconds:
            continue
        before = result[-1] if result else None
        if before is not None and before.part == piece.part and not before.collective and not piece.collective:
            result[-1] = Piece(name=before.name, part=piece.part, compute=before.compute + piece.compute)
        else:
            result.append(piece)
    return result


def _sum(pieces: Sequence[Piece]) -> Piece:
    first = pieces[0]
    return Piece(
        name=first.name,
        part=first.part,
        compute=sum(piece.compute for piece in pieces),
        collective=first.collective,
        size=sum(piece.size for piece in pieces),
        link=sum(piece.link for piece in pieces),
        exposed=sum(piece.exposed for piece in pieces),
    )
