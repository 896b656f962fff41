"""What a processor does at once: so many instructions of each class."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from codesign_opt.errors import InputError
from codesign_opt.simulation.program import Stream


@dataclass(frozen=True, kw_only=True)
class Streams:
    """Number of streams of each class on every processor; `math.inf` for no limit.

    An instruction holds a stream of its class while it runs. Those that wait take turns by priority, then by the time
    of becoming ready, then in the order of the graph.

    Attributes:
        compute: For what has seconds of its own.
        host: For infeed and outfeed; 0 lets them take a compute stream.
        send: Messages that leave a processor at once; each holds one until its last byte has left.
        receive: Messages that enter a processor at once, where the network has no links that say so.
        collective: For collectives that have seconds of their own.
        further: Of the streams with numbers behind those of `Stream`.

    Raises:
        InputError: For a number below 1 (host: 0), or one that is not whole.
    """

    compute: float = 1
    host: float = 0
    send: float = 1
    receive: float = 1
    collective: float = 1
    further: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        named = [(field.name, getattr(self, field.name)) for field in fields(self) if field.name != "further"]
        for name, count in [*named, *(("further", count) for count in self.further)]:
            lowest = 0 if name == "host" else 1
            if not count >= lowest or (count != math.inf and count != int(count)):
                raise InputError(f"streams: {name}: {count}", f"a whole number from {lowest}, or inf for no limit")

    @property
    def counts(self) -> list[float]:
        """By number of the stream."""
        return [self.compute, self.host, self.send, self.receive, self.collective, *self.further]

    @property
    def host_stream(self) -> Stream:
        """What infeed and outfeed take."""
        return Stream.HOST if self.host else Stream.COMPUTE
