"""The shape of a transformer: what is computed, whatever the machine."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_VOCABULARY = 51_200


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A stack of identical transformer blocks.

    Attributes:
        name: What reports call it.
        hidden: Width of the residual stream (h), elements.
        feedforward: Width of the MLP's inner layer (f), elements.
        sequence_length: Tokens in a sequence (s).
        attention_heads: Attention heads (a).
        head_size: Width of one head (d); `attention_heads * head_size` need not equal `hidden`.
        blocks: Transformer blocks (L).
    """

    name: str
    hidden: int
    feedforward: int
    sequence_length: int
    attention_heads: int
    head_size: int
    blocks: int

    @property
    def parameters(self) -> int:
        """Parameters including biases, position and token embedding of `DEFAULT_VOCABULARY` words.

        Source: spec analytical-model section 2.1. The step time of the analytical model leaves the embedding out.
        """
        attention = self.attention_heads * self.head_size
        block = (
            2 * self.hidden * self.feedforward
            + 4 * self.hidden * attention
            + self.hidden
            + self.feedforward
            + 3 * attention
            + self.hidden
            + 4 * self.hidden
        )
        return self.blocks * block + (DEFAULT_VOCABULARY + self.sequence_length) * self.hidden

    @property
    def model_flops_per_token(self) -> int:
        """Training flop per token, by `model_flops_per_token`."""
        attention_width = self.attention_heads * self.head_size
        return model_flops_per_token(self.parameters, self.blocks, attention_width, self.sequence_length)


def model_flops_per_token(parameters: int, blocks: int, attention_width: int, sequence_length: int) -> int:
    """Training flop per token, 6·parameters + 12·blocks·width·sequence: full attention, no recompute (PaLM convention).

    Args:
        parameters: All of them.
        blocks: Transformer blocks.
        attention_width: Heads times the width of one head.
        sequence_length: Tokens in a sequence.
    """
    return 6 * parameters + 12 * blocks * attention_width * sequence_length
