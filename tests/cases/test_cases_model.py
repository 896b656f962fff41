"""Cases from practice that concern the model, the legality rules and the reader of foreign files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign_opt.analytical import ALL, NONE, Estimate, estimate
from codesign_opt.errors import InfeasibleError, InputError, StrategyError
from codesign_opt.interop.calculon import (
    evaluate,
    read_application,
    read_execution,
    read_system,
    write_execution,
)
from codesign_opt.strategies import Datatype, Recompute, Strategy, StrategyTable
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.legality import check, first_broken, violations
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

DATA = Path(__file__).parents[1] / "data" / "calculon"
GIB = 1024**3

A100 = read_system(DATA / "systems" / "a100_80g.json")
GPT3 = read_application(DATA / "models" / "gpt3-175B.json")
PUBLISHED = json.loads((DATA / "megatron_seqsel_configs.json").read_text())


def judge(strategy: Strategy, workload: Workload, *, reproduce: Any = NONE) -> Estimate:
    return estimate(workload, A100, StrategyTable.from_strategies([strategy]), reproduce=reproduce)


def published(figure: str, model: str, mode: str) -> tuple[Workload, dict[str, Any], System]:
    """Workload, execution and system of one number of the published table."""
    entry = PUBLISHED[f"{figure}/{model}_{mode}"]
    workload = read_application(DATA / "models" / f"{entry['app_name']}.json")
    return workload, entry["exe"], read_system(DATA / "systems" / f"{entry['sys']}.json")


def layouts_with(space: StrategySpace, workload: Workload, *, pp: int) -> np.ndarray:
    layouts = space.layouts(workload, processors=8, batch=8)
    return np.flatnonzero(layouts["pp"] == pp)


def test_A1_thirty_layers_on_four_stages() -> None:
    workload = replace(GPT3, blocks=30)
    # The even split does not exist: the space leaves it out, and says so where nothing else is asked for.
    assert len(layouts_with(StrategySpace(), workload, pp=4)) == 0
    with pytest.raises(InfeasibleError) as caught:
        StrategySpace(limits={"pp": (4,)}).grids(
            workload, processors=8, batch=8, datatype=Datatype.FLOAT16, tier_sizes=[8, 64], offload=True
        )
    assert "pp" in caught.value.hint
    # An uneven one is offered on request: stages of 8, 8, 7 and 7 layers, never 28 in all.
    assert len(layouts_with(StrategySpace(uneven_stages=True), workload, pp=4)) > 0
    strategy = Strategy(processors=8, tp=2, pp=4, dp=1, batch=8, microbatch=1)
    assert violations(strategy, workload, A100) == []
    counts = judge(strategy, workload).model.counts
    assert (counts.N.item(), counts.R.item()) == (8, 2)
    assert counts.N.item() * 4 - counts.R.item() == 30
    per_layer = (workload.parameters - replace(workload, blocks=0).parameters) / 30
    assert workload.parameters - replace(workload, blocks=28).parameters == pytest.approx(2 * per_layer)


def test_A5_fewer_microbatches_than_stages() -> None:
    strategy = Strategy(processors=4, tp=1, pp=4, dp=1, batch=2, microbatch=1)
    check(strategy, GPT3, A100)
    times = judge(strategy, GPT3).times
    # Without the optimizer, which is not part of the schedule: (p - 1) / (m + p - 1) = 3/5.
    assert (times.bubble / (times.total - times.optimizer)).item() == pytest.approx(3 / 5, rel=1e-12)
    for microbatches in (1, 2, 3, 4, 8):
        times = judge(replace(strategy, batch=microbatches), GPT3).times
        share = (times.bubble / (times.total - times.optimizer)).item()
        assert share == pytest.approx(3 / (microbatches + 3), rel=1e-12)


def test_B3_fifty_two_heads() -> None:
    workload = replace(GPT3, attention_heads=52, hidden=52 * 128, feedforward=52 * 512)
    strategy = Strategy(processors=8, tp=8, pp=1, dp=1, batch=8, microbatch=1)
    [violation] = violations(strategy, workload, A100)
    assert violation.code == "heads_split"
    assert violation.sentence == "52 attention heads are not a multiple of tp 8"
    assert violation.nearest == "tp may be 4 or 13"
    degrees = [replace(strategy, tp=tp, processors=tp, tp_tier=1) for tp in range(1, 105)]
    legal = first_broken(Facts(StrategyTable.from_strategies(degrees), [workload], [A100])) < 0
    assert (np.flatnonzero(legal) + 1).tolist() == [1, 2, 4, 13, 26, 52]
    layouts = StrategySpace().layouts(workload, processors=8 * 13, batch=104)
    assert set(layouts["tp"].tolist()) == {1, 2, 4, 13, 26, 52}


def test_D1_more_ranks_than_processors() -> None:
    strategy = Strategy(processors=8, tp=2, pp=1, dp=16, batch=16, microbatch=1, dp_tier=1)
    with pytest.raises(StrategyError) as caught:
        check(strategy, GPT3, A100)
    assert caught.value.code == "procs_product"
    assert caught.value.message == "tp 2 x pp 1 x dp 16 = 32 is not the number of processors, 8"


def test_D7_batch_identity() -> None:
    # 2048 sequences on 64 replicas in microbatches of 4 are 8 accumulation steps, and cannot be 7.
    strategy = Strategy(processors=64, tp=1, pp=1, dp=64, batch=2048, microbatch=4, dp_tier=1)
    check(strategy, GPT3, A100)
    assert judge(strategy, GPT3).model.counts.m.item() == 8
    seven = replace(strategy, batch=7 * 4 * 64)
    assert judge(seven, GPT3).model.counts.m.item() == 7
    [violation] = violations(replace(strategy, microbatch=5), GPT3, A100)
    assert violation.code == "batch_microbatch"
    assert violation.sentence == "batch 2048 / dp 64 = 32 is not a multiple of microbatch 5"
    assert violation.nearest == "microbatch may be 4 or 8"
    [violation] = violations(replace(strategy, batch=2047, microbatch=1), GPT3, A100)
    assert violation.sentence == "batch 2047 is not a multiple of dp 64"
    assert violation.nearest == "batch may be 1984 or 2048"


ACTIVATION_FACTORS = {
    "none": lambda t, score: 10 + 24 / t + score,
    "seq": lambda t, score: 34 / t + score,
    "sel": lambda t, score: 10 + 24 / t,
    "seqsel": lambda t, score: 34 / t,
}
"""Bytes an element of the residual stream by mode of recompute and sequence parallelism, arXiv 2205.05198."""


def closed_form_activations(workload: Workload, execution: dict[str, Any], mode: str) -> float:
    """Bytes of activations on the first stage by the paper's own formula."""
    t, p, v = (execution[key] for key in ("tensor_par", "pipeline_par", "pipeline_interleaving"))
    s, b, h = workload.sequence_length, execution["microbatch_size"], workload.hidden
    score = 5 * workload.attention_heads * s / (h * t)
    in_flight = 1 + (p - 1) / (p * v) if v > 1 else 1
    return s * b * h * ACTIVATION_FACTORS[mode](t, score) * workload.blocks * in_flight


