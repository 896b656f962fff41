"""Every general rule of a column that the published tool does not have: what breaks it alone, and what mends that."""

from __future__ import annotations

from dataclasses import fields, replace
from enum import Enum
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign_opt.strategies import (
    AttentionKernel,
    CpExchange,
    Placement,
    ProductPrecision,
    Recompute,
    Schedule,
    Strategy,
    StrategyTable,
    TpCommunication,
)
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.legality import PUBLISHED, RULES, explain, first_broken, violations
from codesign_opt.strategies.rules.rule import Rule
from codesign_opt.strategies.table import COLUMNS, OPTION_COLUMNS
from codesign_opt.systems import System
from codesign_opt.workloads import Workload
from codesign_opt.workloads.transformer import Experts, LatentAttention

GROUPED = Workload(
    name="grouped",
    hidden=64,
    feedforward=128,
    sequence_length=64,
    attention_heads=8,
    head_size=8,
    blocks=12,
    key_value_heads=4,
    experts=Experts(count=8, top_k=2, feedforward=32, shared_feedforward=32),
)
"""Twelve blocks of eight experts, with half as many key and value heads as query heads."""

LEGAL = Strategy(
    processors=24,
    tp=2,
    pp=3,
    dp=2,
    cp=2,
    ep=4,
    etp=2,
    batch=24,
    microbatch=1,
    attention_kernel=AttentionKernel.FLASH,
    optimizer_sharding=True,
    weight_sharding=True,
    prefetch=2,
    keep_gathered=True,
    reduce_each_microbatch=True,
    shard_group=2,
    first_stage_less=1,
    last_stage_less=2,
    recompute=Recompute.FULL,
    recompute_blocks=2,
    tp_tier=0,
    cp_tier=0,
    pp_tier=1,
    dp_tier=1,
    ep_tier=0,
)
"""Legal on the small machine: 2 x 2 x 2 processors a stage, stages of 4, 5 and 3 blocks, 12 microbatches."""

PLAIN: dict[str, Any] = {"first_stage_less": 0, "last_stage_less": 0}
ORDER: dict[str, Any] = {"placement": Placement.TP_CP_DP_PP, "cp_tier": 0, "dp_tier": 0}
"""In this order tp reaches over 2, cp over 4, dp and ep over 8, and pp over 24 processors."""

