"""One strategy: how a workload is run on a system."""

from __future__ import annotations

from dataclasses import dataclass

from codesign_opt.strategies.options import Attention, Datatype, Recompute, TpCommunication, TpOverlap


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """How a workload is run.

    Attributes:
        processors: All of them; `tp * pp * dp`.
        tp, pp, dp: Tensor-, pipeline- and data-parallel degrees.
        vpp: Chunks of the interleaved schedule per stage; 1 is plain 1F1B.
        batch: Global batch, sequences.
        microbatch: Sequences per microbatch.
        datatype: Number format.
        fused_activation: The MLP activation keeps nothing for the backward pass.
        attention: Multihead or multiquery.
        recompute: What is computed again in the backward pass.
        tp_communication: Collectives of tensor parallelism.
        tp_overlap: How they hide behind matrix products.
        gather_redo: Gather again in the backward pass instead of keeping the gathered activation.
        optimizer_sharding: Optimizer state split over `dp`.
        dp_overlap: Hide the gradient exchange behind the backward pass.
        weight_offload, activation_offload, optimizer_offload: Keep in memory tier 2 and stream.
        training: False is a forward pass only.
        tp_tier, pp_tier, dp_tier: Index of the network tier that each dimension uses.
    """

    processors: int
    tp: int
    pp: int
    dp: int
    vpp: int = 1
    batch: int
    microbatch: int
    datatype: Datatype = Datatype.FLOAT16
    fused_activation: bool = True
    attention: Attention = Attention.MULTIHEAD
    recompute: Recompute = Recompute.NONE
    tp_communication: TpCommunication = TpCommunication.ALL_REDUCE
    tp_overlap: TpOverlap = TpOverlap.NONE
    gather_redo: bool = False
    optimizer_sharding: bool = False
    dp_overlap: bool = False
    weight_offload: bool = False
    activation_offload: bool = False
    optimizer_offload: bool = False
    training: bool = True
    tp_tier: int = 0
    pp_tier: int = 0
    dp_tier: int = 0
