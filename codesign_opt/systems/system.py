"""The machine: processors, memory tiers and network tiers, all in SI units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from codesign_opt.systems.curve import EfficiencyCurve
from codesign_opt.systems.power import Power
from codesign_opt.systems.price import Price


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One arithmetic engine at one datatype: `peak` flop/s and its efficiency over operation size in flop."""

    peak: float
    efficiency: EfficiencyCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTier:
    """One tier of memory: `capacity` bytes, `bandwidth` bytes/s, efficiency over access size in bytes."""

    capacity: float
    bandwidth: float
    efficiency: EfficiencyCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveCost:
    """Bytes on the wire for q bytes among n participants: q · scalar · (1 + offset / n)."""

    scalar: float
    offset: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTier:
    """One tier of the network.

    Attributes:
        bandwidth: Bytes/s, one way.
        efficiency: Achievable share of it, 0 < efficiency ≤ 1.
        size: Participants that the tier connects.
        must_be_filled: Whether groups on this tier must divide `size`.
        latency: Seconds per operation.
        processor_usage: Share of compute taken by a transfer that overlaps with it, 0 ≤ share < 1.
        latency_per_member: Seconds that each further member of a group adds to `latency`: a ring passes all of them, a
            tree of an all-reduce twice their binary logarithm.
        p2p, reduce_scatter, all_gather, all_reduce: Wire bytes of each operation.
    """

    bandwidth: float
    efficiency: float
    size: int
    must_be_filled: bool
    latency: float
    processor_usage: float
    p2p: CollectiveCost
    reduce_scatter: CollectiveCost
    all_gather: CollectiveCost
    all_reduce: CollectiveCost
    latency_per_member: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedAttention:
    """How fast attention in one pass (`flash`) is on the matrix engine.

    Attributes:
        forward_efficiency, backward_efficiency: Share of the engine's peak that very wide heads reach.
        half_head_size: Head size at which it is half of that: exponentials and sums take as long as the products.
    """

    forward_efficiency: float
    backward_efficiency: float
    half_head_size: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOverheads:
    """What frameworks take of memory tier 1 besides what a step holds.

    Attributes:
        context: Bytes of the driver's and the libraries' context.
        communication: Bytes of the buffers of each parallel dimension in use.
        workspace: Bytes of workspace of the matrix library.
        fragmentation: Share of activations and their gradients that is lost between allocations.
    """

    context: float = 0.0
    communication: float = 0.0
    workspace: float = 0.0
    fragmentation: float = 0.0

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return (self.context, self.communication, self.workspace, self.fragmentation) != (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A machine.

    Attributes:
        name: What reports call it.
        matrix, vector: Datatype word (`float16`, …) to engine.
        memory_tier1: The processor's own memory.
        memory_tier2: The memory that offloading uses; capacity 0 where there is none.
        roofline: Whether compute and memory time of one operation overlap (maximum) or add up.
        network_tiers: Fastest first.
        price: What a processor and its memory cost, or None.
        power: What a processor draws, or None.
        memory_overheads: What frameworks take of memory tier 1.
        fused_attention: Speed of attention in one pass; None where it is that of any product.
        launch: Seconds that the host takes to start one operation: a pass of a block cannot be faster than starting
            its operations one after another.
    """

    name: str
    matrix: Mapping[str, Engine]
    vector: Mapping[str, Engine]
    memory_tier1: MemoryTier
    memory_tier2: MemoryTier
    roofline: bool
    network_tiers: tuple[NetworkTier, ...]
    price: Price | None = field(default=None)
    power: Power | None = field(default=None)
    memory_overheads: MemoryOverheads = field(default=MemoryOverheads())
    fused_attention: FusedAttention | None = field(default=None)
    launch: float = field(default=0.0)
