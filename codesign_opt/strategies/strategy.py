"""One strategy: how a workload is run on a system."""

from __future__ import annotations

from dataclasses import dataclass

from codesign_opt.strategies.options import (
    Attention,
    AttentionKernel,
    CpExchange,
    Datatype,
    GradientPrecision,
    Placement,
    ProductPrecision,
    Recompute,
    Schedule,
    TpCommunication,
    TpOverlap,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """How a workload is run.

    Attributes:
        processors: All of them; `tp * pp * dp * cp`.
        tp, pp, dp: Tensor-, pipeline- and data-parallel degrees.
        cp: Context-parallel degree: the sequence is split among so many processors.
        ep: Expert-parallel degree: a block's routed experts are split among so many processors of one stage.
        etp: Tensor-parallel degree inside a routed expert; ep · etp divides tp · cp · dp.
        vpp: Chunks of the interleaved schedule per stage; 1 is plain 1F1B.
        batch: Global batch, sequences.
        microbatch: Sequences per microbatch.
        datatype: Number format.
        fused_activation: The MLP activation keeps nothing for the backward pass.
        product_precision: Number format of matrix products.
        gradient_precision: Number format of weight gradients.
        attention: Multihead (as many key and value heads as the workload says) or multiquery.
        attention_kernel: How attention is computed.
        cp_exchange: How context parallelism exchanges keys and values.
        schedule: Order of passes in the pipeline.
        first_stage_less, last_stage_less: Blocks that the first and the last stage have fewer than those between, to
            make room for the embedding and the output projection.
        recompute: What is computed again in the backward pass.
        recompute_blocks: Blocks of each stage that full recompute concerns; 0 for all.
        tp_communication: Collectives of tensor parallelism.
        tp_overlap: How they hide behind matrix products.
        gather_redo: Gather again in the backward pass instead of keeping the gathered activation.
        optimizer_sharding: Optimizer state split over the processors that hold the same weights (ZeRO-1).
        gradient_sharding: With it, gradients are kept in shards as well (ZeRO-2).
        weight_sharding: With both, so are weights, which are gathered block by block (ZeRO-3, FSDP).
        shard_group: Processors among which state is split; 0 for all that hold the same weights (more in the group's
            stead is HSDP).
        prefetch: Blocks gathered ahead of the one at work, with `weight_sharding`.
        keep_gathered: Gathered weights stay from the forward to the backward pass.
        reduce_each_microbatch: Gradients are exchanged in every microbatch, not once a step.
        dp_overlap: Hide the gradient exchange behind the backward pass.
        weight_offload, activation_offload, optimizer_offload: Keep in memory tier 2 and stream.
        training: False is a forward pass only.
        tp_tier, pp_tier, dp_tier, cp_tier, ep_tier: Index of the network tier that each dimension uses.
        placement: Which processors form groups; an order decides the tiers.
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
    cp: int = 1
    ep: int = 1
    etp: int = 1
    product_precision: ProductPrecision = ProductPrecision.SAME
    gradient_precision: GradientPrecision = GradientPrecision.SAME
    attention_kernel: AttentionKernel = AttentionKernel.UNFUSED
    cp_exchange: CpExchange = CpExchange.RING
    schedule: Schedule = Schedule.ONE_F_ONE_B
    first_stage_less: int = 0
    last_stage_less: int = 0
    recompute_blocks: int = 0
    gradient_sharding: bool = True
    weight_sharding: bool = False
    shard_group: int = 0
    prefetch: int = 1
    keep_gathered: bool = False
    reduce_each_microbatch: bool = False
    cp_tier: int = 0
    ep_tier: int = 0
    placement: Placement = Placement.TIERS
