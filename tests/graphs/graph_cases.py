"""Graphs that several tests use, their comparison, and random ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from codesign_opt.graphs import Graph, GraphBuilder, Ragged
from codesign_opt.graphs.opcodes import OPCODES

DATA = Path(__file__).parents[1] / "data" / "graphs"
SHIPPED = ["supersim_test_graph.textproto", "supersim_test_graph.0.pb", "supersim_test_graph.5.pb"]


def differences(first: Graph, second: Graph) -> list[str]:
    """The columns in which two graphs differ."""
    return [
        field.name for field in fields(Graph) if not _equal(getattr(first, field.name), getattr(second, field.name))
    ]


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, Ragged):
        return [entry.tolist() for entry in first] == [entry.tolist() for entry in second]
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(first, second)
    return bool(first == second)


def single(opcode: str = "delay", *, processor: int | None = None, **attributes: Any) -> Graph:
    """A graph of one instruction, `x`, with as many inner subroutines as its opcode needs."""
    builder = GraphBuilder("one", processor)
    place = builder.instruction(builder.subroutine("main"), "x", opcode, **attributes)
    for number in range({"call": 1, "while": 2, "conditional": 2}.get(opcode, 0)):
        inner = builder.subroutine(f"s{number}", caller=place, probability=0.5 if opcode == "conditional" else 1.0)
        builder.instruction(inner, f"leaf{number}", "delay")
    return builder.build()


def chain(*opcodes: str, groups: Sequence[Sequence[int]] = (), processor: int | None = None) -> Graph:
    """A graph of instructions a, b, c, …, each after the one before and all with the same groups."""
    builder = GraphBuilder("chain", processor)
    main = builder.subroutine("main")
    places: list[int] = []
    for name, opcode in zip("abcdefgh", opcodes, strict=False):
        places.append(builder.instruction(main, name, opcode, operands=places[-1:], groups=groups))
    return builder.build()


def place_of(graph: Graph, name: str) -> int:
    """The one instruction of that name."""
    assert graph.names.count(name) == 1, f"{graph.names.count(name)} instructions called {name}"
    return graph.names.index(name)


def operand_names(graph: Graph, name: str) -> list[str]:
    return [graph.names[operand] for operand in graph.operands[place_of(graph, name)]]


_INT64 = st.integers(-(2**63), 2**63 - 1)
_NUMBERS = st.floats(allow_nan=False).map(lambda value: value + 0.0)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any graph that a file can hold, whether or not it can be run."""
    builder = GraphBuilder(draw(st.text(max_size=8)), draw(st.none() | st.integers(0, 2**63 - 1)))
    identifiers = iter(draw(st.lists(_INT64, min_size=60, max_size=60, unique=True)))
    waiting: list[int | None] = [None]
    size = 0
    while waiting:
        caller = waiting.pop()
        subroutine = builder.subroutine(
            draw(st.text(max_size=4)), caller=caller, count=draw(_INT64), probability=draw(_NUMBERS)
        )
        members: list[int] = []
        for _ in range(draw(st.integers(1, 4))):
            place = builder.instruction(
                subroutine,
                draw(st.text(max_size=4)),
                draw(st.sampled_from(OPCODES)),
                operands=draw(st.lists(st.sampled_from(members), max_size=4)) if members else (),
                seconds=draw(_NUMBERS),
                bytes_in=draw(_NUMBERS),
                bytes_out=draw(_NUMBERS),
                ops=draw(_NUMBERS),
                transcendentals=draw(_NUMBERS),
                groups=draw(st.lists(st.lists(_INT64, max_size=3), max_size=2)),
                bonded=draw(_INT64),
                tag=draw(st.integers(0, 2**64 - 1)),
                identifier=next(identifiers),
            )
            members.append(place)
            size += 1
            if size < 8:
                waiting += [place] * draw(st.integers(0, 2))
        builder.set_root(subroutine, draw(st.sampled_from(members)))
    return builder.build()
