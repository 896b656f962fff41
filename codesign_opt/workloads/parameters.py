"""How many parameters a workload has, part by part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from codesign_opt.workloads.kinds import block_kinds
from codesign_opt.workloads.transformer import QueryKeyNorm, Workload

DEFAULT_VOCABULARY = 51_200

PARTS = (
    "embedding",
    "positions",
    "attention",
    "norms",
    "mlp",
    "router",
    "experts",
    "shared_experts",
    "final_norm",
    "output_projection",
    "prediction_blocks",
)
"""Names of the parts, from a token's way in to its way out."""


@dataclass(frozen=True, slots=True)
class ParameterPart:
    """One part of a workload, over all its blocks.

    Attributes:
        name: One of `PARTS`.
        total: Its parameters.
        active: Those that one token uses.
        multiplied: Weights of the products that one token goes through: two flop each in a forward pass. A look-up has
            none; a tied output projection has them without parameters of its own.
    """

    name: str
    total: int
    active: int
    multiplied: int


def parameter_count(workload: Workload) -> int:
    """All parameters of a workload, its vocabulary not padded.

    Blocks alone (`vocabulary` 0) count with position and token embedding of `DEFAULT_VOCABULARY` words, as in spec
    analytical-model section 2.1. The correction of a router that is steered without gradients (DeepSeek-V3) does not
    count: it has neither gradient nor optimizer state.
    """
    return sum(part.total for part in parameter_parts(workload))


def active_parameter_count(workload: Workload) -> int:
    """Parameters that one token uses: all but those of the experts that it does not visit."""
    return sum(part.active for part in parameter_parts(workload))


def parameter_parts(workload: Workload) -> tuple[ParameterPart, ...]:
    """The parts that a workload has, in the order of `PARTS`; `parameter_count` is the sum of their totals."""
    parts = [*_ends(workload), *_prediction_blocks(workload)]
    for kind in block_kinds(replace(workload, prediction_blocks=0)):
        parts += [_times(part, kind.blocks) for part in _block(kind.workload)]
    added = (_sum(name, [part for part in parts if part.name == name]) for name in PARTS)
    return tuple(part for part in added if part.total or part.multiplied)


def padded_vocabulary(workload: Workload, tp: int) -> int:
    """Rows of the embedding when `tp` processors share it: the next multiple of `vocabulary_multiple` · `tp`."""
    multiple = workload.vocabulary_multiple * tp
    return -(-workload.vocabulary // multiple) * multiple


def _ends(workload: Workload) -> list[ParameterPart]:
    """What stands before and after the blocks."""
    hidden = workload.hidden
    if workload.vocabulary == 0:
        return [
            _looked_up("embedding", DEFAULT_VOCABULARY * hidden),
            _looked_up("positions", workload.sequence_length * hidden),
        ]
    matrix = workload.vocabulary * hidden
    own = 0 if workload.tied_embeddings else matrix
    own += workload.vocabulary if workload.output_bias else 0
    return [
        _looked_up("embedding", matrix),
        _looked_up("positions", workload.learned_positions * hidden),
        _looked_up("final_norm", _norm(workload, hidden) if workload.final_norm else 0),
        ParameterPart("output_projection", own, own, matrix),
    ]


def _prediction_blocks(workload: Workload) -> list[ParameterPart]:
    """Each joins the norms of hidden state and embedding, and ends in a norm and the model's own output projection."""
    if workload.prediction_blocks == 0:
        return []
    everywhere = replace(workload, windowed_blocks=0)
    if workload.experts is not None:
        everywhere = replace(everywhere, experts=replace(workload.experts, leading_dense_blocks=0, every=1))
    hidden = workload.hidden
    join = _product("prediction_blocks", 2 * hidden * hidden, 3 * _norm(workload, hidden))
    output = ParameterPart("prediction_blocks", 0, 0, workload.vocabulary * hidden)
    one = _sum("prediction_blocks", [*_block(everywhere), join, output])
    return [_times(one, workload.prediction_blocks)]


def _block(workload: Workload) -> list[ParameterPart]:
    """One block of a workload whose blocks are all alike."""
    parts = [_attention(workload), _looked_up("norms", _block_norms(workload))]
    return [*parts, *(_mlp(workload) if workload.experts is None else _experts(workload))]


def _attention(workload: Workload) -> ParameterPart:
    hidden, latent = workload.hidden, workload.latent_attention
    queries = workload.attention_heads * workload.head_size
    keys = workload.kv_heads * workload.head_size
    if latent is None:
        products = 2 * hidden * (queries + keys)
        biases = queries + 2 * keys
    else:
        heads, rotated = workload.attention_heads, workload.head_size + latent.rotary_size
        down = latent.query_rank + latent.key_value_rank + latent.rotary_size
        up = latent.key_value_rank * heads * (workload.head_size + latent.value_size)
        from_what = latent.query_rank or hidden
        products = hidden * down + from_what * heads * rotated + up + heads * latent.value_size * hidden
        biases = down
    others = biases if workload.attention_bias else 0
    others += hidden if workload.attention_output_bias else 0
    others += workload.attention_heads if workload.attention_sinks else 0
    return _product("attention", products, others)


def _block_norms(workload: Workload) -> int:
    width = workload.norms * workload.hidden
    if workload.latent_attention is not None:
        width += workload.latent_attention.query_rank + workload.latent_attention.key_value_rank
    elif workload.query_key_norm is QueryKeyNorm.HEAD:
        width += 2 * workload.head_size
    elif workload.query_key_norm is QueryKeyNorm.WIDTH:
        width += (workload.attention_heads + workload.kv_heads) * workload.head_size
    return _norm(workload, width)


def _mlp(workload: Workload) -> list[ParameterPart]:
    products, biases = _mlp_of(workload, workload.feedforward)
    return [_product("mlp", products, biases if workload.mlp_bias else 0)]


def _experts(workload: Workload) -> list[ParameterPart]:
    experts = workload.experts
    assert experts is not None
    products, biases = _mlp_of(workload, experts.feedforward)
    one = _product("experts", products, biases if experts.expert_bias else 0)
    visited = _times(one, experts.top_k)
    shared, _ = _mlp_of(workload, experts.shared_feedforward)
    gate = workload.hidden if experts.shared_gate else 0
    return [
        _product("router", workload.hidden * experts.count, experts.count if experts.router_bias else 0),
        replace(visited, total=one.total * experts.count),
        _product("shared_experts", shared + gate),
    ]


def _mlp_of(workload: Workload, width: int) -> tuple[int, int]:
    """Weights and biases of an MLP of some inner width."""
    inner = 2 if workload.gated_mlp else 1
    return (inner + 1) * workload.hidden * width, inner * width + workload.hidden


def _norm(workload: Workload, width: int) -> int:
    return width if workload.root_mean_square_norm else 2 * width


def _product(name: str, weights: int, others: int = 0) -> ParameterPart:
    """A part that every token multiplies with, and adds `others` of."""
    return ParameterPart(name, weights + others, weights + others, weights)


def _looked_up(name: str, parameters: int) -> ParameterPart:
    return ParameterPart(name, parameters, parameters, 0)


def _times(part: ParameterPart, factor: int) -> ParameterPart:
    return ParameterPart(part.name, part.total * factor, part.active * factor, part.multiplied * factor)


def _sum(name: str, parts: Iterable[ParameterPart]) -> ParameterPart:
    columns = [(part.total, part.active, part.multiplied) for part in parts]
    return (
        ParameterPart(name, *(sum(column) for column in zip(*columns, strict=True))) if columns else _looked_up(name, 0)
    )
