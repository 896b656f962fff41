"""Which blocks stand where in a stack, and on which stage."""

from __future__ import annotations

from collections.abc import Sequence

from codesign_opt.strategies.targets.megatron_lm import balanced_layout
from codesign_opt.workloads.kinds import BlockKind


def stage_blocks(blocks: int, stages: int, *, first_less: int = 0, last_less: int = 0) -> tuple[int, ...]:
    """Blocks of each stage: as even as may be, the first ones having one more, before what the ends have less."""
    return tuple(balanced_layout(blocks, stages, first_less=first_less, last_less=last_less))


def stack_order(kinds: Sequence[BlockKind]) -> tuple[int, ...]:
    """The kind of each block: those that lead the stack, then the others; of several kinds each is spread evenly."""
    leading, others = (
        [number for number, kind in enumerate(kinds) if kind.leading is leads] for leads in (True, False)
    )
    return (*_spread(kinds, leading), *_spread(kinds, others))


def _spread(kinds: Sequence[BlockKind], numbers: Sequence[int]) -> tuple[int, ...]:
    """At every place the kind that lags most behind its share of the blocks so far."""
    total = sum(kinds[number].blocks for number in numbers)
    placed = dict.fromkeys(numbers, 0)
    order = []
    for place in range(1, total + 1):
        chosen = max(numbers, key=lambda number: place * kinds[number].blocks - total * placed[number])
        placed[chosen] += 1
        order.append(chosen)
    return tuple(order)
