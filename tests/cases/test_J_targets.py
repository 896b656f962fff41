"""Cases from practice, section J: what frameworks refuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from codesign_opt.interop.calculon import read_application, read_system
from codesign_opt.strategies import Strategy
from codesign_opt.strategies.shorthands import ZERO_STAGES
from codesign_opt.strategies.targets import target_violations

DATA = Path(__file__).parents[1] / "data" / "calculon"
A100 = read_system(DATA / "systems" / "a100_80g.json")
GPT3 = read_application(DATA / "models" / "gpt3-175B.json")


@pytest.mark.parametrize(("stage", "legal"), [(0, True), (1, True), (2, False), (3, False)])
def test_J1_zero_stages_with_pipelines_in_deepspeed(stage: int, legal: bool) -> None:
    strategy = Strategy(
        processors=8, tp=1, pp=2, dp=4, batch=32, microbatch=1, dp_tier=1, reduce_each_microbatch=stage >= 2,
        **ZERO_STAGES[stage],
    )  # fmt: skip
    assert target_violations(strategy, GPT3, A100, "free") == []
    found = target_violations(strategy, GPT3, A100, "deepspeed")
    if legal:
        assert found == []
    else:
        [violation] = found
        assert violation.code == "zero_pp"
        assert violation.sentence == (
            f"ZeRO stage {stage} with pp 2: DeepSpeed's pipeline engine takes stage 0 or 1 only"
        )
    without = replace(strategy, pp=1, dp=8)
    assert target_violations(without, GPT3, A100, "deepspeed") == []
