"""A program graph made ready for execution: flat columns, loops as counters, branches drawn (spec graph-simulation 2).

`compile_program` does it once; the scheduler, the event engine and the level engine all run the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, SupportsInt

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError, nearest
from codesign_opt.graphs.graph import Graph, Ragged
from codesign_opt.graphs.opcodes import CODES, COLLECTIVES, INDIVIDUAL, PROTOCOL
from codesign_opt.simulation.branches import draw_branch, expected_seconds, subroutine_layers
from codesign_opt.simulation.kinds import LEAF_KIND, STREAM, Kind, Stream

Array = NDArray[Any]
Branches = Literal["draw", "expected"]

__all__ = ["BRANCHES", "Branches", "Kind", "Program", "Stream", "compile_program"]

BRANCHES: Final = ("draw", "expected")


@dataclass(frozen=True, kw_only=True)
class Program:
    """One processor's graph for execution. Columns are over instructions or over subroutines, as in `Graph`.

    Attributes:
        graph: Where it comes from.
        kind: Of each instruction, a `Kind`.
        stream: That it occupies, a `Stream`, or a number behind those for a further stream of the processor.
        priority: Of those that wait for a stream the lowest goes first; equal ones in the order of becoming ready.
        seconds: On its stream.
        bytes: On the wire.
        peer: Processor at the other end of a message; -1 for none.
        route: Route class of what is sent, for a network of one's own; -1 for that between the two processors.
        bonded: Instruction that is the other half of a `-start` and `-done`; -1 for none.
        needs: Number of operands.
        executions: How often it runs.
        sources: Instructions of a subroutine that need none of the others.
        size: Number of instructions of a subroutine.
        first: Subroutine that a caller starts with; -1 for instructions that call none. Conditionals have `draws`.
        following: Subroutine that runs after this one; -1 where the caller is finished then.
        repeats: Iterations of a loop, at its condition; 0 elsewhere.
        draws: For a conditional the subroutine of each of its executions, in order.
    """

    graph: Graph
    kind: Array
    stream: Array
    priority: Array
    seconds: Array
    bytes: Array
    peer: Array
    route: Array
    bonded: Array
    needs: Array
    executions: Array
    sources: Ragged
    size: Array
    first: Array
    following: Array
    repeats: Array
    draws: Ragged

    def __len__(self) -> int:
        """Number of instructions."""
        return len(self.graph)

    @property
    def processor(self) -> int:
        """Whose program it is; 0 for a graph that names none."""
        return self.graph.processor or 0


def compile_program(graph: Graph, *, branches: Branches = "draw", seed: int = 0) -> Program:
    """The program of an individualised, translated graph.

    A loop whose body and condition have different counts runs as often as the lower one says. An instruction with
    inner subroutines takes the time of those, whatever its opcode and seconds say. A collective that has none takes
    its seconds on the collective stream, and waits for nobody.

    Args:
        graph: Of one processor.
        branches: "draw" draws the branch of a conditional once for each of its executions: the k-th conditional of
            the graph takes the numbers of NumPy's PCG64, seeded with (seed, k), one after the other, so all
            processors of one program draw alike. "expected" takes the seconds of all branches, weighted.
        seed: Of the draws, not negative.

    Raises:
        InputError: Instructions that cannot be executed, named.
    """
    if branches not in BRANCHES:
        raise InputError(f"branches: '{branches}'", nearest(branches, BRANCHES))
    if seed < 0:
        raise InputError(f"seed: {seed}", "a seed is not negative")
    inner_count = np.diff(graph.inner.offsets)
    kind = np.where(inner_count > 0, int(Kind.CALLER), LEAF_KIND[graph.opcode])
    _check_leaves(graph, kind)
    _check_callers(graph, inner_count)
    seconds = graph.seconds.astype(np.float64)
    iterations = _iterations(graph)
    kind[iterations == 0] = Kind.NULL
    conditionals = np.flatnonzero((graph.opcode == CODES["conditional"]) & (kind == Kind.CALLER))
    if branches == "expected" and len(conditionals):
        seconds = expected_seconds(graph, kind == Kind.TIMED, iterations)
        kind[conditionals] = Kind.TIMED
        iterations[conditionals] = 0
    runs, draws = _runs(graph, iterations, conditionals if branches == "draw" else conditionals[:0], seed)
    first, following, repeats = _successions(graph, kind, iterations)
    needs = np.diff(graph.operands.offsets)
    return Program(
        graph=graph,
        kind=kind,
        stream=STREAM[graph.opcode],
        priority=np.zeros(len(graph), dtype=np.int64),
        seconds=np.where(kind == Kind.TIMED, seconds, 0.0),
        bytes=graph.bytes_in * (kind == Kind.SEND_START) + graph.bytes_out * (kind == Kind.RECEIVE_DONE),
        peer=_peers(graph, kind),
        route=np.full(len(graph), -1, dtype=np.int64),
        bonded=_bonds(graph, kind),
        needs=needs,
        executions=runs[graph.subroutine],
        sources=_only(graph.members, needs == 0),
        size=np.diff(graph.members.offsets),
        first=first,
        following=following,
        repeats=repeats,
        draws=draws,
    )


_UNTRANSLATED: Final = np.array([CODES[name] for name in INDIVIDUAL])
_CONTROL: Final = np.array([CODES[name] for name in ("call", "while", "conditional")])
_COLLECTIVE_CODES: Final = np.array([CODES[name] for name in COLLECTIVES])
_PROTOCOL_CODES: Final = np.array([CODES[name] for name in PROTOCOL])
_PARTNER: Final = {
    CODES["send-start"]: CODES["send-done"],
    CODES["send-done"]: CODES["send-start"],
    CODES["recv-start"]: CODES["recv-done"],
    CODES["recv-done"]: CODES["recv-start"],
}


def _check_leaves(graph: Graph, kind: Array) -> None:
    leaf = kind != Kind.CALLER
    untranslated = np.flatnonzero(leaf & np.isin(graph.opcode, _UNTRANSLATED))
    if len(untranslated):
        raise InputError(_described(graph, untranslated[0]) + " is not translated", "translate the graph first")
    hollow = np.flatnonzero(leaf & np.isin(graph.opcode, _CONTROL))
    if len(hollow):
        raise InputError(
            _described(graph, hollow[0]) + " has no subroutine", "call needs one, while and conditional need two"
        )
    free = leaf & np.isin(graph.opcode, _COLLECTIVE_CODES) & (graph.seconds == 0) & (graph.bytes_out > 0)
    for instruction in np.flatnonzero(free):
        if any(len(group) > 1 for group in graph.groups[instruction]):
            raise InputError(
                _described(graph, instruction) + " is not translated and has no seconds",
                "translate the graph first, or give the collective its seconds",
            )


def _check_callers(graph: Graph, inner_count: Array) -> None:
    """A loop has two subroutines; all but calls and conditionals have at most one otherwise."""
    several = np.flatnonzero(inner_count > 1)
    for instruction in several[graph.opcode[several] != CODES["call"]]:
        opcode = graph.opcode_name(instruction)
        if opcode not in ("while", "conditional") or (opcode == "while" and inner_count[instruction] != 2):
            raise InputError(
                f"{_described(graph, instruction)} has {inner_count[instruction]} subroutines",
                "while takes a body and a condition, conditional and call any number, others one",
            )
    lonely = np.flatnonzero((inner_count == 1) & (graph.opcode == CODES["while"]))
    if len(lonely):
        raise InputError(_described(graph, lonely[0]) + " has one subroutine", "while takes a body and a condition")


def _iterations(graph: Graph) -> Array:
    """How often each caller runs its subroutines: once, but for loops."""
    iterations = np.ones(len(graph), dtype=np.int64)
    loops = np.flatnonzero(graph.opcode == CODES["while"])
    if len(loops):
        body = graph.inner.values[graph.inner.offsets[loops]]
        condition = graph.inner.values[graph.inner.offsets[loops] + 1]
        iterations[loops] = np.minimum(graph.count[body], graph.count[condition])
    return iterations


def _runs(graph: Graph, iterations: Array, conditionals: Array, seed: int) -> tuple[Array, Ragged]:
    """How often each subroutine runs, and the branches that the conditionals draw; outer subroutines before inner."""
    ordinal = {int(instruction): number for number, instruction in enumerate(conditionals)}
    drawn: dict[int, Array] = {}
    runs = np.ones(len(graph.root), dtype=np.int64)
    for layer in subroutine_layers(graph.caller, graph.subroutine)[1:]:
        callers = graph.caller[layer]
        runs[layer] = runs[graph.subroutine[callers]] * iterations[callers]
        for instruction in np.intersect1d(callers, conditionals).tolist():
            choices = graph.inner[instruction]
            weights = _branch_weights(graph, instruction)
            picks = draw_branch(weights, runs[choices[0]], seed=seed, ordinal=ordinal[instruction])
            drawn[instruction] = choices[picks]
            runs[choices] = np.bincount(picks, minlength=len(choices))
    offsets = np.zeros(len(graph) + 1, dtype=np.int64)
    for instruction, picked in drawn.items():
        offsets[instruction + 1] = len(picked)
    in_order = [drawn[instruction] for instruction in sorted(drawn)]
    return runs, Ragged(np.cumsum(offsets), np.concatenate([np.zeros(0, dtype=np.int64), *in_order]))


def _branch_weights(graph: Graph, instruction: int) -> Array:
    weights = graph.probability[graph.inner[instruction]]
    if weights.min() < 0 or not weights.sum() > 0:
        raise InputError(
            f"{_described(graph, instruction)}: branch probabilities {weights.tolist()}", "they must sum to 1"
        )
    return weights


def _successions(graph: Graph, kind: Array, iterations: Array) -> tuple[Array, Array, Array]:
    """What a caller starts with, what follows each subroutine, and at which ones a loop counts."""
    count = np.diff(graph.inner.offsets)
    callers = np.flatnonzero(kind == Kind.CALLER)
    first = np.full(len(graph), -1, dtype=np.int64)
    first[callers] = graph.inner.values[graph.inner.offsets[callers]]
    following = np.full(len(graph.root), -1, dtype=np.int64)
    repeats = np.zeros(len(graph.root), dtype=np.int64)
    inner, caller = graph.inner.values, np.repeat(np.arange(len(graph)), count)
    in_turn = (caller[:-1] == caller[1:]) & (graph.opcode[caller[:-1]] != CODES["conditional"])
    following[inner[:-1][in_turn]] = inner[1:][in_turn]
    loops = callers[graph.opcode[callers] == CODES["while"]]
    condition = graph.inner.values[graph.inner.offsets[loops] + 1]
    following[condition] = first[loops]
    repeats[condition] = iterations[loops]
    return first, following, repeats


def _peers(graph: Graph, kind: Array) -> Array:
    halves = np.flatnonzero(np.isin(graph.opcode, _PROTOCOL_CODES) & (kind != Kind.CALLER))
    groups = [graph.groups[half] for half in halves.tolist()]
    wrong = next((number for number, entry in enumerate(groups) if len(entry) != 1 or len(entry[0]) != 1), None)
    if wrong is not None:
        raise InputError(
            f"{_described(graph, halves[wrong])} has groups {groups[wrong]}, not one peer",
            "individualise the graph for a processor first",
        )
    peers = np.full(len(graph), -1, dtype=np.int64)
    peers[halves] = [group[0] for (group,) in groups]
    return peers


def _bonds(graph: Graph, kind: Array) -> Array:
    """Positions of the other halves; both must run equally often, one after the other."""
    bonds = np.full(len(graph), -1, dtype=np.int64)
    halves = np.flatnonzero(np.isin(graph.opcode, _PROTOCOL_CODES) & (kind != Kind.CALLER))
    if not len(halves):
        return bonds
    order = np.argsort(graph.identifier, kind="stable")
    place = np.minimum(np.searchsorted(graph.identifier[order], graph.bonded[halves]), len(order) - 1)
    partner = order[place]
    wanted = np.array([_PARTNER[opcode] for opcode in graph.opcode[halves].tolist()])
    wrong = (
        (graph.identifier[partner] != graph.bonded[halves])
        | (graph.opcode[partner] != wanted)
        | (graph.bonded[partner] != graph.identifier[halves])
        | (graph.subroutine[partner] != graph.subroutine[halves])
    )
    if wrong.any():
        instruction = halves[np.argmax(wrong)]
        raise InputError(
            f"{_described(graph, instruction)} is bonded to instruction {graph.bonded[instruction]}",
            "a -start and a -done of the same subroutine must name each other",
        )
    bonds[halves] = partner
    return bonds


def _only(lists: Ragged, wanted: Array) -> Ragged:
    """The same lists with only the entries that are wanted."""
    kept = wanted[lists.values]
    return Ragged(np.concatenate([[0], np.cumsum(kept)])[lists.offsets], lists.values[kept])


def _described(graph: Graph, instruction: SupportsInt) -> str:
    return f"graph '{graph.name}': {graph.opcode_name(int(instruction))} '{graph.names[int(instruction)]}'"
