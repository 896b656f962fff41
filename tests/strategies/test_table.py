"""Strategies as columns and back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign_opt.strategies import Attention, Datatype, Recompute, Strategy, StrategyTable, TpCommunication, TpOverlap
from codesign_opt.strategies.table import COLUMNS, FLAG_COLUMNS, OPTION_COLUMNS

COUNTS = st.integers(-(2**62), 2**62)
VALUES = {
    name: st.sampled_from(OPTION_COLUMNS[name])
    if name in OPTION_COLUMNS
    else st.booleans()
    if name in FLAG_COLUMNS
    else COUNTS
    for name in COLUMNS
}
STRATEGIES = st.builds(Strategy, **VALUES)

ONE = Strategy(processors=8, tp=2, pp=2, dp=2, batch=8, microbatch=1)
OTHER = Strategy(
    processors=64,
    tp=4,
    pp=8,
    dp=2,
    vpp=2,
    batch=32,
    microbatch=4,
    datatype=Datatype.BFLOAT16,
    fused_activation=False,
    attention=Attention.MULTIQUERY,
    recompute=Recompute.FULL,
    tp_communication=TpCommunication.SEQUENCE_PARALLEL,
    tp_overlap=TpOverlap.PIPE,
    weight_offload=True,
    training=True,
    dp_tier=1,
)


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(STRATEGIES, max_size=4))
def test_round_trip(rows: list[Strategy]) -> None:
    table = StrategyTable.from_strategies(rows)
    assert table.rows == len(rows)
    assert table.strategies() == rows


def test_columns_are_those_of_a_strategy() -> None:
    table = StrategyTable.from_strategies([ONE, OTHER])
    assert list(table) == [field.name for field in fields(Strategy)]
    assert len(table) == len(COLUMNS) == 43
    assert table["tp"].tolist() == [2, 4]


def test_types() -> None:
    table = StrategyTable.from_strategies([ONE, OTHER])
    for name, values in table.items():
        expected: Any = np.int8 if name in OPTION_COLUMNS else np.bool_ if name in FLAG_COLUMNS else np.int64
        assert values.dtype == expected, name


def test_one_row_is_a_strategy_of_plain_values() -> None:
    strategy = StrategyTable.from_strategies([ONE, OTHER]).strategy(1)
    assert strategy == OTHER
    assert type(strategy.tp) is int
    assert type(strategy.training) is bool
    assert strategy.recompute is Recompute.FULL


def test_words() -> None:
    words = StrategyTable.from_strategies([ONE, OTHER]).words()
    assert list(words) == list(COLUMNS)
    assert words["recompute"].tolist() == ["none", "full"]
    assert words["tp_communication"].tolist() == ["all_reduce", "sequence_parallel"]
    assert words["tp_overlap"].tolist() == ["none", "pipe"]
    assert words["datatype"].tolist() == ["float16", "bfloat16"]
    assert words["attention"].tolist() == ["multihead", "multiquery"]
    assert words["dp_tier"].tolist() == [0, 1]


def test_words_may_stand_for_options() -> None:
    by_word = StrategyTable.from_strategies([Strategy(**{**_values(OTHER), "recompute": "full"})])
    assert by_word.strategy(0) == OTHER


@pytest.mark.parametrize("index", [[1], [1, 0, 1], np.array([False, True]), slice(None, None, -1)])
def test_take(index: Any) -> None:
    rows = [ONE, OTHER]
    expected = [rows[i] for i in np.arange(2)[index]]
    assert StrategyTable.from_strategies(rows).take(index).strategies() == expected


def test_concatenated_and_empty() -> None:
    one, other = StrategyTable.from_strategies([ONE]), StrategyTable.from_strategies([OTHER])
    assert one.concatenated(other).strategies() == [ONE, OTHER]
    assert StrategyTable.empty().rows == 0
    assert StrategyTable.empty().concatenated(other).strategies() == [OTHER]
    assert one.concatenated(StrategyTable.empty())["recompute"].dtype == np.int8


def test_missing_columns() -> None:
    columns = dict(StrategyTable.from_strategies([ONE]))
    del columns["pp"], columns["batch"]
    with pytest.raises(ValueError, match="missing columns: pp, batch"):
        StrategyTable(columns)


def test_columns_that_are_not_given_hold_the_default() -> None:
    table = StrategyTable.from_strategies([OTHER])
    columns = {name: values for name, values in table.items() if name not in ("schedule", "prefetch", "cp")}
    assert StrategyTable(columns).strategies() == [OTHER]


@pytest.mark.parametrize("values", [[1, 2], [[1]], 1])
def test_columns_of_other_shapes(values: Any) -> None:
    columns = {**StrategyTable.from_strategies([ONE]), "pp": values}
    with pytest.raises(ValueError, match="one-dimensional and of equal length"):
        StrategyTable(columns)


def _values(strategy: Strategy) -> dict[str, Any]:
    return {name: getattr(strategy, name) for name in COLUMNS}
