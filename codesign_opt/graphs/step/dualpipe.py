"""The order of DualPipe (arXiv 2412.19437, figure 5): half of the microbatches from either end of the pipeline."""

from __future__ import annotations

from dataclasses import replace

from codesign_opt.graphs.step.passes import PassList, PassOrder


def dualpipe_order(stage: int, microbatches: int, *, stages: int) -> PassOrder:
    """The passes of a stage; `stages` and `microbatches` are even, and there are 2 · `stages` microbatches or more.

    Chunk 0 is that of the microbatches that start at the first stage, chunk 1 that of the others. A stage is nearer to
    one end; the microbatches that come from there are its near ones. `depth` counts stages from that end, `ahead` those
    until the middle, where the ways cross. Forward passes fill the pipeline; then each goes beside a backward pass of
    the other way; in the end backward passes are split, so that weight gradients fill the gaps.
    """
    depth = min(stage, stages - 1 - stage)
    ahead = stages // 2 - depth - 1
    near, far = (0, 1) if stage < stages // 2 else (1, 0)
    passes = PassList()
    for _ in range(2 * ahead):
        passes.forward(near)
    for _ in range(depth + 1):
        passes.forward(near)
        passes.forward(far)
    for _ in range(ahead):
        passes.backward(far, split=True)
        passes.weight_gradient()
        passes.forward(far)
    for number in range(microbatches // 2 - stages + depth + 1):
        # In the middle the first backward pass has its own forward pass right before it.
        passes.forward(near, paired=number > 0 or ahead > 0)
        passes.backward(far)
        passes.forward(far, paired=True)
        passes.backward(near)
    for _ in range(ahead):
        passes.backward(far)
        passes.forward(far, paired=True)
        passes.backward(near)
    for number in range(2 * (depth + 1)):
        passes.backward(far if number % 2 == 0 else near, split=number > depth)
    for _ in range(ahead):
        passes.weight_gradient()
        passes.backward(near, split=True)
    while passes.owed:
        passes.weight_gradient()
    return _numbered(passes.order(), microbatches)


def _numbered(order: PassOrder, microbatches: int) -> PassOrder:
    """The microbatches of the second way numbered after those of the first."""
    return replace(order, microbatch=order.microbatch + order.chunk * (microbatches // 2))
