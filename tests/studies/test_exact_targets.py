"""Spaces for a framework: what is left is exactly what its rules allow, one strategy at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codesign_opt.catalog import resolve_system
from codesign_opt.errors import InfeasibleError
from codesign_opt.strategies import CpExchange, Datatype, Placement, ProductPrecision, StrategyTable, TpOverlap
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.strategies.targets import TARGETS, target_violations
from codesign_opt.studies.exact import ExactQuestion, solve
from codesign_opt.studies.exact.stream import stream
from codesign_opt.workloads import Workload

WORKLOAD = Workload(
    name="small", hidden=512, feedforward=1536, sequence_length=1024, attention_heads=8, head_size=64, blocks=4,
    key_value_heads=4, gated_mlp=True, rotary=True, root_mean_square_norm=True, dropout=False, vocabulary=1000,
    attention_bias=False, attention_output_bias=False, mlp_bias=False, tied_embeddings=False,
)  # fmt: skip
LIMITS = {
    "microbatch": (1,),
    "tp_overlap": (TpOverlap.NONE, TpOverlap.RING),
    "cp_exchange": (CpExchange.RING, CpExchange.ALL_TO_ALL),
    "weight_offload": (False,),
    "activation_offload": (False,),
    "placement": (Placement.TP_CP_DP_PP,),
}
SYSTEM = resolve_system("h100-sxm")


def question(target: str) -> ExactQuestion:
    return ExactQuestion(
        workload=WORKLOAD,
        system=SYSTEM,
        processors=8,
        batch=16,
        datatype=Datatype.BFLOAT16,
        space=StrategySpace(limits=LIMITS, target=target),
        top=5,
    )


def strategies(asked: ExactQuestion) -> StrategyTable:
    tables = [
        StrategyTable({name: table[name] for name in table if name != "status"})
        for table in stream(asked, columns=["status", *StrategyTable.empty()], codes=True)
    ]
    result = tables[0]
    for table in tables[1:]:
        result = result.concatenated(table)
    return result


@pytest.mark.parametrize("target", sorted(set(TARGETS) - {"free"}))
def test_what_is_left_is_what_the_target_allows(target: str) -> None:
    of_target = strategies(question(target))
    assert of_target.rows
    allowed = {row for row in of_target.strategies() if not target_violations(row, WORKLOAD, SYSTEM, target)}
    assert len(allowed) == of_target.rows
    if not TARGETS[target].choices:
        everything = strategies(question("free")).strategies()
        chosen = np.random.default_rng(1).choice(len(everything), 300, replace=False)
        for row in (everything[number] for number in chosen):
            assert (row in allowed) == (not target_violations(row, WORKLOAD, SYSTEM, target))


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_the_answer_counts_what_the_target_refuses(target: str) -> None:
    answer = solve(question(target))
    assert answer.legal == strategies(question(target)).rows
    if not TARGETS[target].choices:
        assert answer.legal + answer.excluded.get("target", 0) == strategies(question("free")).rows
    assert not any(target_violations(row, WORKLOAD, SYSTEM, target) for row in answer.strategies.strategies())


def test_products_in_8_bits_need_an_engine() -> None:
    both = (ProductPrecision.SAME, ProductPrecision.FLOAT8)
    asked = question("free")
    space = replace(asked.space, limits={**LIMITS, "product_precision": both})
    without = replace(asked, system=resolve_system("a100-80g-sxm"))
    assert solve(replace(without, space=space)).legal == solve(without).legal
    assert solve(replace(asked, space=space)).legal == 2 * solve(asked).legal
    only = replace(space, limits={**LIMITS, "product_precision": both[1:]})
    with pytest.raises(InfeasibleError, match="a100-80g-sxm has no float8 engine"):
        solve(replace(without, space=only))
