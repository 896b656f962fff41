"""A ring over a grid (`ring-2d-grid`): one round trip past all nodes, so that every step goes to a neighbour."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign_opt.graphs.graph import Array
from codesign_opt.simulation.collectives.composition import in_sequence
from codesign_opt.simulation.collectives.grid import coordinates
from codesign_opt.simulation.collectives.schedule import Schedule
from codesign_opt.simulation.collectives.team import Team

GRID_CYCLE = "ring-2d-grid"


def along_cycle(
    opcode: str, team: Team, ring: Callable[[Team], Schedule], *, widths: tuple[int, int], concentration: int
) -> Schedule:
    """A ring algorithm on the members in the order of the round trip; nodes without a member are left out.

    Raises:
        InputError: A processor that is not on the grid.
    """
    local, y, x = coordinates(team.processors, widths, concentration, algorithm=GRID_CYCLE)
    order = np.lexsort((local, _visits(widths)[y, x]))
    return in_sequence(opcode, GRID_CYCLE, team, [("", ring(team.ordered(order)))])


def _visits(widths: tuple[int, int]) -> Array:
    """When each node is visited, shape (y, x): columns down and up in turn below row 0, then back along row 0."""
    width, height = widths
    trip = [(0, 0)]
    for x in range(width):
        column = range(1, height)
        trip += [(y, x) for y in (column if x % 2 == 0 else reversed(column))]
    trip += [(0, x) for x in range(width - 1, 0, -1)]
    visits = np.empty((height, width), dtype=np.int64)
    visits[tuple(np.array(trip).T)] = np.arange(len(trip))
    return visits
