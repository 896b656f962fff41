"""The shape of a transformer: what is computed, whatever the machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class QueryKeyNorm(Enum):
    """Whether queries and keys are normalised: each head with weights that all share, or their whole width."""

    NONE = "none"
    HEAD = "head"
    WIDTH = "width"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (arXiv 2405.04434): queries, keys and values made from narrow latent vectors.

    `Workload.head_size` is the width of a query or key without its rotary part.

    Attributes:
        query_rank: Width of the queries' latent vector; 0 where queries come from the residual stream.
        key_value_rank: Width of the latent vector of keys and values.
        rotary_size: Width of the rotary part of a query, and of the one rotary key that all heads share.
        value_size: Width of one head's values.
    """

    query_rank: int
    key_value_rank: int
    rotary_size: int
    value_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts in place of the MLP.

    Attributes:
        count: Routed experts of a block (E).
        top_k: Routed experts that a token visits (k).
        feedforward: Inner width of one routed expert.
        shared_feedforward: Inner width of all shared experts together, which every token visits; 0 for none.
        shared_gate: Whether a gate weighs the shared experts' output (one weight for each hidden element).
        router_bias: Whether the router adds a bias for each expert.
        expert_bias: Whether the experts' products have biases.
        leading_dense_blocks: Blocks at the start that have the plain MLP of `Workload.feedforward` instead.
        every: After those, one block in so many has experts (the last of each group).
        capacity_factor: Tokens an expert takes at most, as a multiple of the mean; None where none are dropped.
        imbalance: Tokens of the busiest processor as a multiple of the mean, where none are dropped.
    """

    count: int
    top_k: int
    feedforward: int
    shared_feedforward: int = 0
    shared_gate: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    leading_dense_blocks: int = 0
    every: int = 1
    capacity_factor: float | None = None
    imbalance: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A stack of transformer blocks.

    What has a default describes a GPT-3-like block; `vocabulary` 0 leaves embedding, output projection and loss out, as
    the published tool does.

    Attributes:
        name: What reports call it.
        hidden: Width of the residual stream (h), elements.
        feedforward: Width of the MLP's inner layer (f), elements.
        sequence_length: Tokens in a sequence (s).
        attention_heads: Attention heads (a).
        head_size: Width of one head (d); `attention_heads * head_size` need not equal `hidden`.
        blocks: Transformer blocks (L).
        key_value_heads: Heads of keys and values (g); None for as many as attention heads.
        latent_attention: Latent attention, or None for the usual one.
        gated_mlp: Whether a third product gates the MLP's inner layer, as in SwiGLU.
        experts: What stands in place of the MLP, or None.
        vocabulary: Tokens that the embedding knows (V); 0 for blocks alone.
        vocabulary_multiple: The embedding is padded to a multiple of this times tp.
        tied_embeddings: Whether the output projection has the embedding's weights.
        learned_positions: Rows of a learned position embedding; 0 for none.
        rotary: Whether queries and keys are rotated by their position.
        root_mean_square_norm: Whether norms scale only (RMSNorm), with one weight for each element instead of two.
        norms: Norms of the whole width in a block.
        final_norm: Whether a norm stands before the output projection.
        query_key_norm: Norm of queries and keys.
        attention_bias, attention_output_bias, mlp_bias, output_bias: Which products have biases: those of queries, keys
            and values; of attention's output; of the MLP; of the output projection.
        attention_sinks: Whether each head has a learned score that no token answers.
        dropout: Whether there is dropout.
        causal: Whether a token sees those before it alone.
        window: Tokens that one sees in a block with a sliding window; 0 for none.
        windowed_blocks: Blocks with that window, spread evenly.
        prediction_blocks: Further blocks that predict tokens beyond the next (multi-token prediction), each with a
            product that joins hidden state and embedding.
    """

    name: str
    hidden: int
    feedforward: int
    sequence_length: int
    attention_heads: int
    head_size: int
    blocks: int
    key_value_heads: int | None = None
    latent_attention: LatentAttention | None = None
    gated_mlp: bool = False
    experts: Experts | None = None
    vocabulary: int = 0
    vocabulary_multiple: int = 1
    tied_embeddings: bool = True
    learned_positions: int = 0
    rotary: bool = False
    root_mean_square_norm: bool = False
    norms: int = 2
    final_norm: bool = True
    query_key_norm: QueryKeyNorm = QueryKeyNorm.NONE
    attention_bias: bool = True
    attention_output_bias: bool = True
    mlp_bias: bool = True
    output_bias: bool = False
    attention_sinks: bool = False
    dropout: bool = True
    causal: bool = True
    window: int = 0
    windowed_blocks: int = 0
    prediction_blocks: int = 0

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.attention_heads if self.key_value_heads is None else self.key_value_heads

    @property
    def parameters(self) -> int:
        """All parameters, by `workloads.parameters.parameter_count`."""
        from codesign_opt.workloads.parameters import parameter_count

        return parameter_count(self)

    @property
    def model_flops_per_token(self) -> float:
        """Training flop per token with full attention, by `workloads.flops.flops_per_token`."""
        from codesign_opt.workloads.flops import flops_per_token

        return flops_per_token(self)
