"""Cases from practice, section C: expert parallelism."""

from __future__ import annotations

from dataclasses import replace

from codesign_opt.catalog import resolve_system
from codesign_opt.strategies import AttentionKernel, Datatype, Strategy, TpCommunication
from codesign_opt.strategies.files import strategy_from_dict
from codesign_opt.strategies.targets import TARGETS, target_violations, with_defaults
from codesign_opt.workloads import Workload
from codesign_opt.workloads.transformer import Experts

A100 = resolve_system("a100-80g-sxm", where="case")

MIXTURE = Workload(
    name="mixture",
    hidden=2048,
    feedforward=6144,
    sequence_length=4096,
    attention_heads=32,
    head_size=128,
    blocks=48,
    key_value_heads=4,
    gated_mlp=True,
    vocabulary=151936,
    tied_embeddings=False,
    experts=Experts(count=128, top_k=8, feedforward=768),
)
"""The shape of Qwen3-30B-A3B: 128 experts, of which a token visits 8."""

OPTIONS = {
    "datatype": "bfloat16", "attention_kernel": "flash", "tp_communication": "sequence_parallel", "gather_redo": True,
}  # fmt: skip


def megatron(**degrees: int) -> Strategy:
    """What Megatron-LM makes of the degrees that are said."""
    keys = {"batch": 16, **OPTIONS, **degrees}
    return strategy_from_dict(with_defaults(keys, MIXTURE, "megatron-lm"), A100, where="case")


def test_C1_expert_tensor_parallelism_left_unset() -> None:
    four = megatron(tp=2, ep=4, dp=2)
    assert (four.processors, four.etp) == (4, 2)
    [violation] = target_violations(four, MIXTURE, A100, "megatron-lm")
    assert violation.code == "expert_mesh"
    assert violation.sentence == ("etp 2 x ep 4 = 8 does not divide the 4 processors of a stage (tp 2 x cp 1 x dp 2)")
    assert violation.nearest == "with etp 2, ep may be 2, or etp smaller"
    assert target_violations(megatron(tp=2, ep=4, dp=2, etp=1), MIXTURE, A100, "megatron-lm") == []
    eight = megatron(tp=2, ep=4, dp=4)
    assert (eight.processors, eight.etp) == (8, 2)
    assert target_violations(eight, MIXTURE, A100, "megatron-lm") == []


def test_C3_expert_parallelism_divides_experts_and_shards() -> None:
    sharded = Strategy(
        processors=8, tp=2, pp=1, dp=4, ep=16, batch=16, microbatch=1, datatype=Datatype.BFLOAT16,
        attention_kernel=AttentionKernel.FLASH, tp_communication=TpCommunication.SEQUENCE_PARALLEL,
        optimizer_sharding=True, weight_sharding=True, tp_tier=0, dp_tier=0, ep_tier=1,
    )  # fmt: skip
    # Shards of 4, cp 1, tp 2: 8 processors, which 16 does not divide.
    for target in ("free", "torchtitan"):
        codes = [violation.code for violation in target_violations(sharded, MIXTURE, A100, target)]
        assert codes[0] == "expert_mesh"
    assert target_violations(replace(sharded, ep=8, ep_tier=0), MIXTURE, A100, "torchtitan") == []
    # 128 experts on 48: no, wherever it is run.
    wide = replace(sharded, ep=48, dp=24, processors=48, batch=48, dp_tier=1)
    for target in TARGETS:
        found = {violation.code: violation for violation in target_violations(wide, MIXTURE, A100, target)}
        assert found["experts_ep"].sentence == "128 experts are not a multiple of ep 48"
        assert found["experts_ep"].nearest == "ep may be 32 or 64"
    # With replicas of shards (HSDP), expert parallelism stays within the shards: 4 of 16, times tp 2.
    hybrid = replace(sharded, dp=16, processors=32, shard_group=4, batch=32, dp_tier=1)
    [violation] = target_violations(hybrid, MIXTURE, A100, "torchtitan")
    assert violation.code == "expert_shards"
    assert target_violations(replace(hybrid, ep=8), MIXTURE, A100, "torchtitan") == []
