"""Cases from practice that concern what the machines of the catalogue really have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codesign_opt import api
from codesign_opt.analytical import NONE
from codesign_opt.analytical.hardware import hardware_columns
from codesign_opt.catalog import resolve_system, resolve_workload, system_notes
from codesign_opt.strategies import Datatype, Strategy
from codesign_opt.systems import System
from codesign_opt.systems.parameters import with_parameters

GIB = 2**30


def test_E25_device_capacity_units() -> None:
    assert resolve_system("h100-sxm").memory_tier1.capacity == 81_559 * 2**20  # 79.65 GiB
    assert resolve_system("a100-80g-sxm").memory_tier1.capacity == 80 * GIB
    workload = replace(resolve_workload("gpt3-13b"), hidden=5120, feedforward=20480, blocks=99)
    plan = Strategy(processors=8, tp=8, pp=1, dp=1, batch=1, microbatch=1, datatype=Datatype.BFLOAT16)

    def status(system: System) -> str:
        row = api.estimate(workload, system, plan)
        assert row["memory_tier1_used"].item() / GIB == pytest.approx(79.8, abs=0.06)
        return str(row["status"].item())

    for form in ("h100-sxm", "h100-pcie"):
        assert status(resolve_system(form)) == "memory_tier1"
    for form in ("a100-80g-sxm", "a100-80g-pcie"):
        assert status(resolve_system(form)) == ""
    # "80 GB" read as decimal is 74.5 GiB: such an A100 would refuse what the real one runs.
    decimal = with_parameters(resolve_system("a100-80g-sxm"), {"memory_tier1.capacity": 80e9})
    assert status(decimal) == "memory_tier1"


def test_H1_nvlink_figures_count_both_directions() -> None:
    system = resolve_system("a100-80g-sxm")
    assert system.network_tiers[0].bandwidth == 300e9
    assert "600 GB/s in both directions together, 300 GB/s one way" in system_notes("a100-80g-sxm").source_of(
        "network_tiers.0.bandwidth"
    )
    # What NCCL's test prints for an all-reduce among 8: 2 · 7/8 of the bytes, by the time.
    assert 230e9 < all_reduce_bus_bandwidth(system) <= 240e9
    read_wrong = with_parameters(system, {"network_tiers.0.bandwidth": 600e9, "network_tiers.0.efficiency": 1.0})
    assert all_reduce_bus_bandwidth(read_wrong) / 240e9 == pytest.approx(2.5, rel=0.01)


def all_reduce_bus_bandwidth(system: System, size: float = 16 * GIB, participants: int = 8) -> float:
    one = np.zeros(1, dtype=np.int64)
    datatype = np.array([list(Datatype).index(Datatype.BFLOAT16)])
    hardware = hardware_columns([system], one, datatype, NONE)
    time = hardware.transfer_time(one, "all_reduce", np.array([size]), np.array([participants])).item()
    return float(2 * (participants - 1) / participants * size / time)
