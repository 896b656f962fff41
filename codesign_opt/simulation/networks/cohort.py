"""Many flows that begin together on an idle network, as those of a step of a collective do.

Their rates are worked out once, and stay until a flow ends on a link that holds others back: until then each ends when
its bytes over its rate have passed, and nothing needs to be looked at again. Flows at one bottleneck have one rate, and
none on it is faster; so where all messages are equal, that is true to the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.networks.max_min import AT_CAP, water_fill
from codesign_opt.simulation.networks.routes import RouteClasses

Array = NDArray[Any]


class CohortRates(NamedTuple):
    """Max-min fair rates of flows that have all links for themselves.

    Attributes:
        links: Those that they use.
        row, place: For every link of every flow, the flow and the place of the link in `links`.
        rate: Of each flow, bytes/s.
        limit: Place of the link that limits it, or `AT_CAP`.
        load: Of each link, bytes/s.
    """

    links: Array
    row: Array
    place: Array
    rate: Array
    limit: Array
    load: Array


def cohort_rates(classes: RouteClasses, numbers: list[int], capacity: Array) -> CohortRates:
    """Rates of flows of these route classes, one flow for each entry.

    Args:
        classes: Routes, caps and weights.
        numbers: Of the classes; may repeat.
        capacity: Of each link of the network, bytes/s.
    """
    routes = classes.routes_of(numbers)
    links, place = np.unique(routes.values, return_inverse=True)
    weight, cap = (np.array([column[number] for number in numbers]) for column in (classes.weight, classes.cap))
    rate, limit = water_fill(capacity[links], Ragged(routes.offsets, place), caps=cap, weights=weight)
    row = np.repeat(np.arange(len(numbers)), np.diff(routes.offsets))
    return CohortRates(links, row, place, rate, limit, np.bincount(place, rate[row], minlength=len(links)))


class Cohort:
    """Flows on their way.

    Args:
        start: When they begin, seconds.
        flows: Route class, message and bytes of each.
        rates: Of these flows.
        tolerance: Relative: ends this close are one.

    Attributes:
        until: From here on the rates are no longer right, seconds; one of the ends, or infinity.
    """

    def __init__(
        self, start: float, flows: list[tuple[int, int, float]], rates: CohortRates, *, tolerance: float
    ) -> None:
        self._start = start
        self._flows = flows
        self._rates = rates
        self._size = np.array([size for _, _, size in flows])
        end = start + self._size / rates.rate
        self._order = np.argsort(end, kind="stable")
        self._end = end[self._order]
        self._ended = 0
        first, last = np.full(len(rates.links), np.inf), np.zeros(len(rates.links))
        np.minimum.at(first, rates.place, end[rates.row])
        held = rates.limit != AT_CAP
        np.maximum.at(last, rates.limit[held], end[held])
        self.until = float(first[last > first * (1 + tolerance)].min(initial=np.inf))

    def next_end(self) -> float:
        """When the next flow ends, seconds; infinity where all have."""
        return float(self._end[self._ended]) if self._ended < len(self._end) else np.inf

    def finish(self, horizon: float) -> list[tuple[int, int, float]]:
        """Let flows end, up to `horizon` seconds; returns class, message and size of each."""
        before, self._ended = self._ended, int(np.searchsorted(self._end, horizon, side="right"))
        return [self._flows[flow] for flow in self._order[before : self._ended].tolist()]

    def remaining(self, now: float) -> list[tuple[int, int, float]]:
        """Class, message and remaining bytes of the flows that have not ended, by class."""
        flows = np.sort(self._order[self._ended :])
        left = np.maximum(self._size[flows] - self._rates.rate[flows] * (now - self._start), 0.0)
        return [(*self._flows[flow][:2], rest) for flow, rest in zip(flows.tolist(), left.tolist(), strict=True)]

    def rates(self) -> dict[int, float]:
        """Bytes/s of one flow of each class that has flows."""
        flows = self._order[self._ended :]
        return {
            self._flows[flow][0]: rate
            for flow, rate in zip(flows.tolist(), self._rates.rate[flows].tolist(), strict=True)
        }

    def statistics(self, now: float) -> tuple[Array, Array, Array, Array]:
        """Links, and for each the bytes carried since the start, seconds in use and highest rate in bytes/s."""
        links, row, place, rate, _, load = self._rates
        sent = np.minimum(rate * (now - self._start), self._size)
        sent[self._order[: self._ended]] = self._size[self._order[: self._ended]]
        seconds = np.full(len(rate), now - self._start)
        seconds[self._order[: self._ended]] = self._end[: self._ended] - self._start
        busy = np.zeros(len(links))
        np.maximum.at(busy, place, seconds[row])
        return links, np.bincount(place, sent[row], minlength=len(links)), busy, load
