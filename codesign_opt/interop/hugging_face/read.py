"""A workload from a `config.json`, and what one should know about it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codesign_opt.errors import InputError
from codesign_opt.interop.hugging_face.architectures import Windows
from codesign_opt.interop.hugging_face.config import MAXIMUM, Config, Source, configuration, load
from codesign_opt.interop.hugging_face.notes import notes
from codesign_opt.workloads.consistency import check_workload
from codesign_opt.workloads.transformer import Experts, LatentAttention, QueryKeyNorm, Workload

DEFAULT_SEQUENCE_LENGTH = 8192
"""Tokens in a sequence where nothing else is asked: the longest that a model takes is seldom what it is trained on."""

_SIGNS = ("model_type", "architectures", "text_config", "hidden_size", "num_hidden_layers", "n_embd", "d_model")
"""Keys of which a `config.json` has at least one, and the application file of the published tool has none."""

_DROPOUTS = (
    "attention_dropout", "attn_pdrop", "dropout", "embd_pdrop", "embedding_dropout", "emb_pdrop", "hidden_dropout",
    "resid_pdrop", "residual_dropout",
)  # fmt: skip

_FULL, _SLIDING, _CHUNKED = "full_attention", "sliding_attention", "chunked_attention"


def read_config(source: Source, *, sequence_length: int | None = None, name: str = "") -> Workload:
    """The workload of a model's configuration.

    The language model alone: a vision or audio tower is left out, and so are blocks that predict further tokens, which
    published counts of parameters leave out too. `config_notes` says what was left out.

    Args:
        source: The path of a `config.json`, or its content.
        sequence_length: Tokens in a sequence; by default the longest that the model takes, at most
            `DEFAULT_SEQUENCE_LENGTH`.
        name: What reports call it; by default the folder of a file "config.json", else the file's name.

    Raises:
        InputError: For a file that cannot be read, an unknown architecture, a missing key or a value that cannot be
            used, naming file and key.
    """
    whole, where = load(source)
    config = configuration(whole, where)
    workload = _workload(config, sequence_length, name or _name(source, config))
    check_workload(workload, where=where.removesuffix(": "))
    return workload


def config_notes(source: Source, *, sequence_length: int | None = None, name: str = "") -> tuple[str, ...]:
    """What one should know about `read_config` with the same arguments: a sentence each.

    Raises:
        InputError: As `read_config`.
    """
    whole, where = load(source)
    folder = None if isinstance(source, Mapping) else Path(source).parent
    workload = read_config(source, sequence_length=sequence_length, name=name)
    return notes(configuration(whole, where), workload, folder)


def is_config(source: Source) -> bool:
    """Whether a JSON file is a `config.json` rather than anything else, which may also be a file with errors."""
    try:
        whole, _ = load(source)
    except InputError:
        return False
    return any(key in whole for key in _SIGNS)


def _workload(config: Config, sequence_length: int | None, name: str) -> Workload:
    architecture = config.architecture
    hidden, heads = config.size("hidden_size"), config.size("num_attention_heads")
    blocks = config.size("num_hidden_layers")
    if config.size_or_none("word_embed_proj_dim") not in (None, hidden):
        raise config.refused("word_embed_proj_dim", f"only hidden_size = {hidden} is modelled")
    latent = _latent_attention(config) if architecture.latent_attention else None
    window, windowed_blocks = _windows(config, blocks)
    normed = latent is None and config.switch(architecture.query_key_norm_on)
    return Workload(
        name=name[:100],
        hidden=hidden,
        feedforward=_feedforward(config, hidden),
        sequence_length=_sequence_length(config, sequence_length),
        attention_heads=heads,
        head_size=_head_size(config, hidden, heads),
        blocks=blocks,
        key_value_heads=_key_value_heads(config, heads) if latent is None else None,
        latent_attention=latent,
        gated_mlp=architecture.gated_mlp,
        experts=_experts(config, blocks),
        vocabulary=config.size("vocab_size"),
        tied_embeddings=config.switch("tie_word_embeddings"),
        learned_positions=_learned_positions(config),
        rotary=architecture.rotary,
        root_mean_square_norm=config.switch(architecture.root_mean_square_norm),
        norms=architecture.norms,
        query_key_norm=architecture.query_key_norm if normed else QueryKeyNorm.NONE,
        attention_bias=config.switch(architecture.attention_bias),
        attention_output_bias=config.switch(architecture.attention_output_bias),
        mlp_bias=config.switch(architecture.mlp_bias),
        output_bias=architecture.output_bias,
        attention_sinks=architecture.attention_sinks,
        dropout=any(_positive(config.values.get(key)) for key in _DROPOUTS),
        window=window,
        windowed_blocks=windowed_blocks,
    )


def _feedforward(config: Config, hidden: int) -> int:
    key = config.architecture.feedforward_key
    width = config.size_or_none(key, least=1)
    if width is None and config.architecture.feedforward_ratio:
        return config.architecture.feedforward_ratio * hidden
    return config.size(key) if width is None else width


def _head_size(config: Config, hidden: int, heads: int) -> int:
    if config.architecture.latent_attention:
        return config.size("qk_nope_head_dim")
    given = config.size_or_none("head_dim", least=1)
    if given is None and hidden % heads:
        raise InputError(
            f"{config.where}missing key 'head_dim'",
            f"num_attention_heads = {heads} does not divide hidden_size = {hidden}",
        )
    return hidden // heads if given is None else given


def _key_value_heads(config: Config, heads: int) -> int | None:
    """None for as many as there are attention heads."""
    given = config.size_or_none("num_key_value_heads", least=1)
    if given is not None and heads % given:
        raise config.refused("num_key_value_heads", f"must divide num_attention_heads = {heads}")
    return None if given == heads else given


def _latent_attention(config: Config) -> LatentAttention:
    return LatentAttention(
        query_rank=config.size_or_none("q_lora_rank") or 0,
        key_value_rank=config.size("kv_lora_rank"),
        rotary_size=config.size("qk_rope_head_dim"),
        value_size=config.size("v_head_dim"),
    )


def _experts(config: Config, blocks: int) -> Experts | None:
    architecture, count = config.architecture, config.size_or_none("num_experts") or 0
    if not architecture.experts:
        if count > 1:
            raise config.refused(config.name_of("num_experts"), f"a {config.model_type} model has no experts")
        return None
    if count == 0:
        return None
    own = config.size_or_none("moe_intermediate_size", least=1)
    width = config.size("intermediate_size") if own is None else own
    leading, every = _expert_blocks(config, blocks)
    shared = config.size_or_none("shared_expert_intermediate_size")
    return Experts(
        count=count,
        top_k=config.size("num_experts_per_tok"),
        feedforward=width,
        shared_feedforward=(config.size_or_none("n_shared_experts") or 0) * width if shared is None else shared,
        shared_gate=architecture.shared_gate and bool(shared),
        router_bias=architecture.router_bias,
        expert_bias=architecture.expert_bias,
        leading_dense_blocks=leading,
        every=every,
    )


def _expert_blocks(config: Config, blocks: int) -> tuple[int, int]:
    """Dense blocks at the start, and one block in how many has experts after them."""
    if config.size_or_none("moe_layer_freq", least=1) not in (None, 1):
        raise config.refused("moe_layer_freq", "only 1 is modelled: experts in every block after the dense ones")
    dense = config.values.get("mlp_only_layers")
    leading = config.size_or_none("first_k_dense_replace") or 0
    step = config.size_or_none("decoder_sparse_step", least=1) or config.size_or_none("interleave_moe_layer_step") or 1
    if dense:
        if not isinstance(dense, list) or dense != list(range(len(dense))) or step != 1:
            raise config.refused("mlp_only_layers", "only the first blocks may be without experts: [0, 1, …]")
        leading = len(dense)
    listed = config.values.get("moe_layers")
    if listed is not None and listed != list(range(step - 1, blocks, step)):
        raise config.refused("moe_layers", f"only every block of interleave_moe_layer_step = {step} is modelled")
    return leading, step


def _windows(config: Config, blocks: int) -> tuple[int, int]:
    """Tokens of the sliding window, and blocks that have it; 0 and 0 where there is none."""
    chunk = config.size_or_none("attention_chunk_size", least=1)
    window = chunk or config.size_or_none("sliding_window", least=1)
    windowed = _windowed_blocks(config, blocks)
    return (window, windowed) if window and windowed else (0, 0)


def _windowed_blocks(config: Config, blocks: int) -> int:
    kinds = config.values.get("layer_types")
    if kinds is not None:
        known = (_FULL, _SLIDING, _CHUNKED)
        if not isinstance(kinds, list) or len(kinds) != blocks:
            raise config.refused("layer_types", f"must be a list of num_hidden_layers = {blocks} words")
        for kind in kinds:
            if kind not in known:
                hint = "only attention is modelled: " + ", ".join(known)
                raise InputError(f"{config.where}layer_types: {kind!r} is not allowed", hint)
        return blocks - kinds.count(_FULL)
    rotated = config.values.get("no_rope_layers")
    if isinstance(rotated, list) and rotated:
        return sum(bool(value) for value in rotated)
    match config.architecture.windows:
        case Windows.NONE:
            return 0
        case Windows.ALL:
            return blocks
        case Windows.SWITCHED:
            return blocks if config.switch("use_sliding_window") else 0
        case Windows.SWITCHED_LATER:
            first = config.size_or_none("max_window_layers") or 0
            return max(blocks - first, 0) if config.switch("use_sliding_window") else 0
        case Windows.ALL_BUT_EVERY:
            return blocks - blocks // config.size("sliding_window_pattern")


def _sequence_length(config: Config, asked: int | None) -> int:
    longest = config.size_or_none("max_position_embeddings", least=1)
    if asked is None:
        return min(longest or DEFAULT_SEQUENCE_LENGTH, DEFAULT_SEQUENCE_LENGTH)
    if not 1 <= asked <= MAXIMUM:
        raise InputError(f"sequence_length: {asked} is not allowed", f"a whole number from 1 to {MAXIMUM}")
    if longest is not None and asked > longest and _learned_positions(config):
        raise InputError(
            f"{config.where}sequence_length: {asked} is more than "
            f"{config.name_of('max_position_embeddings')} = {longest}",
            "every token of a sequence needs a row of the position embedding",
        )
    return asked


def _learned_positions(config: Config) -> int:
    extra = config.architecture.position_rows
    if extra is None or config.values.get("learned_pos_emb") is False:
        return 0
    return config.size("max_position_embeddings") + extra


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and value > 0


def _name(source: Source, config: Config) -> str:
    if not isinstance(source, Mapping):
        path = Path(source)
        return (path.resolve().parent.name if path.stem == "config" else path.stem) or config.model_type
    given = config.whole.get("_name_or_path")
    return (given.rstrip("/").rpartition("/")[2] if isinstance(given, str) else "") or config.model_type
