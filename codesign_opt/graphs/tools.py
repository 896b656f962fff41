"""Graphs made from graphs (spec graph-simulation section 1.7). Each tool takes a graph that `check_graph` accepts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codesign_opt.errors import InputError
from codesign_opt.graphs.builder import GraphBuilder
from codesign_opt.graphs.dependencies import post_order
from codesign_opt.graphs.graph import Graph
from codesign_opt.graphs.individual import processors_of
from codesign_opt.graphs.opcodes import CODES, COLLECTIVES
from codesign_opt.graphs.selection import without
from codesign_opt.graphs.validity import check_graph


def enforce_post_order(graph: Graph) -> Graph:
    """The graph with every subroutine in post order, each instruction waiting for the one before: no overlap at all.

    Raises:
        InputError: The graph cannot be run.
    """
    check_graph(graph)
    builder = GraphBuilder(graph.name, graph.processor)
    placed = [0] * len(graph)
    for subroutine, members in enumerate(graph.members):
        caller = int(graph.caller[subroutine])
        number = builder.subroutine(
            graph.subroutine_names[subroutine],
            caller=placed[caller] if caller >= 0 else None,
            count=int(graph.count[subroutine]),
            probability=float(graph.probability[subroutine]),
        )
        previous: int | None = None
        for instruction in post_order(graph.operands, int(graph.root[subroutine]), members.tolist()):
            operands = [placed[operand] for operand in graph.operands[instruction]]
            if previous is not None and previous not in operands:
                operands.append(previous)
            previous = placed[instruction] = _add(builder, number, graph, instruction, operands)
    return builder.build()


def extend_data_parallel(graph: Graph, processors: int) -> Graph:
    """The graph with every collective among the processors from 0 to `processors` - 1.

    Raises:
        InputError: The graph cannot be run or is that of one processor, its processors are not numbered from 0 without
            a gap, or a collective has not exactly one group.
    """
    check_graph(graph)
    if processors < 1:
        raise InputError(f"graph '{graph.name}': cannot be extended to {processors} processors", "at least 1")
    if graph.processor is not None:
        raise InputError(
            f"graph '{graph.name}': the program of processor {graph.processor} alone cannot be extended",
            "give a graph of all processors",
        )
    present = processors_of(graph)
    if present != list(range(len(present))):
        missing = next(number for number, processor in enumerate(present) if number != processor)
        raise InputError(
            f"graph '{graph.name}': processor {missing} is missing among its {len(present)} processors",
            "they must be numbered from 0 without a gap",
        )
    everybody = tuple(range(processors))
    is_collective = np.isin(graph.opcode, [CODES[name] for name in COLLECTIVES])
    for place in np.flatnonzero(is_collective):
        if len(graph.groups[place]) != 1:
            raise InputError(
                f"graph '{graph.name}': instruction '{graph.names[place]}' (id {graph.identifier[place]}) has "
                f"{len(graph.groups[place])} communication groups",
                "only collectives with one group can be extended",
            )
    extended = zip(graph.groups, is_collective.tolist(), strict=True)
    return replace(graph, groups=tuple((everybody,) if collective else groups for groups, collective in extended))


def trim(graph: Graph) -> Graph:
    """The graph without inner subroutines of `call` and `null` in which nothing but free `delay` and `null` stands.

    A `call` that has none left becomes a `delay`, and may itself be free.

    Raises:
        InputError: The graph cannot be run.
    """
    check_graph(graph)
    is_free = (graph.ops + graph.transcendentals + graph.bytes_in + graph.bytes_out + graph.seconds) == 0
    opcode = graph.opcode.copy()
    left = np.diff(graph.inner.offsets)
    dropped = np.zeros(len(graph.root), dtype=bool)
    idle = [CODES["delay"], CODES["null"]]
    # Inner subroutines come after those that they are in.
    for subroutine in range(len(graph.root) - 1, 0, -1):
        caller, members = graph.caller[subroutine], graph.members[subroutine]
        if opcode[caller] not in (CODES["call"], CODES["null"]):
            continue
        if (is_free[members] & (left[members] == 0) & np.isin(opcode[members], idle)).all():
            dropped[subroutine] = True
            left[caller] -= 1
            if not left[caller] and opcode[caller] == CODES["call"]:
                opcode[caller] = CODES["delay"]
    return without(replace(graph, opcode=opcode), subroutines=dropped)


def drop_disconnected(graph: Graph) -> Graph:
    """The graph without the instructions that no root waits for, directly or through others.

    Raises:
        InputError: The graph cannot be run, or a `-start` would lose its `-done` or the other way round.
    """
    check_graph(graph)
    disconnected = np.ones(len(graph), dtype=bool)
    for root in graph.root.tolist():
        disconnected[post_order(graph.operands, root, ())] = False
    connected = without(graph, instructions=disconnected)
    torn = (connected.bonded != 0) & ~np.isin(connected.bonded, connected.identifier)
    for place in np.flatnonzero(torn):
        raise InputError(
            f"graph '{graph.name}': instruction '{connected.names[place]}' (id {connected.identifier[place]}) is "
            f"bonded to {connected.bonded[place]}, for which the root does not wait",
            "let the root wait for both",
        )
    return connected


def _add(builder: GraphBuilder, subroutine: int, graph: Graph, instruction: int, operands: list[int]) -> int:
    """Add an instruction of a graph to a builder, with other operands."""
    return builder.instruction(
        subroutine,
        graph.names[instruction],
        graph.opcode_name(instruction),
        operands=operands,
        seconds=float(graph.seconds[instruction]),
        bytes_in=float(graph.bytes_in[instruction]),
        bytes_out=float(graph.bytes_out[instruction]),
        ops=float(graph.ops[instruction]),
        transcendentals=float(graph.transcendentals[instruction]),
        groups=graph.groups[instruction],
        bonded=int(graph.bonded[instruction]),
        tag=int(graph.tag[instruction]),
        identifier=int(graph.identifier[instruction]),
    )
