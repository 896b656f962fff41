"""The bound of a box, the best machine met in it, and where to cut it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies import StrategyTable
from codesign_opt.studies.certify.box import Box, with_lowest_price
from codesign_opt.studies.certify.shortlist import (
    NOTHING_KNOWN,
    Achieved,
    Shortlist,
    achieved,
    complete_search,
    objective_is_of_the_system,
    values,
)
from codesign_opt.studies.points import Point, machine
from codesign_opt.studies.specification import StudySpecification

Array = NDArray[Any]

EXPLORED = 64
"""Strategies of a shortlist, the best ones, with which the cells of a box are explored."""

CELL_DIMENSIONS = 3
"""Dimensions, those with the longest edges, along which a box is cut into cells."""

ROUNDING = 1e-9
"""Bounds are lowered by this share, more than sums of positive numbers can be off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBox:
    """A box that may hold a better machine than the best one known.

    Attributes:
        box: The machines.
        bound: The objective, to be minimised, is nowhere in the box below this.
        shortlist: Strategies that may be the best somewhere in it.
        cut: The dimension to halve; "" where it is not known yet.
        half_bounds: As `bound`, for both halves along `cut`.
        done: Whether it is a single machine whose value is known.
    """

    box: Box
    bound: float = -np.inf
    shortlist: Shortlist = NOTHING_KNOWN
    cut: str = ""
    half_bounds: tuple[float, float] = (-np.inf, -np.inf)
    done: bool = False

    def parts(self) -> list[OpenBox]:
        """Both halves along `cut`; the box itself where it is not known where to cut."""
        if not self.cut:
            return [self]
        return [
            OpenBox(box=half, bound=bound, shortlist=self.shortlist)
            for half, bound in zip(self.box.halves(self.cut), self.half_bounds, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """A box that was looked at.

    Attributes:
        box: It, with a bound of its own.
        value: The best value of the objective met in it, to be minimised; infinite where nothing was feasible.
        point: The machine that has it.
        evaluations: Machines on which strategies were timed.
        searches: Those of them on which all strategies were covered.
    """

    box: OpenBox
    value: float
    point: Point
    evaluations: int
    searches: int


def bound_boxes(specification: StudySpecification, cutoff: float, boxes: Sequence[OpenBox]) -> list[Bounded]:
    """Bounds of boxes, in their order; strategies whose value is not below the cutoff are of no interest."""
    looks = _looks(specification, cutoff, boxes)
    slow = [_slow_sets(look.given.box) if _lowered(look, look.bound) < cutoff else [] for look in looks]
    machines = [
        (machine(specification, look.given.box.part(names, names).best_end)[0], look.best)
        for look, sets in zip(looks, slow, strict=True)
        for names in sets
    ]
    timed = iter(achieved(specification, machines))
    return [
        _explored(specification, cutoff, look, {names: next(timed) for names in sets}) if sets else _closed(look)
        for look, sets in zip(looks, slow, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """A box with the bound that the machine at its best end gives.

    Attributes:
        given: What was known before.
        best: The best strategies of the shortlist on it.
        others: No other strategy has a better value.
        bound, shortlist, searches: As in `OpenBox` and `Bounded`.
    """

    given: OpenBox
    best: StrategyTable
    others: float
    bound: float
    shortlist: Shortlist
    searches: int


def _looks(specification: StudySpecification, cutoff: float, boxes: Sequence[OpenBox]) -> list[_Look]:
    """Bounds from the shortlists where these decide, else from complete searches."""
    ends = [machine(specification, given.box.best_end) for given in boxes]
    cheapest = [with_lowest_price(system, given.box) for given, (system, _) in zip(boxes, ends, strict=True)]
    strategies = [given.shortlist.strategies for given in boxes]
    listed = achieved(specification, list(zip(cheapest, strategies, strict=True)))
    looks = []
    for given, (_, processors), rows in zip(boxes, ends, listed, strict=True):
        rest, searches = given.shortlist.rest, 0
        if _undecided(specification, values(specification, rows), rest) and rest < cutoff:
            rows, rest = complete_search(specification, rows.system, processors)
            searches = 1
        found = values(specification, rows)
        order = np.argsort(found, kind="stable")
        kept, dropped = np.split(order, [np.count_nonzero(found < cutoff)])
        rest = min(rest, _least(found[dropped]))
        looks.append(
            _Look(
                given=given,
                best=rows.strategies.take(kept[:EXPLORED]),
                others=min(rest, _least(found[kept[EXPLORED:]])),
                bound=_bound(specification, found, rest),
                shortlist=Shortlist(strategies=rows.strategies.take(kept), rest=rest),
                searches=searches,
            )
        )
    return looks


def _undecided(specification: StudySpecification, found: Array, rest: float) -> bool:
    """Whether a strategy that is not listed may be better than all that are."""
    if objective_is_of_the_system(specification):
        return _least(found) == np.inf
    return _least(found) > rest


def _bound(specification: StudySpecification, found: Array, rest: float) -> float:
    return min(_least(found), rest) if _undecided(specification, found, rest) else _least(found)


Slow = frozenset[str]
"""Dimensions of which a part of a box has the slower half; of all others it reaches the best end."""


def _slow_sets(box: Box) -> list[Slow]:
    """The parts whose machines at the best end are timed: the cells, and the slower half of every other dimension."""
    longest = _longest(box)
    cells = [Slow(names) for size in range(len(longest) + 1) for names in combinations(longest, size)]
    return cells + [Slow({name}) for name in box.divisible if name not in longest]


def _longest(box: Box) -> list[str]:
    return sorted(box.divisible, key=box.edge, reverse=True)[:CELL_DIMENSIONS]


def _explored(specification: StudySpecification, cutoff: float, look: _Look, timed: Mapping[Slow, Achieved]) -> Bounded:
    """The box with what the machines at the best ends of its parts tell: its bound, a good machine, where to cut."""
    box = look.given.box
    met = [(_least(values(specification, rows)), box.part(slow, slow).best_end) for slow, rows in timed.items()]
    value, point = min(met, key=lambda pair: pair[0])
    if not box.divisible:
        open_box = OpenBox(box=box, bound=value, done=True)
        return Bounded(box=open_box, value=value, point=point, evaluations=1, searches=look.searches)
    halves = {name: _half_bounds(specification, look, timed, name) for name in box.divisible}
    gains = {name: sum(min(bound, cutoff) - look.bound for bound in bounds) for name, bounds in halves.items()}
    cut = max(box.divisible, key=lambda name: (gains[name], box.edge(name)))
    cells = _cell_bounds(specification, look, timed, cut)
    slower, faster = (_lowered(look, max(bounds)) for bounds in zip(halves[cut], cells, strict=True))
    open_box = OpenBox(
        box=box, bound=min(slower, faster), shortlist=look.shortlist, cut=cut, half_bounds=(slower, faster)
    )
    return Bounded(box=open_box, value=value, point=point, evaluations=len(timed), searches=look.searches)


def _half_bounds(
    specification: StudySpecification, look: _Look, timed: Mapping[Slow, Achieved], name: str
) -> tuple[float, float]:
    """Bounds of the slower and the faster half along a dimension, each from the machine at its best end."""
    slower, faster = look.given.box.halves(name)
    return (
        _part_bound(specification, timed[Slow({name})], slower, look.others),
        _part_bound(specification, timed[Slow()], faster, look.others),
    )


def _cell_bounds(
    specification: StudySpecification, look: _Look, timed: Mapping[Slow, Achieved], name: str
) -> tuple[float, float]:
    """The same from the cells that each half has a share in."""
    box = look.given.box
    longest = _longest(box)
    cells = {
        slow: _part_bound(specification, rows, box.part(longest, slow), look.others)
        for slow, rows in timed.items()
        if slow.issubset(longest)
    }
    return (
        min(bound for slow, bound in cells.items() if name in slow or name not in longest),
        min(bound for slow, bound in cells.items() if name not in slow),
    )


def _part_bound(specification: StudySpecification, rows: Achieved, part: Box, others: float) -> float:
    """The bound of a part of a box, of which the rows have the times at the best end."""
    return _bound(specification, values(specification, rows.on(with_lowest_price(rows.system, part))), others)


def _closed(look: _Look) -> Bounded:
    """A box that need not be explored."""
    box = OpenBox(box=look.given.box, bound=_lowered(look, look.bound))
    return Bounded(box=box, value=np.inf, point=box.box.best_end, evaluations=1, searches=look.searches)


def _lowered(look: _Look, bound: float) -> float:
    """A bound, less what rounding may add, but not below what was known before; that of one machine needs no such."""
    if not look.given.box.divisible or np.isinf(bound):
        return bound
    return max(look.given.bound, bound - ROUNDING * abs(bound))


def _least(found: Array) -> float:
    return float(found.min(initial=np.inf))
