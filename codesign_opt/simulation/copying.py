"""Copy parts of graphs into a graph that is being built."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from codesign_opt.graphs.builder import GraphBuilder
from codesign_opt.graphs.graph import Graph

Expand: TypeAlias = Callable[[int, int], bool]
"""Takes an instruction of the graph and its number in the builder; True if it gives it inner subroutines of its own."""


def copy_graph(graph: Graph, builder: GraphBuilder, expand: Expand) -> None:
    """Copy all of a graph, except for the inner subroutines of instructions that `expand` takes care of."""
    _copy(graph, builder, 0, None, suffix="", scale=None, expand=expand)


def copy_scaled(
    graph: Graph, builder: GraphBuilder, subroutine: int, caller: int, *, suffix: str, scale: float
) -> None:
    """Copy a subroutine and all that is inside of it into another instruction.

    Args:
        graph: Where it is.
        builder: Where it goes.
        subroutine: Index in the graph.
        caller: Number of the instruction in the builder.
        suffix: Appended to all names.
        scale: What operations, bytes and seconds are multiplied by.
    """
    _copy(graph, builder, subroutine, caller, suffix=suffix, scale=scale, expand=lambda instruction, number: False)


def _copy(
    graph: Graph,
    builder: GraphBuilder,
    subroutine: int,
    caller: int | None,
    *,
    suffix: str,
    scale: float | None,
    expand: Expand,
) -> None:
    number = builder.subroutine(
        graph.subroutine_names[subroutine] + suffix,
        caller=caller,
        count=int(graph.count[subroutine]),
        probability=float(graph.probability[subroutine]),
    )
    members = graph.members[subroutine].tolist()
    placed = {member: _add(graph, builder, number, member, suffix=suffix, scale=scale) for member in members}
    for member in members:
        # An operand that is given twice, as in a square, is waited for once.
        builder.depend(placed[member], (placed[operand] for operand in dict.fromkeys(graph.operands[member].tolist())))
        if expand(member, placed[member]):
            continue
        for inner in graph.inner[member].tolist():
            _copy(graph, builder, inner, placed[member], suffix=suffix, scale=scale, expand=expand)
    builder.set_root(number, placed[int(graph.root[subroutine])])


def _add(
    graph: Graph, builder: GraphBuilder, subroutine: int, instruction: int, *, suffix: str, scale: float | None
) -> int:
    """Add an instruction; a scaled one is a copy, and gets an identifier of its own."""
    factor = 1.0 if scale is None else scale
    return builder.instruction(
        subroutine,
        graph.names[instruction] + suffix,
        graph.opcode_name(instruction),
        seconds=float(graph.seconds[instruction]) * factor,
        bytes_in=float(graph.bytes_in[instruction]) * factor,
        bytes_out=float(graph.bytes_out[instruction]) * factor,
        ops=float(graph.ops[instruction]) * factor,
        transcendentals=float(graph.transcendentals[instruction]) * factor,
        groups=graph.groups[instruction],
        bonded=int(graph.bonded[instruction]),
        tag=int(graph.tag[instruction]),
        identifier=int(graph.identifier[instruction]) if scale is None else None,
    )
