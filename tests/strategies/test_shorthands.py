"""ZeRO stages and accumulation steps in place of other keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codesign_opt.errors import InputError
from codesign_opt.strategies.files import read_strategy, strategy_from_dict
from codesign_opt.strategies.shorthands import ZERO_STAGES, accumulated_batch, expanded_zero_stage
from codesign_opt.systems import System


@pytest.mark.parametrize(
    ("stage", "optimizer", "gradients", "weights"),
    [(0, False, True, False), (1, True, False, False), (2, True, True, False), (3, True, True, True)],
)
def test_zero_stages(stage: int, optimizer: bool, gradients: bool, weights: bool, system: System) -> None:
    strategy = strategy_from_dict({"batch": 8, "dp": 2, "zero_stage": stage}, system, where="test")
    split = (strategy.optimizer_sharding, strategy.gradient_sharding, strategy.weight_sharding)
    assert split == (optimizer, gradients, weights)
    assert expanded_zero_stage({"tp": 2, "zero_stage": stage}, where="test") == {"tp": 2, **ZERO_STAGES[stage]}


def test_keys_without_a_stage_stay(system: System) -> None:
    assert expanded_zero_stage({"optimizer_sharding": True}, where="test") == {"optimizer_sharding": True}


@pytest.mark.parametrize("stage", [4, -1, True, "2", 1.5, None])
def test_other_stages_are_refused(stage: Any, system: System) -> None:
    with pytest.raises(InputError) as caught:
        strategy_from_dict({"batch": 8, "zero_stage": stage}, system, where="s.toml")
    assert caught.value.message == f"s.toml: zero_stage: {stage!r} is not allowed"
    assert caught.value.hint == "a ZeRO stage is 0, 1, 2 or 3"


def test_a_stage_and_what_it_says_are_not_both_given(tmp_path: Path, system: System) -> None:
    path = tmp_path / "s.toml"
    path.write_text("batch = 8\nzero_stage = 2\nweight_sharding = true\n")
    with pytest.raises(InputError) as caught:
        read_strategy(path, system)
    assert caught.value.message.endswith("s.toml: zero_stage: 2 says what weight_sharding would be, which is given too")


def test_accumulation() -> None:
    assert accumulated_batch(microbatch=2, accumulation=3, dp=4) == 24
    assert accumulated_batch(microbatch=2, accumulation=3, dp=4, batch=24) == 24
    with pytest.raises(InputError, match="batch 25 is not microbatch 2 x accumulation 3 x dp 4 = 24"):
        accumulated_batch(microbatch=2, accumulation=3, dp=4, batch=25)
