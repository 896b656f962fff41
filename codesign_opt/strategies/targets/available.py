"""Rules for what a framework does not have, and rules that several frameworks share.

Codes of what is missing end in `_unavailable`, after the column that asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.options import Placement, TpCommunication, TpOverlap
from codesign_opt.strategies.placement import DEGREES, strides
from codesign_opt.strategies.rules.network import DIMENSIONS
from codesign_opt.strategies.rules.placement import ORDERS
from codesign_opt.strategies.rules.rule import Rule, constant, divisors, next_to, words

Array = NDArray[Any]


def only_words(
    framework: str, column: str, *allowed: Enum, when: Callable[[Facts], Array] | None = None, because: str = ""
) -> Rule:
    """An option of which the framework has some words only, where `when` holds (everywhere by default)."""
    return Rule(
        f"{column}_unavailable", False,
        lambda f: ~f.is_word(column, *allowed) & (when(f) if when else True),
        f"{column} '{{{column}}}' is not available in {framework}{because and f', {because}'}",
        constant(f"{column} may be {words(allowed)}"),
    )  # fmt: skip


def only_off(framework: str, column: str, *, when: Callable[[Facts], Array] | None = None, because: str = "") -> Rule:
    """A flag that the framework does not have, where `when` holds (everywhere by default)."""
    return Rule(
        f"{column}_unavailable", False,
        lambda f: f[column] & (when(f) if when else True),
        f"{column} is not available in {framework}{because and f', {because}'}",
        constant("switch it off"),
    )  # fmt: skip


def only_value(framework: str, column: str, value: int, *, because: str = "") -> Rule:
    """A count that has to be one value."""
    return Rule(
        f"{column}_unavailable", False,
        lambda f: f[column] != value,
        f"{column} {{{column}}} is not available in {framework}{because and f', {because}'}",
        constant(f"{column} must be {value}"),
    )  # fmt: skip


def only_orders(framework: str, *allowed: Placement, when: Callable[[Facts], Array] | None = None) -> Rule:
    """An order of dimensions other than those of the framework, unless it comes to the same.

    Tiers that are named one by one say nothing of an order, and are not judged.
    """
    return Rule(
        "placement_unavailable", False,
        lambda f: _other_order(f, allowed) & (when(f) if when else True),
        f"placement {{placement}} is not available in {framework}: its processors are in another order",
        constant(f"placement may be {words(allowed)}, or tiers"),
    )  # fmt: skip


def whole_kv_heads(framework: str) -> Rule:
    """Every processor has whole key and value heads of its own."""
    return Rule(
        "kv_heads_whole", True,
        lambda f: f.grouped_heads & (f.kv_heads % f.divisor("tp") != 0),
        f"{{kv_heads}} key and value heads are not a multiple of tp {{tp}}, as {framework} needs",
        lambda v: f"tp may be {next_to(v['tp'], divisors(v['kv_heads']))}",
    )  # fmt: skip


def whole_sequence_shards(framework: str) -> Rule:
    """Sequence parallelism cuts the sequence, not the tokens of all sequences of a microbatch."""
    return Rule(
        "sequence_tp", True,
        lambda f: f.is_word("tp_communication", TpCommunication.SEQUENCE_PARALLEL)
        & (f.size("sequence_length") // f.divisor("cp") % f.divisor("tp") != 0),
        f"sequence length {{sequence_length}} / cp {{cp}} is not a multiple of tp {{tp}}: {framework} splits sequences",
        lambda v: f"tp may be {next_to(v['tp'], divisors(v['sequence_length'] // max(v['cp'], 1)))}",
    )  # fmt: skip


def overlap_needs_sequence_parallelism(framework: str) -> Rule:
    """Products hide the gathers and scatters of sequence parallelism alone."""
    return Rule(
        "tp_overlap_sequence", False,
        lambda f: ~f.is_word("tp_overlap", TpOverlap.NONE)
        & ~f.is_word("tp_communication", TpCommunication.SEQUENCE_PARALLEL),
        f"tp_overlap '{{tp_overlap}}' with tp_communication '{{tp_communication}}': in {framework} it needs "
        "sequence_parallel",
        constant("tp_communication must be sequence_parallel, or tp_overlap none"),
    )  # fmt: skip


def expert_tp_is_tp(framework: str) -> Rule:
    """Experts are whole, or split like the rest."""
    return Rule(
        "etp_unavailable", False,
        lambda f: (f["etp"] > 1) & (f["etp"] != f["tp"]),
        f"etp {{etp}} is not available in {framework}, which splits experts among tp {{tp}} processors or not at all",
        lambda v: f"etp may be {' or '.join(dict.fromkeys(('1', str(v['tp']))))}",
    )  # fmt: skip


def _other_order(facts: Facts, allowed: tuple[Placement, ...]) -> Array:
    """Rows in an order in which some group's members lie at other distances than in each allowed one."""
    degrees = {name: facts.divisor(name) for name in DEGREES}
    result = np.zeros(np.shape(facts["tp"]), dtype=np.bool_)
    for order in (order for order in ORDERS if order not in allowed):
        chosen = facts.is_word("placement", order)
        if np.any(chosen):
            distances = strides(order, degrees)
            differs = [
                reduce(
                    np.logical_or,
                    [(degrees[name] > 1) & (distances[name] != others[name]) for name in DIMENSIONS],
                )
                for others in (strides(other, degrees) for other in allowed)
            ]
            result = result | (chosen & reduce(np.logical_and, differs))
    return result
