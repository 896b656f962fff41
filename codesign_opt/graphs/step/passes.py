"""The kinds of passes of a stage, and their order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class PassKind(IntEnum):
    """A forward pass, a whole backward one, and the two halves of a backward one: of activations, and of weights."""

    FORWARD = 0
    BACKWARD = 1
    ACTIVATION_GRADIENT = 2
    WEIGHT_GRADIENT = 3


@dataclass(frozen=True, slots=True)
class PassOrder:
    """The passes of one stage, in order.

    Attributes:
        kind: A `PassKind`.
        microbatch, chunk: Of each.
        paired: Whether it runs beside the pass that follows it.
    """

    kind: Array
    microbatch: Array
    chunk: Array
    paired: Array

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def backward(self) -> Array:
        """Whether each is a backward pass, or half of one."""
        return np.asarray(self.kind != PassKind.FORWARD)


class PassList:
    """An order as it grows: microbatches of a chunk and a kind of pass come one after the other."""

    def __init__(self) -> None:
        self._rows: list[tuple[PassKind, int, int, bool]] = []
        self._done: dict[tuple[PassKind, int], int] = {}
        self._owed: list[tuple[int, int]] = []
        self._paid = 0

    def count(self, kind: PassKind, chunk: int) -> int:
        """How many there are of a kind and a chunk; of forward or backward passes, split or not."""
        return self._done.get((kind, chunk), 0)

    def forward(self, chunk: int, *, paired: bool = False) -> None:
        """The forward pass of a chunk's next microbatch."""
        self._add(PassKind.FORWARD, self._next(PassKind.FORWARD, chunk), chunk, paired)

    def backward(self, chunk: int, *, split: bool = False) -> None:
        """The backward pass of a chunk's next microbatch; if split its weight gradient is owed."""
        microbatch = self._next(PassKind.BACKWARD, chunk)
        self._add(PassKind.ACTIVATION_GRADIENT if split else PassKind.BACKWARD, microbatch, chunk)
        if split:
            self._owed.append((microbatch, chunk))

    @property
    def owed(self) -> int:
        """Weight gradients that are to come."""
        return len(self._owed) - self._paid

    def weight_gradient(self) -> None:
        """The weight gradient that has been owed for longest."""
        microbatch, chunk = self._owed[self._paid]
        self._paid += 1
        self._add(PassKind.WEIGHT_GRADIENT, microbatch, chunk)

    def order(self) -> PassOrder:
        """All of them."""
        columns = np.array(self._rows, dtype=np.int64).reshape(-1, 4).T
        return PassOrder(columns[0], columns[1], columns[2], columns[3].astype(np.bool_))

    def _next(self, kind: PassKind, chunk: int) -> int:
        microbatch = self.count(kind, chunk)
        self._done[kind, chunk] = microbatch + 1
        return microbatch

    def _add(self, kind: PassKind, microbatch: int, chunk: int, paired: bool = False) -> None:
        self._rows.append((kind, microbatch, chunk, paired))
