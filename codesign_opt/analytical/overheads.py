"""Memory that frameworks take besides what a step holds: named parameters of the system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.systems import MemoryOverheads

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class OverheadColumns:
    """`systems.MemoryOverheads` as columns."""

    context: Array
    communication: Array
    workspace: Array
    fragmentation: Array

    def bytes(self, strategies: Mapping[str, Array], activations: Array) -> Array:
        """Bytes of every strategy, which holds so many bytes of activations and their gradients."""
        groups = sum((strategies[name] > 1).astype(np.float64) for name in ("tp", "pp", "dp", "cp", "ep"))
        fixed = self.context + self.workspace + self.communication * groups
        return np.asarray(fixed + self.fragmentation * activations)


def overhead_columns(overheads: Sequence[MemoryOverheads], system: Array) -> OverheadColumns | None:
    """Columns for rows that name their system by index; None where no system has any."""
    if not any(overhead.any for overhead in overheads):
        return None

    def column(name: str) -> Array:
        return np.array([getattr(overhead, name) for overhead in overheads])[system]

    return OverheadColumns(
        context=column("context"),
        communication=column("communication"),
        workspace=column("workspace"),
        fragmentation=column("fragmentation"),
    )
