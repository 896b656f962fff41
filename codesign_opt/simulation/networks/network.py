"""What every network model offers to whoever drives it, an event engine for instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


class Delivery(NamedTuple):
    """A message that got through.

    Attributes:
        message: Its number, from `post`.
        drained: When its last byte left the sender, seconds.
        delivered: When the receiver has all of it, seconds.
    """

    message: int
    drained: float
    delivered: float


class Network(Protocol):
    """A network that messages are posted to. Time only moves forward.

    Drive it in turns: `advance` to the earlier of your own next event and `next_completion()`, then post.
    """

    def classes(self, sources: ArrayLike, destinations: ArrayLike) -> Array:
        """The number of the route of each pair of processors, for `post`. Ask for many at once."""
        ...

    def post(self, time: float, route_class: int, size: float) -> int:
        """Send a message of `size` bytes at `time`, which may not be before what has happened; returns its number."""
        ...

    def next_completion(self) -> float:
        """No delivery becomes known before this time, unless something is posted; infinity for none at all."""
        ...

    def advance(self, time: float) -> list[Delivery]:
        """Let everything up to `time` happen: the deliveries that become known, in order.

        A delivery may lie after `time`: the last bytes are still on their way.
        """
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkStatistics:
    """What each link did, one entry a link.

    Attributes:
        bytes: Carried.
        busy: Seconds in which it had something to carry.
        peak: Highest rate, bytes/s.
    """

    bytes: Array
    busy: Array
    peak: Array
