"""The program of one processor, taken from the graph of all processors (spec graph-simulation section 1.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from codesign_opt.errors import InputError
from codesign_opt.graphs.graph import Graph, Groups
from codesign_opt.graphs.group_rules import owner_position
from codesign_opt.graphs.opcodes import CODES, COLLECTIVES, COMMUNICATION
from codesign_opt.graphs.selection import without

_Parts = dict[int, list[tuple[int, tuple[int, ...]]]]

_ATTRIBUTES = ("ops", "transcendentals", "bytes_in", "bytes_out", "seconds", "bonded", "tag")


def processors_of(graph: Graph) -> list[int]:
    """The processors whose programs a graph holds, ascending: those in its communication groups, or its own one."""
    if graph.processor is not None:
        return [graph.processor]
    return sorted({processor for groups in graph.groups for group in groups for processor in group})


def individual_graph(graph: Graph, processor: int) -> Graph:
    """What one processor runs of a composite graph; see `individual_graphs`."""
    return next(individual_graphs(graph, [processor]))


def individual_graphs(graph: Graph, processors: Iterable[int] | None = None) -> Iterator[Graph]:
    """What each processor runs of a composite graph, by default all of `processors_of`; their names end in `_<number>`.

    A communication keeps the group of the processor. Where the processor has no part it becomes a `null` that costs
    nothing, without groups and inner subroutines. Identifiers stay as they are.

    Raises:
        InputError: A graph of one processor, a group of the wrong size, or a processor twice in one instruction.
    """
    if graph.processor is not None:
        raise InputError(
            f"graph '{graph.name}': it is the program of processor {graph.processor} alone already",
            "give a graph of all processors",
        )
    parts = _parts(graph)
    wanted = processors_of(graph) if processors is None else list(processors)
    for processor in wanted:
        if processor < 0:
            raise InputError(f"graph '{graph.name}': processor {processor} does not exist", "from 0 on")
    return (_program(graph, processor, parts.get(processor, [])) for processor in wanted)


def _program(graph: Graph, processor: int, parts: list[tuple[int, tuple[int, ...]]]) -> Graph:
    groups: list[Groups] = [()] * len(graph)
    idle = np.isin(graph.opcode, [CODES[name] for name in COMMUNICATION])
    for instruction, group in parts:
        groups[instruction] = (group,)
        idle[instruction] = False
    attributes: dict[str, Any] = {name: np.where(idle, 0, getattr(graph, name)) for name in _ATTRIBUTES}
    program = replace(
        graph,
        name=f"{graph.name}_{processor}",
        processor=processor,
        opcode=np.where(idle, CODES["null"], graph.opcode),
        groups=tuple(groups),
        **attributes,
    )
    inside = (graph.caller >= 0) & idle[graph.caller]
    return without(program, subroutines=inside) if inside.any() else program


def _parts(graph: Graph) -> _Parts:
    """For each processor the instructions that it takes part in, and its group in each."""
    parts: _Parts = {}
    for instruction, groups in enumerate(graph.groups):
        for group in groups:
            for processor, own in _roles(graph, instruction, group):
                entries = parts.setdefault(processor, [])
                if entries and entries[-1][0] == instruction:
                    raise _refusal(graph, instruction, f"processor {processor} takes part twice")
                entries.append((instruction, own))
    return parts


def _roles(graph: Graph, instruction: int, group: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The processors that run a communication, and the group that each sees."""
    opcode = graph.opcode_name(instruction)
    if opcode not in COMMUNICATION:
        raise _refusal(graph, instruction, "communication groups, but nothing to communicate")
    if opcode in COLLECTIVES:
        yield from ((processor, group) for processor in group)
        return
    expected = 3 if opcode == "sendrecv" else 2
    if len(group) != expected:
        raise _refusal(graph, instruction, f"group {group} has {len(group)} processors instead of {expected}")
    position = owner_position(opcode)
    yield group[position], group[:position] + group[position + 1 :]


def _refusal(graph: Graph, instruction: int, what: str) -> InputError:
    name, identifier = graph.names[instruction], graph.identifier[instruction]
    return InputError(
        f"graph '{graph.name}': instruction '{name}' (id {identifier}), {graph.opcode_name(instruction)}: {what}"
    )
