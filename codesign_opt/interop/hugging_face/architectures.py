"""How each kind of model is built: what its configuration leaves to the code that reads it.

Biases, norms and defaults are those of transformers 4.57.1, whose models the tests' counts of parameters come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from codesign_opt.workloads.transformer import QueryKeyNorm

Switch = bool | str
"""A fixed answer, or the configuration's key that holds it (false without the key)."""


class Windows(Enum):
    """Which blocks have the configuration's sliding window, where it does not list them.

    Attributes:
        NONE: None.
        ALL: All, where the window is not null.
        SWITCHED: All, where `use_sliding_window` is true.
        SWITCHED_LATER: Those after the first `max_window_layers`, where `use_sliding_window` is true.
        ALL_BUT_EVERY: All but one in `sliding_window_pattern`.
    """

    NONE = "none"
    ALL = "all"
    SWITCHED = "switched"
    SWITCHED_LATER = "switched later"
    ALL_BUT_EVERY = "all but every"


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What all models of one `model_type` share.

    Attributes:
        defaults: Values of keys that configurations may leave out.
        required: Values that keys must have for the shape to be right.
        feedforward_ratio: Inner width of the MLP as a multiple of the hidden one, where the configuration has none.
        feedforward_key: Key of the plain MLP's inner width, where another one is the experts'.
        position_rows: Rows of a learned position embedding beyond the longest sequence; None where there is none.
        rotary, root_mean_square_norm, norms, gated_mlp, output_bias, attention_sinks: As in `Workload`.
        attention_bias, attention_output_bias, mlp_bias: As in `Workload`, or the key that says so.
        query_key_norm: Norm of queries and keys, where `query_key_norm_on` says so.
        query_key_norm_on: Whether there is one, or the key that says so.
        latent_attention: Whether attention is latent.
        experts: Whether there may be experts.
        shared_gate, router_bias, expert_bias: As in `Experts`.
        windows: Which blocks have a sliding window.
    """

    defaults: Mapping[str, Any] = field(default_factory=dict)
    required: Mapping[str, Any] = field(default_factory=dict)
    feedforward_ratio: int = 0
    feedforward_key: str = "intermediate_size"
    position_rows: int | None = None
    rotary: bool = True
    root_mean_square_norm: Switch = True
    norms: int = 2
    gated_mlp: bool = True
    attention_bias: Switch = False
    attention_output_bias: Switch = False
    mlp_bias: Switch = False
    output_bias: bool = False
    query_key_norm: QueryKeyNorm = QueryKeyNorm.HEAD
    query_key_norm_on: Switch = False
    attention_sinks: bool = False
    latent_attention: bool = False
    experts: bool = False
    shared_gate: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    windows: Windows = Windows.NONE


_TIED = {"tie_word_embeddings": True}
_BOTH: dict[str, Any] = {"attention_bias": "attention_bias", "attention_output_bias": "attention_bias"}
"""One key says whether queries, keys and values have biases, and attention's output."""

_BIASED: dict[str, Any] = {"attention_bias": True, "attention_output_bias": True, "mlp_bias": True}
_LAYER_NORM_GPT: dict[str, Any] = {"root_mean_square_norm": False, "gated_mlp": False}

