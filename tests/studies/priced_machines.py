"""Small studies of priced machines on which every part of the hardware matters."""

from __future__ import annotations

from random import Random
from typing import Any

from codesign_opt.studies.specification import StudySpecification, study_from_dict

MEMORY, NETWORK, PEAK = "memory_tier1.bandwidth", "network_tiers.1.bandwidth", "matrix.float16.peak"
CAPACITY, SIZE, LATENCY = "memory_tier1.capacity", "network_tiers.0.size", "network_tiers.1.latency"

RANGES: dict[str, Any] = {
    MEMORY: {"low": "50 MB/s", "high": "400 MB/s", "scale": "log"},
    NETWORK: {"low": "2 MB/s", "high": "40 MB/s"},
    PEAK: {"low": "100 Mflop/s", "high": "800 Mflop/s", "scale": "log"},
}
CHOICES: dict[str, Any] = {
    MEMORY: {"choices": ["50 MB/s", "200 MB/s"]},
    NETWORK: {"choices": ["2 MB/s", "10 MB/s"]},
    PEAK: {"choices": ["100 Mflop/s", "250 Mflop/s"]},
}
PRICES: dict[str, Any] = {
    MEMORY: [["50 MB/s", "0 $"], ["100 MB/s", "900 $"], ["400 MB/s", "2500 $"]],
    NETWORK: [["2 MB/s", "100 $"], ["10 MB/s", "300 $"], ["40 MB/s", "2000 $"]],
    PEAK: [["100 Mflop/s", "0 $"], ["800 Mflop/s", "4000 $"]],
}

_ONE_BYTE_A_BYTE = {"scalar": 1.0, "offset": 0.0}
_COLLECTIVES = dict.fromkeys(("p2p", "reduce_scatter", "all_gather", "all_reduce"), _ONE_BYTE_A_BYTE)


def study(
    free: dict[str, Any] | None = None, *, prices: dict[str, Any] | None = None, **changes: Any
) -> StudySpecification:
    """A study of four blocks on four processors; keyword arguments replace keys of its file."""
    return study_from_dict(
        {
            "name": "priced",
            "workload": {
                "name": "four-blocks", "hidden": 32, "feedforward": 128, "sequence_length": 16, "attention_heads": 4,
                "head_size": 8, "blocks": 4,
            },
            "system": {
                "name": "priced",
                "processing": "no_overlap",
                "matrix": {"float16": {"peak": "200 Mflop/s", "efficiency": [["100 kflop", 0.9], ["0 flop", 0.4]]}},
                "vector": {"float16": {"peak": "100 Mflop/s", "efficiency": [["0 flop", 0.8]]}},
                "memory_tier1": {
                    "capacity": "1 MB", "bandwidth": "200 MB/s", "efficiency": [["10 kB", 0.9], ["0 B", 0.5]],
                },
                "memory_tier2": {"capacity": "0 B", "bandwidth": "10 MB/s", "efficiency": [["0 B", 0.9]]},
                "network_tiers": [
                    {
                        "bandwidth": "50 MB/s", "efficiency": 0.9, "size": 2, "must_be_filled": True,
                        "latency": "10 us", "processor_usage": 0.1, "collectives": _COLLECTIVES,
                    },
                    {
                        "bandwidth": "10 MB/s", "efficiency": 0.8, "size": 64, "latency": "50 us",
                        "processor_usage": 0.05, "collectives": _COLLECTIVES,
                    },
                ],
                "price": {"processor": "1500 $", "parameters": PRICES if prices is None else prices},
                "free": RANGES if free is None else free,
            },
            "processors": 4,
            "batch": 8,
            "strategies": {
                "tp_overlap": "none", "tp_communication": "all_reduce", "gather_redo": False, "microbatch": [1, 2],
                "recompute": ["none", "full"], "vpp": 1, "weight_offload": False, "activation_offload": False,
                "optimizer_offload": False,
            },
            "objectives": "cost_per_million_tokens",
            "top_k": 1,
            **changes,
        },
        where="priced.toml",
    )  # fmt: skip


def random_study(seed: int, *, choices: bool, objective: str = "cost_per_million_tokens") -> StudySpecification:
    """A study with other ranges, or choices, and with prices that rise and fall."""
    rng = Random(seed)
    free: dict[str, Any] = {}
    prices: dict[str, Any] = {}
    for path, unit, smallest in ((MEMORY, "MB/s", 20.0), (NETWORK, "MB/s", 1.0), (PEAK, "Mflop/s", 50.0)):
        low = smallest * rng.uniform(1, 4)
        middle, high = low * rng.uniform(1.5, 3), low * rng.uniform(3, 6)
        values = [f"{value} {unit}" for value in (low, middle, high)]
        free[path] = {"choices": values[::2]} if choices else {"low": values[0], "high": values[-1]}
        prices[path] = [[value, f"{rng.uniform(0, 3000)} $"] for value in values]
    return study(free, prices=prices, objectives=objective)
