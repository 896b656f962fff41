"""Max-min fair rates kept up to date while flows come and go.

All flows of a route class share one rate. A change is worked out among the classes that it can reach: those that it
touches are solved anew, with all others left as they are. Where that breaks the proof of another class (its bottleneck
is no longer full, or it has more than one that is held back there), that class joins, until no proof is broken. Then
the rates of the whole are proven, and the max-min fair ones are unique. At most a connected component is solved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.simulation.networks.active import ActiveClass, ActiveLink
from codesign_opt.simulation.networks.max_min import AT_CAP, water_fill
from codesign_opt.simulation.networks.routes import RouteClasses

Array = NDArray[Any]

_TOLERANCE = 1e-11
"""Relative: a link this close to its capacity is full, and levels this close are equal."""

_VECTORISED = 32
"""From so many classes on, arrays are faster than objects."""

_ROUNDS = 4
"""After so many extensions the whole connected component is solved at once."""


class Allocation:
    """Rates of the classes in use.

    Args:
        capacity: Of each link, bytes/s.
        classes: Routes, caps and weights; may grow.
    """

    def __init__(self, capacity: Array, classes: RouteClasses) -> None:
        self._capacity = capacity
        self._classes = classes
        self._links: list[ActiveLink | None] = [None] * len(capacity)
        # Equal capacities, weights and caps are one object: less memory to wait for.
        self._numbers: dict[float, float] = {}
        self._mark = 0

    def activate(self, number: int) -> ActiveClass:
        """A class, which has no flows yet."""
        links, classes, same = self._links, self._classes, self._numbers.setdefault
        route = tuple([links[link] or self._link(link) for link in classes.links_of(number)])
        weight, cap = classes.weight[number], classes.cap[number]
        return ActiveClass(number, route, weight=same(weight, weight), cap=same(cap, cap))

    def settle(self, changed: Iterable[ActiveClass], now: float) -> list[ActiveClass]:
        """Bring the rates up to date with the flows that some classes have now.

        Returns:
            The classes with flows whose level is another one.
        """
        todo = self._touched(changed, now)
        extensions = 0
        while todo:
            self._mark += 1
            for member in todo:
                member.mark = self._mark
            shared = self._solve_few(todo) if len(todo) < _VECTORISED else self._solve_many(todo)
            broken = self._broken(shared)
            if not broken:
                break
            todo += broken
            extensions += 1
            if extensions == _ROUNDS:
                self._extend_to_component(todo)
        return _commit(todo)

    def busy(self, now: float) -> Array:
        """Seconds so far in which each link had flows."""
        seconds = np.zeros(len(self._capacity))
        for link in filter(None, self._links):
            seconds[link.number] = link.busy + (now - link.busy_since if link.members else 0.0)
        return seconds

    def peak(self) -> Array:
        """Highest rate so far of each link, bytes/s."""
        rates = np.zeros(len(self._capacity))
        for link in filter(None, self._links):
            rates[link.number] = link.peak
        return rates

    def _link(self, number: int) -> ActiveLink:
        """The state of a link that is used for the first time."""
        capacity = float(self._capacity[number])
        link = self._links[number] = ActiveLink(number, self._numbers.setdefault(capacity, capacity))
        return link

    def _touched(self, changed: Iterable[ActiveClass], now: float) -> list[ActiveClass]:
        """Make the counts what they are; returns the classes whose rate that is sure, or likely, to change."""
        todo: dict[ActiveClass, None] = {}
        relieved: list[ActiveLink] = []
        loaded: list[ActiveLink] = []
        for member in changed:
            more = len(member.ends) - member.count
            if not more:
                continue
            if not member.count:
                _enter(member, now, loaded)
            elif not member.ends:
                _leave(member, now, relieved)
            elif more > 0:
                loaded += member.route
            else:
                relieved += member.route
            if more > 0:
                todo[member] = None
            member.count += more
            member.demand = member.count * member.weight
            member.load = member.level * member.demand
        for link in relieved:
            if link.held:
                for member in link.members:
                    if member.limit is link:
                        todo[member] = None
        for link in loaded:
            share = link.capacity / sum([member.demand for member in link.members])
            for member in link.members:
                if member.level > share:
                    todo[member] = None
        return list(todo)

    def _solve_few(self, todo: list[ActiveClass]) -> list[ActiveLink]:
        """Solve marked classes with all others left as they are; returns the links that others use as well."""
        mark = self._mark
        links: list[ActiveLink] = []
        for member in todo:
            demand = member.demand
            own, own_limit = member.cap / member.weight, None
            for link in member.route:
                if len(link.members) == 1:
                    if link.capacity < own * demand:
                        own, own_limit = link.capacity / demand, link
                elif link.mark == mark:
                    link.open += 1
                    link.demand += demand
                else:
                    link.mark = mark
                    link.open = 1
                    link.demand = demand
                    links.append(link)
            member.new_level, member.new_limit, member.is_open = own, own_limit, True
        shared = []
        for link in links:
            if len(link.members) == link.open:
                link.left = link.capacity
            else:
                link.left = _left_by_others(link, mark)
                shared.append(link)
        _fill(todo, links, mark)
        return shared

    def _solve_many(self, todo: list[ActiveClass]) -> list[ActiveLink]:
        """The same for many, in arrays."""
        numbers = [member.number for member in todo]
        routes = self._classes.routes_of(numbers)
        used, routes.values[:] = np.unique(routes.values, return_inverse=True)
        links = [self._links[link] or self._link(link) for link in used.tolist()]
        ours = np.bincount(routes.values, minlength=len(links)).tolist()
        left = self._capacity[used]
        shared = []
        for place, link in enumerate(links):
            if len(link.members) > ours[place]:
                shared.append(link)
                left[place] = _left_by_others(link, self._mark)
        weight = np.array([member.demand for member in todo])
        cap = np.array([member.cap * member.count for member in todo])
        rates, limits = water_fill(left, routes, caps=cap, weights=weight)
        for member, level, limit in zip(todo, (rates / weight).tolist(), limits.tolist(), strict=True):
            member.new_level = level
            member.new_limit = None if limit == AT_CAP else links[limit]
        left -= np.bincount(routes.values, np.repeat(rates, np.diff(routes.offsets)), minlength=len(left))
        for link, remaining in zip(links, left.tolist(), strict=True):
            link.left = remaining
        return shared

    def _broken(self, shared: list[ActiveLink]) -> list[ActiveClass]:
        """The classes outside the present solution whose rate it leaves without proof."""
        mark = self._mark
        broken: dict[ActiveClass, None] = {}
        for link in shared:
            fastest, ceiling = 0.0, math.inf
            for member in link.members:
                if member.mark == mark:
                    if member.new_level > fastest:
                        fastest = member.new_level
                    if member.new_limit is link:
                        ceiling = member.new_level * (1 + 2 * _TOLERANCE)
            if ceiling == math.inf and not link.held:
                continue
            is_full = link.left <= _TOLERANCE * link.capacity
            for member in link.members:
                if member.mark != mark:
                    slower = member.level * (1 + _TOLERANCE) < fastest
                    if member.level > ceiling or (member.limit is link and (slower or not is_full)):
                        broken[member] = None
        return list(broken)

    def _extend_to_component(self, todo: list[ActiveClass]) -> None:
        """Add all classes that are connected with those of `todo` by shared links."""
        self._mark += 1
        mark = self._mark
        for member in todo:
            member.mark = mark
        # The list grows while it is walked.
        for member in todo:
            for link in member.route:
                if link.mark != mark:
                    link.mark = mark
                    for other in link.members:
                        if other.mark != mark:
                            other.mark = mark
                            todo.append(other)


def _enter(member: ActiveClass, now: float, loaded: list[ActiveLink]) -> None:
    """Put a class on its links; those that had classes before are added to `loaded`."""
    for link in member.route:
        members = link.members
        if not members:
            link.busy_since = now
        elif link.busy_since < now:
            loaded.append(link)
        members.append(member)


def _leave(member: ActiveClass, now: float, relieved: list[ActiveLink]) -> None:
    """Take a class off its links; those that still have classes are added to `relieved`."""
    if member.limit is not None:
        member.limit.held -= 1
        member.limit = None
    member.level = 0.0
    for link in member.route:
        members = link.members
        members.remove(member)
        if members:
            relieved.append(link)
        else:
            link.busy += now - link.busy_since


def _left_by_others(link: ActiveLink, mark: int) -> float:
    """What the classes that are not marked leave of a link, bytes/s."""
    left = link.capacity
    for member in link.members:
        if member.mark != mark:
            left -= member.load
    return max(left, 0.0)


def _fill(todo: list[ActiveClass], links: list[ActiveLink], mark: int) -> None:
    """Lower the levels of classes from what each could have by itself to what their shared links leave them.

    The link with the least share fixes its classes, and so on, until no link gives a class less than its own level.
    """
    waiting = todo
    while waiting:
        share, tightest = math.inf, None
        for link in links:
            if link.open and link.left < share * link.demand:
                share, tightest = link.left / link.demand, link
        fixed = [member for member in waiting if member.new_level <= share]
        if not fixed and tightest is not None:
            fixed = [member for member in tightest.members if member.mark == mark and member.is_open]
            for member in fixed:
                member.new_level, member.new_limit = share, tightest
        for member in fixed:
            member.is_open = False
            rate = member.new_level * member.demand
            for link in member.route:
                if link.mark == mark:
                    link.open -= 1
                    link.demand -= member.demand
                    left = link.left - rate
                    link.left = left if left > 0.0 else 0.0
        waiting = [member for member in waiting if member.is_open]


def _commit(todo: list[ActiveClass]) -> list[ActiveClass]:
    """Make what was solved the rates in force; returns the classes whose level is another one."""
    changed = []
    for member in todo:
        if member.new_limit is not member.limit:
            if member.limit is not None:
                member.limit.held -= 1
            if member.new_limit is not None:
                member.new_limit.held += 1
            member.limit = member.new_limit
        if member.new_level != member.level:
            member.level = member.new_level
            member.load = member.level * member.demand
            changed.append(member)
        for link in member.route:
            rate = member.load if len(link.members) == 1 else link.capacity - link.left
            if rate > link.peak:
                link.peak = rate
    return changed