BROKEN: dict[str, tuple[dict[str, Any], dict[str, Any], str, str, str, dict[str, Any]]] = {
    "no experts in a group": (
        {"ep": 0}, {}, "nonpositive",
        "cp 2, ep 0 and etp 2 must be positive", "every degree and batch must be at least 1", {"ep": 1},
    ),
    "sequence": (
        {}, {"sequence_length": 65}, "sequence_cp",
        "sequence length 65 is not a multiple of cp 2", "cp may be 1 or 5",
        {"cp": 1, "dp": 4},
    ),
    "ring without flash": (
        {"attention_kernel": AttentionKernel.UNFUSED}, {}, "ring_kernel",
        "cp_exchange 'ring' with attention_kernel 'unfused': only flash adds up attention part by part",
        "attention_kernel must be flash, or cp_exchange all_gather or all_to_all",
        {"cp_exchange": CpExchange.ALL_GATHER},
    ),
    "grouped heads": (
        {"tp": 4, "dp": 1}, {"key_value_heads": 6, "attention_heads": 24}, "kv_heads_tp",
        "6 key and value heads are neither a multiple nor a divisor of tp 4", "tp may be 3 or 6",
        {"tp": 2, "dp": 2},
    ),
    "heads of all to all": (
        {"cp_exchange": CpExchange.ALL_TO_ALL}, {"attention_heads": 6, "key_value_heads": 2}, "heads_cp",
        "6 attention heads are not a multiple of tp 2 x cp 2 = 4, which exchange them all to all",
        "cp may be 1 or 3, or cp_exchange may be ring or all_gather",
        {"cp_exchange": CpExchange.RING},
    ),
    "grouped heads of all to all": (
        {"cp_exchange": CpExchange.ALL_TO_ALL}, {"attention_heads": 24, "key_value_heads": 6}, "kv_heads_cp",
        "6 key and value heads are neither a multiple nor a divisor of tp 2 x cp 2 = 4, which exchange them all to all",
        "cp may be 1 or 3, or cp_exchange may be ring or all_gather",
        {"cp_exchange": CpExchange.ALL_GATHER},
    ),
    "expert parallelism without experts": (
        {"etp": 1}, {"experts": None}, "experts_missing",
        "ep 4 and etp 1, but the blocks have no experts", "ep and etp must be 1", {"ep": 1},
    ),
    "uneven experts": (
        {}, {"experts": Experts(count=6, top_k=2, feedforward=32)}, "experts_ep",
        "6 experts are not a multiple of ep 4", "ep may be 3 or 6", {"ep": 2},
    ),
    "mesh of experts": (
        {"ep": 8, "ep_tier": 1}, {}, "expert_mesh",
        "etp 2 x ep 8 = 16 does not divide the 8 processors of a stage (tp 2 x cp 2 x dp 2)",
        "with etp 2, ep may be 4, or etp smaller", {"etp": 1},
    ),
    "experts over several groups": (
        {"tp": 1, "dp": 4}, {}, "etp_tp",
        "tp 1 is not a multiple of etp 2: an expert is split within a tensor-parallel group", "etp may be 1",
        {"etp": 1},
    ),
    "width of an expert": (
        {}, {"experts": Experts(count=8, top_k=2, feedforward=33)}, "expert_feedforward_etp",
        "feedforward 33 of an expert is not a multiple of etp 2", "etp may be 1 or 3", {"etp": 1},
    ),
    "width of the shared experts": (
        {}, {"experts": Experts(count=8, top_k=2, feedforward=32, shared_feedforward=9)}, "shared_feedforward_tp",
        "feedforward 9 of the shared experts is not a multiple of tp 2", "tp may be 1 or 3",
        {"tp": 1, "etp": 1, "dp": 4},
    ),
    "negative blocks": (
        {"recompute_blocks": -1}, {}, "negative",
        "first_stage_less 1, last_stage_less 2 and recompute_blocks -1 must not be negative",
        "each must be at least 0", {"recompute_blocks": 0},
    ),
    "chunks of another schedule": (
        {**PLAIN, "schedule": Schedule.GPIPE, "vpp": 2}, {}, "schedule_vpp",
        "schedule 'gpipe' with vpp 2: only 1f1b interleaves chunks (zb_v has two of its own)",
        "vpp must be 1, or schedule 1f1b", {"vpp": 1},
    ),
    "schedule without stages": (
        {**PLAIN, "schedule": Schedule.ZB_1P, "pp": 1, "dp": 6}, {"blocks": 5}, "schedule_pp1",
        "schedule 'zb_1p' without pipeline stages (pp 1)", "schedule must be 1f1b when pp is 1",
        {"schedule": Schedule.ONE_F_ONE_B},
    ),
    "schedule without training": (
        {
            "schedule": Schedule.ZB_1P, "training": False, "recompute": Recompute.NONE, "recompute_blocks": 0,
            "weight_sharding": False, "prefetch": 1, "keep_gathered": False,
        }, {}, "schedule_inference",
        "schedule 'zb_1p' without training: there are no backward passes to order", "schedule must be 1f1b",
        {"schedule": Schedule.ONE_F_ONE_B},
    ),
    "halves of a stage": (
        {"schedule": Schedule.ZB_V}, {}, "zb_v_chunks",
        "schedule 'zb_v' has two chunks a stage, but a stage has 5 blocks "
        "(12 blocks + first_stage_less 1 + last_stage_less 2 = 15, pp 3)",
        "use a pp that leaves an even number of blocks on a stage", PLAIN,
    ),
    "odd number of stages": (
        {"schedule": Schedule.DUALPIPE}, {}, "dualpipe_stages",
        "schedule 'dualpipe' feeds stages in pairs, but pp 3 is odd", "pp may be 2 or 4",
        {"pp": 2},
    ),
    "few microbatches for two ends": (
        {**PLAIN, "schedule": Schedule.DUALPIPE, "pp": 4, "microbatch": 2}, {},
        "dualpipe_microbatches",
        "schedule 'dualpipe' takes an even number of microbatches of at least 2 x pp 4, not 6",
        "the nearest number is 8",
        {"microbatch": 1},
    ),
    "odd number of microbatches": (
        {**PLAIN, "schedule": Schedule.DUALPIPE, "pp": 2, "batch": 10}, {}, "dualpipe_microbatches",
        "schedule 'dualpipe' takes an even number of microbatches of at least 2 x pp 2, not 5",
        "the nearest number is 6",
        {"batch": 12},
    ),
    "ends without stages": (
        {"pp": 1}, {}, "stage_less_pp1",
        "first_stage_less 1 and last_stage_less 2 without pipeline stages (pp 1)", "both must be 0 when pp is 1",
        PLAIN,
    ),
    "ends with less than nothing": (
        {"last_stage_less": 8}, {"blocks": 6}, "stage_less_blocks",
        "first_stage_less 1 or last_stage_less 8 is more than the 5 blocks of a stage "
        "(6 blocks + first_stage_less 1 + last_stage_less 8 = 15, pp 3)",
        "each may be at most 5", {"first_stage_less": 0, "last_stage_less": 3},
    ),
    "some blocks of selective recompute": (
        {"recompute": Recompute.SELECTIVE}, {}, "recompute_blocks_full",
        "recompute_blocks 2 with recompute 'selective': only full recompute concerns single blocks",
        "recompute_blocks must be 0, or recompute full", {"recompute_blocks": 0},
    ),
    "more blocks than a stage has": (
        {"recompute_blocks": 6}, {}, "recompute_blocks_range",
        "recompute_blocks 6 is more than the 5 blocks of a stage", "recompute_blocks may be 0 (all) to 5",
        {"recompute_blocks": 5},
    ),
    "negative group": (
        {"shard_group": -2}, {}, "negative",
        "shard_group -2 and prefetch 2 must not be negative", "each must be at least 0", {"shard_group": 0},
    ),
    "weights without gradients": (
        {"gradient_sharding": False}, {}, "weight_sharding_alone",
        "weight_sharding without optimizer_sharding and gradient_sharding: weights are split last (ZeRO-3)",
        "switch those on, or weight_sharding off",
        {"weight_sharding": False, "prefetch": 1, "keep_gathered": False},
    ),
    "weights without training": (
        {"training": False, "recompute": Recompute.NONE, "recompute_blocks": 0}, {}, "weight_sharding_inference",
        "weight_sharding without training: there is no optimizer to share", "switch it off",
        {"weight_sharding": False, "prefetch": 1, "keep_gathered": False},
    ),
    "group that does not divide": (
        {"shard_group": 3}, {}, "shard_group_replicas",
        "shard_group 3 does not divide the 4 processors with the same weights (dp 2 x cp 2)",
        "shard_group may be 0 (all) or 2 or 4", {"shard_group": 4},
    ),
    "gathering ahead of nothing": (
        {"weight_sharding": False, "keep_gathered": False}, {}, "prefetch_alone",
        "prefetch 2 without weight_sharding: no weights are gathered", "prefetch must be left at 1",
        {"prefetch": 1},
    ),
    "keeping of nothing": (
        {"weight_sharding": False, "prefetch": 1}, {}, "keep_gathered_alone",
        "keep_gathered without weight_sharding: no weights are gathered", "switch it off",
        {"keep_gathered": False},
    ),
    "no such tier": (
        {"ep_tier": 2}, {}, "net_tier",
        "cp_tier 0, ep_tier 2: box has 2 network tier(s)", "tiers are numbered 0 to 1", {"ep_tier": 1},
    ),
    "context beside tensor parallelism": (
        {"cp": 8}, {}, "network_size",
        "16 processors on network tier 0, which connects 8", "use a lower degree or another tier",
        {"cp_tier": 1},
    ),
    "experts beyond their tier": (
        {"ep": 8, "dp": 4}, {}, "network_size",
        "ep 8 x etp 2 = 16 processors on network tier 0, which connects 8", "use a lower ep or another ep_tier",
        {"ep_tier": 1},
    ),
    "experts that do not fill their tier": (
        {"ep": 3, "dp": 3},
        {"experts": Experts(count=6, top_k=2, feedforward=32)}, "network_fill",
        "groups of ep 3 x etp 2 = 6 do not fill network tier 0 of 8", "ep x etp may be 4 or 8",
        {"ep_tier": 1},
    ),
    "tiers of another order": (
        {**ORDER, "cp_tier": 1}, {}, "order_tiers",
        "tp_tier 0, pp_tier 1, dp_tier 0, cp_tier 1, ep_tier 0 are not where the order tp-cp-dp-pp leads to",
        "cp_tier must be 0", {"cp_tier": 0},
    ),
    "order beyond the network": (
        {**ORDER, "dp": 200, "batch": 2400, "dp_tier": 1}, {}, "network_size",
        "the order tp-cp-dp-pp needs 2400 processors side by side, more than the network connects",
        "the last network tier connects 1000", {"dp": 80},
    ),
    "products without an engine": (
        {"product_precision": ProductPrecision.FLOAT8}, {}, "product_precision_missing",
        "product_precision 'float8', but box has no float8 matrix engine",
        "product_precision must be same, which computes in float16", {"product_precision": ProductPrecision.SAME},
    ),
}  # fmt: skip
"""Changes of LEGAL and of GROUPED that break exactly one rule: code, sentence, nearest legal values; what mends it."""


