"""A system with fitted parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from codesign_opt.systems import EfficiencyCurve, Engine, FusedAttention, MemoryOverheads, NetworkTier, System

_FLOP_STEPS = tuple(4.0**power for power in range(24, 9, -1))
"""Thresholds of curves over flop: 281 Tflop down to 1 Mflop."""

_BYTE_STEPS = tuple(4.0**power for power in range(17, 5, -1))
"""Thresholds of curves over bytes: 16 GiB down to 4 KiB."""

_LEAST = 1e-7
"""A curve's lowest efficiency; operations that small take as long as larger ones."""


def efficiency_curve(most: float, half: float, *, steps: tuple[float, ...]) -> EfficiencyCurve:
    """Efficiency most / (1 + half / size) in steps.

    An operation takes the time of `half` longer than at its rate alone. Each step has the efficiency at its geometric
    middle; operations just below a threshold are padded to it (`analytical.hardware.Curves`).
    """
    middles = np.array([*(2 * step for step in steps), steps[-1] / 2])
    efficiencies = np.clip(most / (1 + half / middles), _LEAST, 1.0)
    return EfficiencyCurve((*steps, 0.0), tuple(efficiencies.tolist()))


def calibrated_system(system: System, values: Mapping[str, float]) -> System:
    """The system with the parameters of `parameters.PARAMETERS`, and of `MEMORY_PARAMETERS` where they are there.

    The last network tier lies between nodes; all tiers before it are as fast as the inside of a node. A system with
    one tier has no network between nodes.
    """
    matrix = efficiency_curve(values["matrix_efficiency"], values["matrix_half"], steps=_FLOP_STEPS)
    eight_bit = efficiency_curve(values["eight_bit_efficiency"], values["eight_bit_half"], steps=_FLOP_STEPS)
    vector = efficiency_curve(values["vector_efficiency"], values["vector_half"], steps=_FLOP_STEPS)
    memory = efficiency_curve(values["memory_efficiency"], values["memory_half"], steps=_BYTE_STEPS)
    places = ["node"] * (len(system.network_tiers) - 1) + ["network"] if len(system.network_tiers) > 1 else ["node"]
    overheads = system.memory_overheads
    if "context" in values:
        overheads = MemoryOverheads(
            context=values["context"],
            communication=values["communication"],
            workspace=values["workspace"],
            fragmentation=values["fragmentation"],
        )
    return replace(
        system,
        matrix={
            word: _with_curve(engine, eight_bit if word == "float8" else matrix)
            for word, engine in system.matrix.items()
        },
        vector={word: _with_curve(engine, vector) for word, engine in system.vector.items()},
        memory_tier1=replace(system.memory_tier1, efficiency=memory),
        network_tiers=tuple(
            _network_tier(tier, place, values) for tier, place in zip(system.network_tiers, places, strict=True)
        ),
        fused_attention=FusedAttention(
            forward_efficiency=values["attention_forward"],
            backward_efficiency=values["attention_backward"],
            half_head_size=values["attention_half_head"],
        ),
        launch=values["launch"],
        memory_overheads=overheads,
    )


def _with_curve(engine: Engine, curve: EfficiencyCurve) -> Engine:
    return replace(engine, efficiency=curve)


def _network_tier(tier: NetworkTier, place: str, values: Mapping[str, float]) -> NetworkTier:
    return replace(
        tier,
        efficiency=values[f"{place}_efficiency"],
        latency=values[f"{place}_latency"],
        latency_per_member=values[f"{place}_latency_per_member"],
        processor_usage=values[f"{place}_usage"],
    )
