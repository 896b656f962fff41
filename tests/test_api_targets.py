"""Estimates for a framework, from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import codesign_opt
from codesign_opt.errors import InputError, StrategyError
from codesign_opt.strategies import Strategy

KEYS = {"tp": 8, "pp": 8, "dp": 8, "batch": 512, "recompute": "full", "datatype": "bfloat16"}


def test_a_target_adds_its_rules() -> None:
    sharded = {**KEYS, "zero_stage": 2}
    free = codesign_opt.estimate("gpt3-175b", "h100-sxm", sharded)
    assert free["status"][0] == ""
    assert codesign_opt.estimate("gpt3-175b", "h100-sxm", {**KEYS, "zero_stage": 1}, target="megatron-lm").rows == 1
    with pytest.raises(StrategyError) as caught:
        codesign_opt.estimate("gpt3-175b", "h100-sxm", sharded, target="megatron-lm")
    assert caught.value.code == "zero_pp"
    assert "use ZeRO stage 1" in caught.value.message


def test_of_several_strategies_each_has_its_status() -> None:
    even = Strategy(processors=48, tp=8, pp=6, dp=1, batch=6, microbatch=1, pp_tier=1)
    uneven = Strategy(processors=56, tp=8, pp=7, dp=1, batch=7, microbatch=1, pp_tier=1)
    wrong = Strategy(processors=56, tp=8, pp=7, dp=2, batch=7, microbatch=1, pp_tier=1)
    both = [even, uneven, wrong]
    found = codesign_opt.estimate("megatron-22b", "a100-80g", both, target="megatron-lm")
    # 48 blocks are 8 on each of 6 stages, but 6 or 7 on each of 7, which only a layout says.
    assert found["status"].tolist() == ["", "layers_pp", "procs_product"]
    told = codesign_opt.estimate("megatron-22b", "a100-80g", both, target="megatron-lm", layout=True)
    assert told["status"].tolist() == ["", "", "procs_product"]
    assert codesign_opt.estimate("megatron-22b", "a100-80g", both)["status"].tolist() == ["", "", "procs_product"]


def test_files_and_dicts_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('tp = 8\npp = 8\ndp = 8\nbatch = 512\nrecompute = "full"\ndatatype = "bfloat16"\nzero_stage = 1\n')
    read, said = (
        codesign_opt.estimate("gpt3-175b", "h100-sxm", given, target="megatron-lm").row(0)
        for given in (path, {**KEYS, "zero_stage": 1})
    )
    assert read == said


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(InputError, match="'megatron' is not known"):
        codesign_opt.estimate("gpt3-175b", "h100-sxm", KEYS, target="megatron")