@pytest.fixture(name="machine")
def small_machine(system: System) -> System:
    """The small machine without 8-bit engines."""
    engines = {word: engine for word, engine in system.matrix.items() if word != "float8"}
    return replace(system, matrix=engines, vector=engines)


def test_legal(machine: System) -> None:
    assert violations(LEGAL, GROUPED, machine) == []


@pytest.mark.parametrize("case", BROKEN)
def test_exactly_one_rule(case: str, machine: System) -> None:
    changes, shape, code, sentence, nearest, mended = BROKEN[case]
    workload = replace(GROUPED, **shape)
    found = violations(replace(LEGAL, **_consistent(changes)), workload, machine)
    assert [(violation.code, violation.sentence, violation.nearest) for violation in found] == [
        (code, sentence, nearest)
    ]
    assert violations(replace(LEGAL, **_consistent({**changes, **mended})), workload, machine) == []


def test_every_rule_is_covered() -> None:
    added = RULES[len(PUBLISHED) :]
    assert RULES[: len(PUBLISHED)] == PUBLISHED
    assert {code for _, _, code, *_ in BROKEN.values()} | {"bad_enum"} == {rule.code for rule in added}


@pytest.mark.parametrize(
    "column",
    ["product_precision", "gradient_precision", "attention_kernel", "cp_exchange", "schedule", "placement"],
)
def test_unknown_words(column: str, machine: System) -> None:
    columns = dict(StrategyTable.from_strategies([LEGAL]))
    columns[column] = np.array([-1], dtype=np.int8)
    facts = Facts(StrategyTable(columns), [GROUPED], [machine])
    broken: list[Rule] = [rule for rule in RULES if rule.broken(facts)[0]]
    assert broken[0].code == "bad_enum"
    violation = explain(broken[0], facts, 0)
    assert violation.sentence == f"{column} is not a known word"
    assert violation.nearest == ", ".join(word.value for word in OPTION_COLUMNS[column])


