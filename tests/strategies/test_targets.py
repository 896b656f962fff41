"""Every rule of every target: what breaks it alone, and what mends that; and what holds of all targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from enum import Enum
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from target_cases import CASES, DENSE, EXPERTS, GATHERED, PLAIN, WITH_EXPERTS, ZERO2

from codesign_opt.errors import InputError, StrategyError
from codesign_opt.strategies import Placement, Schedule, Strategy, StrategyTable
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.legality import RULES, first_broken, violations
from codesign_opt.strategies.placement import DEGREES, default_tiers
from codesign_opt.strategies.targets import (
    TARGETS,
    check_target,
    find_target,
    rules_of,
    target_violations,
    with_defaults,
)
from codesign_opt.strategies.targets.megatron_lm import balanced_layout
from codesign_opt.systems import System


@pytest.fixture(name="roomy", scope="module")
def roomy_machine(system: System) -> System:
    """The small machine, on which everything finds a place."""
    small, large = system.network_tiers
    engines = {**system.matrix, "float32": system.matrix["float16"]}
    tiers = (replace(small, must_be_filled=False), large)
    return replace(system, network_tiers=tiers, matrix=engines, vector=engines)


@pytest.mark.parametrize("target", TARGETS)
def test_legal_everywhere(target: str, roomy: System) -> None:
    assert target_violations(PLAIN, DENSE, roomy, target) == []
    check_target(PLAIN, DENSE, roomy, target)


@pytest.mark.parametrize(("target", "case"), [(target, case) for target, cases in CASES.items() for case in cases])
def test_exactly_one_rule(target: str, case: str, roomy: System) -> None:
    changes, shape, code, said, mended = CASES[target][case]
    workload = replace(DENSE, **shape)
    strategy = changed(changes, roomy)
    assert violations(strategy, workload, roomy) == []
    [violation] = target_violations(strategy, workload, roomy, target)
    assert violation.code == code
    assert [words for words in said if words not in str(violation)] == []
    assert target_violations(changed({**changes, **mended}, roomy), workload, roomy, target) == []


@pytest.mark.parametrize("target", CASES)
def test_every_rule_is_covered(target: str) -> None:
    assert {code for _, _, code, *_ in CASES[target].values()} == {rule.code for rule in find_target(target).rules}


def test_every_target_but_none_says_for_which_version_it_was_written() -> None:
    assert {name for name, target in TARGETS.items() if not target.version} == {"free"}
    assert all(name == target.name for name, target in TARGETS.items())


def test_no_framework_adds_nothing(roomy: System) -> None:
    wild = changed({"schedule": Schedule.DUALPIPE, "weight_offload": True, **ZERO2}, roomy)
    assert target_violations(wild, DENSE, roomy, "free") == violations(wild, DENSE, roomy) == []
    assert rules_of("free") == RULES


def test_general_rules_come_first(roomy: System) -> None:
    strategy = replace(PLAIN, tp=3, processors=24, schedule=Schedule.GPIPE, **ZERO2)
    codes = [violation.code for violation in target_violations(strategy, DENSE, roomy, "deepspeed")]
    assert codes == [
        "hidden_split", "feedforward_split", "heads_split", "kv_heads_tp", "zero_pp", "zero_reduction",
        "schedule_unavailable",
    ]  # fmt: skip


def test_an_error_names_every_rule_on_a_line_of_its_own(roomy: System) -> None:
    strategy = replace(PLAIN, vpp=3, schedule=Schedule.ONE_F_ONE_B, **ZERO2)
    with pytest.raises(StrategyError) as caught:
        check_target(strategy, DENSE, roomy, "nanotron")
    assert caught.value.code == "zero_unavailable"
    first, *lines = caught.value.message.splitlines()
    assert first == "nanotron (main, 2026-09) refuses the strategy:"
    assert [line.partition("[")[2].partition("]")[0] for line in lines] == ["zero_unavailable", "vpp_unavailable"]


def test_an_unknown_target_is_named_with_the_nearest(roomy: System) -> None:
    for ask in (rules_of, find_target, lambda name: target_violations(PLAIN, DENSE, roomy, name)):
        with pytest.raises(InputError) as caught:
            ask("megatron")
        assert "'megatron' is not known" in caught.value.message
        assert "'megatron-lm'" in caught.value.hint


@pytest.mark.parametrize(
    ("blocks", "stages", "less", "sizes"),
    [
        (30, 4, (0, 0), [8, 8, 7, 7]),
        (46, 4, (0, 0), [12, 12, 11, 11]),
        (32, 4, (0, 0), [8, 8, 8, 8]),
        (61, 16, (1, 2), [3, *[4] * 14, 2]),
        (5, 4, (0, 1), [2, 2, 1, 0]),
    ],
)
def test_balanced_layout(blocks: int, stages: int, less: tuple[int, int], sizes: list[int]) -> None:
    layout = balanced_layout(blocks, stages, first_less=less[0], last_less=less[1])
    assert layout == sizes
    assert sum(layout) == blocks


def test_a_layout_makes_uneven_stages_legal(roomy: System) -> None:
    for changes in ({"pp": 5}, {"first_stage_less": 4}, {"vpp": 2, "first_stage_less": 1, "last_stage_less": 3}):
        strategy = changed(changes, roomy)
        assert len(target_violations(strategy, DENSE, roomy, "megatron-lm")) == 1
        assert target_violations(strategy, DENSE, roomy, "megatron-lm", layout=True) == []
        check_target(strategy, DENSE, roomy, "megatron-lm", layout=True)


def test_orders_that_come_to_the_same(roomy: System) -> None:
    # Without context parallelism its place does not matter; with it, it does.
    swapped = {"placement": Placement.TP_DP_CP_PP}
    assert target_violations(changed(swapped, roomy), DENSE, roomy, "torchtitan") == []
    split = changed({**swapped, **GATHERED, "dp": 2}, roomy)
    assert [v.code for v in target_violations(split, DENSE, roomy, "torchtitan")] == ["placement_unavailable"]


def test_experts_are_split_like_the_rest_in_megatron_lm() -> None:
    mixed = replace(DENSE, experts=EXPERTS)
    assert with_defaults({"tp": 4}, mixed, "megatron-lm") == {"tp": 4, "etp": 4}
    assert with_defaults({}, mixed, "megatron-lm") == {"etp": 1}
    assert with_defaults({"tp": 4, "etp": 2}, mixed, "megatron-lm") == {"tp": 4, "etp": 2}
    for target, workload in (("megatron-lm", DENSE), ("free", mixed), ("torchtitan", mixed)):
        assert with_defaults({"tp": 4}, workload, target) == {"tp": 4}


def _column_values(name: str, kind: Any) -> st.SearchStrategy[Any]:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    if kind is bool:
        return st.booleans()
    if name.endswith("_tier"):
        return st.integers(-1, 2)
    if name in ("first_stage_less", "last_stage_less", "recompute_blocks", "shard_group", "prefetch"):
        return st.integers(-1, 4)
    return st.sampled_from([0, 1, 2, 3, 4, 8])


KINDS = {field.name: type(getattr(PLAIN, field.name)) for field in fields(Strategy)}
ANY = st.builds(Strategy, **{name: _column_values(name, kind) for name, kind in KINDS.items()})
"""Strategies of any kind; few of them are legal."""

NEAR = st.builds(
    lambda changes: replace(PLAIN, **changes),
    st.fixed_dictionaries({}, optional={name: _column_values(name, kind) for name, kind in KINDS.items()}),
)
"""Strategies that differ from a legal one in some columns."""


@settings(max_examples=60, deadline=None)
@given(
    strategies=st.lists(st.one_of(ANY, NEAR), min_size=1, max_size=8),
    target=st.sampled_from(sorted(TARGETS)),
    shape=st.sampled_from([{}, WITH_EXPERTS, {"blocks": 5, "tied_embeddings": True, "prediction_blocks": 1}]),
    layout=st.booleans(),
)
def test_columns_and_single_strategies_agree(
    roomy: System, strategies: list[Strategy], target: str, shape: dict[str, Any], layout: bool
) -> None:
    workload, rules = replace(DENSE, **shape), rules_of(target)
    facts = Facts(StrategyTable.from_strategies(strategies), [workload], [roomy], layout=layout)
    broken = np.stack([np.broadcast_to(rule.broken(facts), (len(strategies),)) for rule in rules])
    first = first_broken(facts, rules)
    for row, strategy in enumerate(strategies):
        found = target_violations(strategy, workload, roomy, target, layout=layout)
        assert [violation.code for violation in found] == [rules[i].code for i in np.flatnonzero(broken[:, row])]
        assert first[row] == (np.flatnonzero(broken[:, row])[0] if found else -1)
        assert all("{" not in violation.sentence for violation in found)


@settings(max_examples=60, deadline=None)
@given(strategies=st.lists(NEAR, min_size=1, max_size=8))
def test_a_framework_never_allows_what_the_general_rules_forbid(roomy: System, strategies: list[Strategy]) -> None:
    facts = Facts(StrategyTable.from_strategies(strategies), [DENSE], [roomy])
    free = first_broken(facts) < 0
    for target in TARGETS:
        legal = first_broken(facts, rules_of(target)) < 0
        assert not np.any(legal & ~free)


def changed(changes: Mapping[str, Any], system: System) -> Strategy:
    """PLAIN with changes, the number of processors and the tiers that follow from them, unless they are given."""
    strategy = replace(PLAIN, **changes)
    degrees = {name: getattr(strategy, name) for name in DEGREES}
    processors = degrees["tp"] * degrees["pp"] * degrees["dp"] * degrees["cp"]
    tiers = default_tiers(strategy.placement, degrees, system)
    return replace(strategy, **{"processors": processors, **tiers, **changes})
