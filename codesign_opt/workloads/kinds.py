"""The kinds of blocks of a workload: those with experts and those without, those with a window and those without."""

from __future__ import annotations

from dataclasses import dataclass, replace

from codesign_opt.workloads.transformer import Workload


@dataclass(frozen=True, slots=True)
class BlockKind:
    """Blocks that are all alike.

    Attributes:
        workload: The workload as if all its blocks were of this kind.
        blocks: How many there are.
        leading: Whether they all stand at the start; else they are spread evenly over the others.
    """

    workload: Workload
    blocks: int
    leading: bool = False


def block_kinds(workload: Workload) -> tuple[BlockKind, ...]:
    """The kinds that occur, in a fixed order; together they have all blocks (prediction blocks count as one more each).

    A window and experts are taken to be independent of each other: each occurs in its share of the blocks.
    """
    total = workload.blocks + workload.prediction_blocks
    kinds = _mlp_kinds(workload, total)
    if workload.windowed_blocks == 0:
        return kinds
    result = []
    for kind in kinds:
        seeing_less = round(kind.blocks * workload.windowed_blocks / workload.blocks)
        for blocks, windowed in ((seeing_less, total), (kind.blocks - seeing_less, 0)):
            if blocks:
                result.append(replace(kind, workload=replace(kind.workload, windowed_blocks=windowed), blocks=blocks))
    return tuple(result)


def _mlp_kinds(workload: Workload, total: int) -> tuple[BlockKind, ...]:
    experts = workload.experts
    if experts is None:
        return (BlockKind(workload, total),)
    after = workload.blocks - experts.leading_dense_blocks
    with_experts = after // experts.every + workload.prediction_blocks
    everywhere = replace(workload, experts=replace(experts, leading_dense_blocks=0, every=1))
    if with_experts == total:
        return (BlockKind(everywhere, total),)
    dense = total - with_experts
    leading = dense == experts.leading_dense_blocks
    return (
        BlockKind(replace(workload, experts=None), dense, leading=leading),
        BlockKind(everywhere, with_experts),
    )
