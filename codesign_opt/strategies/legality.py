"""Legality rules: which strategies are refused, under which reason code, in which words (spec section 3).

The rules stand in the published order: the first one that a strategy breaks gives its code. What depends on the
memory that a strategy needs is judged after the estimate (`analytical.feasibility`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import StrategyError
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.options import Attention, Datatype, Recompute, TpCommunication, TpOverlap
from codesign_opt.strategies.strategy import Strategy
from codesign_opt.strategies.table import OPTION_COLUMNS, StrategyTable
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: its reason `code`, a `sentence` with the values, and what the nearest legal values are."""

    code: str
    sentence: str
    nearest: str

    def __str__(self) -> str:
        return f"{self.sentence} [{self.code}]" + (f"; {self.nearest}" if self.nearest else "")


@dataclass(frozen=True, slots=True)
class Rule:
    """A legality rule.

    Attributes:
        code: Reason code.
        malformed: Whether breaking it makes the strategy meaningless, rather than one that does not fit.
        broken: For columns: which rows break it.
        sentence: What is wrong; `{name}` stands for a strategy column or a workload size.
        nearest: For the values of one strategy: what would be legal.
    """

    code: str
    malformed: bool
    broken: Callable[[Facts], Array]
    sentence: str
    nearest: Callable[[Mapping[str, Any]], str] = field(default=lambda values: "")


def first_broken(facts: Facts) -> Array:
    """For each row the index in `RULES` of the first broken rule, or -1 for a legal strategy."""
    result = np.full(np.shape(facts["tp"]), -1)
    for index in range(len(RULES) - 1, -1, -1):
        result[RULES[index].broken(facts)] = index
    return result


def violations(strategy: Strategy, workload: Workload, system: System) -> list[Violation]:
    """Every rule that the strategy breaks, in order; empty for a legal one."""
    facts = Facts(StrategyTable.from_strategies([strategy]), [workload], [system])
    return [violation for rule in RULES if rule.broken(facts)[0] for violation in [explain(rule, facts, 0)]]


def check(strategy: Strategy, workload: Workload, system: System) -> None:
    """Raise a StrategyError that names every broken rule, if there is any; its code is that of the first."""
    found = violations(strategy, workload, system)
    if found:
        raise StrategyError(
            "; ".join(violation.sentence for violation in found),
            "; ".join(dict.fromkeys(violation.nearest for violation in found if violation.nearest)),
            found[0].code,
        )


def explain(rule: Rule, facts: Facts, row: int) -> Violation:
    """The violation of a rule by one row, in words."""
    values = _values(facts, row)
    return Violation(rule.code, rule.sentence.format_map(values), rule.nearest(values))


