"""How a training software shares the blocks of a model among pipeline stages."""

from __future__ import annotations

from enum import Enum

from codesign_opt.workloads import Workload


class PipelineSplit(Enum):
    """The rule of a software.

    `balanced`: by cost, with the output projection as part of the last stage's. `ends_shorter`: evenly where that goes;
    else the embedding and the output projection count as a block each, or the last chunk takes what is left.
    """

    BALANCED = "balanced"
    ENDS_SHORTER = "ends_shorter"


def blocks_less(
    split: PipelineSplit, workload: Workload, *, pp: int, vpp: int, ties_move_on: bool = True
) -> tuple[int, int]:
    """How many blocks the first and the last stage have fewer than the fullest; the last may have none.

    Args:
        split: The rule.
        workload: Whose blocks are shared.
        pp, vpp: Stages, and chunks of a stage.
        ties_move_on: See `balanced_stages`.
    """
    if pp == 1:
        return 0, 0
    if split is PipelineSplit.BALANCED:
        counts, last = balanced_stages(workload, pp, ties_move_on=ties_move_on)
        most = max(counts)
        return most - counts[0], most - counts[last]
    chunks = pp * vpp
    if workload.prediction_blocks == 0 and workload.blocks % chunks and (workload.blocks + 2) % chunks == 0:
        return 1, 1
    # A block that predicts further tokens stands in the last chunk beside the ordinary ones.
    return 0, -(workload.blocks + workload.prediction_blocks) % chunks


def balanced_stages(workload: Workload, pp: int, *, ties_move_on: bool) -> tuple[list[int], int]:
    """Blocks of each stage, and the stage that has the output projection, by nanotron's rule.

    A stage is full once the cost so far exceeds its share of the whole: weights of products, with attention as if all
    heads had their own keys and values. Later stages may remain empty.

    Args:
        workload: Whose blocks are shared.
        pp: Stages.
        ties_move_on: Whether a stage that reaches its share exactly is full as well. Runs of the published sweep after
            its correction of pipelines show so in their memory, those before do not.
    """
    block = workload.hidden * (4 * workload.attention_heads * workload.head_size + 3 * workload.feedforward)
    costs = [block] * workload.blocks + [workload.vocabulary * workload.hidden]
    total, done, stage = sum(costs), 0, 0
    stages = []
    for cost in costs:
        stages.append(stage)
        done += cost
        full = done * pp >= total * (stage + 1) if ties_move_on else done * pp > total * (stage + 1)
        stage += full
    return [stages[:-1].count(index) for index in range(pp)], stages[-1]
