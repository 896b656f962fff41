"""The published tool's names beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from codesign_opt.strategies import Attention, Datatype, Recompute, TpCommunication, TpOverlap

APPLICATION: Mapping[str, str] = {
    "hidden": "hidden",
    "feedforward": "feedforward",
    "seq_size": "sequence_length",
    "attn_heads": "attention_heads",
    "attn_size": "head_size",
    "num_blocks": "blocks",
}
"""Key of an application file to attribute of `Workload`."""

EXECUTION: Mapping[str, str] = {
    "num_procs": "processors",
    "tensor_par": "tp",
    "pipeline_par": "pp",
    "data_par": "dp",
    "tensor_par_net": "tp_tier",
    "pipeline_par_net": "pp_tier",
    "data_par_net": "dp_tier",
    "batch_size": "batch",
    "microbatch_size": "microbatch",
    "datatype": "datatype",
    "fused_activation": "fused_activation",
    "attention_type": "attention",
    "activation_recompute": "recompute",
    "pipeline_interleaving": "vpp",
    "optimizer_sharding": "optimizer_sharding",
    "tensor_par_comm_type": "tp_communication",
    "tensor_par_overlap": "tp_overlap",
    "seq_par_ag_redo": "gather_redo",
    "data_par_overlap": "dp_overlap",
    "weight_offload": "weight_offload",
    "activations_offload": "activation_offload",
    "optimizer_offload": "optimizer_offload",
    "training": "training",
}
"""Key of an execution file, in the published order, to attribute of `Strategy`."""

WORDS: Mapping[str, Mapping[str, Enum]] = {
    "datatype": {word.value: word for word in Datatype},
    "attention": {word.value: word for word in Attention},
    "recompute": {"none": Recompute.NONE, "attn_only": Recompute.SELECTIVE, "full": Recompute.FULL},
    "tp_communication": {
        "ar": TpCommunication.ALL_REDUCE,
        "p2p_rs_ag": TpCommunication.STAGE_BOUNDARY,
        "rs_ag": TpCommunication.SEQUENCE_PARALLEL,
    },
    "tp_overlap": {word.value: word for word in TpOverlap},
}
"""For each column of words: the published word to ours."""

COLLECTIVES = ("p2p", "reduce_scatter", "all_gather", "all_reduce")
"""Operations of a network."""
