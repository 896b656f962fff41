"""How many parameters a workload has, part by part."""

from __future__ import annotations

from codesign_opt.workloads.transformer import Workload

DEFAULT_VOCABULARY = 51_200


def parameter_count(workload: Workload) -> int:
    """All parameters of a workload.

    Blocks alone (`vocabulary` 0) count with position and token embedding of `DEFAULT_VOCABULARY` words, as in spec
    analytical-model section 2.1.
    """
    attention = workload.attention_heads * workload.head_size
    block = (
        2 * workload.hidden * workload.feedforward
        + 4 * workload.hidden * attention
        + workload.hidden
        + workload.feedforward
        + 3 * attention
        + workload.hidden
        + 4 * workload.hidden
    )
    return workload.blocks * block + (DEFAULT_VOCABULARY + workload.sequence_length) * workload.hidden
