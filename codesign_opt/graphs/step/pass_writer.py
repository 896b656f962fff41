"""Writes the instructions of a pass: its messages, its blocks, and what is exchanged beside or after them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from codesign_opt.graphs.step.instructions import Aside, InstructionWriter, Template
from codesign_opt.graphs.step.layout import Layout, Place
from codesign_opt.graphs.step.passes import PassKind
from codesign_opt.graphs.step.pieces import Piece, condensed, repeated
from codesign_opt.graphs.step.slots import Pass, PassWork, Slot, pass_work
from codesign_opt.graphs.step.work import BlockWork, StepWork, Transfer

Granularity = Literal["operation", "block", "chunk"]
Messages = Literal["asynchronous", "serial"]

GRANULARITIES: Final = ("operation", "block", "chunk")
MESSAGES: Final = ("asynchronous", "serial")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOptions:
    """How a step becomes graphs.

    Attributes:
        granularity: The smallest unit of computation and communication: an operation, a block's pass, or a chunk's
            pass. When alone, a pass takes the same time in all of them.
        messages: `asynchronous`: a stage goes on while its message, or the last gradients that a pass scatters, are
            under way, and passes that go beside each other do. `serial`: it waits for them, every pass pays for a
            message, and passes follow each other, as the closed form has it.
        bucket_bytes: Gradients of consecutive blocks are exchanged together up to so many bytes; None for each block.
    """

    granularity: Granularity = "operation"
    messages: Messages = "asynchronous"
    bucket_bytes: float | None = None


def pass_template(work: StepWork, layout: Layout, stage: int, options: StepOptions, passes: Sequence[Pass]) -> Template:
    """A pass of a stage with the messages before and after; of two, beside each other."""
    writer = _PassWriter(work, layout, stage, options)
    writer.write(passes)
    return writer.instructions.finished()


def buckets(blocks: Sequence[BlockWork], most: float | None) -> list[list[BlockWork]]:
    """Consecutive blocks whose gradients are exchanged together: up to so many bytes, and at least one block."""
    result: list[list[BlockWork]] = []
    held = 0.0
    for block in blocks:
        held += block.gradient_bytes
        if result and most is not None and held <= most * _ROUNDING:
            result[-1].append(block)
        else:
            result.append([block])
            held = block.gradient_bytes
    return result


def write_exchange(writer: InstructionWriter, transfers: Sequence[Transfer], name: str = "gradients") -> None:
    """Gradients or weights on their way, one transfer after the other, while nothing else happens."""
    for transfer in transfers:
        writer.collective(name, transfer, "dp_communication")


_ROUNDING: Final = 1 + 1e-12


class _PassWriter:
    def __init__(self, work: StepWork, layout: Layout, stage: int, options: StepOptions) -> None:
        self.work, self.layout, self.stage, self.options = work, layout, stage, options
        self.instructions = InstructionWriter(stage)

    def write(self, passes: Sequence[Pass]) -> None:
        self._for_each(passes, self._receive)
        if len(passes) > 1 and self.options.messages == "asynchronous":
            self._write_beside(passes)
        else:
            self._for_each(passes, self._write_blocks)
        self._for_each(passes, self._send)
        self._for_each(passes, self._exchange_after)

    def _for_each(self, passes: Sequence[Pass], write: Callable[[Pass], None]) -> None:
        for member, one in enumerate(passes):
            self.instructions.member = member
            write(one)

    def _write_beside(self, passes: Sequence[Pass]) -> None:
        start, ends = self.instructions.last, list[int]()
        for member, one in enumerate(passes):
            self.instructions.member, self.instructions.last = member, start
            self._write_blocks(one)
            ends += self.instructions.operands
        self.instructions.add("both", "null", "order", operands=ends)

    def _receive(self, one: Pass) -> None:
        peer = self._neighbour(one, ahead=one.backward)
        if peer is None:
            return
        writer, (stage, _), tag = self.instructions, peer, _tag(one.chunk, one.backward)
        start = writer.add("receive", "recv-start", "pp_communication", groups=[[stage]], tag=tag)
        done = writer.add("receive_done", "recv-done", "pp_communication", groups=[[stage]], tag=tag)
        writer.builder.bond(start, done)

    def _send(self, one: Pass) -> None:
        message, serial = self.work.message, self.options.messages == "serial"
        if message is None or one.kind is PassKind.WEIGHT_GRADIENT:
            return
        writer, peer = self.instructions, self._neighbour(one, ahead=not one.backward)
        if peer is None:
            if serial:
                writer.add("message", "delay", "pp_communication", seconds=message.seconds)
            return
        stage, chunk = peer
        tag = _tag(chunk, one.backward)
        start = writer.transfer("send", message, "pp_communication", opcode="send-start", peer=stage, tag=tag)
        done = writer.add(
            "send_done", "send-done", "pp_communication", operands=[start], groups=[[stage]], chained=False, tag=tag
        )
        writer.builder.bond(start, done)
        if serial:
            writer.last = done
        else:
            writer.loose.append(done)

    def _neighbour(self, one: Pass, *, ahead: bool) -> Place | None:
        """The chunk before or after on the way of a microbatch; None for none, and without a message on the way."""
        place = (self.stage, one.chunk)
        peer = self.layout.route.after(place) if ahead else self.layout.route.before(place)
        stays = peer is None or peer[0] == self.stage or one.kind is PassKind.WEIGHT_GRADIENT
        return None if stays else peer

    def _exchange_after(self, one: Pass) -> None:
        """Gradients of every microbatch, where nothing hides them."""
        if one.ends_backward and self.work.exchanged and self.work.reduced_each and not self.work.overlapped:
            for bucket in buckets(self._blocks(one), self.options.bucket_bytes):
                write_exchange(self.instructions, self.work.exchanges(bucket))

    def _blocks(self, one: Pass) -> list[BlockWork]:
        """In the order of the pass."""
        blocks = [run.block for run in self.layout.chunks[self.stage][one.chunk] for _ in range(run.times)]
        return blocks[::-1] if one.backward else blocks

    def _write_blocks(self, one: Pass) -> None:
        work = self.work
        passed = pass_work(work, self.layout.chunks[self.stage][one.chunk], one)
        self._write_turn("gather", passed.gathers)
        if one.ends_backward and work.exchanged and work.overlapped and (one.last or work.reduced_each):
            self._write_exchanged(passed, one)
        else:
            for slot in passed.slots:
                self._write_slot(slot, slot.times, one)
        if self.options.messages == "serial":
            self._write_turn("scatter", passed.scatters)
        else:
            self._write_aside("scatter", passed.scatters, Aside.BLOCKS)

    def _write_turn(self, name: str, transfers: Sequence[Transfer]) -> None:
        """Weights or gradients that take their turn among those beside blocks, and hold up what follows."""
        writer = self.instructions
        for transfer in transfers:
            writer.last = writer.transfer(name, transfer, "dp_communication", aside=Aside.BLOCKS)

    def _write_exchanged(self, passed: PassWork, one: Pass) -> None:
        """Block by block, with the gradients of each bucket sent off when known."""
        singles = iter([slot for slot in passed.slots for _ in range(slot.times)])
        parts = buckets(self._blocks(one), self.options.bucket_bytes)
        for number, bucket in enumerate(parts, start=1):
            for _ in bucket:
                self._write_slot(next(singles), 1, one)
            transfers = self.work.exchanges(bucket)
            self._write_aside("gradients", transfers, Aside.PASSES)
            beside = number < len(parts) or not one.final
            driving = self.work.processor_usage * sum(transfer.seconds for transfer in transfers)
            if beside and driving:
                # What drives the transfer takes its share of the computation beside it.
                self.instructions.add("drive_gradients", "delay", "dp_communication", seconds=driving)

    def _write_aside(self, name: str, transfers: Sequence[Transfer], aside: Aside) -> None:
        """Gradients on their way beside what follows; the optimizer's step waits for them."""
        before = self.instructions.operands
        for transfer in transfers:
            before = [self.instructions.transfer(name, transfer, "dp_communication", operands=before, aside=aside)]
        if transfers:
            self.instructions.exchanges += before

    def _write_slot(self, slot: Slot, times: int, one: Pass) -> None:
        pieces: Sequence[Piece] = slot.pieces
        if self.options.granularity != "operation":
            pieces = condensed(pieces)
        if self.options.granularity == "chunk" or times == 1:
            self._write_block(slot, repeated(pieces, times), one, times)
            return
        opened = self.instructions.open_loop(times)
        self._write_block(slot, pieces, one, 1)
        self.instructions.close_loop(opened, times)

    def _write_block(self, slot: Slot, pieces: Sequence[Piece], one: Pass, times: int) -> None:
        """The pieces of so many blocks together, and what goes beside them."""
        writer, start = self.instructions, self.instructions.operands
        write_exchange(writer, [transfer.times(times) for transfer in slot.gathers], "gather")
        for piece in pieces:
            self._write_piece(piece)
        write_exchange(writer, [transfer.times(times) for transfer in slot.scatters], "scatter")
        beside, before = list[int](), start
        for transfer in slot.beside:
            before = beside = [
                writer.transfer(
                    "beside", transfer.times(times), "dp_communication", operands=before, aside=Aside.BLOCKS
                )
            ]
        if slot.offload:
            part = "backward_offload" if one.backward else "forward_offload"
            seconds = times * slot.offload
            streams = writer.add("offload", "infeed", part, operands=start, seconds=seconds, chained=False)
            beside = [*beside, streams]
        if beside:
            writer.join(beside, "block_done")

    def _write_piece(self, piece: Piece) -> None:
        writer = self.instructions
        if not piece.collective:
            writer.add(piece.name, "delay", piece.part, seconds=piece.compute)
            return
        alone = self.work.transfer(piece.group, piece.collective, piece.size)
        # Whatever makes a collective longer than its bytes on the wire, such as touching its buffers, is latency.
        transfer = Transfer(alone.tier, alone.opcode, piece.size, alone.wire, piece.link - alone.wire)
        if not piece.compute:
            writer.collective(piece.name, transfer, piece.communication)
            return
        beside = writer.transfer(piece.name, transfer, piece.communication, aside=Aside.PRODUCT)
        writer.add(piece.name, "delay", piece.part, seconds=piece.compute)
        if piece.exposed:
            writer.add(f"{piece.name}_exposed", "delay", piece.communication, seconds=piece.exposed)
        writer.join([beside], f"{piece.name}_done")


def _tag(chunk: int, backward: bool) -> int:
    """Of messages to a chunk: those of one direction go in the order of microbatches."""
    return 1 + 2 * chunk + backward