ARCHITECTURES: Mapping[str, Architecture] = {
    "gpt2": Architecture(
        defaults=_TIED, required={"add_cross_attention": False}, feedforward_ratio=4, position_rows=0, rotary=False,
        **_LAYER_NORM_GPT, **_BIASED,
    ),
    "gptj": Architecture(norms=1, feedforward_ratio=4, output_bias=True, mlp_bias=True, **_LAYER_NORM_GPT),
    "gpt_neox": Architecture(defaults={"attention_bias": True}, mlp_bias=True, **_LAYER_NORM_GPT, **_BOTH),
    "opt": Architecture(
        defaults={**_TIED, "enable_bias": True},
        required={"do_layer_norm_before": True, "layer_norm_elementwise_affine": True},
        position_rows=2, rotary=False, attention_bias="enable_bias", attention_output_bias="enable_bias",
        mlp_bias="enable_bias", **_LAYER_NORM_GPT,
    ),
    "mpt": Architecture(
        defaults={**_TIED, "no_bias": True},
        required={"attn_config.attn_type": "multihead_attention", "attn_config.rope": False},
        position_rows=0, rotary=False, root_mean_square_norm="no_bias", gated_mlp=False, attention_bias="bias",
        attention_output_bias="bias", mlp_bias="bias",
    ),
    "phi": Architecture(
        norms=1, output_bias=True, query_key_norm_on="qk_layernorm", **_LAYER_NORM_GPT, **_BIASED
    ),
    "nemotron": Architecture(mlp_bias="mlp_bias", **_LAYER_NORM_GPT, **_BOTH),
    "starcoder2": Architecture(
        defaults={**_TIED, "use_bias": True}, required={"norm_type": "layer_norm", "mlp_type": "default"},
        attention_bias="use_bias", attention_output_bias="use_bias", mlp_bias="use_bias", windows=Windows.ALL,
        **_LAYER_NORM_GPT,
    ),
    "cohere": Architecture(
        defaults=_TIED, norms=1, query_key_norm=QueryKeyNorm.WIDTH, query_key_norm_on="use_qk_norm", **_BOTH
    ),
    "llama": Architecture(mlp_bias="mlp_bias", **_BOTH),
    "mistral": Architecture(defaults={"sliding_window": 4096}, windows=Windows.ALL),
    "phi3": Architecture(windows=Windows.ALL),
    "granite": Architecture(mlp_bias="mlp_bias", **_BOTH),
    "smollm3": Architecture(defaults=_TIED, mlp_bias="mlp_bias", **_BOTH),
    "seed_oss": Architecture(
        defaults={"attention_bias": True, "head_dim": 128}, attention_bias="attention_bias",
        attention_output_bias="attention_out_bias", mlp_bias="mlp_bias",
    ),
    "qwen2": Architecture(
        defaults={"max_window_layers": 28}, attention_bias=True, windows=Windows.SWITCHED_LATER
    ),
    "qwen3": Architecture(
        defaults={"max_window_layers": 28, "head_dim": 128}, query_key_norm_on=True, windows=Windows.SWITCHED_LATER,
        **_BOTH,
    ),
    "olmo2": Architecture(query_key_norm=QueryKeyNorm.WIDTH, query_key_norm_on=True, **_BOTH),
    "olmo3": Architecture(
        defaults={"sliding_window": 4096, "sliding_window_pattern": 4}, query_key_norm=QueryKeyNorm.WIDTH,
        query_key_norm_on=True, windows=Windows.ALL_BUT_EVERY, **_BOTH,
    ),
    "gemma": Architecture(defaults={**_TIED, "head_dim": 256}, **_BOTH),
    "gemma2": Architecture(
        defaults={**_TIED, "head_dim": 256, "sliding_window": 4096, "sliding_window_pattern": 2}, norms=4,
        windows=Windows.ALL_BUT_EVERY, **_BOTH,
    ),
    "gemma3_text": Architecture(
        # Published configurations of multimodal Gemma 3 leave most of these out.
        defaults={
            **_TIED, "vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
            "max_position_embeddings": 131_072, "sliding_window": 4096, "sliding_window_pattern": 6,
        },
        norms=4, query_key_norm_on=True, windows=Windows.ALL_BUT_EVERY, **_BOTH,
    ),
    "glm": Architecture(defaults={"attention_bias": True, "head_dim": 128}, attention_bias="attention_bias"),
    "glm4": Architecture(defaults={"attention_bias": True, "head_dim": 128}, norms=4, attention_bias="attention_bias"),
    "glm4_moe": Architecture(
        attention_bias="attention_bias", query_key_norm_on="use_qk_norm", experts=True
    ),
    "mixtral": Architecture(experts=True, windows=Windows.ALL),
    "granitemoe": Architecture(experts=True, **_BOTH),
    "qwen2_moe": Architecture(
        defaults={"qkv_bias": True}, attention_bias="qkv_bias", experts=True, shared_gate=True,
        windows=Windows.SWITCHED,
    ),
    "qwen3_moe": Architecture(query_key_norm_on=True, experts=True, windows=Windows.SWITCHED, **_BOTH),
    "deepseek_v2": Architecture(latent_attention=True, experts=True, required={"mlp_bias": False}, **_BOTH),
    "deepseek_v3": Architecture(latent_attention=True, experts=True, **_BOTH),
    "gpt_oss": Architecture(
        defaults={"attention_bias": True, "head_dim": 64, "sliding_window": 128, "sliding_window_pattern": 2},
        attention_sinks=True, experts=True, router_bias=True, expert_bias=True, windows=Windows.ALL_BUT_EVERY, **_BOTH,
    ),
    "llama4_text": Architecture(
        defaults={
            "head_dim": 128, "num_key_value_heads": 8, "n_shared_experts": 1, "attention_chunk_size": 8192,
            "no_rope_layer_interval": 4,
        },
        feedforward_key="intermediate_size_mlp", experts=True, windows=Windows.ALL_BUT_EVERY,
    ),
}  # fmt: skip
"""By `model_type`."""

SAME_AS: Mapping[str, str] = {
    "gemma3": "gemma3_text",
    "glm4v_moe_text": "glm4_moe",
    "glm4v_text": "glm4",
    "kimi_k2": "deepseek_v3",
    "llama4": "llama4_text",
    "ministral": "mistral",
    "mistral3": "mistral",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen3_vl_text": "qwen3",
}
"""Other words for `model_type`: the same language model, inside a multimodal one or by another maker."""
