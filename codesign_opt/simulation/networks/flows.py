"""Flows that share links max-min fairly: the main network model.

Between events all rates are constant; the events are that a flow starts and that a flow has drained. What this cannot
show: back-pressure, head-of-line blocking, losses under incast, slow start, and the transients of adaptive routing.

In general max-min fair networks are not monotone: more capacity in one place, or less traffic, can make some flow
slower. On a single bottleneck, and where all capacities grow together, nothing becomes slower.
"""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.networks.active import ActiveClass
from codesign_opt.simulation.networks.allocation import Allocation
from codesign_opt.simulation.networks.cohort import Cohort, CohortRates, cohort_rates
from codesign_opt.simulation.networks.network import Delivery, LinkStatistics
from codesign_opt.simulation.networks.routes import RouteClasses
from codesign_opt.simulation.topologies.bare import bare_links
from codesign_opt.simulation.topologies.topology import Topology

Array = NDArray[Any]

_SIMULTANEOUS = 1e-12
"""Relative: what happens this close together happens at once."""

_COHORT = 32
"""So many flows that begin together on an idle network are treated together."""

_KNOWN, _KNOWN_FLOWS = 64, 8192
"""Rates of so many cohorts are kept, of up to so many flows: in the steps of a collective they come again and again."""

_KEPT = 4_096
"""So many route classes keep their state while they have no flows."""


