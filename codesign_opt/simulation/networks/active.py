"""The state of links and of route classes that have flows."""

from __future__ import annotations

import heapq


class ActiveLink:
    """A link.

    Attributes:
        number, capacity: In the topology; bytes/s.
        members: The classes with flows on it.
        held: How many of them it limits.
        peak: Highest rate so far, bytes/s.
        busy, busy_since: Seconds with flows before the present spell of them, and when that began.
        mark, left, demand, open: For solving: in which solution it takes part; bytes/s that its classes may take still;
            weight and number of those without a rate yet.
    """

    __slots__ = (
        "busy",
        "busy_since",
        "capacity",
        "demand",
        "held",
        "left",
        "mark",
        "members",
        "number",
        "open",
        "peak",
    )

    def __init__(self, number: int, capacity: float) -> None:
        self.number = number
        self.capacity = capacity
        self.members: list[ActiveClass] = []
        self.peak = self.busy = self.busy_since = self.left = self.demand = 0.0
        self.held = self.mark = self.open = 0


class ActiveClass:
    """A route class and its flows. All flows get the same rate, so what each has got is one number.

    Attributes:
        number, route: Of the class; its links.
        weight, cap: Of one flow: its share is in proportion; bytes/s.
        carried: Bytes of flows that have ended.
        count: Flows that the rates are for.
        demand: Their weight together.
        level: Rate of a flow over its weight, bytes/s.
        limit: The link that limits it; None where its cap does.
        load: Rate of all its flows, bytes/s.
        mark, is_open, new_level, new_limit: For solving: in which solution it takes part, whether it has no rate yet,
            and the outcome.
        ends: Heap of (bytes served when it has drained, message, size), one a flow.
        stamp: Number of the valid one of the ends announced for it.
    """

    __slots__ = (
        "_rate",
        "_served",
        "_since",
        "cap",
        "carried",
        "count",
        "demand",
        "ends",
        "is_open",
        "level",
        "limit",
        "load",
        "mark",
        "new_level",
        "new_limit",
        "number",
        "route",
        "stamp",
        "weight",
    )

    is_open: bool
    new_level: float
    new_limit: ActiveLink | None

    def __init__(self, number: int, route: tuple[ActiveLink, ...], *, weight: float, cap: float) -> None:
        self.number = number
        self.route = route
        self.weight = weight
        self.cap = cap
        self.count = self.mark = self.stamp = 0
        self.carried = self.demand = self.level = self.load = 0.0
        self.limit: ActiveLink | None = None
        self.ends: list[tuple[float, int, float]] = []
        self._rate = self._served = self._since = 0.0

    def begin(self, now: float, message: int, size: float) -> None:
        """One more flow."""
        self._served = self._served + self._rate * (now - self._since) if self.ends else 0.0
        self._since = now
        heapq.heappush(self.ends, (self._served + size, message, size))

    def finish(self, now: float, tolerance: float) -> list[tuple[float, int, float]]:
        """Take out the first flow, and all that end together with it to the relative tolerance."""
        end = heapq.heappop(self.ends)
        self._served, self._since = end[0], now
        finished = [end]
        horizon = end[0] * (1 + tolerance)
        while self.ends and self.ends[0][0] <= horizon:
            finished.append(heapq.heappop(self.ends))
        return finished

    def take_level(self, now: float) -> None:
        """From now on, all flows get what their level says."""
        self._served += self._rate * (now - self._since)
        self._since = now
        self._rate = self.level * self.weight

    def first_end(self) -> float:
        """When the first flow has drained, if the rate stays, in seconds."""
        return self._since + (self.ends[0][0] - self._served) / self._rate

    def partial(self, now: float) -> float:
        """Bytes that flows which have not ended have got."""
        served = self._served + self._rate * (now - self._since)
        return sum(size - (end - served) for end, _, size in self.ends)
