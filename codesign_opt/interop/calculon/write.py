"""Write the published tool's JSON. What it cannot hold (price, power, names) is left out."""

from __future__ import annotations

from typing import Any

from codesign_opt.interop.calculon.names import APPLICATION, COLLECTIVES, EXECUTION, WORDS
from codesign_opt.strategies import Strategy
from codesign_opt.systems import EfficiencyCurve, Engine, MemoryTier, NetworkTier, System
from codesign_opt.workloads import Workload


def write_application(workload: Workload) -> dict[str, Any]:
    """The application object of a workload."""
    return {theirs: getattr(workload, ours) for theirs, ours in APPLICATION.items()}


def write_execution(strategy: Strategy) -> dict[str, Any]:
    """The execution object of a strategy: exactly the 23 published keys."""
    result = {theirs: getattr(strategy, ours) for theirs, ours in EXECUTION.items()}
    for theirs, ours in EXECUTION.items():
        if ours in WORDS:
            result[theirs] = next(word for word, option in WORDS[ours].items() if option is result[theirs])
    return result


def write_system(system: System) -> dict[str, Any]:
    """The system object of a system."""
    return {
        "matrix": {datatype: _engine(engine) for datatype, engine in system.matrix.items()},
        "vector": {datatype: _engine(engine) for datatype, engine in system.vector.items()},
        "mem1": _memory(system.memory_tier1),
        "mem2": _memory(system.memory_tier2),
        "processing_mode": "roofline" if system.roofline else "no_overlap",
        "networks": [_network(network) for network in system.network_tiers],
    }


def _engine(engine: Engine) -> dict[str, Any]:
    return {"tflops": engine.peak / 1e12, "gflops_efficiency": _curve(engine.efficiency, 1e9)}


def _memory(memory: MemoryTier) -> dict[str, Any]:
    return {
        "GiB": memory.capacity / 1024**3,
        "GBps": memory.bandwidth / 1e9,
        "MB_efficiency": _curve(memory.efficiency, 1e6),
    }


def _curve(curve: EfficiencyCurve, scale: float) -> list[list[float]]:
    return [[size / scale, share] for size, share in zip(curve.thresholds, curve.efficiencies, strict=True)]


def _network(network: NetworkTier) -> dict[str, Any]:
    costs = {name: getattr(network, name) for name in COLLECTIVES}
    return {
        "bandwidth": network.bandwidth / 1e9,
        "efficiency": network.efficiency,
        "size": network.size,
        "latency": network.latency,
        "ops": {name: [cost.scalar, None if name == "p2p" else cost.offset] for name, cost in costs.items()},
        "must_be_filled": network.must_be_filled,
        "processor_usage": network.processor_usage,
    }
