"""What is fitted: dimensionless shares and SI numbers, each with its prior, its bounds and where they come from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Scale(Enum):
    """On which scale a parameter is fitted and its prior is a normal distribution.

    `logarithm` for sizes and times; `odds` for shares: the logarithm of share / (1 - share).
    """

    LOGARITHM = "logarithm"
    ODDS = "odds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A number that is fitted.

    Attributes:
        name: Word of files.
        meaning: What it is.
        unit: SI unit, "1" for a share.
        scale: On which it is fitted.
        prior: Its value without any measurement.
        spread: Standard deviation of the prior on the scale.
        between: Standard deviation, on the scale, of a generation of processors around all generations together.
        low, high: Bounds.
        source: Where the prior comes from.
    """

    name: str
    meaning: str
    unit: str
    scale: Scale
    prior: float
    spread: float
    between: float
    low: float
    high: float
    source: str

    def on_scale(self, value: float) -> float:
        """The value on the scale."""
        return math.log(value / (1 - value)) if self.scale is Scale.ODDS else math.log(value)

    def off_scale(self, value: float) -> float:
        """The value that lies at `value` on the scale."""
        return 1 / (1 + math.exp(-value)) if self.scale is Scale.ODDS else math.exp(value)


def _share(name: str, meaning: str, prior: float, spread: float, between: float, source: str) -> Parameter:
    return Parameter(
        name=name, meaning=meaning, unit="1", scale=Scale.ODDS, prior=prior, spread=spread, between=between,
        low=0.02, high=0.98, source=source,
    )  # fmt: skip


def _positive(
    name: str, meaning: str, unit: str, prior: float, spread: float, between: float, source: str
) -> Parameter:
    return Parameter(
        name=name, meaning=meaning, unit=unit, scale=Scale.LOGARITHM, prior=prior, spread=spread, between=between,
        low=prior / 50, high=prior * 50, source=source,
    )  # fmt: skip


_FLASH = "arXiv 2307.08691: FlashAttention-2 reaches up to 73 % of the peak of an A100 forward and 63 % backward"
_CUBLAS = "assumed: large products of vendors' libraries reach 70 to 85 % of the dense peak"
_COPY = "assumed: copies reach 85 to 95 % of the bandwidth of HBM"
_NCCL = "NVIDIA/nccl-tests: all-reduce of large messages reaches 80 % of NVLink and of InfiniBand"

PARAMETERS: tuple[Parameter, ...] = (
    _share("matrix_efficiency", "share of the matrix engine's 16-bit peak that very large products reach",
           0.75, 0.5, 0.35, _CUBLAS),
    _positive("matrix_half", "product of which the 16-bit matrix engine reaches half of that", "flop",
              6e9, 1.0, 0.5, "assumed: 25 us of an A100"),
    _share("eight_bit_efficiency", "share of the matrix engine's 8-bit peak that very large products reach",
           0.65, 0.5, 0.35, _CUBLAS),
    _positive("eight_bit_half", "product of which the 8-bit matrix engine reaches half of that", "flop",
              1e10, 1.0, 0.5, "assumed: that of 16 bits at twice the rate"),
    _share("attention_forward", "share of the peak that attention in one pass with very wide heads reaches forward",
           0.6, 0.4, 0.4, _FLASH),
    _share("attention_backward", "the same of its backward pass", 0.45, 0.4, 0.4, _FLASH),
    _positive("attention_half_head", "head size of which attention in one pass reaches half of that", "1",
              24.0, 0.2, 0.15, f"{_FLASH}; 10 to 15 % less with heads of 64 than of 128"),
    _share("vector_efficiency", "share of the vector engine's peak that large operations reach",
           0.8, 0.3, 0.2, "assumed"),
    _positive("vector_half", "operation of which the vector engine reaches half of that", "flop",
              1e7, 0.7, 0.3, "assumed: less than a microsecond"),
    _share("memory_efficiency", "share of the bandwidth of memory tier 1 that large accesses reach",
           0.85, 0.5, 0.3, _COPY),
    _positive("memory_half", "access of which memory tier 1 reaches half of that", "B",
              8e6, 0.7, 0.5, "assumed: 4 us of an A100, which is what starting a kernel takes"),
    _positive("launch", "host time for each operation of a pass", "s",
              5e-5, 0.7, 0.35, "assumed: some five kernels of 10 us for each operation of the model"),
    _share("node_efficiency", "share of the bandwidth inside a node that collectives reach",
           0.8, 0.5, 0.4, _NCCL),
    _positive("node_latency", "latency of a collective inside a node", "s",
              1.5e-5, 0.7, 0.4, "NVIDIA/nccl-tests: 10 to 20 us of small messages"),
    _positive("node_latency_per_member", "what each further member adds to it", "s",
              1e-6, 0.7, 0.4, "NVIDIA/nccl-tests"),
    _share("node_usage", "share of compute that an overlapped transfer inside a node takes",
           0.1, 0.7, 0.4, "Calculon's a100_80g (commit caa4b11): 0.15"),
    _share("network_efficiency", "share of the bandwidth between nodes that collectives reach",
           0.75, 0.5, 0.4, _NCCL),
    _positive("network_latency", "latency of a collective between nodes", "s",
              3e-5, 0.7, 0.4, "NVIDIA/nccl-tests: 20 to 40 us of small messages"),
    _positive("network_latency_per_member", "what each further member adds to it", "s",
              8e-6, 1.0, 0.4, "assumed: one hop of a ring between nodes"),
    _share("network_usage", "share of compute that an overlapped transfer between nodes takes",
           0.05, 0.7, 0.4, "Calculon's a100_80g (commit caa4b11): 0.02"),
)  # fmt: skip
"""The parameters of the time of a step, in the order of files."""

MEMORY_PARAMETERS: tuple[Parameter, ...] = (
    _positive("context", "what driver and libraries take", "B",
              1.0 * 2**30, 0.7, 0.4, "assumed: CUDA context and loaded kernels"),
    _positive("communication", "buffers of each parallel dimension in use", "B",
              0.4 * 2**30, 0.7, 0.4, "assumed: NCCL channels of a communicator"),
    _positive("workspace", "workspace of the matrix library", "B",
              32.0 * 2**20, 0.5, 0.3, "NVIDIA cuBLAS documentation: 32 MiB on Hopper"),
    _share("fragmentation", "share of activations that is lost between allocations",
           0.05, 0.8, 0.4, "assumed"),
)  # fmt: skip
"""The parameters of memory overheads."""


def priors(parameters: Sequence[Parameter] = PARAMETERS) -> dict[str, float]:
    """The value of every parameter before anything is measured."""
    return {parameter.name: parameter.prior for parameter in parameters}


def to_scale(values: Mapping[str, float], parameters: Sequence[Parameter]) -> Array:
    """The values on the parameters' scales."""
    return np.array([parameter.on_scale(values[parameter.name]) for parameter in parameters])


def from_scale(points: Array, parameters: Sequence[Parameter]) -> dict[str, float]:
    """The values that lie at some points on the parameters' scales."""
    return {parameter.name: parameter.off_scale(float(x)) for parameter, x in zip(parameters, points, strict=True)}
