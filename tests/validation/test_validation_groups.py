"""Groups of comparable runs, and the decisions of cases.md that they are for."""

from __future__ import annotations

import dataclasses

import pytest

from codesign_opt.validation import Group, MappedRun, comparable_groups


@pytest.fixture(scope="module")
def in_order(mapped: dict[str, MappedRun]) -> list[MappedRun]:
    return list(mapped.values())


@pytest.fixture(scope="module")
def groups(in_order: list[MappedRun]) -> list[Group]:
    return comparable_groups(in_order, minimum=15)


def test_members_differ_in_their_strategy_alone(in_order: list[MappedRun], groups: list[Group]) -> None:
    assert groups
    for group in groups:
        members = [in_order[row] for row in group.rows]
        for name in ("model", "hidden", "kv_heads", "processor", "processors", "sequence_length", "precision"):
            assert len({getattr(member.run, name) for member in members}) == 1
        assert len({member.strategy.batch for member in members}) == 1
        assert len({member.system.name for member in members}) == 1
        assert all(member.measured_seconds for member in members)


def test_large_groups(groups: list[Group]) -> None:
    assert [(group.label, len(group.rows)) for group in groups] == [
        ("nanotron_ultrascale: Llama-like 8.86G (32 layers), 32 H100, batch 256, 4096 tokens", 15),
        ("nanotron_ultrascale: Llama-like 80G (80 layers), 256 H100, batch 256, 4096 tokens", 19),
        ("nanotron_ultrascale: Llama-like 80G (80 layers), 128 H100, batch 256, 4096 tokens", 20),
        ("nanotron_ultrascale: Llama-like 80G (80 layers), 512 H100, batch 256, 4096 tokens", 16),
        ("vtrain_a100: GPT h3072 L30 (30 layers), 64 A100, batch 512, 2048 tokens", 26),
        ("vtrain_a100: GPT h6144 L40 (40 layers), 256 A100, batch 1024, 2048 tokens", 15),
        ("vtrain_a100: GPT h8192 L48 (48 layers), 512 A100, batch 1536, 2048 tokens", 47),
        ("vtrain_a100: GPT h12288 L96 (96 layers), 512 A100, batch 1536, 2048 tokens", 21),
        ("bigscience_v100: GPT 1.3B (24 layers), 8 V100, batch 512, 2048 tokens", 15),
    ]


@pytest.mark.parametrize(
    ("layers", "processors", "tp", "pp", "dp", "microbatch", "rate"),
    [
        # cases K5 and K6: the best measured configuration, which the sample of the sweep holds.
        (80, 256, 4, 16, 4, 1, 594),
        (28, 32, 1, 1, 32, 2, 15387),
    ],
)
def test_best_configurations_of_the_sweep(
    layers: int, processors: int, tp: int, pp: int, dp: int, microbatch: int, rate: int, in_order: list[MappedRun]
) -> None:
    (group,) = (
        group
        for group in comparable_groups(in_order, minimum=10)
        if f"({layers} layers), {processors} H100" in group.label and group.family == "nanotron_ultrascale"
    )
    best = min((in_order[row] for row in group.rows), key=lambda run: run.measured_seconds or 0.0)
    s = best.strategy
    assert (s.tp, s.pp, s.dp, s.microbatch, s.optimizer_sharding) == (tp, pp, dp, microbatch, True)
    assert best.run.rate == pytest.approx(rate, abs=0.5)
    wide = [run.run.rate for run in (in_order[row] for row in group.rows) if run.strategy.tp > 8]
    assert all(other < rate for other in wide if other)


def test_runs_without_a_time_and_lone_runs_are_in_no_group(in_order: list[MappedRun]) -> None:
    first = in_order[0]
    slower = dataclasses.replace(first, measured_seconds=2 * (first.measured_seconds or 1.0))
    failed = dataclasses.replace(first, measured_seconds=None, out_of_memory=True)
    lone = in_order[-1]
    (group,) = comparable_groups([failed, first, lone, slower])
    assert group.rows == (1, 3)
    assert comparable_groups([first, lone]) == []
    assert comparable_groups([]) == []
