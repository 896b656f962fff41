"""Two-dimensional meshes and tori: two streams, one of which goes along x first, the other along y.

Processor `c + concentration * (x + width * y)` is number c on the node at (x, y). The members of a group must form a
grid: the same x at every y, and the same c on every node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from codesign_opt.errors import InputError
from codesign_opt.graphs.graph import Array
from codesign_opt.simulation.collectives import one_dimensional
from codesign_opt.simulation.collectives.composition import Part, in_sequence, side_by_side
from codesign_opt.simulation.collectives.one_dimensional import OneDimensional
from codesign_opt.simulation.collectives.schedule import Schedule
from codesign_opt.simulation.collectives.team import Team

MESH = "mesh-2d"
TORUS = "torus-2d"

_LOCAL, _Y, _X = range(3)
_STREAMS = ((_X, _Y), (_Y, _X))


@dataclass(frozen=True, kw_only=True)
class GridAlgorithm:
    """A collective on a grid of nodes.

    Attributes:
        name: Of the algorithm.
        line: What is done along a row or a column, and among the processors of a node.
        widths: Nodes along x and y.
        concentration: Processors of a node.
        integrated_local_exchange: Whether the processors of a node take part in the exchange along one dimension,
            instead of having an exchange of their own.
        barrier: Whether a barrier stands before every exchange along a line.
    """

    name: str
    line: OneDimensional
    widths: tuple[int, int]
    concentration: int = 1
    integrated_local_exchange: bool = False
    barrier: bool = False


def grid_all_gather(team: Team, algorithm: GridAlgorithm) -> Schedule:
    """In each stream along one dimension, then along the other; at last among the processors of a node.

    Raises:
        InputError: Members that do not form a grid, or stand outside of it.
    """
    grid = _grid(team, algorithm)
    with_locals = (_LOCAL,) if algorithm.integrated_local_exchange else ()
    streams = []
    for stream, (first, second) in enumerate(_STREAMS):
        half = team.part(stream, 2)
        lines = [half.lines(grid, (first,)), half.lines(grid, (second, *with_locals), free=(first,))]
        stages = [one_dimensional.all_gather(line, algorithm.line, barrier=algorithm.barrier) for line in lines]
        streams.append(in_sequence("all-gather", algorithm.name, half, _named(stream, stages)))
    parts = [("", side_by_side("all-gather", algorithm.name, team, [("", stream) for stream in streams]))]
    if not algorithm.integrated_local_exchange:
        node = team.lines(grid, (_LOCAL,), free=(_X, _Y))
        parts.append(("local", one_dimensional.all_gather(node, algorithm.line, barrier=algorithm.barrier)))
    return _without_algorithm(in_sequence("all-gather", algorithm.name, team, parts))


def grid_reduce_scatter(team: Team, algorithm: GridAlgorithm) -> Schedule:
    """Among the processors of a node; then in each stream along one dimension, and along the other.

    Raises:
        InputError: Members that do not form a grid, or stand outside of it.
    """
    grid = _grid(team, algorithm)
    with_locals = (_LOCAL,) if algorithm.integrated_local_exchange else ()
    streams = []
    for stream, (first, second) in enumerate(_STREAMS):
        half = team.part(stream, 2)
        lines = [half.lines(grid, (first, *with_locals), free=(second,)), half.lines(grid, (second,))]
        stages = [one_dimensional.reduce_scatter(line, algorithm.line, barrier=algorithm.barrier) for line in lines]
        streams.append(in_sequence("reduce-scatter", algorithm.name, half, _named(stream, stages)))
    parts = [("", side_by_side("reduce-scatter", algorithm.name, team, [("", stream) for stream in streams]))]
    if not algorithm.integrated_local_exchange:
        node = team.lines(grid, (_LOCAL,), free=(_X, _Y))
        parts.insert(0, ("local", one_dimensional.reduce_scatter(node, algorithm.line, barrier=algorithm.barrier)))
    return _without_algorithm(in_sequence("reduce-scatter", algorithm.name, team, parts))


def grid_all_reduce(team: Team, algorithm: GridAlgorithm) -> Schedule:
    """The reduce-scatter, then the all-gather.

    Raises:
        InputError: Members that do not form a grid, or stand outside of it.
    """
    parts = [
        ("reduce-scatter", grid_reduce_scatter(team, algorithm)),
        ("all-gather", grid_all_gather(team, algorithm)),
    ]
    return in_sequence("all-reduce", algorithm.name, team, parts)


def coordinates(processors: Array, widths: tuple[int, int], concentration: int, *, algorithm: str) -> Array:
    """Number on the node, y and x of each processor; shape (3, processors).

    Raises:
        InputError: A processor that is not on the grid.
    """
    width, height = widths
    outside = processors[processors >= width * height * concentration]
    if len(outside):
        raise InputError(
            f"'{algorithm}': processor {outside[0]} is not on a grid of {width} x {height} nodes "
            f"with {concentration} processors each",
            "give larger 'dimension_widths'",
        )
    node = processors // concentration
    return np.stack((processors % concentration, node // width, node % width))


def _grid(team: Team, algorithm: GridAlgorithm) -> Array:
    """The ranks on the grid; shape (processors of a node, y, x), without the places that no member has."""
    places = coordinates(team.processors, algorithm.widths, algorithm.concentration, algorithm=algorithm.name)
    used = [np.unique(axis, return_inverse=True) for axis in places]
    shape = [len(values) for values, _ in used]
    if np.prod(shape) != len(team.processors):
        raise InputError(
            f"'{algorithm.name}': {len(team.processors)} processors "
            f"do not fill a grid of {shape[_X]} x {shape[_Y]} nodes with {shape[_LOCAL]} processors each",
            "give groups that form a grid, or use 'ring-2d-grid', which takes any group",
        )
    grid = np.empty(shape, dtype=np.int64)
    grid[tuple(place for _, place in used)] = np.arange(len(team.processors))
    return grid


def _named(stream: int, stages: Sequence[Schedule]) -> list[Part]:
    return [(f"stream-{stream}_stage-{stage}", schedule) for stage, schedule in enumerate(stages)]


def _without_algorithm(schedule: Schedule) -> Schedule:
    """The schedule with its parts named as in translations by ParaGraph, where the algorithm is not repeated."""
    whole, *parts = schedule.phases
    return replace(schedule, phases=(replace(whole, names_algorithm=False), *parts))
