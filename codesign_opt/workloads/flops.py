"""Flop that training a workload needs, by the conventions of the field."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from codesign_opt.workloads.parameters import active_parameter_count, parameter_count, parameter_parts
from codesign_opt.workloads.transformer import Workload

_OUTSIDE_BLOCKS = ("embedding", "positions", "final_norm", "output_projection")


class FlopsConvention(Enum):
    """What counts as a token's training flop: six for each weight, and three times what attention takes forward.

    Weights are those of the products that a token goes through, the output projection among them, tied or not; looking
    up the embedding takes no flop. Of experts, those that a token visits count.

    Attributes:
        FULL_ATTENTION: Every token sees all of its sequence.
        CAUSAL_ATTENTION: A token sees those before it: half of the scores (Megatron-LM).
        FULL_ATTENTION_RECOMPUTED, CAUSAL_ATTENTION_RECOMPUTED: What the hardware does when blocks run forward twice.
        ALL_PARAMETERS: Six for each parameter that a token uses, embeddings, biases and norms among them, and full
            attention (PaLM, arXiv 2204.02311 appendix B; llm-foundry).
        ALL_PARAMETERS_RECOMPUTED: The same with the whole model run forward twice: 4/3 of it.
        EMBEDDING_AS_PRODUCT: Full attention, with the embedding counted as a product beside the output projection even
            where both are one matrix (some rows of MaxText and Nanotron).
        PRODUCTS_ALONE: No attention: 6 P.
        PRODUCTS_ALONE_RECOMPUTED: No attention, the whole model run forward twice: 8 P.
    """

    FULL_ATTENTION = "full_attention"
    CAUSAL_ATTENTION = "causal_attention"
    FULL_ATTENTION_RECOMPUTED = "full_attention_recomputed"
    CAUSAL_ATTENTION_RECOMPUTED = "causal_attention_recomputed"
    ALL_PARAMETERS = "all_parameters"
    ALL_PARAMETERS_RECOMPUTED = "all_parameters_recomputed"
    EMBEDDING_AS_PRODUCT = "embedding_as_product"
    PRODUCTS_ALONE = "products_alone"
    PRODUCTS_ALONE_RECOMPUTED = "products_alone_recomputed"


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a convention counts: scores of attention, weights, and what runs forward a second time."""

    scores: Literal["none", "causal", "full"]
    weights: Literal["multiplied", "and embedding", "active"] = "multiplied"
    again: Literal["nothing", "blocks", "everything"] = "nothing"


_TERMS = {
    FlopsConvention.FULL_ATTENTION: _Terms("full"),
    FlopsConvention.CAUSAL_ATTENTION: _Terms("causal"),
    FlopsConvention.FULL_ATTENTION_RECOMPUTED: _Terms("full", again="blocks"),
    FlopsConvention.CAUSAL_ATTENTION_RECOMPUTED: _Terms("causal", again="blocks"),
    FlopsConvention.ALL_PARAMETERS: _Terms("full", "active"),
    FlopsConvention.ALL_PARAMETERS_RECOMPUTED: _Terms("full", "active", "everything"),
    FlopsConvention.EMBEDDING_AS_PRODUCT: _Terms("full", "and embedding"),
    FlopsConvention.PRODUCTS_ALONE: _Terms("none"),
    FlopsConvention.PRODUCTS_ALONE_RECOMPUTED: _Terms("none", again="everything"),
}


def flops_per_token(workload: Workload, convention: FlopsConvention = FlopsConvention.FULL_ATTENTION) -> float:
    """Training flop per token.

    Of blocks alone (`vocabulary` 0) all parameters count as weights whatever the convention: 6·parameters +
    12·blocks·width·sequence with full attention, as the published tool has it.
    """
    terms = _TERMS[convention]
    scores = _score_flops(workload, terms.scores)
    forward = 2 * _weights(workload, terms.weights) + scores
    again = {"nothing": 0.0, "blocks": 2 * _block_weights(workload) + scores, "everything": forward}[terms.again]
    return 3 * forward + again


def attended_tokens(workload: Workload, *, window: int = 0, causal: bool = True) -> float:
    """Tokens that one sees in a block, on average over the sequence.

    Args:
        workload: Its sequence length, and whether it is causal at all, count.
        window: Tokens that one sees at most, where the block has a window; else 0.
        causal: False counts what causality hides as well.
    """
    length = workload.sequence_length
    width = min(window, length) if window else length
    # The band of a window's width below the diagonal, without the corner that it lacks at the start of the sequence.
    return width - width * width / (2 * length) if causal and workload.causal else float(width)


def _score_flops(workload: Workload, scores: str) -> float:
    """Flop of attention's two products with the scores in a forward pass, over all blocks."""
    if scores == "none":
        return 0.0
    causal = scores == "causal"
    everywhere = workload.blocks + workload.prediction_blocks - workload.windowed_blocks
    tokens = everywhere * attended_tokens(workload, causal=causal)
    tokens += workload.windowed_blocks * attended_tokens(workload, window=workload.window, causal=causal)
    return 2 * tokens * _score_width(workload)


def _score_width(workload: Workload) -> int:
    """Elements of all heads' queries and values together."""
    latent = workload.latent_attention
    if latent is None:
        return 2 * workload.attention_heads * workload.head_size
    return workload.attention_heads * (workload.head_size + latent.rotary_size + latent.value_size)


def _weights(workload: Workload, weights: str) -> int:
    if workload.vocabulary == 0:
        return parameter_count(workload)
    if weights == "active":
        return active_parameter_count(workload)
    multiplied = sum(part.multiplied for part in parameter_parts(workload))
    return multiplied + (workload.vocabulary * workload.hidden if weights == "and embedding" else 0)


def _block_weights(workload: Workload) -> int:
    return sum(part.multiplied for part in parameter_parts(workload) if part.name not in _OUTSIDE_BLOCKS)
