"""The workload that a measured run trained: the sizes of its row, and what its architecture adds to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from codesign_opt.validation.runs import MeasuredRun
from codesign_opt.validation.unmapped import Unmapped
from codesign_opt.workloads import Workload
from codesign_opt.workloads.parameters import parameter_count
from codesign_opt.workloads.transformer import Experts, LatentAttention, QueryKeyNorm


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What a family of models has beside its sizes.

    Attributes:
        traits: Fields of `Workload`.
        expert_traits: Fields of `Experts`.
        positions: Whether positions are learned, a row for each token of a sequence.
        latent: Latent attention by (hidden, heads) of the public configurations; `head_size` of a query without its
            rotary part is `latent_head_size`.
        windowed: Whether every second block has the sliding window of `traits`.
        size_says_tied: Whether embedding and output share a matrix follows from the size that the model is named by.
    """

    traits: Mapping[str, Any]
    expert_traits: Mapping[str, Any] = field(default_factory=dict)
    positions: bool = False
    latent: Mapping[tuple[int, int], LatentAttention] = field(default_factory=dict)
    latent_head_size: int = 0
    windowed: bool = False
    size_says_tied: bool = False


_NO_BIASES = {"attention_bias": False, "attention_output_bias": False, "mlp_bias": False}
_LLAMA_TRAITS = {
    **_NO_BIASES,
    "root_mean_square_norm": True,
    "rotary": True,
    "dropout": False,
    "tied_embeddings": False,
}
_LATENT_RANKS = LatentAttention(query_rank=1536, key_value_rank=512, rotary_size=64, value_size=128)

GPT = Architecture(traits={"gated_mlp": False, "tied_embeddings": True}, positions=True)
"""GPT-3 as Megatron-LM builds it: learned positions, biases, dropout, one matrix for embedding and output."""

LLAMA = Architecture(traits={**_LLAMA_TRAITS, "gated_mlp": True})
"""Llama, Mixtral and their kin: RMSNorm, rotary positions, no biases."""

LATENT = Architecture(
    traits={**_LLAMA_TRAITS, "gated_mlp": True},
    latent={(7168, 128): _LATENT_RANKS, (7168, 64): _LATENT_RANKS},
    latent_head_size=128,
)
"""DeepSeek-V3 (128 heads) and Kimi K2 (64)."""

ARCHITECTURES: tuple[tuple[str, Architecture], ...] = (
    ("GPT-OSS", Architecture(
        traits={
            **_LLAMA_TRAITS, "gated_mlp": True, "attention_bias": True, "attention_output_bias": True,
            "attention_sinks": True, "window": 128,
        },
        expert_traits={"router_bias": True, "expert_bias": True},
        windowed=True,
    )),
    ("GPT", GPT),
    ("MT-NLG", GPT),
    ("MPT", Architecture(traits={"gated_mlp": False, "tied_embeddings": True, "dropout": False}, positions=True)),
    ("InternLM", Architecture(
        traits={**_LLAMA_TRAITS, "gated_mlp": True, "attention_bias": True, "attention_output_bias": True}
    )),
    ("DeepSeek-V3", LATENT),
    ("Kimi-K2", LATENT),
    ("Qwen3", Architecture(traits={**_LLAMA_TRAITS, "gated_mlp": True, "query_key_norm": QueryKeyNorm.HEAD})),
    ("Llama-like", replace(LLAMA, size_says_tied=True)),
    ("Llama", LLAMA),
    ("LLaMA", LLAMA),
    ("Mixtral", LLAMA),
    ("MaxText", LLAMA),
    ("Nemotron4", Architecture(traits={**_LLAMA_TRAITS, "gated_mlp": False, "root_mean_square_norm": False})),
)  # fmt: skip
"""How the name of a model begins, and its architecture, from the public configurations and the papers of the models."""


