"""Writes the instructions of one pass, or of what follows all passes, into a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs import Graph, GraphBuilder
from codesign_opt.graphs.step.pieces import PARTS, Piece, condensed, repeated
from codesign_opt.graphs.step.work import BlockWork, StepWork, Transfer

Array = NDArray[Any]
Granularity = Literal["operation", "block", "chunk"]
Messages = Literal["asynchronous", "serial"]

GRANULARITIES: Final = ("operation", "block", "chunk")
MESSAGES: Final = ("asynchronous", "serial")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOptions:
    """How a step becomes graphs.

    Attributes:
        granularity: The smallest unit of computation and tensor-parallel communication: an operation, a block's pass,
            or a chunk's pass. When alone, a pass takes the same time in all of them.
        messages: `asynchronous`: a stage goes on while its message is under way. `serial`: it waits for the message to
            be received, and every pass pays for one, as the closed form has it.
        bucket_bytes: Gradients of consecutive blocks are exchanged together up to so many bytes; None for each block.
    """

    granularity: Granularity = "operation"
    messages: Messages = "asynchronous"
    bucket_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Instructions that occur again and again, and what they are, as columns over them.

    The first instruction stands for what comes before; positions are those of `graph`.

    Attributes:
        graph: They and the first one.
        part: Index into `PARTS`.
        tier, wire, latency: Of transfers: network tier, seconds of filling a port when alone, and more; -1 and 0 else.
        aside: Whether a collective does not hold up what follows: it has a stream of its own.
        last: What the next instructions wait for.
        exchanges: Gradients on their way beside what follows.
        loose: What else is still under way.
        joins_exchanges: Waits for all exchanges; -1 for none.
    """

    graph: Graph
    part: Array
    tier: Array
    wire: Array
    latency: Array
    aside: Array
    last: int
    exchanges: Array
    loose: Array
    joins_exchanges: int


def pass_template(
    work: StepWork, stage: int, options: StepOptions, *, backward: bool, chunk: int, last: bool
) -> Template:
    """A microbatch through one chunk of a stage, with the messages before and after; `last` for the last microbatch."""
    writer = _Writer(work, stage, options)
    writer.write_pass(chunk, backward=backward, last=last)
    return writer.finished()


def end_template(work: StepWork, stage: int, options: StepOptions) -> Template:
    """What follows the passes: the rest of the gradient exchange, the optimizer, the gathering of weights, the end."""
    writer = _Writer(work, stage, options)
    writer.write_end()
    return writer.finished()


