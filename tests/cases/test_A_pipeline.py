"""Cases from practice, section A: pipeline splits, judged for the frameworks that run them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign_opt.analytical import estimate
from codesign_opt.catalog import resolve_system
from codesign_opt.graphs.step.orders import pass_order, warm_up
from codesign_opt.interop.calculon import read_application
from codesign_opt.strategies import AttentionKernel, Datatype, Schedule, Strategy, StrategyTable
from codesign_opt.strategies.targets import target_violations
from codesign_opt.strategies.targets.megatron_lm import balanced_layout

DATA = Path(__file__).parents[1] / "data" / "calculon"
A100 = resolve_system("a100-80g-sxm", where="case")
GPT3 = read_application(DATA / "models" / "gpt3-175B.json")

FOUR_STAGES = Strategy(
    processors=4, tp=1, pp=4, dp=1, batch=8, microbatch=1, datatype=Datatype.BFLOAT16,
    attention_kernel=AttentionKernel.FLASH,
)  # fmt: skip


def codes(strategy: Strategy, blocks: int, target: str, *, layout: bool = False) -> list[str]:
    found = target_violations(strategy, replace(GPT3, blocks=blocks), A100, target, layout=layout)
    return [violation.code for violation in found]


def test_A1_thirty_layers_on_four_stages() -> None:
    [violation] = target_violations(FOUR_STAGES, replace(GPT3, blocks=30), A100, "megatron-lm")
    assert violation.code == "layers_pp"
    assert "30 blocks" in violation.sentence
    assert "not a multiple of pp 4" in violation.sentence
    # Even splits next to 4, or one that has all 30 layers.
    assert violation.nearest == "pp may be 3 or 5; or give a layout, such as 8,8,7,7"
    assert sum(balanced_layout(30, 4)) == 30
    assert codes(FOUR_STAGES, 30, "megatron-lm", layout=True) == []
    assert codes(replace(FOUR_STAGES, pp=3, processors=3, pp_tier=1), 30, "megatron-lm") == []
    # Frameworks that balance stages themselves take it as it is.
    for target in ("free", "torchtitan", "deepspeed", "nanotron"):
        assert codes(FOUR_STAGES, 30, target) == []


def test_A3_forty_six_layers_on_four_stages() -> None:
    assert codes(FOUR_STAGES, 46, "megatron-lm") == ["layers_pp"]
    assert codes(FOUR_STAGES, 46, "megatron-lm", layout=True) == []
    assert balanced_layout(46, 4) == [12, 12, 11, 11]
    # Explicit counts of the first and the last stage: 11 + 12 + 12 + 11.
    ends = replace(FOUR_STAGES, first_stage_less=1, last_stage_less=1)
    assert codes(ends, 46, "megatron-lm") == []
    assert balanced_layout(46, 4, first_less=1, last_less=1) == [11, 12, 12, 11]
    # The fullest stage sets the pace: forward passes take 12/11 of what they take with 11 layers on every stage.
    table = StrategyTable.from_strategies([FOUR_STAGES])
    uneven, even = (estimate(replace(GPT3, blocks=blocks), A100, table) for blocks in (46, 44))
    assert (uneven.model.counts.N.item(), even.model.counts.N.item()) == (12, 11)
    assert (uneven.times.forward / even.times.forward).item() == pytest.approx(12 / 11, rel=1e-12)


def test_A5_fewer_microbatches_than_stages() -> None:
    strategy = replace(FOUR_STAGES, batch=2)
    allowed = {target: codes(strategy, 96, target) for target in ("free", "megatron-lm", "deepspeed")}
    assert allowed == {target: [] for target in allowed}
    [titan] = target_violations(strategy, GPT3, A100, "torchtitan")
    assert titan.code == "microbatches_pp"
    assert titan.sentence == "2 microbatches are fewer than the stages of pp 4, which 1F1B in TorchTitan refuses"
    [nano] = target_violations(strategy, GPT3, A100, "nanotron")
    assert nano.sentence == "2 microbatches are fewer than pp 4 - 1, which 1F1B in Nanotron refuses"
    # All forward passes first need no warm-up.
    for target in ("torchtitan", "nanotron"):
        assert codes(replace(strategy, schedule=Schedule.GPIPE), 96, target) == []
    # Interleaving needs a whole group of microbatches.
    assert codes(replace(strategy, vpp=2), 96, "megatron-lm") == ["microbatch_group"]
    assert codes(replace(strategy, vpp=2, batch=4), 96, "megatron-lm") == []
    times = estimate(GPT3, A100, StrategyTable.from_strategies([strategy])).times
    assert (times.bubble / (times.total - times.optimizer)).item() == pytest.approx(3 / 5, rel=1e-12)


def test_A8_warm_up_of_the_interleaved_schedule() -> None:
    stages, chunks, microbatches = 4, 2, 8
    settings = {"stages": stages, "chunks": chunks, "microbatches": microbatches}
    counts = [warm_up("interleaved", stage=stage, **settings) for stage in range(stages)]
    assert counts == [10, 8, 6, 4]
    assert counts == [2 * (stages - stage - 1) + (chunks - 1) * stages for stage in range(stages)]
    # So many chunks are in flight when forward and backward passes begin to take turns, a forward pass first.
    for stage, count in enumerate(counts):
        order = pass_order("interleaved", stage=stage, **settings)
        first = int(np.argmax(order.backward))
        assert first - 1 == count
        assert order.backward[first - 1 : first + 3].tolist() == [False, True, False, True]
