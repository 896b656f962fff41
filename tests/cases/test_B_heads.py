"""Cases from practice, section B: heads that tensor parallelism splits, target by target."""

from __future__ import annotations

import numpy as np

from codesign_opt.catalog import resolve_system
from codesign_opt.strategies import AttentionKernel, Datatype, Strategy, StrategyTable
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.legality import first_broken
from codesign_opt.strategies.targets import TARGETS, rules_of, target_violations
from codesign_opt.workloads import Workload

A100 = resolve_system("a100-80g-sxm", where="case")

EIGHT = Strategy(
    processors=8, tp=8, pp=1, dp=1, batch=8, microbatch=1, datatype=Datatype.BFLOAT16,
    attention_kernel=AttentionKernel.FLASH,
)  # fmt: skip


def workload(*, heads: int, kv_heads: int | None) -> Workload:
    """A Llama-like block whose widths every degree here divides."""
    return Workload(
        name="heads",
        hidden=heads * 128,
        feedforward=heads * 512,
        sequence_length=4096,
        attention_heads=heads,
        head_size=128,
        blocks=32,
        key_value_heads=kv_heads,
        gated_mlp=True,
        vocabulary=128256,
        tied_embeddings=False,
    )


def test_B1_fewer_key_and_value_heads_than_tensor_parallelism() -> None:
    shape = workload(heads=32, kv_heads=4)
    verdicts = {target: [v.code for v in target_violations(EIGHT, shape, A100, target)] for target in TARGETS}
    assert verdicts == {
        "free": [],
        "megatron-lm": [],
        "torchtitan": ["kv_heads_whole"],
        "deepspeed": [],
        "nanotron": ["kv_heads_whole"],
    }
    [violation] = target_violations(EIGHT, shape, A100, "torchtitan")
    assert violation.sentence == "4 key and value heads are not a multiple of tp 8, as TorchTitan needs"
    assert violation.nearest == "tp may be 4"
    # Neither a multiple nor a divisor is legal nowhere.
    assert {target_violations(EIGHT, workload(heads=48, kv_heads=12), A100, target)[0].code for target in TARGETS} == {
        "kv_heads_tp"
    }


def test_B3_fifty_two_heads() -> None:
    shape = workload(heads=52, kv_heads=None)
    for target in TARGETS:
        [violation] = target_violations(EIGHT, shape, A100, target)
        assert violation.code == "heads_split"
        assert violation.sentence == "52 attention heads are not a multiple of tp 8"
        assert violation.nearest == "tp may be 4 or 13"
    degrees = np.arange(1, 105)
    columns = dict(StrategyTable.from_strategies([EIGHT] * len(degrees)))
    columns |= {"tp": degrees, "processors": degrees, "tp_tier": np.ones_like(degrees)}
    for target in TARGETS:
        legal = first_broken(Facts(StrategyTable(columns), [shape], [A100]), rules_of(target)) < 0
        assert degrees[legal].tolist() == [1, 2, 4, 13, 26, 52]