def test_E3_activations_of_the_first_stage() -> None:
    expected = {"none": 66.84375, "seqsel": 12.3515625}
    for mode, gib in expected.items():
        workload, execution, _ = published("fig1", "gpt3-175B", mode)
        assert closed_form_activations(workload, execution, mode) / GIB == gib
    # The model says 66.94 and 12.69 GiB: the block at work holds its working activations instead of its stored ones.
    # Without that difference it is the closed form, to the last byte, for every model and mode of the paper.
    for key in PUBLISHED:
        figure, name = key.split("/")
        model, mode = name.rsplit("_", 1)
        if figure == "tab5" or mode == "full":
            continue
        workload, execution, system = published(figure, model, mode)
        table = StrategyTable.from_strategies([read_execution(execution)])
        found = estimate(workload, system, table)
        spaces = found.model.tables.spaces
        at_work = (spaces.wrk - spaces.sto).item()
        closed = closed_form_activations(workload, execution, mode)
        assert found.memory.all_activation.item() - at_work == pytest.approx(closed, rel=1e-12), key
        assert 0 < at_work < GIB


def test_E3_the_published_tool_drops_an_input_under_selective_recompute() -> None:
    # Erratum E13: 14.5 % too low for 175B. Everywhere else both versions of the model agree with the formula.
    workload, execution, system = published("fig7", "gpt3-175B", "sel")
    table = StrategyTable.from_strategies([read_execution(execution)])
    closed = closed_form_activations(workload, execution, "sel")
    tool = estimate(workload, system, table, reproduce=ALL).memory.all_activation.item()
    corrected = estimate(workload, system, table).memory.all_activation.item()
    assert 1 - tool / closed == pytest.approx(0.144, abs=0.002)
    assert corrected / closed - 1 == pytest.approx(0.0087, abs=0.0002)


