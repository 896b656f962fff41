"""Store and forward: every link sends whole messages, one after the other in the order in which they arrive."""

from __future__ import annotations

import heapq
import math
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codesign_opt.simulation.networks.network import Delivery, LinkStatistics
from codesign_opt.simulation.networks.routes import RouteClasses
from codesign_opt.simulation.topologies.topology import Topology

Array = NDArray[Any]

_Event = tuple[float, int, int]
"""Time, order among all events, and what happens: a message arrives, or ~link a link becomes free."""


class FifoNetwork:
    """A network of store-and-forward links, driven from outside (`network.Network` says how).

    A message of s bytes that a link of bandwidth B and latency L takes up at t frees it at t + s/B and is at its other
    end at t + L + s/B, where it queues for the next link. What happens at one moment happens in the order in which it
    was caused.

    Args:
        topology: Links and routes.
        whole_nanoseconds: Cut both times down to whole nanoseconds, as ASTRA-sim does.
    """

    def __init__(self, topology: Topology, *, whole_nanoseconds: bool = False) -> None:
        self._classes = RouteClasses(topology)
        self._whole = whole_nanoseconds
        self._ticks = 1e9 if whole_nanoseconds else 1.0
        self._capacity: list[float] = (topology.capacity / self._ticks).tolist()
        latency = topology.latency * self._ticks
        # Rounded to a femtosecond: 500e-9 s are 500 ns, not 500.00000000000006.
        self._latency: list[float] = (np.round(latency, 6) if whole_nanoseconds else latency).tolist()
        self._events: list[_Event] = []
        self._order = 0
        self._now = 0.0
        self._posted = 0
        self._flights: dict[int, _Flight] = {}
        self._free: list[_Event] = [(-math.inf, -1, -1)] * topology.links
        self._waiting: dict[int, deque[int]] = {}
        self._carried = [0.0] * topology.links
        self._busy = [0.0] * topology.links

    def classes(self, sources: ArrayLike, destinations: ArrayLike) -> Array:
        """The number of the route of each pair of processors, for `post`. Ask for many at once.

        Raises:
            InputError: For a processor that does not exist.
        """
        return self._classes.of_pairs(sources, destinations)

    def post(self, time: float, route_class: int, size: float) -> int:
        """Send `size` bytes at `time`; returns the message's number, counted from 0.

        Raises:
            ValueError: Where `time` has passed.
        """
        moment = self._ticks_at(time)
        if moment < self._now:
            raise ValueError(f"the network is at {self._now / self._ticks} s, past {time} s")
        message = self._posted
        self._posted += 1
        self._flights[message] = _Flight(self._classes.links_of(route_class), size)
        heapq.heappush(self._events, (moment, self._order, message))
        self._order += 1
        return message

    def next_completion(self) -> float:
        """No delivery becomes known before this time, unless something is posted; infinity for none at all."""
        return self._events[0][0] / self._ticks if self._events else math.inf

    def advance(self, time: float) -> list[Delivery]:
        """Let everything up to `time` happen: the messages that their last link has taken up, in order."""
        horizon = self._ticks_at(time)
        events, free, flights = self._events, self._free, self._flights
        deliveries: list[Delivery] = []
        while events and events[0][0] <= horizon:
            event = heapq.heappop(events)
            self._now, _, message = event
            if message < 0:
                link = ~message
                waiting = self._waiting[link]
                message = waiting.popleft()
                self._take_up(link, message)
                if waiting:
                    heapq.heappush(events, free[link])
                else:
                    del self._waiting[link]
            elif not flights[message].route:
                flights[message].drained = flights[message].arrival = self._now
            else:
                flight = flights[message]
                link = flight.route[flight.place]
                if event < free[link]:
                    # The link's end of work is an event only where somebody waits for it.
                    if link not in self._waiting:
                        self._waiting[link] = deque()
                        heapq.heappush(events, free[link])
                    self._waiting[link].append(message)
                    continue
                self._take_up(link, message)
            flight = flights[message]
            if flight.place == len(flight.route):
                del flights[message]
                deliveries.append(Delivery(message, flight.drained / self._ticks, flight.arrival / self._ticks))
            else:
                heapq.heappush(events, (flight.arrival, flight.order, message))
        return deliveries

    def link_statistics(self) -> LinkStatistics:
        """What each link has taken up so far; a link that sends, sends at its capacity."""
        carried = np.array(self._carried)
        capacity = np.array(self._capacity) * self._ticks
        return LinkStatistics(
            bytes=carried, busy=np.array(self._busy) / self._ticks, peak=np.where(carried > 0, capacity, 0.0)
        )

    def _take_up(self, link: int, message: int) -> None:
        """Let a free link send a message: where it is next, and when the link is free again."""
        flight = self._flights[message]
        transfer = flight.size / self._capacity[link]
        delay = self._latency[link] + transfer
        if self._whole:
            transfer, delay = math.floor(transfer), math.floor(delay)
        flight.arrival, flight.order = self._now + delay, self._order
        self._free[link] = (self._now + transfer, self._order + 1, ~link)
        self._order += 2
        if not flight.place:
            flight.drained = self._now + transfer
        flight.place += 1
        self._carried[link] += flight.size
        self._busy[link] += transfer

    def _ticks_at(self, time: float) -> float:
        return round(time * self._ticks, 3) if self._whole else time


class _Flight:
    """A message on its way.

    Attributes:
        route: Its links.
        place: How many of them have taken it up.
        size: Bytes.
        drained: When the first link had sent all of it, in ticks.
        arrival: When it is at the end of the last one that took it up, in ticks; `order` of that event.
    """

    __slots__ = ("arrival", "drained", "order", "place", "route", "size")

    def __init__(self, route: list[int], size: float) -> None:
        self.route = route
        self.size = size
        self.place = self.order = 0
        self.drained = self.arrival = 0.0
