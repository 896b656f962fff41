"""The published rules, in the published order (spec analytical-model section 3); golden files name their codes.

Degrees that the published tool does not have (`cp`, experts) take part where they change what a rule is about.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.options import Attention, Datatype, Recompute, TpCommunication, TpOverlap
from codesign_opt.strategies.rules.network import network_refusals, outside
from codesign_opt.strategies.rules.rule import (
    Rule,
    Values,
    constant,
    divides,
    multiples,
    nearest_divisors,
    words,
)

Array = NDArray[Any]

AT_LEAST_1 = constant("every degree and batch must be at least 1")
SWITCH_OFF = constant("switch it off")

PUBLISHED: tuple[Rule, ...] = (
    Rule(
        "nonpositive", True,
        lambda f: (f["processors"] <= 0) | (f["tp"] <= 0) | (f["pp"] <= 0) | (f["dp"] <= 0),
        "processors {processors}, tp {tp}, pp {pp} and dp {dp} must be positive",
        AT_LEAST_1,
    ),
    Rule(
        "procs_product", True,
        lambda f: f["processors"] != f["tp"] * f["pp"] * f["dp"] * f["cp"],
        "tp {tp} x pp {pp} x dp {dp}{x_cp} = {product} is not the number of processors, {processors}",
        lambda v: _remaining_dp(v),
    ),
    Rule(
        "nonpositive", True,
        lambda f: (f["batch"] <= 0) | (f["microbatch"] <= 0),
        "batch {batch} and microbatch {microbatch} must be positive",
        AT_LEAST_1,
    ),
    Rule(
        "batch_dp", True,
        lambda f: f["batch"] % f.divisor("dp") != 0,
        "batch {batch} is not a multiple of dp {dp}",
        multiples("dp", "batch"),
    ),
    Rule(
        "batch_microbatch", True,
        lambda f: (f["batch"] // f.divisor("dp")) % f.divisor("microbatch") != 0,
        "batch {batch} / dp {dp} = {replica_batch} is not a multiple of microbatch {microbatch}",
        divides("replica_batch", "microbatch"),
    ),
    Rule(
        "bad_enum", True,
        lambda f: (f["attention"] < 0) | (f["recompute"] < 0),
        "attention or recompute is not a known word",
        constant(f"attention: {words(Attention)}; recompute: {words(Recompute)}"),
    ),
    Rule(
        "recompute_inference", True,
        lambda f: ~f.is_word("recompute", Recompute.NONE) & ~f["training"],
        "recompute '{recompute}' without training: there is no backward pass",
        constant("recompute must be none"),
    ),
    Rule("nonpositive", True, lambda f: f["vpp"] <= 0, "vpp {vpp} must be positive", AT_LEAST_1),
    Rule(
        "interleaving_pp1", True,
        lambda f: (f["pp"] == 1) & (f["vpp"] != 1),
        "vpp {vpp} without pipeline stages (pp 1)",
        constant("vpp must be 1 when pp is 1"),
    ),
    Rule(
        "shard_dp1", True,
        lambda f: f["optimizer_sharding"] & (f["dp"] == 1) & (f["cp"] == 1),
        "optimizer_sharding with dp 1: there is nothing to share the state with",
        constant("switch it off, or raise dp"),
    ),
    Rule(
        "bad_enum", True,
        lambda f: (f["tp_communication"] < 0) | (f["tp_overlap"] < 0),
        "tp_communication or tp_overlap is not a known word",
        constant(f"tp_communication: {words(TpCommunication)}; tp_overlap: {words(TpOverlap)}"),
    ),
    Rule(
        "tp_overlap_tp1", True,
        lambda f: ~f.is_word("tp_overlap", TpOverlap.NONE) & (f["tp"] == 1),
        "tp_overlap '{tp_overlap}' with tp 1: there is no communication to hide",
        constant("tp_overlap must be none when tp is 1"),
    ),
    Rule(
        "ag_redo_comm", True,
        lambda f: f["gather_redo"] & ~f.is_word("tp_communication", TpCommunication.SEQUENCE_PARALLEL),
        "gather_redo with tp_communication '{tp_communication}': only sequence parallelism gathers",
        constant("switch it off, or use tp_communication sequence_parallel"),
    ),
    Rule(
        "ag_redo_full", True,
        lambda f: f["gather_redo"] & f.is_word("recompute", Recompute.FULL),
        "gather_redo with full recompute, which gathers again anyway",
        SWITCH_OFF,
    ),
    Rule(
        "dp_overlap_inference", True,
        lambda f: f["dp_overlap"] & ~f["training"],
        "dp_overlap without training: there are no gradients",
        SWITCH_OFF,
    ),
    Rule(
        "dp_overlap_dp1", True,
        lambda f: f["dp_overlap"] & (f["dp"] == 1) & (f["cp"] == 1),
        "dp_overlap with dp 1: there is no gradient exchange",
        constant("switch it off, or raise dp"),
    ),
    Rule(
        "optim_offload_inference", True,
        lambda f: f["optimizer_offload"] & ~f["training"],
        "optimizer_offload without training: there is no optimizer",
        SWITCH_OFF,
    ),
    Rule(
        "net_tier", True,
        lambda f: outside(f, "tp_tier", "pp_tier", "dp_tier"),
        "tp_tier {tp_tier}, pp_tier {pp_tier}, dp_tier {dp_tier}: {system} has {tiers} network tier(s)",
        lambda v: f"tiers are numbered 0 to {v['tiers'] - 1}",
    ),
    Rule(
        "network_size", False,
        lambda f: network_refusals(f)[0],
        "{group} processors on network tier {tier}, which connects {tier_size}",
        constant("use a lower degree or another tier"),
    ),
    Rule(
        "network_fill", False,
        lambda f: network_refusals(f)[1],
        "groups of {group} do not fill network tier {tier} of {tier_size}",
        lambda v: f"the product of the degrees on it may be {nearest_divisors(v['tier_size'], v['group'])}",
    ),
    Rule(
        "datatype_unknown", True,
        lambda f: f["datatype"] < 0,
        "datatype is not a known word",
        constant(words(Datatype)),
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
        divides("stage_blocks", "vpp"),
    ),
    Rule(
        "offload_blocks", False,
        lambda f: _offloads(f) & (f.stage_blocks <= 2),
        "offload with {stage_blocks} blocks a stage: two of them always stay in memory tier 1",
        constant("use fewer stages, so that each has at least 3 blocks"),
    ),
    Rule(
        "seq_split", True,
        lambda f: ~f.is_word("tp_communication", TpCommunication.ALL_REDUCE)
        & (f["microbatch"] * f.size("sequence_length") // f.divisor("cp") % f.divisor("tp") != 0),
        "{tokens} tokens of a microbatch{of_cp} are not a multiple of tp {tp}",
        divides("tokens", "tp"),
    ),
    Rule(
        "hidden_split", True,
        lambda f: f.size("hidden") % f.divisor("tp") != 0,
        "hidden {hidden} is not a multiple of tp {tp}",
        divides("hidden", "tp"),
    ),
    Rule(
        "feedforward_split", True,
        lambda f: _has_plain_mlp(f) & (f.size("feedforward") % f.divisor("tp") != 0),
        "feedforward {feedforward} is not a multiple of tp {tp}",
        divides("feedforward", "tp"),
    ),
    Rule(
        "heads_split", True,
        lambda f: f.size("attention_heads") % f.divisor("tp") != 0,
        "{heads} attention heads are not a multiple of tp {tp}",
        divides("heads", "tp"),
    ),
    Rule(
        "datatype_missing", True,
        lambda f: _datatype_missing(f),
        "{system} has no {datatype} engine",
        lambda v: f"it has {v['datatypes']}",
    ),
)  # fmt: skip
"""The published rules, in order."""


def _remaining_dp(values: Values) -> str:
    """The dp of the processors that the other degrees leave, or how many processors there would have to be."""
    others = values["tp"] * values["pp"] * values["cp"]
    if others <= 0 or values["processors"] <= 0 or values["processors"] % others:
        return f"processors would have to be {values['product']}"
    cp = f", pp {values['pp']} and cp {values['cp']}" if values["cp"] != 1 else f" and pp {values['pp']}"
    return f"with tp {values['tp']}{cp}, dp must be {values['processors'] // others}"


def _has_plain_mlp(facts: Facts) -> Array:
    """Whether there are blocks without experts."""
    return facts.of_workload(
        lambda workload: (
            workload.experts is None or workload.experts.leading_dense_blocks > 0 or workload.experts.every > 1
        )
    )


def _offloads(facts: Facts) -> Array:
    return facts["weight_offload"] | facts["activation_offload"] | facts["optimizer_offload"]


def _datatype_missing(facts: Facts) -> Array:
    present = np.array(
        [
            [word.value in machine.matrix and word.value in machine.vector for word in Datatype]
            for machine in facts.systems
        ]
    )
    return ~present[facts.system, facts["datatype"]]
