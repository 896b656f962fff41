"""Orders that put weight gradients where a pipeline stage would wait (zero-bubble schedules)."""

from __future__ import annotations

from codesign_opt.graphs.step.passes import PassKind, PassList, PassOrder


def zero_bubble_order(stage: int, microbatches: int, *, stages: int) -> PassOrder:
    """Passes as in 1F1B, but every weight gradient `stage` microbatches later (ZB-H1, arXiv 2401.10241).

    A stage holds `stages` microbatches at most, as the first one does with 1F1B: stages that have fewer of them on
    their way have as many more whose weight gradients are to come.
    """
    passes = PassList()
    for _ in range(min(microbatches, stages - stage - 1)):
        passes.forward(0)
    for number in range(microbatches):
        if passes.count(PassKind.FORWARD, 0) < microbatches:
            passes.forward(0)
        passes.backward(0, split=True)
        if number >= stage:
            passes.weight_gradient()
    return _with_rest(passes)


def v_order(stage: int, microbatches: int, *, stages: int) -> PassOrder:
    """Two chunks a stage, the second ones in the order from last to first (ZB-V, arXiv 2401.10241 and 2405.15362).

    With passes of equal length a microbatch comes back to a stage after 2 · (stages - stage) - 1 of them, and its
    gradients 2 · stage + 1 passes later: as many forward passes fill the time until then, 2 · stages in all, which is
    what a stage may hold. From then on every pass of one kind makes room for one of another; weight gradients wait
    where the last backward passes would otherwise.
    """
    passes = _Few(microbatches)
    for _ in range(2 * (stages - stage) - 1):
        passes.forward(0)
    for _ in range(stage):
        passes.forward(1)
        passes.forward(0)
    for _ in range(stages - stage):
        passes.forward(1)
        passes.backward(1)
    while passes.forwards(1) < microbatches:
        passes.forward(0)
        passes.backward(0)
        passes.forward(1)
        passes.backward(1)
    for _ in range(stage):
        passes.backward(0, later=True)
        passes.backward(1, later=True)
    for _ in range(stages - stage):
        passes.backward(0)
    return _with_rest(passes.listed)


class _Few:
    """Passes of so many microbatches, beyond which there are none."""

    def __init__(self, microbatches: int) -> None:
        self.listed = PassList()
        self._microbatches = microbatches

    def forwards(self, chunk: int) -> int:
        return self.listed.count(PassKind.FORWARD, chunk)

    def forward(self, chunk: int) -> None:
        if self.forwards(chunk) < self._microbatches:
            self.listed.forward(chunk)

    def backward(self, chunk: int, *, later: bool = False) -> None:
        """A split backward pass, and the oldest weight gradient unless these are for later."""
        if self.listed.count(PassKind.BACKWARD, chunk) < self._microbatches:
            self.listed.backward(chunk, split=True)
            if not later:
                self.listed.weight_gradient()
        elif not later and self.listed.owed:
            self.listed.weight_gradient()


def _with_rest(passes: PassList) -> PassOrder:
    while passes.owed:
        passes.weight_gradient()
    return passes.order()