class FlowNetwork:
    """A network of flows, driven from outside (`network.Network` says how).

    A message posted at t starts to flow at t + `send_overhead`, drains at the rates that max-min fair sharing gives it,
    and is delivered the latency of its links and `receive_overhead` after its last byte has left. A message of 0 bytes,
    or to its own sender, drains at once. What happens at one moment happens in the order of the messages' numbers.

    Args:
        topology: Links and routes.
        send_overhead, receive_overhead: Seconds of each message.
    """

    def __init__(self, topology: Topology, *, send_overhead: float = 0.0, receive_overhead: float = 0.0) -> None:
        self._capacity = topology.capacity
        self._classes = RouteClasses(topology)
        self._allocation = Allocation(topology.capacity, self._classes)
        self._send_overhead = send_overhead
        self._receive_overhead = receive_overhead
        self._now = 0.0
        self._posted = 0
        self._arrivals: list[tuple[float, int, int, float]] = []
        self._begun: list[tuple[int, int, float]] = []
        self._drained: list[tuple[int, float]] = []
        self._cohort: Cohort | None = None
        self._known_rates: dict[tuple[int, ...], CohortRates] = {}
        self._active: dict[int, ActiveClass] = {}
        self._changed: dict[ActiveClass, None] = {}
        self._ends: list[tuple[float, int, ActiveClass]] = []
        self._announced = 0
        self._flowing = 0
        self._past = LinkStatistics(**{name: np.zeros(topology.links) for name in ("bytes", "busy", "peak")})

    def classes(self, sources: ArrayLike, destinations: ArrayLike) -> Array:
        """The number of the route of each pair of processors, for `post`. Ask for many at once.

        Raises:
            InputError: For a processor that does not exist.
        """
        return self._classes.of_pairs(sources, destinations)

    def add_routes(self, routes: Ragged, *, caps: ArrayLike | None = None, weights: ArrayLike | None = None) -> Array:
        """Classes for routes given by hand; returns their numbers.

        Args:
            routes: Links, none of them twice on a route.
            caps: Most that a message of each may take, bytes/s; None for no cap.
            weights: Shares are in proportion to these; None for 1.
        """
        return self._classes.add(routes, caps=caps, weights=weights)

    def post(self, time: float, route_class: int, size: float) -> int:
        """Send `size` bytes at `time`; returns the message's number, counted from 0.

        Raises:
            ValueError: Where `time` has passed, or something happens before it: `advance` first.
        """
        if time != self._now:
            self._move_to(time)
        message = self._posted
        self._posted += 1
        if self._send_overhead:
            heapq.heappush(self._arrivals, (time + self._send_overhead, message, route_class, size))
        else:
            self._begin(message, route_class, size)
        return message

    def next_completion(self) -> float:
        """No flow drains before this time, unless something is posted; infinity where nothing is on its way."""
        if self._begun or self._changed:
            self._settle()
        if self._drained:
            return self._now
        ends = self._ends
        while ends and ends[0][1] != ends[0][2].stamp:
            heapq.heappop(ends)
        first = ends[0][0] if ends else math.inf
        if self._cohort is not None:
            first = min(first, self._cohort.next_end())
        return min(first, self._arrivals[0][0]) if self._arrivals else first

    def advance(self, time: float) -> list[Delivery]:
        """Let everything up to `time` happen: the messages that drain, in order."""
        deliveries: list[Delivery] = []
        while (moment := self.next_completion()) <= time and moment < math.inf:
            self._now = moment
            horizon = moment + _SIMULTANEOUS * moment
            while self._arrivals and self._arrivals[0][0] <= horizon:
                self._begin(*heapq.heappop(self._arrivals)[1:])
            if self._cohort is not None:
                self._finish_cohort(self._cohort, horizon)
            while self._ends and self._ends[0][0] <= horizon:
                _, stamp, active = heapq.heappop(self._ends)
                if stamp == active.stamp:
                    self._finish_class(active)
            self._drained.sort()
            deliveries += [Delivery(message, moment, moment + delay) for message, delay in self._drained]
            self._drained.clear()
        return deliveries

    def rates(self) -> dict[int, float]:
        """Bytes/s that one flow of each class gets now; classes without flows are left out."""
        self._settle()
        rates = {number: active.level * active.weight for number, active in self._active.items() if active.ends}
        return rates if self._cohort is None else self._cohort.rates()

    def link_statistics(self) -> LinkStatistics:
        """What each link has done up to now, the last time that anything happened."""
        self._settle()
        statistics = self._past
        if self._cohort is not None:
            statistics = _with(statistics, *self._cohort.statistics(self._now))
        every = np.arange(len(self._capacity))
        carried = self._carried(list(self._active.values()))
        return _with(statistics, every, carried, self._allocation.busy(self._now), self._allocation.peak())

    def _move_to(self, time: float) -> None:
        if not self._now <= time <= self.next_completion():
            raise ValueError(f"the network is at {self._now} s and acts at {self.next_completion()} s, not {time} s")
        self._now = time

    def _begin(self, message: int, route_class: int, size: float) -> None:
        if size and self._classes.hops[route_class]:
            self._begun.append((route_class, message, size))
        else:
            self._drain(message, route_class)

    def _drain(self, message: int, route_class: int) -> None:
        self._drained.append((message, self._classes.latency[route_class] + self._receive_overhead))

    def _finish_cohort(self, cohort: Cohort, horizon: float) -> None:
        for route_class, message, _ in cohort.finish(horizon):
            self._drain(message, route_class)
        if cohort.until <= horizon or cohort.next_end() == math.inf:
            self._dissolve(cohort)

    def _dissolve(self, cohort: Cohort) -> None:
        """From now on, the flows of a cohort that have not ended are looked at one by one."""
        self._cohort = None
        self._past = _with(self._past, *cohort.statistics(self._now))
        for rest in cohort.remaining(self._now):
            self._flow(*rest)

    def _flow(self, route_class: int, message: int, size: float) -> None:
        active = self._active.get(route_class)
        if active is None:
            active = self._active[route_class] = self._allocation.activate(route_class)
        active.begin(self._now, message, size)
        self._changed[active] = None
        self._flowing += 1

    def _finish_class(self, active: ActiveClass) -> None:
        self._changed[active] = None
        for _, message, size in active.finish(self._now, _SIMULTANEOUS):
            active.carried += size
            self._flowing -= 1
            self._drain(message, active.number)

    def _settle(self) -> None:
        """Bring rates and ends up to date with the flows that began and finished."""
        begun = self._begun
        if begun:
            if self._cohort is not None:
                self._dissolve(self._cohort)
            if self._flowing or len(begun) < _COHORT:
                for flow in begun:
                    self._flow(*flow)
            else:
                begun.sort()
                rates = self._rates_of(tuple([route_class for route_class, _, _ in begun]))
                self._cohort = Cohort(self._now, begun.copy(), rates, tolerance=_SIMULTANEOUS)
            begun.clear()
        now, changed = self._now, self._changed
        for active in self._allocation.settle(changed, now):
            active.take_level(now)
            changed[active] = None
        for active in changed:
            self._announced += 1
            active.stamp = self._announced
            if active.ends:
                # What is left of a flow may be less than nothing by rounding, but time does not go back.
                heapq.heappush(self._ends, (max(active.first_end(), now), active.stamp, active))
            elif len(self._active) > _KEPT:
                del self._active[active.number]
                self._past.bytes[self._classes.links_of(active.number)] += active.carried
        changed.clear()

    def _rates_of(self, numbers: tuple[int, ...]) -> CohortRates:
        """Rates of flows of these classes alone in the network; the same step of a collective often comes again."""
        rates = self._known_rates.get(numbers)
        if rates is None:
            rates = cohort_rates(self._classes, list(numbers), self._capacity)
            if len(numbers) <= _KNOWN_FLOWS:
                if len(self._known_rates) >= _KNOWN:
                    del self._known_rates[next(iter(self._known_rates))]
                self._known_rates[numbers] = rates
        return rates

    def _carried(self, classes: list[ActiveClass]) -> Array:
        """Bytes that some classes have put on each link."""
        routes = self._classes.routes_of([active.number for active in classes])
        amounts = np.repeat([active.carried + active.partial(self._now) for active in classes], np.diff(routes.offsets))
        return np.bincount(routes.values, amounts, minlength=len(self._capacity))