@pytest.mark.parametrize("recompute", [Recompute.NONE, Recompute.FULL])
def test_E7_the_first_stage_decides(recompute: Recompute) -> None:
    # Stage r of 4 holds min(m, 4 - r) microbatches: 4:3:2:1 once there are 4. The estimate is that of the first stage.
    strategy = Strategy(processors=4, tp=1, pp=4, dp=1, batch=1, microbatch=1, recompute=recompute)
    one = judge(strategy, GPT3)
    held, spaces = [], one.model.tables.spaces
    for microbatches in range(1, 9):
        memory = judge(replace(strategy, batch=microbatches), GPT3).memory
        stored = memory.all_activation - spaces.wrk + spaces.sto + memory.all_checkpoint
        held.append(stored.item() / (one.model.counts.N * (spaces.sto + spaces.ckp)).item())
    assert held == pytest.approx([1, 2, 3, 4, 4, 4, 4, 4])
    # Feasibility goes by that stage: with a byte less than it needs, the strategy does not fit.
    need = judge(replace(strategy, batch=8), GPT3).memory.tier1.item()
    execution = write_execution(replace(strategy, batch=8))
    fitting = replace(A100, memory_tier1=replace(A100.memory_tier1, capacity=need))
    assert evaluate(GPT3, execution, fitting, NONE)["proc_mem_tier1_cap_req"] == need
    tight = replace(A100, memory_tier1=replace(A100.memory_tier1, capacity=need - 1))
    with pytest.raises(StrategyError) as caught:
        evaluate(GPT3, execution, tight, NONE)
    assert caught.value.code == "memory_tier1"


def test_J3_execution_has_exactly_23_keys() -> None:
    strategy = Strategy(processors=16, tp=2, pp=4, dp=2, vpp=3, batch=24, microbatch=3)
    exported = write_execution(strategy)
    assert list(exported) == [
        "num_procs", "tensor_par", "pipeline_par", "data_par", "tensor_par_net", "pipeline_par_net", "data_par_net",
        "batch_size", "microbatch_size", "datatype", "fused_activation", "attention_type", "activation_recompute",
        "pipeline_interleaving", "optimizer_sharding", "tensor_par_comm_type", "tensor_par_overlap",
        "seq_par_ag_redo", "data_par_overlap", "weight_offload", "activations_offload", "optimizer_offload",
        "training",
    ]  # fmt: skip
    assert len(exported) == 23
    assert read_execution(exported) == strategy
    for key in exported:
        with pytest.raises(InputError, match=f"missing key '{key}'"):
            read_execution({other: value for other, value in exported.items() if other != key})
    with pytest.raises(InputError, match="unknown key 'context_par'"):
        read_execution({**exported, "context_par": 1})


def iteration_times(model: str, *, reproduce: Any) -> dict[str, float]:
    """Seconds an iteration takes with full recompute, and with sequence parallelism and selective recompute."""
    result = {}
    for mode in ("full", "seqsel"):
        workload, execution, system = published("tab5", model, mode)
        found = evaluate(workload, execution, system, reproduce)["total_time"]
        assert found is not None
        result[mode] = found
    return result


MEASURED = {
    "megatron-22B": {"full": 1.42, "seqsel": 1.10},
    "gpt3-175B": {"full": 18.13, "seqsel": 13.75},
    "turing-530B": {"full": 49.05, "seqsel": 37.83},
    "megatron-1T": {"full": 94.42, "seqsel": 71.49},
}
"""Seconds, arXiv 2205.05198 table 5."""


def relative_errors(model: str, *, reproduce: Any) -> dict[str, float]:
    found = iteration_times(model, reproduce=reproduce)
    return {mode: found[mode] / seconds - 1 for mode, seconds in MEASURED[model].items()}


def test_K1_measured_iterations_of_22B_and_175B() -> None:
    expected = {  # errata reproduced, corrected
        ("megatron-22B", "full"): (-0.017, -0.021),
        ("megatron-22B", "seqsel"): (+0.033, +0.022),
        ("gpt3-175B", "full"): (-0.006, -0.020),
        ("gpt3-175B", "seqsel"): (-0.008, -0.035),
    }
    assert_errors(expected)
    # Measured, the second mode is 29 and 32 % faster. The model gives 23 % for 22B, whose two errors differ in sign.
    assert_speedups({"megatron-22B": 0.228, "gpt3-175B": 0.322})


def test_K2_measured_iterations_of_530B_and_1T() -> None:
    expected = {
        ("turing-530B", "full"): (+0.017, +0.008),
        ("turing-530B", "seqsel"): (-0.089, -0.104),
        ("megatron-1T", "full"): (-0.046, -0.055),
        ("megatron-1T", "seqsel"): (-0.076, -0.090),
    }
    # The corrected model charges less in all, and is then 10.4 % too fast for 530B.
    assert_errors(expected)
    # Measured: 30 and 32 %.
    assert_speedups({"turing-530B": 0.447, "megatron-1T": 0.364})


def assert_errors(expected: dict[tuple[str, str], tuple[float, float]]) -> None:
    for (model, mode), (reproduced, corrected) in expected.items():
        error = relative_errors(model, reproduce=ALL)[mode]
        assert abs(error) < 0.10
        assert error == pytest.approx(reproduced, abs=6e-4)
        assert relative_errors(model, reproduce=NONE)[mode] == pytest.approx(corrected, abs=6e-4)


def assert_speedups(expected: dict[str, float]) -> None:
    for model, speedup in expected.items():
        found = iteration_times(model, reproduce=ALL)
        assert found["full"] / found["seqsel"] - 1 == pytest.approx(speedup, abs=1e-3)
