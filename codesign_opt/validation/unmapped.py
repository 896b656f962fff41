"""Why a measured run cannot become a workload, a system and a strategy."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "adapters": "only low-rank adapters are trained",
    "number-format": "the processor has no engine of that number format here",
    "no-shape": "the shape of the model is not given",
    "unknown-attention": "latent attention of ranks that neither the row nor a public configuration gives",
    "no-sequence": "the sequence length is not given",
    "no-layout": "the parallel degrees are not given",
    "no-microbatch": "the microbatch is not given",
    "no-batch": "neither the batch nor a rate is given",
    "batch-mismatch": "batch, microbatch, data parallelism and accumulation contradict each other",
    "unknown-recompute": "part of the blocks are recomputed, but not how many",
    "no-measurement": "neither a time, a memory size nor a failure for want of memory is given",
    "unknown-processor": "no system of the catalogue has that processor with that memory",
    "unknown-network": "the words for the links name no rate that is known here",
    "unknown-schedule": "a pipeline schedule that strategies do not have",
    "illegal": "the strategy breaks a rule that every strategy keeps",
}
"""Each reason's word, and what it means."""


class Unmapped(Exception):  # noqa: N818 - a verdict on a row, which `map_run` catches, and no error
    """A run that cannot be mapped.

    Args:
        reason: A word of `REASONS`.
        sentence: What is wrong with this run, with its values.
    """

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason
        self.sentence = sentence