def test_first_broken_over_columns(machine: System) -> None:
    # Rows of different workloads in one table.
    shapes = [replace(GROUPED, **shape) for _, shape, *_ in BROKEN.values()]
    strategies = [replace(LEGAL, **_consistent(changes)) for changes, *_ in BROKEN.values()]
    facts = Facts(StrategyTable.from_strategies(strategies), shapes, [machine], np.arange(len(shapes)))
    codes = [RULES[index].code for index in first_broken(facts)]
    assert codes == [code for _, _, code, *_ in BROKEN.values()]


def test_missing_columns_hold_their_defaults(machine: System) -> None:
    named = ("processors", "tp", "pp", "dp", "batch", "microbatch")
    plain = Strategy(processors=12, tp=2, pp=3, dp=2, batch=24, microbatch=1, pp_tier=1, dp_tier=1)
    table = StrategyTable.from_strategies([plain, replace(plain, batch=25)])
    few = {name: table[name] for name in (*named, "pp_tier", "dp_tier", "tp_tier")}
    assert first_broken(Facts(few, [GROUPED], [machine])).tolist() == [
        -1, [rule.code for rule in RULES].index("batch_dp"),
    ]  # fmt: skip


def test_columns_may_broadcast(machine: System) -> None:
    # As in a grid: degrees along one axis, schedules along another.
    table = StrategyTable.from_strategies([replace(LEGAL, **PLAIN, pp=pp, processors=8 * pp) for pp in (1, 2, 3)])
    columns = {name: values[None, :] for name, values in table.items()}
    columns["schedule"] = np.arange(len(Schedule))[:, None]
    found = first_broken(Facts(columns, [GROUPED], [machine]))
    codes = np.array(["", *(rule.code for rule in RULES)])[found + 1]
    expected = {
        Schedule.ONE_F_ONE_B: ["", "", ""],
        Schedule.GPIPE: ["schedule_pp1", "", ""],
        Schedule.ZB_1P: ["schedule_pp1", "", ""],
        Schedule.ZB_V: ["schedule_pp1", "", ""],
        Schedule.DUALPIPE: ["schedule_pp1", "", "dualpipe_stages"],
    }
    assert codes.tolist() == list(expected.values())


def test_replicas_of_context_parallelism_share_state(machine: System) -> None:
    alone = replace(LEGAL, dp=1, processors=12, batch=12, dp_overlap=True, shard_group=0, ep=2)
    assert violations(alone, GROUPED, machine) == []
    split = replace(alone, cp=1, processors=6, ep=1)
    assert [violation.code for violation in violations(split, GROUPED, machine)] == ["shard_dp1", "dp_overlap_dp1"]


