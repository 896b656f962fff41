"""Flop that training a workload needs, by the conventions of the field."""

from __future__ import annotations

from codesign_opt.workloads.transformer import Workload


def flops_per_token(workload: Workload) -> int:
    """Training flop per token, 6·parameters + 12·blocks·width·sequence: full attention, no recompute (PaLM convention)."""
    width = workload.attention_heads * workload.head_size
    return 6 * workload.parameters + 12 * workload.blocks * width * workload.sequence_length