def _with(past: LinkStatistics, links: Array, carried: Array, busy: Array, peak: Array) -> LinkStatistics:
    """The statistics with what some links did besides."""
    columns = past.bytes.copy(), past.busy.copy(), past.peak.copy()
    columns[0][links] += carried
    columns[1][links] += busy
    columns[2][links] = np.maximum(columns[2][links], peak)
    return LinkStatistics(bytes=columns[0], busy=columns[1], peak=columns[2])


def flow_completion_times(
    capacity: ArrayLike,
    routes: Ragged,
    sizes: ArrayLike,
    starts: ArrayLike = 0.0,
    *,
    latency: ArrayLike = 0.0,
    caps: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> Array:
    """When each of some flows, all known beforehand, is delivered, in seconds.

    Args:
        capacity: Of each link, bytes/s.
        routes: Links of each flow, none of them twice.
        sizes: Bytes of each.
        starts: When each starts, or all, seconds.
        latency: Of each link, or of all, seconds.
        caps, weights: Of each flow, as for `max_min.max_min_rates`.

    Raises:
        InputError: For a capacity that is not above 0 and finite.
    """
    network = FlowNetwork(bare_links(capacity, latency))
    classes = _merged_classes(network, routes, caps, weights)
    flows = len(routes)
    start, size = (np.broadcast_to(np.asarray(column, np.float64), flows) for column in (starts, sizes))
    order = np.argsort(start, kind="stable")
    deliveries: list[Delivery] = []
    now = -math.inf
    for flow, time in zip(order.tolist(), start[order].tolist(), strict=True):
        if time > now:
            now = time
            deliveries += network.advance(now)
        network.post(now, classes[flow], float(size[flow]))
    deliveries += network.advance(math.inf)
    times = np.empty(flows)
    times[order[[delivery.message for delivery in deliveries]]] = [delivery.delivered for delivery in deliveries]
    return times


def _merged_classes(
    network: FlowNetwork, routes: Ragged, caps: ArrayLike | None, weights: ArrayLike | None
) -> list[int]:
    """The class of each flow; flows with equal route, cap and weight have one class."""
    flows = len(routes)
    cap = np.broadcast_to(np.inf if caps is None else np.asarray(caps, np.float64), flows)
    weight = np.broadcast_to(1.0 if weights is None else np.asarray(weights, np.float64), flows)
    number: dict[tuple[bytes, float, float], int] = {}
    merged = [
        number.setdefault((route.tobytes(), cap_of, weight_of), len(number))
        for route, cap_of, weight_of in zip(routes, cap.tolist(), weight.tolist(), strict=True)
    ]
    first = np.unique(merged, return_index=True)[1]
    distinct = Ragged.from_lists([routes[flow].tolist() for flow in first])
    classes: list[int] = network.add_routes(distinct, caps=cap[first], weights=weight[first])[merged].tolist()
    return classes
