"""Ports of processors on network tiers, shared by all that a processor sends and receives (spec graph-simulation 7.4).

A transfer fills the sending port of one stage and the receiving port of another, or of the same one: a collective among
processors that run one program is what each of them sends and receives. Unlike links (`networks.FlowNetwork`), ports
are filled at a pace of each transfer's own, with a latency of its own. Few transfers share one, so the max-min fair
rates are worked out transfer by transfer when one begins or ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codesign_opt.simulation.networks import Delivery

Array = NDArray[Any]

_SIMULTANEOUS = 1e-12
"""Transfers that end within this share of a moment end together."""


@dataclass(frozen=True, slots=True)
class TransferKind:
    """Transfers between the same ports.

    Attributes:
        ports: Numbers of the ports that it fills.
        pace: Seconds for each byte, when alone.
        latency: Seconds from the last byte sent to the arrival.
        held: Whether the sender waits for the arrival, not for the last byte only.
    """

    ports: tuple[int, ...]
    pace: float
    latency: float
    held: bool = False


@dataclass(slots=True)
class _Flow:
    kind: TransferKind
    left: float
    rate: float = 0.0
    since: float = 0.0
    end: float = math.inf


@dataclass
class PortNetwork:
    """A network (`networks.Network`) whose route classes are kinds of transfers.

    Attributes:
        kinds: By number.
        ports: Number of ports; each can be filled for one second a second.
    """

    kinds: Sequence[TransferKind]
    ports: int
    _now: float = 0.0
    _posted: int = 0
    _flows: dict[int, _Flow] = field(default_factory=dict)
    _at_port: list[dict[int, None]] = field(init=False)
    _ends: list[tuple[float, int]] = field(default_factory=list)
    _drained: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._at_port = [{} for _ in range(self.ports)]

    def classes(self, sources: ArrayLike, destinations: ArrayLike) -> Array:
        """Zeros: every transfer names its kind itself."""
        return np.zeros(np.broadcast(sources, destinations).size, dtype=np.int64)

    def post(self, time: float, route_class: int, size: float) -> int:
        """Begin a transfer of `size` bytes; returns its number."""
        self._now = time
        message = self._posted
        self._posted += 1
        kind = self.kinds[route_class]
        flow = self._flows[message] = _Flow(kind, size * kind.pace, since=time)
        if flow.left <= 0:
            self._drained.append(message)
            return message
        for port in kind.ports:
            self._at_port[port][message] = None
        self._share(kind.ports)
        return message

    def next_completion(self) -> float:
        """When the first transfer has left its sender, unless another begins."""
        return self._now if self._drained else self._next_end()

    def advance(self, time: float) -> list[Delivery]:
        """The transfers that have left their senders by then."""
        deliveries: list[Delivery] = []
        while (moment := self.next_completion()) <= time and moment < math.inf:
            self._now = moment
            ended = self._drained
            self._drained = []
            while self._next_end() <= moment + _SIMULTANEOUS * moment:
                message = heappop(self._ends)[1]
                # Its entries in the heap are outdated from here on.
                self._flows[message].end = -1.0
                ended.append(message)
            freed: dict[int, None] = {}
            for message in sorted(ended):
                flow = self._flows.pop(message)
                for port in flow.kind.ports:
                    if self._at_port[port].pop(message, 0) is None:
                        freed[port] = None
                arrival = moment + flow.kind.latency
                deliveries.append(Delivery(message, arrival if flow.kind.held else moment, arrival))
            if freed:
                self._share(freed)
        return deliveries

    def _next_end(self) -> float:
        while self._ends:
            time, message = self._ends[0]
            flow = self._flows.get(message)
            if flow is not None and flow.end == time:
                return time
            heappop(self._ends)
        return math.inf

    def _share(self, changed: Iterable[int]) -> None:
        """New max-min fair rates for all transfers that a change at some ports can reach."""
        ports, flows = self._reached(changed)
        room = dict.fromkeys(ports, 1.0)
        open_at = {port: [m for m in self._at_port[port] if m in flows] for port in ports}
        while flows:
            fair, port = min((room[port] / len(members), port) for port, members in open_at.items() if members)
            for message in list(open_at[port]):
                self._set_rate(message, fair)
                del flows[message]
                for other in self._flows[message].kind.ports:
                    room[other] -= fair
                    open_at[other].remove(message)

    def _reached(self, changed: Iterable[int]) -> tuple[list[int], dict[int, None]]:
        ports = list(dict.fromkeys(changed))
        flows: dict[int, None] = {}
        seen = set(ports)
        for port in ports:
            for message in self._at_port[port]:
                if message not in flows:
                    flows[message] = None
                    for other in self._flows[message].kind.ports:
                        if other not in seen:
                            seen.add(other)
                            ports.append(other)
        return ports, flows

    def _set_rate(self, message: int, rate: float) -> None:
        flow = self._flows[message]
        if rate == flow.rate:
            return
        done = flow.rate * (self._now - flow.since)
        flow.left -= done
        flow.rate, flow.since = rate, self._now
        flow.end = self._now + flow.left / rate
        heappush(self._ends, (flow.end, message))