def test_context_parallelism_counts_among_the_processors(machine: System) -> None:
    [violation] = violations(replace(LEGAL, processors=12), GROUPED, machine)
    assert violation.sentence == "tp 2 x pp 3 x dp 2 x cp 2 = 24 is not the number of processors, 12"
    assert violation.nearest == "with tp 2, pp 3 and cp 2, dp must be 1"


def test_sequence_parallelism_splits_what_context_parallelism_leaves(machine: System) -> None:
    # 6 tokens on each of 2 processors, or 3.
    wide = replace(LEGAL, tp_communication=TpCommunication.SEQUENCE_PARALLEL)
    assert violations(wide, replace(GROUPED, sequence_length=12), machine) == []
    [violation] = violations(wide, replace(GROUPED, sequence_length=6), machine)
    assert violation.sentence == (
        "3 tokens of a microbatch on each of 2 context-parallel processors are not a multiple of tp 2"
    )


def test_blocks_for_prediction_count(machine: System) -> None:
    # 12 + 1 + 2 blocks on 3 stages are 5 each; 12 + 3 + 1 + 2 are 6.
    strategy = replace(LEGAL, schedule=Schedule.ZB_V)
    assert [violation.code for violation in violations(strategy, GROUPED, machine)] == ["zb_v_chunks"]
    assert violations(strategy, replace(GROUPED, prediction_blocks=3), machine) == []


def test_the_plain_mlp_matters_only_where_there_is_one(machine: System) -> None:
    odd = replace(GROUPED, feedforward=127)
    assert violations(LEGAL, odd, machine) == []
    leading = replace(odd, experts=replace(GROUPED.experts, leading_dense_blocks=1))
    assert [violation.code for violation in violations(LEGAL, leading, machine)] == ["feedforward_split"]


def test_latent_attention_has_no_heads_of_keys_and_values(machine: System) -> None:
    latent = LatentAttention(query_rank=0, key_value_rank=16, rotary_size=4, value_size=8)
    exchanged = replace(LEGAL, cp_exchange=CpExchange.ALL_TO_ALL)
    odd = replace(GROUPED, key_value_heads=3)
    assert {violation.code for violation in violations(exchanged, odd, machine)} == {"kv_heads_tp", "kv_heads_cp"}
    assert violations(exchanged, replace(odd, latent_attention=latent), machine) == []


def test_as_many_key_and_value_heads_as_query_heads_are_reported_once(machine: System) -> None:
    even = replace(GROUPED, attention_heads=7, key_value_heads=None)
    assert [violation.code for violation in violations(LEGAL, even, machine)] == ["heads_split"]


PUBLISHED_COLUMNS = COLUMNS[: COLUMNS.index("dp_tier") + 1]
KINDS = {field.name: type(field.default) for field in fields(Strategy) if field.name in PUBLISHED_COLUMNS}


def _values(name: str) -> st.SearchStrategy[Any]:
    if issubclass(KINDS[name], Enum):
        return st.sampled_from(list(KINDS[name]))
    if KINDS[name] is bool:
        return st.booleans()
    return st.integers(-1, 2) if name.endswith("_tier") else st.sampled_from([0, 1, 2, 3, 4, 6, 12, 24])


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    columns=st.lists(
        st.fixed_dictionaries({name: _values(name) for name in PUBLISHED_COLUMNS}), min_size=1, max_size=8
    ),
    product=st.booleans(),
)
def test_nothing_changes_for_what_the_published_tool_knows(
    workload: Workload, system: System, columns: list[dict[str, Any]], product: bool
) -> None:
    strategies = [Strategy(**row) for row in columns]
    if product:
        strategies = [replace(row, processors=row.tp * row.pp * row.dp) for row in strategies]
    facts = Facts(StrategyTable.from_strategies(strategies), [workload], [system])
    np.testing.assert_array_equal(first_broken(facts), first_broken(facts, PUBLISHED))
    for strategy in strategies:
        assert violations(strategy, workload, system) == violations(strategy, workload, system, PUBLISHED)


def _consistent(changes: dict[str, Any]) -> dict[str, Any]:
    """Changes, and the number of processors where it follows."""
    degrees = {name: changes.get(name, getattr(LEGAL, name)) for name in ("tp", "pp", "dp", "cp")}
    return {"processors": int(np.prod(list(degrees.values()))), **changes}
