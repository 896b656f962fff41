"""The messages of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from codesign_opt.tables import Table

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Messages:
    """Columns over messages, in the order of sending.

    Attributes:
        source, destination: Processors.
        tag: Of the channel.
        bytes: On the wire.
        sender, receiver: Instructions, numbered over all programs.
        posted: Seconds at which the sender put it on its way.
        left: Seconds at which its last byte had left the sender.
        arrived: Seconds at which the receiver had all of it.
    """

    source: Array
    destination: Array
    tag: Array
    bytes: Array
    sender: Array
    receiver: Array
    posted: Array
    left: Array
    arrived: Array

    def __len__(self) -> int:
        """Number of messages."""
        return len(self.source)

    def table(self) -> Table:
        """The columns that mean something outside the run."""
        names = ("source", "destination", "tag", "bytes", "posted", "left", "arrived")
        units = {"bytes": "B", **dict.fromkeys(("posted", "left", "arrived"), "s")}
        return Table({name: getattr(self, name) for name in names}, units)
