"""Programs that several tests of execution use: golden ones, sketches by hand, rings, random ones."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from codesign_opt.graphs import Graph, GraphBuilder
from codesign_opt.simulation.program import Program, compile_program
from codesign_opt.simulation.streams import Streams
from codesign_opt.simulation.topologies import Link, Topology, full_mesh
from codesign_opt.simulation.translation import read_translation, translate

DATA = Path(__file__).parents[2] / "data"
GOLDEN = json.loads(gzip.decompress((DATA / "paragraph" / "executions.json.gz").read_bytes()))
TICK = 2.0**-20
"""Seconds; times that are multiples of it are exact, and so is what happens at the same time."""

PAGE = 4096.0
"""Bytes, which take a tick on `TICKING` links."""

TICKING = Link(bandwidth=PAGE / TICK, latency=2 * TICK)
NO_LIMITS = Streams(compute=math.inf, send=math.inf, receive=math.inf, collective=math.inf)


def golden_graph(description: Mapping[str, Any]) -> Graph:
    """A graph as the golden file describes it."""
    processor = description["processor_id"]
    builder = GraphBuilder(description["name"], None if processor < 0 else processor)

    def add(subroutine: Mapping[str, Any], caller: int | None) -> None:
        number = builder.subroutine(
            subroutine["name"],
            caller=caller,
            count=subroutine.get("count", 1),
            probability=subroutine.get("probability", 1.0),
        )
        places: dict[int, int] = {}
        for entry in subroutine["instrs"]:
            kept = ("seconds", "bytes_in", "bytes_out", "ops", "groups", "bonded")
            place = builder.instruction(
                number,
                entry["name"],
                entry["opcode"],
                operands=[places[operand] for operand in entry.get("operands", [])],
                identifier=entry["id"],
                **{name: entry[name] for name in kept if name in entry},
            )
            places[entry["id"]] = place
            for inner in entry.get("subroutines", []):
                add(inner, place)

    add(description["entry"], None)
    return builder.build()


class Sketch:
    """A program by hand: every method adds to the subroutine that is open and returns what others can wait for."""

    def __init__(self, processor: int = 0) -> None:
        self.builder = GraphBuilder(f"program_{processor}", processor)
        self._open = self.builder.subroutine("main")
        self._count = 0

    def delay(self, seconds: float, *, after: Sequence[int] = (), name: str = "", opcode: str = "delay") -> int:
        """Something that takes the processor for so long."""
        return self._add(opcode, name, after, seconds=seconds)

    def null(self, *, after: Sequence[int] = (), name: str = "") -> int:
        """A join."""
        return self._add("null", name, after)

    def send(self, to: int, size: float, *, tag: int = 0, after: Sequence[int] = (), name: str = "") -> int:
        """A send-start and the send-done that is returned."""
        start = self._add("send-start", f"{name}_start" * bool(name), after, bytes_in=size, groups=[[to]], tag=tag)
        done = self._add("send-done", f"{name}_done" * bool(name), [start], groups=[[to]], tag=tag)
        self.builder.bond(start, done)
        return done

    def receive(self, source: int, size: float, *, tag: int = 0, after: Sequence[int] = (), name: str = "") -> int:
        """A recv-start and the recv-done that is returned."""
        start = self._add("recv-start", f"{name}_start" * bool(name), after, groups=[[source]], tag=tag)
        done = self._add("recv-done", f"{name}_done" * bool(name), [start], bytes_out=size, groups=[[source]], tag=tag)
        self.builder.bond(start, done)
        return done

    def called(self, kind: str, *, after: Sequence[int] = (), name: str = "") -> int:
        """An instruction that calls subroutines, which `inside` opens."""
        return self._add(kind, name, after)

    def inside(self, caller: int | None, *, count: int = 1, probability: float = 1.0) -> None:
        """Go on in a new subroutine of an instruction; of none, in the entry."""
        if caller is None:
            self._open = 0
        else:
            self._open = self.builder.subroutine("inner", caller=caller, count=count, probability=probability)

    def loop(self, count: int, *, after: Sequence[int] = (), name: str = "") -> int:
        """A loop whose condition is free; its body is open afterwards."""
        loop = self.called("while", after=after, name=name)
        body = self.builder.subroutine("body", caller=loop, count=count)
        self.inside(loop, count=count)
        self.null()
        self._open = body
        return loop

    def graph(self) -> Graph:
        """The graph so far."""
        return self.builder.build()

    def program(self, **options: Any) -> Program:
        """The program so far."""
        return compile_program(self.graph(), **options)

    def _add(self, opcode: str, name: str, after: Sequence[int], **attributes: Any) -> int:
        self._count += 1
        return self.builder.instruction(
            self._open, name or f"{opcode}_{self._count}", opcode, operands=after, **attributes
        )


def all_reduce_programs(
    processors: int, size: float, *, algorithm: str = "unidir-ring", seconds: float = 0.0
) -> list[Program]:
    """The programs of an all-reduce; `seconds` is what reducing the whole vector takes."""
    builder = GraphBuilder("all_reduce")
    main = builder.subroutine("main")
    collective = builder.instruction(main, "ar", "all-reduce", bytes_out=size, groups=[range(processors)])
    builder.instruction(builder.subroutine("sum", caller=collective), "add", "delay", seconds=seconds)
    push = {"algorithm": "push"}
    translation = read_translation(
        {
            "collective": {"all-reduce": {"algorithm": algorithm}},
            "protocol": {"send": push, "recv": push, "sendrecv": push},
        }
    )
    return [compile_program(graph) for graph in translate(builder.build(), translation)]


def mesh(processors: int, *, bandwidth: float = 1e9, latency: float = 1e-6) -> Topology:
    """Every processor linked to every other."""
    return full_mesh(max(2, processors), Link(bandwidth=bandwidth, latency=latency))


@st.composite
def random_programs(draw: st.DrawFn, *, in_order: bool = False, waits_for_sends: bool = True) -> list[Program]:
    """Programs of some processors that exchange messages, a part of each in a loop, and cannot wait in a circle.

    Everything waits only for what was written before it, on all processors. With `in_order` what a processor computes,
    and what it sends, waits for what it computed, and sent, before. Without `waits_for_sends` there is one turn, in
    which nothing waits until a message has left, and no two messages have one size.
    """
    processors = draw(st.integers(2, 4))
    sketches = [Sketch(number) for number in range(processors)]
    prelude = [sketch.delay(draw(st.integers(0, 3)) * TICK) for sketch in sketches]
    turns = draw(st.integers(1, 3)) if waits_for_sends else 1
    loops = [sketch.loop(turns, after=[first]) for sketch, first in zip(sketches, prelude, strict=True)]
    done: list[list[int]] = [[] for _ in sketches]
    last: dict[tuple[int, str], int] = {}

    def earlier(processor: int, what: str) -> list[int]:
        known = done[processor]
        chosen = draw(st.lists(st.sampled_from(known), max_size=2, unique=True)) if known else []
        if in_order and (processor, what) in last:
            chosen = sorted({*chosen, last[processor, what]})
        return chosen

    for tag in range(draw(st.integers(1, 12))):
        here = draw(st.integers(0, processors - 1))
        if draw(st.booleans()):
            place = sketches[here].delay(draw(st.integers(0, 5)) * TICK, after=earlier(here, "compute"))
            last[here, "compute"] = place
            done[here].append(place)
            continue
        there = (here + draw(st.integers(1, processors - 1))) % processors
        size = draw(st.integers(0, 4)) * PAGE + (0.0 if waits_for_sends else 17.3 * (tag + 1))
        sent = sketches[here].send(there, size, tag=tag, after=earlier(here, "send"))
        received = sketches[there].receive(here, size, tag=tag, after=earlier(there, "receive"))
        last[here, "send"], last[there, "receive"] = sent, received
        if waits_for_sends:
            done[here].append(sent)
        done[there].append(received)
    for sketch, loop, places in zip(sketches, loops, done, strict=True):
        sketch.null(after=places)
        sketch.inside(None)
        sketch.delay(TICK, after=[loop])
    return [sketch.program() for sketch in sketches]
