"""Instructions of a step, written into a template one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs import Graph, GraphBuilder
from codesign_opt.graphs.step.pieces import PARTS
from codesign_opt.graphs.step.work import Transfer

Array = NDArray[Any]


class Aside(IntEnum):
    """What a transfer may go beside, on a stream of its own: nothing; later passes; its own product; other blocks."""

    NOTHING = 0
    PASSES = 1
    PRODUCT = 2
    BLOCKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Instructions that occur again and again, and what they are, as columns over them.

    The first instruction stands for what comes before; positions are those of `graph`.

    Attributes:
        graph: They and the first one.
        part: Index into `PARTS`.
        member: Which pass they belong to, where the template is of two that go beside each other.
        tier, wire, latency: Of transfers: network tier, seconds of filling a port when alone, and more; -1 and 0 else.
        aside: An `Aside`.
        last: What the next instructions wait for.
        exchanges: Gradients on their way beside what follows.
        loose: What else is still under way.
        joins_exchanges: Waits for all exchanges; -1 for none.
    """

    graph: Graph
    part: Array
    member: Array
    tier: Array
    wire: Array
    latency: Array
    aside: Array
    last: int
    exchanges: Array
    loose: Array
    joins_exchanges: int


@dataclass(slots=True)
class _Label:
    part: int
    member: int
    tier: int = -1
    wire: float = 0.0
    latency: float = 0.0
    aside: Aside = Aside.NOTHING


@dataclass(slots=True)
class InstructionWriter:
    """A template as it grows.

    Attributes:
        stage: Whose program it is part of.
        builder: Of its graph.
        subroutine: Where instructions are added.
        last: What the next one waits for; None at the start of a subroutine.
        member: Which pass instructions belong to.
        exchanges, loose, joins_exchanges: As in `Template`, by number of the builder.
    """

    stage: int
    builder: GraphBuilder = field(init=False)
    subroutine: int = field(init=False)
    last: int | None = None
    member: int = 0
    exchanges: list[int] = field(default_factory=list)
    loose: list[int] = field(default_factory=list)
    joins_exchanges: int = -1
    _labels: list[_Label] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.builder = GraphBuilder("", processor=self.stage)
        self.subroutine = self.builder.subroutine("step")
        self.add("before", "null", "order")

    @property
    def operands(self) -> list[int]:
        """What the next instruction waits for."""
        return [] if self.last is None else [self.last]

    def add(
        self,
        name: str,
        opcode: str,
        part: str,
        *,
        operands: Iterable[int] | None = None,
        chained: bool = True,
        **values: Any,
    ) -> int:
        """An instruction that waits for the last one unless `operands` are given; the next waits for it if chained."""
        number = self.builder.instruction(
            self.subroutine,
            name,
            opcode,
            operands=self.operands if operands is None else operands,
            identifier=len(self._labels) + 1,
            **values,
        )
        self._labels.append(_Label(PARTS.index(part), self.member))
        if chained:
            self.last = number
        return number

    def transfer(
        self,
        name: str,
        transfer: Transfer,
        part: str,
        *,
        operands: Iterable[int] | None = None,
        opcode: str | None = None,
        peer: int | None = None,
        tag: int = 0,
        aside: Aside = Aside.NOTHING,
    ) -> int:
        """A collective of the stage, or a message to a peer; what follows does not wait for it."""
        number = self.add(
            name, opcode or transfer.opcode, part, operands=operands, chained=False, tag=tag,
            seconds=0.0 if peer is not None else transfer.seconds,
            bytes_in=transfer.size if peer is not None else 0.0,
            bytes_out=0.0 if peer is not None else transfer.size,
            groups=[[self.stage if peer is None else peer]],
        )  # fmt: skip
        label = self._labels[number]
        label.tier, label.wire, label.latency, label.aside = transfer.tier, transfer.wire, transfer.latency, aside
        return number

    def collective(self, name: str, transfer: Transfer, part: str) -> None:
        """A collective that holds up what follows."""
        self.last = self.transfer(name, transfer, part)

    def join(self, operands: Sequence[int], name: str) -> None:
        """What follows waits for some instructions as well."""
        self.add(name, "null", "order", operands=[*self.operands, *operands])

    def open_loop(self, times: int) -> tuple[int, int]:
        """Until the loop is closed, instructions are those of its body; returns what closes it."""
        loop = self.add("blocks", "while", "order")
        outside = self.subroutine
        self.subroutine = self.builder.subroutine("block", caller=loop, count=times)
        self.last = None
        return loop, outside

    def close_loop(self, opened: tuple[int, int], times: int) -> None:
        """End the body, which runs so many times."""
        loop, outside = opened
        if self.last is None:
            self.add("nothing", "null", "order")
        self.subroutine = self.builder.subroutine("more", caller=loop, count=times)
        self.last = None
        self.add("counter", "null", "order")
        self.subroutine, self.last = outside, loop

    def finished(self) -> Template:
        """All that was written."""
        graph = self.builder.build()
        # Instructions are numbered from 1 as they were written.
        written = graph.identifier - 1
        position = np.empty(len(graph), dtype=np.int64)
        position[written] = np.arange(len(graph))
        labels = [self._labels[number] for number in written.tolist()]
        assert self.last is not None
        return Template(
            graph=graph,
            part=np.array([label.part for label in labels]),
            member=np.array([label.member for label in labels]),
            tier=np.array([label.tier for label in labels]),
            wire=np.array([label.wire for label in labels]),
            latency=np.array([label.latency for label in labels]),
            aside=np.array([label.aside for label in labels], dtype=np.int64),
            last=int(position[self.last]),
            exchanges=position[np.array(self.exchanges, dtype=np.int64)],
            loose=position[np.array(self.loose, dtype=np.int64)],
            joins_exchanges=-1 if self.joins_exchanges < 0 else int(position[self.joins_exchanges]),
        )