def bucket_blocks(work: StepWork, blocks: int, bucket_bytes: float | None) -> list[int]:
    """How many of so many consecutive blocks each bucket of gradients holds; all but the last as many as fit."""
    each = max(1, int((bucket_bytes or 0.0) // work.gradient_bytes))
    return [min(each, blocks - first) for first in range(0, blocks, each)]


@dataclass(slots=True)
class _Label:
    part: int
    tier: int = -1
    wire: float = 0.0
    latency: float = 0.0
    aside: bool = False


class _Writer:
    """A template as it grows. `last` is what the next instruction waits for."""

    def __init__(self, work: StepWork, stage: int, options: StepOptions) -> None:
        self.work, self.stage, self.options = work, stage, options
        self.builder = GraphBuilder("", processor=stage)
        self.main = self.builder.subroutine("step")
        self.labels: list[_Label] = []
        self.last: int | None = None
        self.loose: list[int] = []
        self.exchanges: list[int] = []
        self.joins_exchanges = -1
        self.backward = False
        self._add("before", "null", "order")

    def write_pass(self, chunk: int, *, backward: bool, last: bool) -> None:
        message = self.work.message
        self.backward = backward
        before, after = self._neighbours(chunk, backward)
        if before is not None:
            self._receive(before, _tag(chunk, backward))
        self._write_blocks(chunk, backward, last=backward and last)
        if after is not None:
            peer, to_chunk = after
            self._send(peer, _tag(to_chunk, backward))
        elif message is not None and self.options.messages == "serial":
            self._add("message", "delay", "pp_communication", seconds=message.seconds)

    def write_end(self) -> None:
        work, blocks = self.work, self.work.stage_blocks[self.stage]
        if work.training:
            if work.gradient_bytes and work.overlapped:
                self.joins_exchanges = self._add("gradients_exchanged", "null", "order")
            elif work.gradient_bytes:
                for count in bucket_blocks(work, blocks, self.options.bucket_bytes):
                    self._collective("gradients", work.exchange(count * work.gradient_bytes), "dp_communication")
            if blocks and work.optimizer:
                self._add("optimizer", "delay", "optimizer", seconds=blocks * work.optimizer)
            if work.gather is not None:
                for count in bucket_blocks(work, blocks, self.options.bucket_bytes):
                    self._collective("weights", work.gather(count * work.gradient_bytes), "dp_communication")
        self._add("end", "null", "order")

    def finished(self) -> Template:
        graph = self.builder.build()
        # Instructions are numbered from 1 as they were written.
        written = graph.identifier - 1
        position = np.empty(len(graph), dtype=np.int64)
        position[written] = np.arange(len(graph))
        labels = [self.labels[number] for number in written.tolist()]
        assert self.last is not None
        return Template(
            graph=graph,
            part=np.array([label.part for label in labels]),
            tier=np.array([label.tier for label in labels]),
            wire=np.array([label.wire for label in labels]),
            latency=np.array([label.latency for label in labels]),
            aside=np.array([label.aside for label in labels]),
            last=int(position[self.last]),
            exchanges=position[np.array(self.exchanges, dtype=np.int64)],
            loose=position[np.array(self.loose, dtype=np.int64)],
            joins_exchanges=-1 if self.joins_exchanges < 0 else int(position[self.joins_exchanges]),
        )

    def _neighbours(self, chunk: int, backward: bool) -> tuple[int | None, tuple[int, int] | None]:
        """The stage that a pass hears from, and the stage and chunk that it tells; None at the ends of the pipeline."""
        stages, chunks, step = self.work.stages, self.work.chunks, -1 if backward else 1
        if stages == 1:
            return None, None
        place, end = chunk * stages + self.stage, chunks * stages
        before, after = place - step, place + step
        return (
            before % stages if 0 <= before < end else None,
            (after % stages, after // stages) if 0 <= after < end else None,
        )

    def _write_blocks(self, chunk: int, backward: bool, *, last: bool) -> None:
        work = self.work
        blocks = self._chunk_blocks(chunk)
        if not blocks:
            return
        base, edge = (work.backward_base, work.backward_edge) if backward else (work.forward_base, work.forward_edge)
        if last and work.overlapped and work.gradient_bytes:
            self._write_exchanged_blocks(base, edge, chunk)
            return
        parts = [(base, blocks - 1), (edge, 1)]
        for block, times in reversed(parts) if backward else parts:
            if times:
                self._write_equal_blocks(block, times, block.last_offload if last else block.offload)

    def _write_exchanged_blocks(self, base: BlockWork, edge: BlockWork, chunk: int) -> None:
        """The last backward pass of a chunk, block by block, with the gradients of each bucket sent off when known."""
        blocks = self._chunk_blocks(chunk)
        to_come = blocks + sum(self._chunk_blocks(earlier) for earlier in range(chunk))
        block = edge
        for count in bucket_blocks(self.work, blocks, self.options.bucket_bytes):
            for _ in range(count):
                self._write_equal_blocks(block, 1, block.last_offload)
                block = base
            to_come -= count
            self._exchange(count * self.work.gradient_bytes, beside=to_come > 0)

    def _exchange(self, size: float, *, beside: bool) -> None:
        """Send off gradients, beside the passes that follow if there are any."""
        work = self.work
        transfer = work.exchange(size)
        self.exchanges.append(
            self._transfer("gradients", transfer, "dp_communication", operands=self._operands, aside=True)
        )
        if beside and work.processor_usage:
            # What drives the transfer takes its share of the computation beside it.
            self._add("drive_gradients", "delay", "dp_communication", seconds=work.processor_usage * transfer.seconds)

    def _write_equal_blocks(self, block: BlockWork, times: int, offload: float) -> None:
        pieces: Sequence[Piece] = block.pieces
        if self.options.granularity != "operation":
            pieces = condensed(pieces)
        if self.options.granularity == "chunk":
            pieces, offload, times = repeated(pieces, times), offload * times, 1
        if times > 1:
            self._write_loop(pieces, times, offload)
        else:
            self._write_block(self.main, pieces, offload)

    def _write_loop(self, pieces: Sequence[Piece], times: int, offload: float) -> None:
        loop = self._add("blocks", "while", "order")
        body = self.builder.subroutine("block", caller=loop, count=times)
        condition = self.builder.subroutine("more", caller=loop, count=times)
        self.last = None
        self._write_block(body, pieces, offload)
        if self.last is None:
            self._add("nothing", "null", "order", subroutine=body)
        self.last = None
        self._add("counter", "null", "order", subroutine=condition)
        self.last = loop

    def _write_block(self, subroutine: int, pieces: Sequence[Piece], offload: float) -> None:
        start = self._operands
        for piece in pieces:
            self._write_piece(subroutine, piece)
        if offload:
            part = "backward_offload" if self.backward else "forward_offload"
            streams = self._add(
                "offload", "infeed", part, subroutine=subroutine, operands=start, seconds=offload, chained=False
            )
            self._join([streams], "offloaded", subroutine)

    def _write_piece(self, subroutine: int, piece: Piece) -> None:
        if not piece.collective:
            self._add(piece.name, "delay", piece.part, subroutine=subroutine, seconds=piece.compute)
            return
        alone = self.work.collective(piece.collective, piece.size)
        # Whatever makes a collective longer than its bytes on the wire, such as touching its buffers, is latency.
        transfer = Transfer(alone.tier, alone.opcode, piece.size, alone.wire, piece.link - alone.wire)
        if not piece.compute:
            self._collective(piece.name, transfer, piece.communication, subroutine)
            return
        start = self._operands
        beside = self._transfer(
            piece.name, transfer, piece.communication, operands=start, subroutine=subroutine, aside=True
        )
        self._add(piece.name, "delay", piece.part, subroutine=subroutine, seconds=piece.compute)
        if piece.exposed:
            self._add(
                f"{piece.name}_exposed", "delay", piece.communication, subroutine=subroutine, seconds=piece.exposed
            )
        self._join([beside], f"{piece.name}_done", subroutine)

    def _receive(self, peer: int, tag: int) -> None:
        start = self._add("receive", "recv-start", "pp_communication", groups=[[peer]], tag=tag)
        done = self._add("receive_done", "recv-done", "pp_communication", groups=[[peer]], tag=tag)
        self.builder.bond(start, done)

    def _send(self, peer: int, tag: int) -> None:
        message = self.work.message
        assert message is not None
        start = self._transfer(
            "send", message, "pp_communication", operands=self._operands, opcode="send-start", peer=peer, tag=tag
        )
        done = self._add(
            "send_done", "send-done", "pp_communication", operands=[start], groups=[[peer]], chained=False, tag=tag
        )
        self.builder.bond(start, done)
        if self.options.messages == "serial":
            self.last = done
        else:
            self.loose.append(done)

    def _collective(self, name: str, transfer: Transfer, part: str, subroutine: int | None = None) -> None:
        self.last = self._transfer(name, transfer, part, operands=self._operands, subroutine=subroutine)

    def _transfer(
        self,
        name: str,
        transfer: Transfer,
        part: str,
        *,
        operands: Iterable[int],
        subroutine: int | None = None,
        opcode: str | None = None,
        peer: int | None = None,
        tag: int = 0,
        aside: bool = False,
    ) -> int:
        number = self._add(
            name, opcode or transfer.opcode, part, subroutine=subroutine, operands=operands, chained=False, tag=tag,
            seconds=0.0 if peer is not None else transfer.seconds,
            bytes_in=transfer.size if peer is not None else 0.0,
            bytes_out=0.0 if peer is not None else transfer.size,
            groups=[[self.stage if peer is None else peer]],
        )  # fmt: skip
        label = self.labels[number]
        label.tier, label.wire, label.latency, label.aside = transfer.tier, transfer.wire, transfer.latency, aside
        return number

    def _join(self, operands: Sequence[int], name: str, subroutine: int | None = None) -> None:
        self._add(name, "null", "order", subroutine=subroutine, operands=[*self._operands, *operands])

    def _add(
        self,
        name: str,
        opcode: str,
        part: str,
        *,
        subroutine: int | None = None,
        operands: Iterable[int] | None = None,
        chained: bool = True,
        **values: Any,
    ) -> int:
        """An instruction that waits for the last one unless `operands` are given; the next waits for it if chained."""
        number = self.builder.instruction(
            self.main if subroutine is None else subroutine,
            name,
            opcode,
            operands=self._operands if operands is None else operands,
            identifier=len(self.labels) + 1,
            **values,
        )
        self.labels.append(_Label(PARTS.index(part)))
        if chained:
            self.last = number
        return number

    @property
    def _operands(self) -> list[int]:
        return [] if self.last is None else [self.last]

    def _chunk_blocks(self, chunk: int) -> int:
        """Blocks of a chunk; the last chunks of a stage with fewer blocks lack them."""
        blocks, chunks = self.work.stage_blocks[self.stage], self.work.chunks
        return blocks // chunks + (chunk < blocks % chunks)


def _tag(chunk: int, backward: bool) -> int:
    """Of messages to a chunk: those of one direction go in the order of microbatches."""
    return 1 + 2 * chunk + backward
