"""Parameters that measurements need: fused attention, latency of members, launches. Off, they change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codesign_opt.analytical import estimate
from codesign_opt.analytical.errata import NONE
from codesign_opt.analytical.hardware import Hardware, hardware_columns
from codesign_opt.analytical.operation_list import operation_list
from codesign_opt.catalog import resolve_system, resolve_workload
from codesign_opt.strategies import AttentionKernel, Strategy, StrategyTable
from codesign_opt.systems import FusedAttention, System

SYSTEM = resolve_system("a100-80g-sxm")
WORKLOAD = resolve_workload("llama2-7b")
STRATEGY = Strategy(processors=8, tp=2, pp=1, dp=4, batch=8, microbatch=1, attention_kernel=AttentionKernel.FLASH)


def step(system: System) -> float:
    return float(estimate(WORKLOAD, system, StrategyTable.from_strategies([STRATEGY])).times.total[0])


def rows(system: System) -> dict[str, Mapping[str, Any]]:
    return {row["name"]: row for row in operation_list(WORKLOAD, system, STRATEGY).to_dicts()}


def hardware(system: System) -> Hardware:
    one = np.array([0])
    return hardware_columns([system], one, StrategyTable.from_strategies([STRATEGY])["datatype"], NONE)


def test_attention_in_one_pass_has_a_speed_of_its_own() -> None:
    fused = FusedAttention(forward_efficiency=0.6, backward_efficiency=0.4, half_head_size=32)
    before, after = rows(SYSTEM), rows(replace(SYSTEM, fused_attention=fused))
    peak = SYSTEM.matrix["float16"].peak
    # Heads of 128 reach 128 / (128 + 32) = 0.8 of the efficiency.
    for stage, efficiency in (("forward", 0.6), ("activation_gradient", 0.4)):
        flops = before["AttnBlock_Flash"][f"{stage}_flops"]
        seconds = flops / (peak * efficiency * 0.8)
        curve = SYSTEM.matrix["float16"].efficiency
        own = next(
            share for threshold, share in zip(curve.thresholds, curve.efficiencies, strict=True) if flops >= threshold
        )
        change = seconds - flops / (peak * own)
        found = after["AttnBlock_Flash"][f"base_{stage}_time"] - before["AttnBlock_Flash"][f"base_{stage}_time"]
        assert found == pytest.approx(change, rel=1e-9)
    others = [name for name in before if name != "AttnBlock_Flash"]
    assert {name: after[name] for name in others} == {name: before[name] for name in others}


def test_members_of_a_group_add_to_latency() -> None:
    tiers = tuple(replace(tier, latency_per_member=1e-6) for tier in SYSTEM.network_tiers)
    plain, members = hardware(SYSTEM), hardware(replace(SYSTEM, network_tiers=tiers))
    tier, q = np.array([1]), np.array([1e6])

    def added(collective: str, n: float) -> float:
        size = np.array([n])
        return float(
            (members.transfer_time(tier, collective, q, size) - plain.transfer_time(tier, collective, q, size))[0]
        )

    # A ring of 64 has 62 members beyond a pair; a tree has 5 more levels than one, up and down.
    assert added("all_gather", 64) == pytest.approx(62e-6)
    assert added("reduce_scatter", 64) == pytest.approx(62e-6)
    assert added("all_reduce", 64) == pytest.approx(10e-6)
    assert added("p2p", 2) == 0
    assert added("all_gather", 2) == 0


def test_a_pass_takes_at_least_the_launches_of_its_operations() -> None:
    before = rows(SYSTEM)
    forward = [
        row for row in before.values() if row["base_forward_time"] > 0 or row["base_forward_communication_time"] > 0
    ]
    slowest = max(row["base_forward_time"] for row in forward)
    after = rows(replace(SYSTEM, launch=10 * slowest))

    def total(listed: Mapping[str, Mapping[str, Any]], *names: str) -> float:
        return sum(row[name] for row in listed.values() for name in names)

    seconds = total(after, "base_forward_time", "base_forward_communication_exposed_time")
    assert seconds == pytest.approx(10 * slowest * len(forward), rel=1e-9)
    assert total(after, "base_activation_gradient_time") > total(before, "base_activation_gradient_time")
    assert total(after, "base_weight_gradient_time") == total(before, "base_weight_gradient_time")


def test_quick_launches_change_nothing() -> None:
    assert step(replace(SYSTEM, launch=1e-9)) == step(SYSTEM)
    assert step(replace(SYSTEM, launch=1e-3)) > 2 * step(SYSTEM)


def test_the_parts_of_a_step_that_launches_hold_up_add_up() -> None:
    times = estimate(WORKLOAD, replace(SYSTEM, launch=1e-3), StrategyTable.from_strategies([STRATEGY])).times
    names = [name for name in times.__dataclass_fields__ if name != "total"]
    assert sum(float(np.ravel(getattr(times, name))[0]) for name in names) == pytest.approx(
        float(times.total[0]), rel=1e-12
    )