def workload_of(run: MeasuredRun, *, vocabulary_multiple: int) -> tuple[Workload, list[str]]:
    """The workload, and what had to be assumed about it, in words.

    Args:
        run: The measured run.
        vocabulary_multiple: The software pads the embedding to a multiple of this times tp.

    Raises:
        Unmapped: Where a size is missing, or latent attention is of unknown ranks.
    """
    architecture, assumed = architecture_of(run)
    sizes = _sizes(run)
    traits = {**architecture.traits, **({} if run.gated_mlp is None else {"gated_mlp": run.gated_mlp})}
    workload = Workload(
        name=run.model,
        feedforward=run.feedforward or run.expert_feedforward or 0,
        sequence_length=sizes["sequence_length"],
        hidden=sizes["hidden"],
        attention_heads=sizes["heads"],
        head_size=run.head_size or sizes["hidden"] // sizes["heads"],
        key_value_heads=None if run.kv_heads in (None, run.heads) else run.kv_heads,
        blocks=sizes["layers"],
        experts=_experts(run, architecture),
        vocabulary=sizes["vocabulary"],
        vocabulary_multiple=vocabulary_multiple,
        learned_positions=sizes["sequence_length"] if architecture.positions else 0,
        windowed_blocks=sizes["layers"] // 2 if architecture.windowed else 0,
        **traits,
    )
    if run.latent_attention:
        workload = _with_latent_attention(workload, architecture)
    blocks, stated = _prediction_blocks(run.notes or "")
    if not stated:
        assumed.append("multi-token prediction not stated: one block")
    tied = _is_tied(run, workload, size_says=architecture.size_says_tied)
    return replace(workload, tied_embeddings=tied, prediction_blocks=blocks), assumed


def architecture_of(run: MeasuredRun) -> tuple[Architecture, list[str]]:
    """The architecture that the model's name stands for, else Llama's or GPT-3's by the kind of the MLP, as assumed."""
    for beginning, architecture in ARCHITECTURES:
        if run.model.startswith(beginning):
            return architecture, []
    kind, architecture = ("GPT-3", GPT) if run.gated_mlp is False else ("Llama", LLAMA)
    return architecture, [f"norms, biases and positions not stated: those of {kind}"]


def _sizes(run: MeasuredRun) -> dict[str, int]:
    """The sizes that every workload needs."""
    sizes = {name: getattr(run, name) for name in ("layers", "hidden", "heads", "vocabulary")}
    missing = [name for name, value in sizes.items() if value is None]
    if run.feedforward is None and run.expert_feedforward is None:
        missing.append("feedforward")
    if run.experts is not None and (run.top_k is None or run.expert_feedforward is None):
        missing.append("top_k and expert_feedforward")
    if missing:
        raise Unmapped("no-shape", f"{run.model}: missing: {', '.join(missing)}")
    if run.sequence_length is None:
        raise Unmapped("no-sequence", f"{run.model}: missing: sequence length")
    return {**sizes, "sequence_length": run.sequence_length}


def _experts(run: MeasuredRun, architecture: Architecture) -> Experts | None:
    if run.experts is None or run.top_k is None or run.expert_feedforward is None or run.layers is None:
        return None
    with_experts = run.expert_blocks or run.layers
    return Experts(
        count=run.experts,
        top_k=run.top_k,
        feedforward=run.expert_feedforward,
        shared_feedforward=run.shared_feedforward or 0,
        leading_dense_blocks=run.layers - with_experts,
        capacity_factor=_capacity_factor(run.notes or ""),
        **architecture.expert_traits,
    )


def _capacity_factor(notes: str) -> float | None:
    """What an expert takes at most, as a multiple of the mean: what the notes say, and 1 where tokens are dropped."""
    if factor := re.search(r"capacity factor (\d+(?:\.\d+)?)", notes):
        return float(factor[1])
    return 1.0 if "tokendrop" in notes else None


def _with_latent_attention(workload: Workload, architecture: Architecture) -> Workload:
    latent = architecture.latent.get((workload.hidden, workload.attention_heads))
    if latent is None:
        raise Unmapped(
            "unknown-attention", f"{workload.name}: hidden {workload.hidden}, {workload.attention_heads} heads"
        )
    return replace(workload, latent_attention=latent, head_size=architecture.latent_head_size, key_value_heads=None)


def _is_tied(run: MeasuredRun, workload: Workload, *, size_says: bool) -> bool:
    """Whether embedding and output share a matrix: as the notes say, else by the named size, else as usual."""
    notes = run.notes or ""
    if "untied" in notes or "tied embeddings" in notes:
        return "untied" not in notes
    if not size_says or run.parameters is None:
        return workload.tied_embeddings
    tied, untied = (parameter_count(replace(workload, tied_embeddings=shared)) for shared in (True, False))
    return abs(tied - run.parameters) < abs(untied - run.parameters)


def _prediction_blocks(notes: str) -> tuple[int, bool]:
    """Blocks of multi-token prediction, and whether the notes state them; DeepSeek-V3 has one unless they say not."""
    if "MTP setting not stated" in notes:
        return 1, False
    return (1 if "w/ MTP" in notes else 0), True
