"""The parts of a stack of blocks, and the operations of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from enum import Enum

from codesign_opt.analytical.ends import first_operations, last_operations
from codesign_opt.analytical.errata import Erratum
from codesign_opt.analytical.operations import Operation
from codesign_opt.analytical.sequence import block_operations
from codesign_opt.analytical.shapes import BlockShapes


class Part(Enum):
    """A block; what comes before the first one; what comes after the last one."""

    BLOCK = "block"
    FIRST = "first"
    LAST = "last"


OPERATIONS: Mapping[Part, Callable[[BlockShapes, Set[Erratum]], list[Operation]]] = {
    Part.BLOCK: block_operations,
    Part.FIRST: first_operations,
    Part.LAST: last_operations,
}
"""The operations of each part, for one microbatch."""
