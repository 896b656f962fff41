"""Every published rule on its own: its code, its words, and the nearest legal values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codesign_opt.errors import StrategyError
from codesign_opt.strategies import Attention, Datatype, Recompute, Strategy, StrategyTable, TpCommunication, TpOverlap
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.legality import (
    PUBLISHED,
    RULES,
    check,
    explain,
    first_broken,
    nearest_divisors,
    violations,
)
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

LEGAL = Strategy(
    processors=16,
    tp=2,
    pp=4,
    dp=2,
    vpp=3,
    batch=24,
    microbatch=3,
    tp_overlap=TpOverlap.RING,
    tp_communication=TpCommunication.SEQUENCE_PARALLEL,
    gather_redo=True,
    optimizer_sharding=True,
    dp_overlap=True,
    weight_offload=True,
    optimizer_offload=True,
    tp_tier=0,
    pp_tier=1,
    dp_tier=1,
)
"""Legal on the small machine for the small workload, with everything switched on."""

PLAIN: dict[str, Any] = {
    "tp_overlap": TpOverlap.NONE,
    "tp_communication": TpCommunication.ALL_REDUCE,
    "gather_redo": False,
    "optimizer_sharding": False,
    "dp_overlap": False,
    "weight_offload": False,
    "optimizer_offload": False,
}

BROKEN: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "no processors": (
        {"processors": 0, "tp": 0, "tp_overlap": TpOverlap.NONE},
        "nonpositive",
        "processors 0, tp 0, pp 4 and dp 2 must be positive",
        "every degree and batch must be at least 1",
    ),
    "product too small": (
        {"processors": 32},
        "procs_product",
        "tp 2 x pp 4 x dp 2 = 16 is not the number of processors, 32",
        "with tp 2 and pp 4, dp must be 4",
    ),
    "product cannot be reached": (
        {"processors": 12},
        "procs_product",
        "tp 2 x pp 4 x dp 2 = 16 is not the number of processors, 12",
        "processors would have to be 16",
    ),
    "no batch": (
        {"batch": 0},
        "nonpositive",
        "batch 0 and microbatch 3 must be positive",
        "every degree and batch must be at least 1",
    ),
    "no microbatch": (
        {"microbatch": -3},
        "nonpositive",
        "batch 24 and microbatch -3 must be positive",
        "every degree and batch must be at least 1",
    ),
    "batch between replicas": (
        {"batch": 25, "microbatch": 1},
        "batch_dp",
        "batch 25 is not a multiple of dp 2",
        "batch may be 24 or 26",
    ),
    "batch smaller than dp": (
        {"batch": 1, "microbatch": 1},
        "batch_dp",
        "batch 1 is not a multiple of dp 2",
        "batch may be 2",
    ),
    "microbatch": (
        {"microbatch": 5},
        "batch_microbatch",
        "batch 24 / dp 2 = 12 is not a multiple of microbatch 5",
        "microbatch may be 4 or 6",
    ),
    "microbatch larger than the batch": (
        {"microbatch": 13},
        "batch_microbatch",
        "batch 24 / dp 2 = 12 is not a multiple of microbatch 13",
        "microbatch may be 12",
    ),
    "recompute in inference": (
        {**PLAIN, "training": False, "recompute": Recompute.SELECTIVE},
        "recompute_inference",
        "recompute 'selective' without training: there is no backward pass",
        "recompute must be none",
    ),
    "no chunks": (
        {"vpp": 0},
        "nonpositive",
        "vpp 0 must be positive",
        "every degree and batch must be at least 1",
    ),
    "chunks without stages": (
        {"pp": 1, "dp": 8, "vpp": 2},
        "interleaving_pp1",
        "vpp 2 without pipeline stages (pp 1)",
        "vpp must be 1 when pp is 1",
    ),
    "sharding without replicas": (
        {"dp": 1, "processors": 8, "dp_overlap": False},
        "shard_dp1",
        "optimizer_sharding with dp 1: there is nothing to share the state with",
        "switch it off, or raise dp",
    ),
    "tensor overlap without tensor parallelism": (
        {"tp": 1, "processors": 8},
        "tp_overlap_tp1",
        "tp_overlap 'ring' with tp 1: there is no communication to hide",
        "tp_overlap must be none when tp is 1",
    ),
    "redo without gather": (
        {"tp_communication": TpCommunication.STAGE_BOUNDARY},
        "ag_redo_comm",
        "gather_redo with tp_communication 'stage_boundary': only sequence parallelism gathers",
        "switch it off, or use tp_communication sequence_parallel",
    ),
    "redo with full recompute": (
        {"recompute": Recompute.FULL},
        "ag_redo_full",
        "gather_redo with full recompute, which gathers again anyway",
        "switch it off",
    ),
    "gradient overlap in inference": (
        {"training": False, "optimizer_offload": False},
        "dp_overlap_inference",
        "dp_overlap without training: there are no gradients",
        "switch it off",
    ),
    "gradient overlap without replicas": (
        {"dp": 1, "processors": 8, "optimizer_sharding": False},
        "dp_overlap_dp1",
        "dp_overlap with dp 1: there is no gradient exchange",
        "switch it off, or raise dp",
    ),
    "optimizer offload in inference": (
        {"training": False, "dp_overlap": False},
        "optim_offload_inference",
        "optimizer_offload without training: there is no optimizer",
        "switch it off",
    ),
    "no such tier": (
        {"dp_tier": 2},
        "net_tier",
        "tp_tier 0, pp_tier 1, dp_tier 2: box has 2 network tier(s)",
        "tiers are numbered 0 to 1",
    ),
    "negative tier": (
        {"tp_tier": -1},
        "net_tier",
        "tp_tier -1, pp_tier 1, dp_tier 1: box has 2 network tier(s)",
        "tiers are numbered 0 to 1",
    ),
    "tier too small": (
        {"pp_tier": 0, "dp_tier": 0},
        "network_size",
        "16 processors on network tier 0, which connects 8",
        "use a lower degree or another tier",
    ),
    "tier not filled": (
        {"tp": 6, "processors": 48},
        "network_fill",
        "groups of 6 do not fill network tier 0 of 8",
        "the product of the degrees on it may be 4 or 8",
    ),
    "chunks of different sizes": (
        {"vpp": 2},
        "interleaving_factor",
        "the 3 blocks of a stage are not a multiple of vpp 2",
        "vpp may be 1 or 3",
    ),
    "offload of two blocks": (
        {"pp": 6, "processors": 24, "vpp": 2},
        "offload_blocks",
        "offload with 2 blocks a stage: two of them always stay in memory tier 1",
        "use fewer stages, so that each has at least 3 blocks",
    ),
    "sequence": (
        {"tp": 4, "processors": 32, "microbatch": 1},
        "seq_split",
        "10 tokens of a microbatch are not a multiple of tp 4",
        "tp may be 2 or 5",
    ),
}
"""Changes of LEGAL that break exactly one rule: code, sentence, nearest legal values."""


@pytest.fixture
def judge(workload: Workload, system: System) -> Any:
    def judged(strategy: Strategy) -> list[tuple[str, str, str]]:
        return [(v.code, v.sentence, v.nearest) for v in violations(strategy, workload, system)]

    return judged


def test_legal(judge: Any, workload: Workload, system: System) -> None:
    assert judge(LEGAL) == []
    check(LEGAL, workload, system)


@pytest.mark.parametrize("case", BROKEN)
def test_exactly_one_rule(case: str, judge: Any, workload: Workload, system: System) -> None:
    changes, code, sentence, nearest = BROKEN[case]
    strategy = replace(LEGAL, **changes)
    assert judge(strategy) == [(code, sentence, nearest)]
    with pytest.raises(StrategyError) as caught:
        check(strategy, workload, system)
    assert (caught.value.code, caught.value.message, caught.value.hint) == (code, sentence, nearest)


@pytest.mark.parametrize(
    ("changes", "code", "sentence", "nearest"),
    [
        ({"hidden": 25}, "hidden_split", "hidden 25 is not a multiple of tp 2", "tp may be 1 or 5"),
        ({"feedforward": 99}, "feedforward_split", "feedforward 99 is not a multiple of tp 2", "tp may be 1 or 3"),
        ({"attention_heads": 13}, "heads_split", "13 attention heads are not a multiple of tp 2", "tp may be 1 or 13"),
    ],
)
def test_widths_that_tensor_parallelism_does_not_divide(
    changes: dict[str, int], code: str, sentence: str, nearest: str, workload: Workload, system: System
) -> None:
    [violation] = violations(LEGAL, replace(workload, **changes), system)
    assert (violation.code, violation.sentence, violation.nearest) == (code, sentence, nearest)


def test_more_chunks_than_blocks(judge: Any) -> None:
    # No number is a multiple of a larger one, so the next rule is broken as well.
    range_, factor = judge(replace(LEGAL, vpp=6))
    assert range_ == (
        "interleaving_range", "vpp 6 is more than the 3 blocks of a stage (12 blocks, pp 4)", "vpp may be 3",
    )  # fmt: skip
    assert factor[0] == "interleaving_factor"


def test_datatype_that_the_system_lacks(judge: Any) -> None:
    assert judge(replace(LEGAL, datatype=Datatype.FLOAT32)) == [
        ("datatype_missing", "box has no float32 engine", "it has bfloat16, float16, float8")
    ]


@pytest.mark.parametrize(
    ("column", "code", "words"),
    [
        ("attention", "bad_enum", Attention),
        ("recompute", "bad_enum", Recompute),
        ("tp_communication", "bad_enum", TpCommunication),
        ("tp_overlap", "bad_enum", TpOverlap),
        ("datatype", "datatype_unknown", Datatype),
    ],
)
def test_unknown_words(column: str, code: str, words: Any, workload: Workload, system: System) -> None:
    # Only files of the published tool can hold them; a Strategy cannot.
    plain = replace(LEGAL, gather_redo=False)  # which needs a known tp_communication
    columns = dict(StrategyTable.from_strategies([plain]))
    columns[column] = np.array([-1], dtype=np.int8)
    everything = replace(system, matrix={**system.matrix, "float32": system.matrix["float16"]})
    everything = replace(everything, vector=everything.matrix)
    facts = Facts(StrategyTable(columns), [workload], [everything])
    broken = [rule for rule in RULES if rule.broken(facts)[0]]
    assert [rule.code for rule in broken] == [code]
    violation = explain(broken[0], facts, 0)
    assert column in violation.sentence
    assert ", ".join(word.value for word in words) in violation.nearest


def test_every_rule_is_covered() -> None:
    elsewhere = {
        "hidden_split", "feedforward_split", "heads_split", "interleaving_range",
        "datatype_missing", "bad_enum", "datatype_unknown",
    }  # fmt: skip
    assert {code for _, code, *_ in BROKEN.values()} | elsewhere == {rule.code for rule in PUBLISHED}


def test_all_broken_rules_are_reported_in_order(judge: Any, workload: Workload, system: System) -> None:
    strategy = replace(LEGAL, processors=99, batch=25, dp_tier=7, microbatch=5, recompute=Recompute.FULL)
    codes = [code for code, *_ in judge(strategy)]
    assert codes == ["procs_product", "batch_dp", "batch_microbatch", "ag_redo_full", "net_tier"]
    with pytest.raises(StrategyError) as caught:
        check(strategy, workload, system)
    assert caught.value.code == "procs_product"
    for violation in violations(strategy, workload, system):
        assert violation.sentence in caught.value.message
        assert violation.nearest in caught.value.hint


def test_the_same_hint_is_given_once(workload: Workload, system: System) -> None:
    with pytest.raises(StrategyError) as caught:
        check(replace(LEGAL, batch=0, vpp=0), workload, system)
    assert caught.value.hint == "every degree and batch must be at least 1"


def test_violation_in_words(workload: Workload, system: System) -> None:
    [violation] = violations(replace(LEGAL, microbatch=5), workload, system)
    assert str(violation) == (
        "batch 24 / dp 2 = 12 is not a multiple of microbatch 5 [batch_microbatch]; microbatch may be 4 or 6"
    )


def test_first_broken_over_columns(workload: Workload, system: System) -> None:
    strategies = [LEGAL, *(replace(LEGAL, **changes) for changes, *_ in BROKEN.values())]
    first = first_broken(Facts(StrategyTable.from_strategies(strategies), [workload], [system]))
    codes = ["" if index < 0 else RULES[index].code for index in first]
    assert codes == ["", *(code for _, code, *_ in BROKEN.values())]


def test_rows_may_name_their_own_workload_and_system(workload: Workload, system: System) -> None:
    odd = replace(workload, attention_heads=13)
    one_tier = replace(system, network_tiers=system.network_tiers[1:])
    table = StrategyTable.from_strategies([LEGAL] * 3)
    facts = Facts(table, [workload, odd], [system, one_tier], np.array([0, 1, 0]), np.array([0, 0, 1]))
    codes = ["" if index < 0 else RULES[index].code for index in first_broken(facts)]
    assert codes == ["", "heads_split", "net_tier"]


def test_degrees_of_1_need_no_place(workload: Workload, system: System) -> None:
    # dp 1 takes no part in the product on its tier, but the tier must exist.
    alone = replace(LEGAL, processors=8, dp=1, optimizer_sharding=False, dp_overlap=False, pp_tier=0, dp_tier=0)
    assert violations(alone, workload, system) == []
    assert [v.code for v in violations(replace(alone, dp_tier=2), workload, system)] == ["net_tier"]


def test_pipelines_need_not_divide_the_blocks(workload: Workload, system: System) -> None:
    uneven = replace(LEGAL, pp=5, processors=20, vpp=1)
    assert violations(uneven, workload, system) == []
    longer = replace(LEGAL, pp=13, processors=52, vpp=1, weight_offload=False, optimizer_offload=False)
    assert violations(longer, workload, system) == []


def test_all_reduce_does_not_split_the_sequence(workload: Workload, system: System) -> None:
    strategy = replace(LEGAL, **PLAIN, tp=4, processors=32, microbatch=1)
    assert violations(strategy, workload, system) == []


@pytest.mark.parametrize(
    ("number", "value", "words"),
    [
        (12, 5, "4 or 6"),
        (12, 13, "12"),
        (12, 1000, "12"),
        (7, 3, "1 or 7"),
        (1, 2, "1"),
        (8, 0, "1"),
        (2**40, 3, "2 or 4"),
    ],
)
def test_nearest_divisors(number: int, value: int, words: str) -> None:
    assert nearest_divisors(number, value) == words
