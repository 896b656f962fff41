"""Hypothesis strategies of workloads whose values fit together."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from codesign_opt.workloads import Workload
from codesign_opt.workloads.transformer import Experts, LatentAttention, QueryKeyNorm

SIZES = ("hidden", "feedforward", "sequence_length", "head_size")

_sizes = st.integers(1, 5000)
_flags = st.booleans()
_names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=100)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Dense, latent, with experts, with windows, with prediction blocks, or blocks alone."""
    blocks = draw(st.integers(1, 20))
    groups, queries_a_group = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    sizes = {name: draw(_sizes) for name in SIZES}
    latent = draw(st.none() | st.builds(LatentAttention, query_rank=st.integers(0, 99), key_value_rank=_sizes,
                                        rotary_size=_sizes, value_size=_sizes))  # fmt: skip
    windowed = draw(st.integers(0, blocks))
    workload = Workload(
        name=draw(_names),
        **sizes,
        attention_heads=groups * queries_a_group,
        blocks=blocks,
        key_value_heads=None if latent or groups * queries_a_group == groups else groups,
        latent_attention=latent,
        experts=draw(st.none() | _experts(blocks)),
        query_key_norm=QueryKeyNorm.NONE if latent else draw(st.sampled_from(QueryKeyNorm)),
        norms=draw(st.integers(0, 4)),
        window=draw(_sizes) if windowed else 0,
        windowed_blocks=windowed,
        **{
            name: draw(_flags)
            for name in (
                "gated_mlp", "rotary", "root_mean_square_norm", "final_norm", "attention_bias", "attention_output_bias",
                "mlp_bias", "attention_sinks", "dropout", "causal",
            )
        },
    )  # fmt: skip
    return replace(workload, **draw(_ends(workload.sequence_length)))


@st.composite
def _experts(draw: st.DrawFn, blocks: int) -> Experts:
    count, leading = draw(st.integers(1, 64)), draw(st.integers(0, blocks - 1))
    shared = draw(st.integers(0, 99))
    capacity = draw(st.none() | st.floats(0.5, 4))
    return Experts(
        count=count,
        top_k=draw(st.integers(1, count)),
        feedforward=draw(_sizes),
        shared_feedforward=shared,
        shared_gate=shared > 0 and draw(_flags),
        router_bias=draw(_flags),
        expert_bias=draw(_flags),
        leading_dense_blocks=leading,
        every=draw(st.integers(1, blocks - leading)),
        capacity_factor=capacity,
        imbalance=1.0 if capacity is not None else draw(st.floats(1, 4)),
    )


def _ends(sequence_length: int) -> st.SearchStrategy[dict[str, object]]:
    """Nothing, or what stands before and after the blocks."""
    ends = st.fixed_dictionaries(
        {
            "vocabulary": st.integers(1, 99_999),
            "vocabulary_multiple": st.integers(1, 128),
            "tied_embeddings": _flags,
            "learned_positions": st.just(0) | st.integers(sequence_length, 9999),
            "output_bias": _flags,
            "prediction_blocks": st.integers(0, 2),
        }
    )
    return st.just({}) | ends