def nearest_divisors(number: int, value: int) -> str:
    """The divisors of `number` next to `value`, in words."""
    small = [d for d in range(1, isqrt(max(number, 0)) + 1) if number % d == 0]
    divisors = sorted({*small, *(number // d for d in small)})
    below, above = bisect_left(divisors, value), bisect_right(divisors, value)
    return " or ".join(str(divisor) for divisor in (*divisors[:below][-1:], *divisors[above:][:1]))


def _nearest_multiples(number: int, value: int) -> list[int]:
    below = value // number * number
    return [multiple for multiple in (below, below + number) if multiple > 0]


def _values(facts: Facts, row: int) -> dict[str, Any]:
    values: dict[str, Any] = {name: column[row].item() for name, column in facts.columns.items()}
    for name, words in OPTION_COLUMNS.items():
        values[name] = list(words)[values[name]].value if values[name] >= 0 else "unknown"
    workload, system = facts.workloads[facts.workload[row]], facts.systems[facts.system[row]]
    products = [int(product[row]) for product in _placed(facts)]
    refused = next(_refused_tiers(products, system), (0, 1))
    return {
        **values,
        "product": values["tp"] * values["pp"] * values["dp"],
        "hidden": workload.hidden,
        "feedforward": workload.feedforward,
        "heads": workload.attention_heads,
        "sequence_length": workload.sequence_length,
        "blocks": workload.blocks,
        "stage_blocks": -(-workload.blocks // max(values["pp"], 1)),
        "replica_batch": values["batch"] // max(values["dp"], 1),
        "tokens": values["microbatch"] * workload.sequence_length,
        "tiers": len(system.network_tiers),
        "tier": refused[0],
        "group": refused[1],
        "tier_size": system.network_tiers[refused[0]].size,
        "datatypes": ", ".join(sorted(set(system.matrix) & set(system.vector))),
        "system": system.name,
    }


def _placed(facts: Facts) -> list[Array]:
    """For each network tier the product of the degrees above 1 that are placed on it."""
    return [
        np.prod(
            [np.where((facts[f"{d}_tier"] == tier) & (facts[d] > 1), facts[d], 1) for d in ("tp", "pp", "dp")], axis=0
        )
        for tier in range(facts.tiers)
    ]


def _refused_tiers(products: list[int], system: System) -> Iterator[tuple[int, int]]:
    for tier, (product, network) in enumerate(zip(products, system.network_tiers, strict=False)):
        if product > 1 and (product > network.size or (network.must_be_filled and network.size % product)):
            yield tier, product


def _network_refusals(facts: Facts) -> tuple[Array, Array]:
    """Rows whose first refused tier is too small, and rows whose first refused tier is not filled."""
    too_large = np.zeros(np.shape(facts["tp"]), dtype=np.bool_)
    unfilled = np.zeros_like(too_large)
    for tier, product in enumerate(_placed(facts)):
        size = facts.of_tier(tier, lambda network: network.size, 1)
        must_fill = facts.of_tier(tier, lambda network: network.must_be_filled, False)
        undecided = ~(too_large | unfilled) & (product > 1)
        exceeds = product > size
        too_large |= undecided & exceeds
        unfilled |= undecided & ~exceeds & must_fill & (size % np.maximum(product, 1) != 0)
    return too_large, unfilled


def _datatype_missing(facts: Facts) -> Array:
    present = np.array(
        [
            [word.value in machine.matrix and word.value in machine.vector for word in Datatype]
            for machine in facts.systems
        ]
    )
    return ~present[facts.system, facts["datatype"]]


def _offloads(facts: Facts) -> Array:
    return facts["weight_offload"] | facts["activation_offload"] | facts["optimizer_offload"]


def _divides(number: str, by: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda values: f"{by} may be {nearest_divisors(values[number], values[by])}"


_NOT_POSITIVE = "every degree and batch must be at least 1"

RULES: tuple[Rule, ...] = (
    Rule(
        "nonpositive", True,
        lambda f: (f["processors"] <= 0) | (f["tp"] <= 0) | (f["pp"] <= 0) | (f["dp"] <= 0),
        "processors {processors}, tp {tp}, pp {pp} and dp {dp} must be positive",
        lambda v: _NOT_POSITIVE,
    ),
    Rule(
        "procs_product", True,
        lambda f: f["processors"] != f["tp"] * f["pp"] * f["dp"],
        "tp {tp} x pp {pp} x dp {dp} = {product} is not the number of processors, {processors}",
        lambda v: (
            f"with tp {v['tp']} and pp {v['pp']}, dp must be {v['processors'] // (v['tp'] * v['pp'])}"
            if v["tp"] * v["pp"] > 0 and v["processors"] % (v["tp"] * v["pp"]) == 0 and v["processors"] > 0
            else f"processors would have to be {v['product']}"
        ),
    ),
    Rule(
        "nonpositive", True,
        lambda f: (f["batch"] <= 0) | (f["microbatch"] <= 0),
        "batch {batch} and microbatch {microbatch} must be positive",
        lambda v: _NOT_POSITIVE,
    ),
    Rule(
        "batch_dp", True,
        lambda f: f["batch"] % f.divisor("dp") != 0,
        "batch {batch} is not a multiple of dp {dp}",
        lambda v: f"batch may be {' or '.join(map(str, _nearest_multiples(v['dp'], v['batch'])))}",
    ),
    Rule(
        "batch_microbatch", True,
        lambda f: (f["batch"] // f.divisor("dp")) % f.divisor("microbatch") != 0,
        "batch {batch} / dp {dp} = {replica_batch} is not a multiple of microbatch {microbatch}",
        _divides("replica_batch", "microbatch"),
    ),
    Rule(
        "bad_enum", True,
        lambda f: (f["attention"] < 0) | (f["recompute"] < 0),
        "attention or recompute is not a known word",
        lambda v: f"attention: {_words(Attention)}; recompute: {_words(Recompute)}",
    ),
    Rule(
        "recompute_inference", True,
        lambda f: ~f.is_word("recompute", Recompute.NONE) & ~f["training"],
        "recompute '{recompute}' without training: there is no backward pass",
        lambda v: "recompute must be none",
    ),
    Rule("nonpositive", True, lambda f: f["vpp"] <= 0, "vpp {vpp} must be positive", lambda v: _NOT_POSITIVE),
    Rule(
        "interleaving_pp1", True,
        lambda f: (f["pp"] == 1) & (f["vpp"] != 1),
        "vpp {vpp} without pipeline stages (pp 1)",
        lambda v: "vpp must be 1 when pp is 1",
    ),
    Rule(
        "shard_dp1", True,
        lambda f: f["optimizer_sharding"] & (f["dp"] == 1),
        "optimizer_sharding with dp 1: there is nothing to share the state with",
        lambda v: "switch it off, or raise dp",
    ),
    Rule(
        "bad_enum", True,
        lambda f: (f["tp_communication"] < 0) | (f["tp_overlap"] < 0),
        "tp_communication or tp_overlap is not a known word",
        lambda v: f"tp_communication: {_words(TpCommunication)}; tp_overlap: {_words(TpOverlap)}",
    ),
    Rule(
        "tp_overlap_tp1", True,
        lambda f: ~f.is_word("tp_overlap", TpOverlap.NONE) & (f["tp"] == 1),
        "tp_overlap '{tp_overlap}' with tp 1: there is no communication to hide",
        lambda v: "tp_overlap must be none when tp is 1",
    ),
    Rule(
        "ag_redo_comm", True,
        lambda f: f["gather_redo"] & ~f.is_word("tp_communication", TpCommunication.SEQUENCE_PARALLEL),
        "gather_redo with tp_communication '{tp_communication}': only sequence parallelism gathers",
        lambda v: "switch it off, or use tp_communication sequence_parallel",
    ),
    Rule(
        "ag_redo_full", True,
        lambda f: f["gather_redo"] & f.is_word("recompute", Recompute.FULL),
        "gather_redo with full recompute, which gathers again anyway",
        lambda v: "switch it off",
    ),
    Rule(
        "dp_overlap_inference", True,
        lambda f: f["dp_overlap"] & ~f["training"],
        "dp_overlap without training: there are no gradients",
        lambda v: "switch it off",
    ),
    Rule(
        "dp_overlap_dp1", True,
        lambda f: f["dp_overlap"] & (f["dp"] == 1),
        "dp_overlap with dp 1: there is no gradient exchange",
        lambda v: "switch it off, or raise dp",
    ),
    Rule(
        "optim_offload_inference", True,
        lambda f: f["optimizer_offload"] & ~f["training"],
        "optimizer_offload without training: there is no optimizer",
        lambda v: "switch it off",
    ),
    Rule(
        "net_tier", True,
        lambda f: np.any(
            [
                (f[name] < 0) | (f[name] >= f.of_system(lambda machine: len(machine.network_tiers)))
                for name in ("tp_tier", "pp_tier", "dp_tier")
            ],
            axis=0,
        ),
        "tp_tier {tp_tier}, pp_tier {pp_tier}, dp_tier {dp_tier}: {system} has {tiers} network tier(s)",
        lambda v: f"tiers are numbered 0 to {v['tiers'] - 1}",
    ),
    Rule(
        "network_size", False,
        lambda f: _network_refusals(f)[0],
        "{group} processors on network tier {tier}, which connects {tier_size}",
        lambda v: "use a lower degree or another tier",
    ),
    Rule(
        "network_fill", False,
        lambda f: _network_refusals(f)[1],
        "groups of {group} do not fill network tier {tier} of {tier_size}",
        lambda v: f"the product of the degrees on it may be {nearest_divisors(v['tier_size'], v['group'])}",
    ),
    Rule(
        "datatype_unknown", True,
        lambda f: f["datatype"] < 0,
        "datatype is not a known word",
        lambda v: _words(Datatype),
    ),
    Rule(
        "interleaving_range", False,
        lambda f: f["vpp"] > f.stage_blocks,
        "vpp {vpp} is more than the {stage_blocks} blocks of a stage ({blocks} blocks, pp {pp})",
        lambda v: f"vpp may be {nearest_divisors(v['stage_blocks'], v['vpp'])}",
    ),
    Rule(
        "interleaving_factor", False,
        lambda f: f.stage_blocks % f.divisor("vpp") != 0,
        "the {stage_blocks} blocks of a stage are not a multiple of vpp {vpp}",
        _divides("stage_blocks", "vpp"),
    ),
    Rule(
        "offload_blocks", False,
        lambda f: _offloads(f) & (f.stage_blocks <= 2),
        "offload with {stage_blocks} blocks a stage: two of them always stay in memory tier 1",
        lambda v: "use fewer stages, so that each has at least 3 blocks",
    ),
    Rule(
        "seq_split", True,
        lambda f: ~f.is_word("tp_communication", TpCommunication.ALL_REDUCE)
        & ((f["microbatch"] * f.size("sequence_length")) % f.divisor("tp") != 0),
        "{tokens} tokens of a microbatch are not a multiple of tp {tp}",
        _divides("tokens", "tp"),
    ),
    Rule(
        "hidden_split", True,
        lambda f: f.size("hidden") % f.divisor("tp") != 0,
        "hidden {hidden} is not a multiple of tp {tp}",
        _divides("hidden", "tp"),
    ),
    Rule(
        "feedforward_split", True,
        lambda f: f.size("feedforward") % f.divisor("tp") != 0,
        "feedforward {feedforward} is not a multiple of tp {tp}",
        _divides("feedforward", "tp"),
    ),
    Rule(
        "heads_split", True,
        lambda f: f.size("attention_heads") % f.divisor("tp") != 0,
        "{heads} attention heads are not a multiple of tp {tp}",
        _divides("heads", "tp"),
    ),
    Rule(
        "datatype_missing", True,
        _datatype_missing,
        "{system} has no {datatype} engine",
        lambda v: f"it has {v['datatypes']}",
    ),
)  # fmt: skip
"""All rules, in the published order."""


def _words(options: Any) -> str:
    return ", ".join(option.value for option in options)
