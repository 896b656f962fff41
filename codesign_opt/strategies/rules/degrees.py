"""Rules for context parallelism, and for key and value heads, which may be fewer than query heads."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.options import AttentionKernel, CpExchange
from codesign_opt.strategies.rules.published import AT_LEAST_1
from codesign_opt.strategies.rules.rule import Rule, Values, constant, divides, divisors, next_to

Array = NDArray[Any]

RULES: tuple[Rule, ...] = (
    Rule(
        "nonpositive", True,
        lambda f: (f["cp"] <= 0) | (f["ep"] <= 0) | (f["etp"] <= 0),
        "cp {cp}, ep {ep} and etp {etp} must be positive",
        AT_LEAST_1,
    ),
    Rule(
        "sequence_cp", True,
        lambda f: f.size("sequence_length") % f.divisor("cp") != 0,
        "sequence length {sequence_length} is not a multiple of cp {cp}",
        divides("sequence_length", "cp"),
    ),
    Rule(
        "ring_kernel", True,
        lambda f: (f["cp"] > 1)
        & f.is_word("cp_exchange", CpExchange.RING)
        & ~f.is_word("attention_kernel", AttentionKernel.FLASH),
        "cp_exchange 'ring' with attention_kernel '{attention_kernel}': only flash adds up attention part by part",
        constant("attention_kernel must be flash, or cp_exchange all_gather or all_to_all"),
    ),
    Rule(
        "kv_heads_tp", True,
        lambda f: f.grouped_heads & _neither(f.kv_heads, f.divisor("tp")),
        "{kv_heads} key and value heads are neither a multiple nor a divisor of tp {tp}",
        lambda v: f"tp may be {next_to(v['tp'], _tp_of_heads(v))}",
    ),
    Rule(
        "heads_cp", True,
        lambda f: _exchanges_heads(f) & (f.size("attention_heads") % (f.divisor("tp") * f.divisor("cp")) != 0),
        "{heads} attention heads are not a multiple of tp {tp} x cp {cp} = {tp_x_cp}, which exchange them all to all",
        lambda v: _cp_of_heads(v, v["heads"]),
    ),
    Rule(
        "kv_heads_cp", True,
        lambda f: _exchanges_heads(f) & f.grouped_heads & _neither(f.kv_heads, f.divisor("tp") * f.divisor("cp")),
        "{kv_heads} key and value heads are neither a multiple nor a divisor of tp {tp} x cp {cp} = {tp_x_cp}, "
        "which exchange them all to all",
        lambda v: _cp_of_heads(v, v["kv_heads"]),
    ),
)  # fmt: skip
"""In the order in which they are judged."""


def _exchanges_heads(facts: Facts) -> Array:
    return (facts["cp"] > 1) & facts.is_word("cp_exchange", CpExchange.ALL_TO_ALL)


def _neither(number: Array, other: Array) -> Array:
    refused: Array = (number % other != 0) & (other % number != 0)
    return refused


def _tp_of_heads(values: Values) -> list[int]:
    kv_heads = values["kv_heads"]
    return [tp for tp in divisors(values["heads"]) if kv_heads % tp == 0 or tp % kv_heads == 0]


def _cp_of_heads(values: Values, heads: int) -> str:
    """Degrees that leave every processor the same number of whole heads."""
    each, rest = divmod(heads, max(values["tp"], 1))
    others = "" if rest else f"cp may be {next_to(values['cp'], divisors(each))}, or "
    return f"{others}cp_exchange may be ring or all_gather"
