"""Parts of graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from codesign_opt.graphs.graph import Array, Graph, Ragged

_COLUMNS: Final = (
    "opcode", "identifier", "ops", "transcendentals", "bytes_in", "bytes_out", "seconds", "bonded", "tag",
)  # fmt: skip


def without(graph: Graph, *, instructions: Array | None = None, subroutines: Array | None = None) -> Graph:
    """A graph without some instructions and subroutines, and without all that is inside of them.

    Args:
        graph: Any graph.
        instructions: Which to leave out, True for each; never a root or an operand of one that stays.
        subroutines: Which to leave out, True for each; never the entry.
    """
    kept = np.ones(len(graph), dtype=bool) if instructions is None else ~instructions
    kept_subroutines = np.ones(len(graph.root), dtype=bool) if subroutines is None else ~subroutines
    while True:
        inside = kept_subroutines[graph.subroutine] & kept
        called = kept_subroutines & ((graph.caller < 0) | inside[graph.caller])
        if np.array_equal(inside, kept) and np.array_equal(called, kept_subroutines):
            break
        kept, kept_subroutines = inside, called
    return _selected(graph, np.flatnonzero(kept), np.flatnonzero(kept_subroutines))


def _selected(graph: Graph, instructions: Array, subroutines: Array) -> Graph:
    position = np.full(len(graph), -1)
    position[instructions] = np.arange(len(instructions))
    number = np.full(len(graph.root), -1)
    number[subroutines] = np.arange(len(subroutines))
    lengths = np.diff(graph.operands.offsets)
    operand_kept = np.repeat(position >= 0, lengths)
    operands = graph.operands.values[operand_kept]
    caller = graph.caller[subroutines]
    columns: dict[str, Any] = {name: getattr(graph, name)[instructions] for name in _COLUMNS}
    return replace(
        graph,
        names=tuple(graph.names[index] for index in instructions),
        **columns,
        subroutine=number[graph.subroutine[instructions]],
        operands=Ragged(np.concatenate(([0], np.cumsum(lengths[instructions]))), position[operands]),
        groups=tuple(graph.groups[index] for index in instructions),
        subroutine_names=tuple(graph.subroutine_names[index] for index in subroutines),
        root=position[graph.root[subroutines]],
        caller=np.where(caller < 0, -1, position[caller]),
        probability=graph.probability[subroutines],
        count=graph.count[subroutines],
    )
