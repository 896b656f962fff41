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


class AttentionKernel(Enum):
    """How attention is computed: product by product with scores in memory, or in one pass that never stores them."""

    UNFUSED = "unfused"
    FLASH = "flash"


class CpExchange(Enum):
    """How context parallelism brings queries together with the keys of the whole sequence.

    `ring`: keys and values go round beside the attention of those at hand; `all_gather`: they are gathered before it;
    `all_to_all`: each processor gets the whole sequence of some of the heads.
    """

    RING = "ring"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"


class Schedule(Enum):
    """The order of passes in a pipeline.

    `1f1b` is interleaved where vpp exceeds 1. In `zb_1p` weight gradients fill gaps at 1F1B's memory; `zb_v` has two
    chunks a stage placed as a V; `dualpipe` feeds the pipeline from both ends and holds the weights twice.
    """

    ONE_F_ONE_B = "1f1b"
    GPIPE = "gpipe"
    ZB_1P = "zb_1p"
    ZB_V = "zb_v"
    DUALPIPE = "dualpipe"


class Placement(Enum):
    """Which processors form the groups of each parallel dimension.

    `tiers`: the strategy names a network tier for each dimension, and a group uses that tier alone. An order names the
    dimensions from the innermost, whose group has neighbouring processors, to the outermost; then the tiers follow, and
    a group that reaches over several groups of the tier below uses the links of all its members there, as collective
    libraries do.
    """

    TIERS = "tiers"
    TP_CP_DP_PP = "tp-cp-dp-pp"
    TP_CP_PP_DP = "tp-cp-pp-dp"
    TP_DP_CP_PP = "tp-dp-cp-pp"
    CP_TP_DP_PP = "cp-tp-dp-pp"


class GradientPrecision(Enum):
    """In which format gradients are kept: that of the weights, 32 bits, or both (as they come, and as they add up)."""

    SAME = "same"
    FLOAT32 = "float32"
    BOTH = "both"


class ProductPrecision(Enum):
    """In which format matrix products compute: that of the weights, or 8 bits with casts before each."""

    SAME = "same"
    FLOAT8 = "float8"


BYTES = {Datatype.FLOAT8: 1, Datatype.FLOAT16: 2, Datatype.BFLOAT16: 2, Datatype.FLOAT32: 4}
"""Bytes of one element."""
