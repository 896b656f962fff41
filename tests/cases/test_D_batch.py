"""Cases from practice, section D: numbers of processors, sequences and microbatches that must fit each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from codesign_opt.catalog import resolve_system
from codesign_opt.errors import InputError, StrategyError
from codesign_opt.interop.calculon import read_application
from codesign_opt.strategies import AttentionKernel, Strategy
from codesign_opt.strategies.shorthands import accumulated_batch
from codesign_opt.strategies.targets import TARGETS, check_target, target_violations

DATA = Path(__file__).parents[1] / "data" / "calculon"
A100 = resolve_system("a100-80g-sxm", where="case")
GPT3 = read_application(DATA / "models" / "gpt3-175B.json")


@pytest.mark.parametrize("target", TARGETS)
def test_D1_more_ranks_than_processors(target: str) -> None:
    strategy = Strategy(processors=8, tp=2, pp=1, dp=16, batch=16, microbatch=1, dp_tier=1)
    first = target_violations(strategy, GPT3, A100, target)[0]
    assert first.code == "procs_product"
    assert first.sentence == "tp 2 x pp 1 x dp 16 = 32 is not the number of processors, 8"
    assert first.nearest == "with tp 2 and pp 1, dp must be 4"
    with pytest.raises(StrategyError, match="= 32 is not the number of processors, 8"):
        check_target(strategy, GPT3, A100, target)


def test_D5_context_parallelism_and_the_sequence() -> None:
    split = Strategy(
        processors=3, tp=1, pp=1, dp=1, cp=3, batch=8, microbatch=1, cp_tier=1, attention_kernel=AttentionKernel.FLASH
    )
    short = replace(GPT3, sequence_length=4096)
    found = target_violations(split, short, A100, "megatron-lm")
    assert [violation.code for violation in found] == ["sequence_cp", "sequence_2cp"]
    assert found[0].sentence == "sequence length 4096 is not a multiple of cp 3"
    assert found[1].sentence.startswith("sequence length 4096 is not a multiple of 2 x cp 3")
    assert found[1].nearest == "cp may be 2 or 4"
    four = replace(split, cp=4, processors=4)
    assert target_violations(four, replace(GPT3, sequence_length=8192), A100, "megatron-lm") == []
    # Balance is Megatron-LM's demand: elsewhere whole parts will do.
    halves = replace(GPT3, sequence_length=8196)
    assert target_violations(four, halves, A100, "free") == []
    assert [violation.code for violation in target_violations(four, halves, A100, "megatron-lm")] == ["sequence_2cp"]


def test_D7_batch_identity() -> None:
    assert accumulated_batch(microbatch=4, accumulation=8, dp=64, batch=2048) == 2048
    with pytest.raises(InputError) as caught:
        accumulated_batch(microbatch=4, accumulation=7, dp=64, batch=2048)
    assert caught.value.message == "accumulation: batch 2048 is not microbatch 4 x accumulation 7 x dp 64 = 1792"
    strategy = Strategy(processors=64, tp=1, pp=1, dp=64, batch=2048, microbatch=4, dp_tier=1)
    assert target_violations(strategy, GPT3, A100, "deepspeed") == []
    [violation] = target_violations(replace(strategy, microbatch=5), GPT3, A100, "deepspeed")
    assert violation.sentence == "batch 2048 / dp 64 = 32 is not a multiple of microbatch 5"
