"""How long collectives take where every message has its links for itself: rounds of messages, one after the other.

A round takes `latency + bytes / bandwidth`, and what is reduced after it the same share of the cost of reducing the
whole vector. Messages of one round, and the streams of an algorithm that has several, do not slow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from codesign_opt.errors import InputError
from codesign_opt.simulation.collectives import double_tree, exchange, rooted
from codesign_opt.simulation.collectives.barrier import CENTRALIZED
from codesign_opt.simulation.collectives.dissemination import DISSEMINATION
from codesign_opt.simulation.collectives.grid import MESH, TORUS
from codesign_opt.simulation.collectives.grid_cycle import GRID_CYCLE
from codesign_opt.simulation.collectives.halving_doubling import HALVING_DOUBLING
from codesign_opt.simulation.collectives.hierarchical import HIERARCHICAL
from codesign_opt.simulation.collectives.line import LINE
from codesign_opt.simulation.collectives.options import read_options
from codesign_opt.simulation.collectives.registry import NULL, find_algorithm
from codesign_opt.simulation.collectives.ring import BIDIRECTIONAL, UNIDIRECTIONAL


@dataclass(frozen=True, kw_only=True)
class Round:
    """Messages that follow each other, alike.

    Attributes:
        count: How many.
        bytes: Of each message.
        scale: Share of the cost of reducing the whole vector, after each message.
        inside: Whether the messages stay inside a node.
    """

    count: int
    bytes: float
    scale: float = 0.0
    inside: bool = False


def closed_form(
    opcode: str,
    algorithm: str,
    *,
    members: int,
    size: float,
    latency: float,
    bandwidth: float,
    options: Mapping[str, Any] | None = None,
    reduction_seconds: float = 0.0,
    inside_latency: float | None = None,
    inside_bandwidth: float | None = None,
) -> float:
    """Seconds of a collective of a whole system, as the sum of its rounds.

    Args:
        opcode: Such as `all-reduce`.
        algorithm: One of `ALGORITHMS[opcode]`.
        members: Processors of the system.
        size: Bytes of the whole vector.
        latency: Seconds of a message of 0 bytes.
        bandwidth: Bytes a second of a message.
        options: Of the algorithm, as in a configuration.
        reduction_seconds: Of reducing the whole vector once.
        inside_latency, inside_bandwidth: The same inside of a node, where an algorithm knows nodes; by default as
            between nodes.

    Raises:
        InputError: An unknown opcode, algorithm or option, or a number of members that the algorithm cannot handle.
    """
    between = (latency, bandwidth)
    inside = (
        latency if inside_latency is None else inside_latency,
        bandwidth if inside_bandwidth is None else inside_bandwidth,
    )
    seconds = 0.0
    for step in rounds(opcode, algorithm, members=members, size=size, options=options):
        alpha, rate = inside if step.inside else between
        seconds += step.count * (alpha + step.bytes / rate + step.scale * reduction_seconds)
    return seconds


def rounds(
    opcode: str, algorithm: str, *, members: int, size: float, options: Mapping[str, Any] | None = None
) -> tuple[Round, ...]:
    """The longest chain of messages of a collective of a whole system; see `closed_form`."""
    chosen = find_algorithm(opcode, algorithm, where=opcode)
    values = read_options(options or {}, chosen.options, where=f"{opcode}: algorithm '{algorithm}'")
    if members == 1:
        return ()
    whole = _Collective(opcode, algorithm, members, size, 1.0)
    return tuple(step for step in _ROUNDS[algorithm](whole, **values) if step.count)


@dataclass(frozen=True)
class _Collective:
    """A collective, or a part of one; `share` is the share of the whole reduction that reducing its vector takes."""

    opcode: str
    algorithm: str
    members: int
    size: float
    share: float


_Rounds = list[Round]


def _phases(opcode: str) -> tuple[str, ...]:
    return ("reduce-scatter", "all-gather") if opcode == "all-reduce" else (opcode,)


def _line(whole: _Collective, *, streams: int, barrier: bool = False, mirrored: bool = False) -> _Rounds:
    """All go one step a round; mirrored or not makes no difference to the longest chain."""
    part = whole.members * streams
    scale = {"reduce-scatter": whole.share / part, "all-gather": 0.0}
    phases = [
        Round(count=whole.members - 1, bytes=whole.size / part, scale=scale[phase]) for phase in _phases(whole.opcode)
    ]
    return _barriers(barrier) + phases


def _halving_doubling(whole: _Collective, *, barrier: bool = False) -> _Rounds:
    parts = [2**k for k in range(1, whole.members.bit_length())]
    if whole.members != parts[-1]:
        raise InputError(
            f"'{HALVING_DOUBLING}': a group of {whole.members} members", "the number of members must be a power of two"
        )
    steps = []
    for phase in _phases(whole.opcode):
        halving = [Round(count=1, bytes=whole.size / part, scale=whole.share / part) for part in parts]
        steps += halving if phase == "reduce-scatter" else [replace(step, scale=0.0) for step in reversed(halving)]
    return _barriers(barrier) + steps


def _grid(
    whole: _Collective,
    *,
    dimension_widths: tuple[int, int],
    concentration: int = 1,
    integrated_local_exchange: bool = False,
    barrier: bool = False,
    mirrored: bool = False,
) -> _Rounds:
    """Both streams move the same bytes; the one with more rounds is the longer."""
    short, long = sorted(dimension_widths)
    if whole.members != short * long * concentration:
        raise InputError(
            f"'{whole.algorithm}': {whole.members} members on {short} x {long} nodes "
            f"with {concentration} processors each",
            "a closed form is of a whole system",
        )
    lines = (short, long * concentration) if integrated_local_exchange else (short, long)
    local = 1 if integrated_local_exchange else concentration
    streams = 2 if whole.algorithm == TORUS else 1
    steps: _Rounds = []
    for phase in _phases(whole.opcode):
        gathered = 1
        gather: _Rounds = []
        for width in lines:
            gathered *= width
            share = gathered / whole.members / 2
            line = _Collective(phase, LINE, width, whole.size * share, whole.share * share)
            gather.append(_line(line, streams=streams)[0])
        node = _Collective(phase, LINE, local, whole.size, whole.share)
        gather.append(replace(_line(node, streams=streams)[0], inside=True))
        used = [step for step in gather if step.count]
        for step in used if phase == "all-gather" else reversed(used):
            steps += [*(replace(entry, inside=step.inside) for entry in _barriers(barrier)), step]
    return steps


def _cycle(
    whole: _Collective, *, dimension_widths: tuple[int, int], concentration: int = 1, barrier: bool = False
) -> _Rounds:
    return _line(whole, streams=2, barrier=barrier)


def _nodes(
    whole: _Collective,
    *,
    node_size: int,
    inside: str = UNIDIRECTIONAL,
    rails: str = UNIDIRECTIONAL,
    window: int = 1,
) -> _Rounds:
    members, nodes = _node_shape(whole.members, node_size)
    if whole.opcode == "all-to-all":
        return _all_to_all_over_nodes(whole, members, nodes, window)

    def in_node(opcode: str) -> _Rounds:
        part = _Collective(opcode, inside, members, whole.size, whole.share)
        return [replace(step, inside=True) for step in _LINES[inside](part)] if members > 1 else []

    def along_rail(opcode: str) -> _Rounds:
        part = _Collective(opcode, rails, nodes, whole.size / members, whole.share / members)
        return _LINES[rails](part) if nodes > 1 else []

    if whole.opcode == "all-gather":
        return along_rail("all-gather") + in_node("all-gather")
    if whole.opcode == "reduce-scatter":
        return in_node("reduce-scatter") + along_rail("reduce-scatter")
    return in_node("reduce-scatter") + along_rail("all-reduce") + in_node("all-gather")


def _all_to_all_over_nodes(whole: _Collective, members: int, nodes: int, window: int) -> _Rounds:
    block = whole.size / whole.members
    in_node, along_rail = _in_flight(members - 1, window), _in_flight(nodes - 1, window)
    return [
        Round(count=in_node if nodes > 1 else 0, bytes=block * (nodes - 1), inside=True),
        Round(count=along_rail, bytes=block * members),
        Round(count=in_node, bytes=block, inside=True),
    ]


def _node_shape(members: int, node_size: int) -> tuple[int, int]:
    """Members of a node, and nodes."""
    if members <= node_size:
        return members, 1
    if members % node_size:
        raise InputError(f"'{HIERARCHICAL}': {members} members on nodes of {node_size}", "fill all nodes")
    return node_size, members // node_size


def _dissemination(whole: _Collective) -> _Rounds:
    return [Round(count=_tree_steps(whole), bytes=whole.size, scale=whole.share)]


def _double_tree(whole: _Collective, *, chunks: int = double_tree.DEFAULT_CHUNKS) -> _Rounds:
    """Chunks follow each other up the tree, with a reduction after each hop, and down again."""
    depth = double_tree.tree_depth(whole.members)
    chunk = whole.size / 2 / chunks
    return [
        Round(count=depth, bytes=chunk, scale=whole.share / 2 / chunks),
        Round(count=depth + chunks - 1, bytes=chunk),
    ]


def _binomial(whole: _Collective) -> _Rounds:
    scale = whole.share if whole.opcode == "reduce" else 0.0
    return [Round(count=_tree_steps(whole), bytes=whole.size, scale=scale)]


def _direct(whole: _Collective, *, window: int = 1) -> _Rounds:
    return [Round(count=_in_flight(whole.members - 1, window), bytes=whole.size / whole.members)]


def _scatter_all_gather(whole: _Collective) -> _Rounds:
    return _direct(whole) + _line(replace(whole, opcode="all-gather"), streams=1)


def _reduce_scatter_gather(whole: _Collective) -> _Rounds:
    return _line(replace(whole, opcode="reduce-scatter"), streams=1) + _direct(whole)


def _ring_all_to_all(whole: _Collective) -> _Rounds:
    block = whole.size / whole.members
    return [Round(count=1, bytes=block * left) for left in range(whole.members - 1, 0, -1)]


def _barrier(whole: _Collective) -> _Rounds:
    return _barriers(True)


def _null(whole: _Collective) -> _Rounds:
    return []


def _barriers(present: bool) -> _Rounds:
    return [Round(count=2, bytes=0.0)] if present else []


def _tree_steps(whole: _Collective) -> int:
    return (whole.members - 1).bit_length()


def _in_flight(messages: int, window: int) -> int:
    return -(-messages // window)


def _one_way(whole: _Collective, **options: Any) -> _Rounds:
    return _line(whole, streams=1, **options)


def _both_ways(whole: _Collective, **options: Any) -> _Rounds:
    return _line(whole, streams=2, **options)


_LINES: Final[dict[str, Callable[..., _Rounds]]] = {
    UNIDIRECTIONAL: _one_way,
    BIDIRECTIONAL: _both_ways,
    LINE: _one_way,
    HALVING_DOUBLING: _halving_doubling,
}

_ROUNDS: Final[dict[str, Callable[..., _Rounds]]] = {
    **_LINES,
    MESH: _grid,
    TORUS: _grid,
    GRID_CYCLE: _cycle,
    HIERARCHICAL: _nodes,
    DISSEMINATION: _dissemination,
    double_tree.DOUBLE_TREE: _double_tree,
    exchange.DIRECT: _direct,
    exchange.RING: _ring_all_to_all,
    rooted.BINOMIAL: _binomial,
    rooted.SCATTER_ALL_GATHER: _scatter_all_gather,
    rooted.REDUCE_SCATTER_GATHER: _reduce_scatter_gather,
    CENTRALIZED: _barrier,
    NULL: _null,
}
