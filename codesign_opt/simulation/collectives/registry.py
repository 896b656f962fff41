"""All algorithms of all collectives, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from codesign_opt.errors import InputError, nearest
from codesign_opt.simulation.collectives import double_tree, exchange, one_dimensional, rooted
from codesign_opt.simulation.collectives.barrier import CENTRALIZED, centralized_barrier
from codesign_opt.simulation.collectives.composition import nothing
from codesign_opt.simulation.collectives.dissemination import DISSEMINATION, dissemination_all_reduce
from codesign_opt.simulation.collectives.grid import (
    MESH,
    TORUS,
    GridAlgorithm,
    grid_all_gather,
    grid_all_reduce,
    grid_reduce_scatter,
)
from codesign_opt.simulation.collectives.grid_cycle import GRID_CYCLE, along_cycle
from codesign_opt.simulation.collectives.hierarchical import (
    HIERARCHICAL,
    NodeAlgorithm,
    hierarchical_all_gather,
    hierarchical_all_reduce,
    hierarchical_reduce_scatter,
)
from codesign_opt.simulation.collectives.line import LINE
from codesign_opt.simulation.collectives.one_dimensional import MIRRORED_LINE, ONE_DIMENSIONAL
from codesign_opt.simulation.collectives.options import (
    Option,
    algorithm_table,
    count,
    flag,
    read_options,
    widths,
    word,
)
from codesign_opt.simulation.collectives.ring import BIDIRECTIONAL, UNIDIRECTIONAL
from codesign_opt.simulation.collectives.schedule import Schedule
from codesign_opt.simulation.collectives.team import Team

NULL: Final = "null"

_LINES: Final = {
    "all-gather": one_dimensional.all_gather,
    "reduce-scatter": one_dimensional.reduce_scatter,
    "all-reduce": one_dimensional.all_reduce,
}
_GRIDS: Final = {
    "all-gather": grid_all_gather,
    "reduce-scatter": grid_reduce_scatter,
    "all-reduce": grid_all_reduce,
}
_NODES: Final = {
    "all-gather": hierarchical_all_gather,
    "reduce-scatter": hierarchical_reduce_scatter,
    "all-reduce": hierarchical_all_reduce,
}

_BARRIER: Final = algorithm_table("barrier", [CENTRALIZED])
_MIRRORED: Final = flag("mirrored")
_WINDOW: Final = count("window")
_NODE_SIZE: Final = count("node_size", required=True)
_GRID: Final = (widths("dimension_widths"), count("concentration"), flag("integrated_local_exchange"), _BARRIER)
_CYCLE: Final = (widths("dimension_widths", even_width=True), count("concentration"), _BARRIER)


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """A way to do a collective.

    Attributes:
        name: In configurations.
        build: The schedule of a group; options are given by name, and may be left out unless required.
        options: Those that there are.
    """

    name: str
    build: Callable[..., Schedule]
    options: tuple[Option, ...] = ()


def collective_schedule(
    opcode: str,
    algorithm: str,
    processors: Sequence[int],
    size: float,
    *,
    options: Mapping[str, Any] | None = None,
) -> Schedule:
    """The messages of a collective of one group.

    Args:
        opcode: Such as `all-reduce`.
        algorithm: One of `ALGORITHMS[opcode]`.
        processors: The group, in order; the first one is the root of a rooted collective.
        size: Bytes of the whole vector: of an all-gather the result, otherwise the operand of a member.
        options: Of the algorithm, as in a configuration.

    Raises:
        InputError: An unknown opcode, algorithm or option, a value that is not allowed, or a group that the algorithm
            cannot handle.
    """
    chosen = find_algorithm(opcode, algorithm, where=opcode)
    values = read_options(options or {}, chosen.options, where=f"{opcode}: algorithm '{algorithm}'")
    return chosen.build(Team.whole(processors, size), **values)


def find_algorithm(opcode: str, algorithm: str, *, where: str) -> Algorithm:
    """The algorithm of that name.

    Args:
        opcode: Of the collective.
        algorithm: The name.
        where: What the messages start with: file and key.

    Raises:
        InputError: There is none.
    """
    if opcode not in ALGORITHMS:
        raise InputError(f"{where}: '{opcode}' is not a collective", nearest(opcode, ALGORITHMS))
    if algorithm not in ALGORITHMS[opcode]:
        raise InputError(f"{where}: unknown algorithm '{algorithm}'", nearest(str(algorithm), ALGORITHMS[opcode]))
    return ALGORITHMS[opcode][algorithm]


def _line(opcode: str, name: str, team: Team, *, barrier: bool = False, mirrored: bool = False) -> Schedule:
    return _LINES[opcode](team, MIRRORED_LINE if mirrored else ONE_DIMENSIONAL[name], barrier=barrier)


def _grid(
    opcode: str,
    name: str,
    team: Team,
    *,
    dimension_widths: tuple[int, int],
    mirrored: bool = False,
    **options: Any,
) -> Schedule:
    line = ONE_DIMENSIONAL[BIDIRECTIONAL if name == TORUS else LINE]
    algorithm = GridAlgorithm(name=name, line=MIRRORED_LINE if mirrored else line, widths=dimension_widths, **options)
    return _GRIDS[opcode](team, algorithm)


def _cycle(
    opcode: str, team: Team, *, dimension_widths: tuple[int, int], concentration: int = 1, barrier: bool = False
) -> Schedule:
    ring = partial(_LINES[opcode], algorithm=ONE_DIMENSIONAL[BIDIRECTIONAL], barrier=barrier)
    return along_cycle(opcode, team, ring, widths=dimension_widths, concentration=concentration)


def _nodes(
    opcode: str, team: Team, *, node_size: int, inside: str = UNIDIRECTIONAL, rails: str = UNIDIRECTIONAL
) -> Schedule:
    algorithm = NodeAlgorithm(node_size=node_size, inside=ONE_DIMENSIONAL[inside], rails=ONE_DIMENSIONAL[rails])
    return _NODES[opcode](team, algorithm)


def _gathering_and_reducing(opcode: str) -> tuple[Algorithm, ...]:
    """Algorithms that all-gather, reduce-scatter and all-reduce share."""
    lines = [
        Algorithm(
            name=name,
            build=partial(_line, opcode, name),
            options=(_BARRIER, _MIRRORED) if name == LINE and opcode != "all-gather" else (_BARRIER,),
        )
        for name in ONE_DIMENSIONAL
    ]
    grids = [
        Algorithm(
            name=name,
            build=partial(_grid, opcode, name),
            options=(*_GRID, _MIRRORED) if name == MESH and opcode != "all-gather" else _GRID,
        )
        for name in (MESH, TORUS)
    ]
    inner = [word(name, list(ONE_DIMENSIONAL)) for name in ("inside", "rails")]
    return (
        *lines,
        *grids,
        Algorithm(name=GRID_CYCLE, build=partial(_cycle, opcode), options=_CYCLE),
        Algorithm(name=HIERARCHICAL, build=partial(_nodes, opcode), options=(_NODE_SIZE, *inner)),
    )


def _by_name(*algorithms: Algorithm) -> dict[str, Algorithm]:
    return {algorithm.name: algorithm for algorithm in algorithms}


ALGORITHMS: Final[Mapping[str, Mapping[str, Algorithm]]] = {
    "all-gather": _by_name(*_gathering_and_reducing("all-gather")),
    "reduce-scatter": _by_name(*_gathering_and_reducing("reduce-scatter")),
    "all-reduce": _by_name(
        *_gathering_and_reducing("all-reduce"),
        Algorithm(name=DISSEMINATION, build=dissemination_all_reduce),
        Algorithm(name=double_tree.DOUBLE_TREE, build=double_tree.double_tree_all_reduce, options=(count("chunks"),)),
        Algorithm(name=NULL, build=partial(nothing, "all-reduce", NULL)),
    ),
    "all-to-all": _by_name(
        Algorithm(name=exchange.DIRECT, build=exchange.direct_all_to_all, options=(_WINDOW,)),
        Algorithm(name=exchange.RING, build=exchange.ring_all_to_all),
        Algorithm(name=HIERARCHICAL, build=exchange.hierarchical_all_to_all, options=(_NODE_SIZE, _WINDOW)),
    ),
    "broadcast": _by_name(
        Algorithm(name=rooted.BINOMIAL, build=rooted.binomial_broadcast),
        Algorithm(name=rooted.SCATTER_ALL_GATHER, build=rooted.scatter_all_gather_broadcast),
    ),
    "reduce": _by_name(
        Algorithm(name=rooted.BINOMIAL, build=rooted.binomial_reduce),
        Algorithm(name=rooted.REDUCE_SCATTER_GATHER, build=rooted.reduce_scatter_gather_reduce),
    ),
    "scatter": _by_name(Algorithm(name=rooted.DIRECT, build=rooted.direct_scatter, options=(_WINDOW,))),
    "gather": _by_name(Algorithm(name=rooted.DIRECT, build=rooted.direct_gather, options=(_WINDOW,))),
    "barrier": _by_name(Algorithm(name=CENTRALIZED, build=centralized_barrier)),
}
"""Opcode of a collective, then name of the algorithm."""
