"""What a graph contains, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from codesign_opt.graphs.dependencies import operands_first
from codesign_opt.graphs.graph import Array, Graph
from codesign_opt.graphs.individual import processors_of
from codesign_opt.graphs.opcodes import (
    CODES,
    COLLECTIVES,
    CONTROL,
    GENERAL,
    INDIVIDUAL,
    OPCODES,
    PROTOCOL,
)
from codesign_opt.tables import Table

_CLASSES: Final = {
    "general": GENERAL,
    "control": CONTROL,
    "collective": COLLECTIVES,
    "individual": INDIVIDUAL,
    "protocol": PROTOCOL,
}
_COMPUTE: Final = ("delay", "infeed", "outfeed")
_SENDS: Final = ("send", "sendrecv", "send-start")
_RECEIVES: Final = ("recv", "sendrecv", "recv-done", *COLLECTIVES)

_UNITS: Final = {"seconds": "s", "ops": "flop", "memory": "B", "communicated": "B"}


@dataclass(frozen=True, kw_only=True)
class GraphSummary:
    """What a graph contains. A composite graph is counted as it stands, once for all processors.

    Executed is the number of executions: loops by their counts, branches by their probabilities. Costs are those of all
    executions of `delay`, `infeed` and `outfeed`; what has inner subroutines costs what is in them.

    Attributes:
        name: Of the graph.
        processor: Whose program it is; None for all processors.
        instructions: Number of instructions.
        executed: Number of their executions.
        subroutines: Number of subroutines, the entry included.
        depth: How many subroutines are one inside the other, the entry included.
        processors: The processors whose programs it holds.
        groups: Number of different communication groups.
        longest_chain: Seconds of compute that have to follow each other; of branches the longest counts.
        opcodes: A row for each opcode that occurs: opcode, class, instructions, executed, seconds, ops,
            transcendentals, memory (bytes read and written), communicated (bytes: of a collective its whole vector, of
            a message those sent and received).
        classes: The same columns summed up by class of opcodes.
        loops: A row for each `while`: loop, depth (subroutines that it is inside of), body and condition (iterations
            of each), executed.
    """

    name: str
    processor: int | None
    instructions: int
    executed: float
    subroutines: int
    depth: int
    processors: tuple[int, ...]
    groups: int
    longest_chain: float
    opcodes: Table
    classes: Table
    loops: Table


def graph_summary(graph: Graph) -> GraphSummary:
    """Count what a graph contains; one that `check_graph` accepts."""
    depth, executions = _nesting(graph)
    executed = executions[graph.subroutine]
    by_opcode = _by_opcode(graph, executed)
    return GraphSummary(
        name=graph.name,
        processor=graph.processor,
        instructions=len(graph),
        executed=float(executed.sum()),
        subroutines=len(graph.root),
        depth=int(depth.max()),
        processors=tuple(processors_of(graph)),
        groups=len({group for groups in graph.groups for group in groups}),
        longest_chain=_longest_chain(graph),
        opcodes=by_opcode,
        classes=_by_class(by_opcode),
        loops=_loops(graph, depth, executed),
    )


def _nesting(graph: Graph) -> tuple[Array, Array]:
    """Of each subroutine how deep it is, the entry 1, and how often it is executed."""
    depth, executions = [1], [1.0]
    outer = graph.subroutine[graph.caller].tolist()
    times = (graph.count * graph.probability).tolist()
    # Inner subroutines come after those that they are in.
    for subroutine in range(1, len(graph.root)):
        depth.append(depth[outer[subroutine]] + 1)
        executions.append(executions[outer[subroutine]] * times[subroutine])
    return np.array(depth), np.array(executions)


def _by_opcode(graph: Graph, executed: Array) -> Table:
    is_compute = np.isin(graph.opcode, [CODES[name] for name in _COMPUTE]) & (np.diff(graph.inner.offsets) == 0)
    sends, receives = (np.isin(graph.opcode, [CODES[name] for name in names]) for names in (_SENDS, _RECEIVES))
    values = {
        "instructions": np.ones(len(graph)),
        "executed": executed,
        "seconds": executed * is_compute * graph.seconds,
        "ops": executed * is_compute * graph.ops,
        "transcendentals": executed * is_compute * graph.transcendentals,
        "memory": executed * is_compute * (graph.bytes_in + graph.bytes_out),
        "communicated": executed * (sends * graph.bytes_in + receives * graph.bytes_out),
    }
    present = np.unique(graph.opcode)
    words = {
        "opcode": [OPCODES[code] for code in present],
        "class": [_class_of(OPCODES[code]) for code in present],
    }
    sums = {name: _sums(graph.opcode, column)[present] for name, column in values.items()}
    sums["instructions"] = sums["instructions"].astype(np.int64)
    return Table({**words, **sums}, _UNITS)


def _by_class(opcodes: Table) -> Table:
    names = [name for name in _CLASSES if name in opcodes["class"]]
    numbers = np.array([names.index(name) for name in opcodes["class"]])
    columns = [name for name in opcodes if name not in ("opcode", "class")]
    sums = {name: _sums(numbers, opcodes[name]).astype(opcodes[name].dtype) for name in columns}
    return Table({"class": names, **sums}, _UNITS)


def _loops(graph: Graph, depth: Array, executed: Array) -> Table:
    loops = np.flatnonzero(graph.opcode == CODES["while"])
    body, condition = graph.inner.values[graph.inner.offsets[loops] + np.array([[0], [1]])]
    return Table(
        {
            "loop": np.array([graph.names[loop] for loop in loops], dtype=str),
            "depth": depth[graph.subroutine[loops]],
            "body": graph.count[body],
            "condition": graph.count[condition],
            "executed": executed[loops],
        }
    )


def _longest_chain(graph: Graph) -> float:
    """Seconds of compute on the longest path of dependencies through the entry."""
    rank = np.empty(len(graph), dtype=np.int64)
    rank[operands_first(graph.operands)] = np.arange(len(graph))
    compute, control = ({CODES[name] for name in names} for names in (_COMPUTE, ("call", "while")))
    opcode, seconds = graph.opcode.tolist(), graph.seconds.tolist()
    offsets, operands = graph.operands.offsets.tolist(), graph.operands.values.tolist()
    times = graph.count.tolist()
    chains = [0.0] * len(graph.root)
    finished = [0.0] * len(graph)
    for subroutine in range(len(graph.root) - 1, -1, -1):
        members = graph.members[subroutine]
        for place in members[np.argsort(rank[members])].tolist():
            inner = [chains[called] * times[called] for called in graph.inner[place].tolist()]
            if inner:
                own = sum(inner) if opcode[place] in control else max(inner)
            else:
                own = seconds[place] if opcode[place] in compute else 0.0
            waited = (finished[operand] for operand in operands[offsets[place] : offsets[place + 1]])
            finished[place] = own + max(waited, default=0.0)
            chains[subroutine] = max(chains[subroutine], finished[place])
    return chains[0]


def _sums(numbers: Array, values: Array) -> Array:
    return np.bincount(numbers, weights=values)


def _class_of(opcode: str) -> str:
    return next(name for name, opcodes in _CLASSES.items() if opcode in opcodes)
