"""What a processor draws."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Power of one processor with its share of memory and network, in watts.

    Attributes:
        busy: While it computes.
        idle: While it waits: bubbles and exposed communication or offload.
    """

    busy: float
    idle: float
