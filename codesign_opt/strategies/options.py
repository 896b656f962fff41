"""The words that a strategy's options may take."""

from __future__ import annotations

from enum import Enum


class Datatype(Enum):
    """Number format of weights, activations and gradients."""

    FLOAT8 = "float8"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"


class Attention(Enum):
    """How many key and value heads there are: as many as query heads, or one."""

    MULTIHEAD = "multihead"
    MULTIQUERY = "multiquery"


class Recompute(Enum):
    """What is computed again in the backward pass instead of being kept; `selective` is the attention core."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class TpCommunication(Enum):
    """Which collectives tensor parallelism uses.

    `all_reduce`; `sequence_parallel`: reduce-scatter and all-gather; `stage_boundary`: all-reduce inside a chunk, but
    reduce-scatter and all-gather at its edge, so that the pipeline message is 1/tp as large.
    """

    ALL_REDUCE = "all_reduce"
    STAGE_BOUNDARY = "stage_boundary"
    SEQUENCE_PARALLEL = "sequence_parallel"


class TpOverlap(Enum):
    """How tensor-parallel communication hides behind the adjacent matrix product."""

    NONE = "none"
    RING = "ring"
    PIPE = "pipe"


BYTES = {Datatype.FLOAT8: 1, Datatype.FLOAT16: 2, Datatype.BFLOAT16: 2, Datatype.FLOAT32: 4}
"""Bytes of one element."""
