"""The push protocol: messages as a start and a done on either side, and the numbers that match the two sides."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from codesign_opt.graphs.builder import GraphBuilder
from codesign_opt.graphs.dependencies import post_order
from codesign_opt.graphs.graph import Array, Graph, Groups
from codesign_opt.graphs.opcodes import CODES

PUSH = "push"


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """What a `send`, `recv` or `sendrecv` does.

    Attributes:
        source, to: Whom it receives from and sends to, or numbers that stand for them; None where it does not.
        bytes_sent, bytes_received: Bytes of the two messages.
    """

    source: int | None
    to: int | None
    bytes_sent: float
    bytes_received: float

    @property
    def opcode(self) -> str:
        """Of the instruction that does it."""
        if self.source is None:
            return "send"
        return "recv" if self.to is None else "sendrecv"


def transfer_groups(source: int | None, to: int | None) -> tuple[Groups, Groups, Groups]:
    """Communication groups of an instruction between processors, of its receiving and of its sending half."""
    receives: Groups = () if source is None else ((source,),)
    sends: Groups = () if to is None else ((to,),)
    both: Groups = ((source, to),) if source is not None and to is not None else receives + sends
    return both, receives, sends


def expand_push(builder: GraphBuilder, instruction: int, name: str, transfer: Transfer) -> None:
    """Give a `send`, `recv` or `sendrecv` its inner subroutine; a receive is posted before the send starts.

    Args:
        builder: The graph of one processor.
        instruction: Number of the instruction in the builder.
        name: Its name.
        transfer: What it does.
    """
    subroutine = builder.subroutine(f"{name}_{PUSH}", caller=instruction)

    def add(what: str, opcode: str, peer: int, operands: list[int], *, sent: float = 0, received: float = 0) -> int:
        return builder.instruction(
            subroutine,
            f"{name}_{what}",
            opcode,
            operands=operands,
            bytes_in=sent,
            bytes_out=received,
            groups=[(peer,)],
        )

    before: list[int] = []
    if transfer.source is not None:
        posted = add("recvstart", "recv-start", transfer.source, [])
        before = [posted]
    if transfer.to is not None:
        start = add("sendstart", "send-start", transfer.to, before, sent=transfer.bytes_sent)
        sent = add("senddone", "send-done", transfer.to, [start])
        builder.bond(start, sent)
        before = [*before, start]
    if transfer.source is not None:
        received = add("recvdone", "recv-done", transfer.source, before, received=transfer.bytes_received)
        builder.bond(posted, received)
        if transfer.to is not None:
            builder.instruction(subroutine, f"{name}_root", "null", operands=[received, sent])


def message_order(graph: Graph) -> Array:
    """The instructions of a processor's graph that start a message, in post order over all subroutines."""
    starts = (CODES["send-start"], CODES["recv-start"])
    opcode = graph.opcode.tolist()
    return np.array([place for place in _post_order(graph, 0) if opcode[place] in starts], dtype=np.int64)


def tag_messages(graph: Graph, order: Array) -> Graph:
    """Number the messages of a processor's graph, from 1 for each peer and direction.

    A `-done` gets the number of its `-start`. An instruction in a loop has one number for all iterations.

    Args:
        graph: The graph.
        order: Its `message_order`.
    """
    peer = np.array([graph.groups[start][0][0] for start in order.tolist()], dtype=np.int64)
    kind = 2 * peer + (graph.opcode[order] == CODES["send-start"])
    sorted_by_kind = np.argsort(kind, kind="stable")
    kind = kind[sorted_by_kind]
    count = np.arange(len(kind)) - np.searchsorted(kind, kind) + 1
    starts = order[sorted_by_kind]
    by_identifier = np.argsort(graph.identifier)
    dones = by_identifier[np.searchsorted(graph.identifier, graph.bonded[starts], sorter=by_identifier)]
    tags = np.zeros(len(graph), dtype=np.uint64)
    tags[starts] = tags[dones] = count
    return replace(graph, tag=tags)


def _post_order(graph: Graph, subroutine: int) -> list[int]:
    """The instructions of a subroutine in post order, each after those inside of it."""
    order: list[int] = []
    for instruction in post_order(graph.operands, int(graph.root[subroutine]), graph.members[subroutine].tolist()):
        for inner in graph.inner[instruction].tolist():
            order += _post_order(graph, inner)
        order.append(instruction)
    return order
