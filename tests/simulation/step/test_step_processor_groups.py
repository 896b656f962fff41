"""Which processors form the groups of a strategy, in the order of its parallel dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codesign_opt.errors import InputError
from codesign_opt.simulation.step import PLACEMENTS
from codesign_opt.simulation.step.processor_groups import default_placement, processor_groups
from codesign_opt.strategies import Placement, Strategy


def strategy(**changes: Any) -> Strategy:
    values: dict[str, Any] = {"tp": 4, "pp": 1, "dp": 2, "microbatch": 1, "batch": 8, **changes}
    return Strategy(processors=values["tp"] * values["pp"] * values["dp"], **values)


def test_processors_are_divided_into_groups() -> None:
    chosen = strategy(tp=2, dp=3, pp=4, batch=12)
    for placement in PLACEMENTS:
        groups = processor_groups(chosen, placement)
        for name in ("tp", "dp", "pp", "cp"):
            assert groups[name].shape == (24 // getattr(chosen, name), getattr(chosen, name))
            assert sorted(groups[name].ravel().tolist()) == list(range(24))
        # Groups of different dimensions have one processor in common, or none.
        first, second, third = groups["tp"], groups["dp"], groups["pp"]
        assert all(len(np.intersect1d(a, b)) <= 1 for a in first for b in (*second, *third))


def test_the_first_dimension_is_between_neighbours() -> None:
    groups = processor_groups(strategy(tp=2, dp=2, pp=2), "tp-dp-pp")
    assert groups["tp"].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert groups["dp"].tolist() == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert groups["pp"].tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]
    groups = processor_groups(strategy(tp=2, dp=2, pp=2), "pp-dp-tp")
    assert groups["pp"].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert groups["tp"].tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_groups_of_a_strategy_with_experts_and_context_parallelism() -> None:
    # 2 · 2 · 2 processors of a stage: pairs of tensor, context and data parallelism; two experts, each split in two.
    chosen = Strategy(
        processors=16, tp=2, cp=2, dp=2, pp=2, ep=2, etp=2, batch=4, microbatch=1, optimizer_sharding=True,
        shard_group=2,
    )  # fmt: skip
    groups = processor_groups(chosen, "tp-dp-pp")
    assert groups["cp"].tolist()[:2] == [[0, 2], [1, 3]]
    assert groups["dp"].tolist()[:2] == [[0, 4], [1, 5]]
    assert groups["pp"].tolist()[:2] == groups["ends"].tolist()[:2] == [[0, 8], [1, 9]]
    # The same weights are on four processors, whose state is split in pairs.
    assert groups["shards"].tolist()[:4] == [[0, 2], [4, 6], [1, 3], [5, 7]]
    assert groups["copies"].tolist()[:4] == [[0, 4], [2, 6], [1, 5], [3, 7]]
    assert groups["etp"].tolist()[:4] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert groups["ep"].tolist()[:4] == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert groups["expert_shards"].tolist()[:4] == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert groups["expert_copies"].tolist()[:4] == [[0], [4], [1], [5]]
    # Stages side by side leave those of one stage two apart.
    inner = processor_groups(chosen, "pp-dp-tp")
    assert inner["pp"].tolist()[0] == [0, 1]
    assert inner["etp"].tolist()[0] == [0, 2]


def test_the_order_of_a_strategy_is_the_default() -> None:
    assert default_placement(strategy()) == "tp-dp-pp"
    assert default_placement(strategy(placement=Placement.CP_TP_DP_PP)) == "cp-tp-dp-pp"
    assert {placement.value for placement in Placement} - {"tiers"} < set(PLACEMENTS)
    with pytest.raises(InputError, match="shard_group 4 does not divide the 6 processors"):
        processor_groups(strategy(tp=1, dp=6, batch=6, shard_group=4), "tp-dp-pp")
