"""The models of a system file: every key, its unit, and what it may hold."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from codesign_opt.configuration import FileModel, Parsed, at, flattened, shown
from codesign_opt.errors import InputError
from codesign_opt.systems.curve import EfficiencyCurve
from codesign_opt.systems.parameters import KINDS, Kind
from codesign_opt.systems.price import PriceCurve

DatatypeWord = Literal["float8", "float16", "bfloat16", "float32"]

_FLOP = Kind(unit="flop")
_BYTES = Kind(unit="B")
_DOLLARS = Kind(unit="$")


def parse_efficiency(value: Any, *, where: str, kind: Kind) -> EfficiencyCurve:
    """The curve that a list such as [["1 Gflop", 0.6], ["0 flop", 0.1]] says; thresholds are of `kind`.

    Raises:
        InputError: For anything else, thresholds that do not fall strictly, or a last one that is not 0.
    """
    zero = f"0 {kind.unit}"
    pairs = _pairs(value, kind, KINDS["efficiency"], where=where, example=f'[["{zero}", 0.9]]')
    thresholds = tuple(threshold for threshold, _ in pairs)
    if any(low >= high for high, low in pairwise(thresholds)):
        raise InputError(f"{where}: {shown(value)}: thresholds must fall", "write the largest first")
    if thresholds[-1] != 0:
        raise InputError(f"{where}: the last threshold is {shown(value[-1][0])}", f'end with ["{zero}", ...]')
    return EfficiencyCurve(thresholds, tuple(efficiency for _, efficiency in pairs))


def parse_price_curve(value: Any, *, where: str, kind: Kind = _BYTES) -> PriceCurve:
    """The curve that a list such as [["0 GiB", "0 $"], ["256 GiB", "2500 $"]] says, over a parameter of `kind`.

    Raises:
        InputError: For anything else, or values that do not rise strictly.
    """
    example = '[["20 GiB", "2250 $"]]' if kind.unit == "B" else f'[["1 {kind.unit}", "2250 $"]]'
    pairs = _pairs(value, kind, _DOLLARS, where=where, example=example)
    points = tuple(point for point, _ in pairs)
    if any(low >= high for low, high in pairwise(points)):
        raise InputError(f"{where}: {shown(value)}: the first of each pair must rise", "write the smallest first")
    return PriceCurve(points, tuple(price for _, price in pairs))


def parse_sources(value: Any, *, where: str) -> dict[str, str]:
    """The table of sources of a file, nested or with dotted keys, by dotted path.

    Raises:
        InputError: Where it is no table, or a source is no text or empty.
    """
    if not isinstance(value, dict):
        raise InputError(f"{where}: {shown(value)} is not allowed", "a table of paths and texts")
    sources: dict[str, str] = flattened(value)
    for path, source in sources.items():
        if not isinstance(source, str) or not source.strip():
            raise InputError(f"{at(where, path)}: {shown(source)} is not allowed", "text in quotes, not empty")
    return sources


def _number(name: str) -> Parsed:
    kind = KINDS[name]
    plain = "whole number" if kind.whole else "number"
    return Parsed(kind.parse, plain if kind.unit == "1" else f"quantity in {kind.unit}")


_FlopEfficiency = Annotated[
    EfficiencyCurve, Parsed(partial(parse_efficiency, kind=_FLOP), "list of [quantity in flop, efficiency]")
]
_ByteEfficiency = Annotated[
    EfficiencyCurve, Parsed(partial(parse_efficiency, kind=_BYTES), "list of [quantity in B, efficiency]")
]
_PricePoints = Annotated[PriceCurve, Parsed(parse_price_curve, "list of [quantity in B, quantity in $]")]

_Sources = Annotated[dict[str, str], Parsed(parse_sources, "table of dotted path to text")]

_STEPS = "Steps: the first threshold that is not above the size counts. Thresholds fall; the last is 0."


class EngineFile(FileModel):
    """One arithmetic engine at one datatype."""

    peak: Annotated[float, _number("peak")] = Field(description="Peak throughput.", examples=["312 Tflop/s"])
    efficiency: _FlopEfficiency = Field(
        description=f"Share of the peak over the size of an operation. {_STEPS}",
        examples=[[["128 Gflop", 0.95], ["0 flop", 0.1]]],
    )


class MemoryTierFile(FileModel):
    """One tier of memory."""

    capacity: Annotated[float, _number("capacity")] = Field(
        description="Capacity of one processor; `0 B` where there is no such tier.", examples=["80 GiB"]
    )
    bandwidth: Annotated[float, _number("bandwidth")] = Field(description="Peak bandwidth.", examples=["2048 GB/s"])
    efficiency: _ByteEfficiency = Field(
        description=f"Share of the bandwidth over the size of an access. {_STEPS}",
        examples=[[["100 MB", 0.9], ["0 B", 0.3]]],
    )


class CollectiveFile(FileModel):
    """Bytes on the wire for q bytes among n participants: q · scalar · (1 + offset / n)."""

    scalar: Annotated[float, _number("scalar")] = Field(description="Factor of the volume.", examples=[2.0])
    offset: Annotated[float, _number("offset")] = Field(
        0.0, description="-1 for a ring, 1 for in-network reduction, else 0.", examples=[-1.0]
    )


class CollectivesFile(FileModel):
    """Wire bytes of each operation."""

    p2p: CollectiveFile = Field(description="Send to one other processor.", examples=[{"scalar": 1.0}])
    reduce_scatter: CollectiveFile = Field(description="Reduce-scatter.", examples=[{"scalar": 1.0, "offset": -1.0}])
    all_gather: CollectiveFile = Field(description="All-gather.", examples=[{"scalar": 1.0, "offset": -1.0}])
    all_reduce: CollectiveFile = Field(description="All-reduce.", examples=[{"scalar": 2.0, "offset": -1.0}])


class NetworkTierFile(FileModel):
    """One tier of the network."""

    bandwidth: Annotated[float, _number("bandwidth")] = Field(
        description="Bandwidth of one processor, one way.", examples=["300 GB/s"]
    )
    efficiency: Annotated[float, _number("efficiency")] = Field(
        description="Share of it that transfers reach, above 0 and at most 1.", examples=[0.65]
    )
    size: Annotated[int, _number("size")] = Field(description="Processors that the tier connects.", examples=[8])
    must_be_filled: bool = Field(
        False, description="Whether the groups placed on this tier must divide `size`.", examples=[True]
    )
    latency: Annotated[float, _number("latency")] = Field(description="Of one operation.", examples=["10 us"])
    processor_usage: Annotated[float, _number("processor_usage")] = Field(
        description="Share of compute that an overlapped transfer takes, below 1.", examples=[0.15]
    )
    latency_per_member: Annotated[float, _number("latency_per_member")] = Field(
        default="0 s",
        validate_default=True,
        description="What each further member of a group adds to it, along a ring or a tree.",
        examples=["5 us"],
    )
    collectives: CollectivesFile = Field(
        description="Wire bytes of each operation.", examples=["see [system.network_tiers.collectives]"]
    )


class PriceFile(FileModel):
    """What one processor costs to buy."""

    processor: Annotated[float, _number("processor")] = Field(
        description="One processor without the memory priced below.", examples=["20000 $"]
    )
    memory_tier1: _PricePoints | None = Field(
        None,
        description="Price of memory tier 1 over its capacity, linear between points; without it nothing extra.",
        examples=[[["20 GiB", "2250 $"], ["40 GiB", "5000 $"]]],
    )
    memory_tier2: _PricePoints | None = Field(
        None, description="Likewise for memory tier 2.", examples=[[["0 GiB", "0 $"], ["256 GiB", "2500 $"]]]
    )
    parameters: Annotated[dict[str, Any], BeforeValidator(flattened)] = Field(
        default={},
        description="Price over any other parameter of the system, by dotted path: a list of [quantity, quantity in $] "
        "each.",
        examples=[{"network_tiers.1.bandwidth": [["25 GB/s", "500 $"], ["100 GB/s", "4000 $"]]}],
    )
    hourly: Annotated[float, _number("hourly")] | None = Field(
        None, description="Price of an hour; without it the purchase price is spread.", examples=["2.5 $/h"]
    )
    amortisation_hours: Annotated[float, _number("amortisation_hours")] = Field(
        default="4 years",
        validate_default=True,
        description="Time over which the purchase price is spread.",
        examples=["3 years"],
    )


class PowerFile(FileModel):
    """What one processor draws, with its share of memory and network."""

    busy: Annotated[float, _number("busy")] = Field(description="While it computes.", examples=["700 W"])
    idle: Annotated[float, _number("idle")] = Field(description="While it waits.", examples=["100 W"])


class MemoryOverheadsFile(FileModel):
    """What frameworks take of memory tier 1 besides what a step holds."""

    context: Annotated[float, _number("context")] = Field(
        default="0 B", validate_default=True, description="Context of driver and libraries.", examples=["1 GiB"]
    )
    communication: Annotated[float, _number("communication")] = Field(
        default="0 B",
        validate_default=True,
        description="Buffers of each parallel dimension in use.",
        examples=["0.5 GiB"],
    )
    workspace: Annotated[float, _number("workspace")] = Field(
        default="0 B", validate_default=True, description="Workspace of the matrix library.", examples=["32 MiB"]
    )
    fragmentation: Annotated[float, _number("fragmentation")] = Field(
        0.0, description="Share of activations that is lost between allocations.", examples=[0.05]
    )


class FusedAttentionFile(FileModel):
    """How fast attention in one pass is on the matrix engine; without it, as fast as any product."""

    forward_efficiency: Annotated[float, _number("forward_efficiency")] = Field(
        description="Share of the peak that very wide heads reach in the forward pass.", examples=[0.6]
    )
    backward_efficiency: Annotated[float, _number("backward_efficiency")] = Field(
        description="The same in the backward pass.", examples=[0.5]
    )
    half_head_size: Annotated[float, _number("half_head_size")] = Field(
        description="Head size at which it is half of that.", examples=[40]
    )


_DESCRIPTION: Any = Field("", description="What the machine is, in a line.", examples=["8 GPUs a node, InfiniBand"])
_SOURCE: Any = Field("", description="Where the numbers come from.", examples=["vendor data sheet"])
_SOURCES: Any = Field(
    default={},
    description="Where some of them come from instead, by the dotted path of a number, a curve or a whole section.",
    examples=[{"memory_tier1.capacity": "what the device reports"}],
)


class SystemFile(FileModel):
    """A system in full; a system file holds the same keys."""

    name: str = Field(min_length=1, max_length=100, description="What reports call it.", examples=["my-gpu"])
    processing: Literal["no_overlap", "roofline"] = Field(
        description="Whether compute and memory time of an operation add up, or the longer one counts.",
        examples=["roofline"],
    )
    description: str = _DESCRIPTION
    source: str = _SOURCE
    sources: _Sources = _SOURCES
    matrix: dict[DatatypeWord, EngineFile] = Field(
        min_length=1, description="Matrix engine, one table a datatype.", examples=["see [system.matrix.float16]"]
    )
    vector: dict[DatatypeWord, EngineFile] = Field(
        min_length=1, description="Vector engine, for the same datatypes.", examples=["see [system.vector.float16]"]
    )
    memory_tier1: MemoryTierFile = Field(
        description="The processor's own memory.", examples=["see [system.memory_tier1]"]
    )
    memory_tier2: MemoryTierFile = Field(
        description="The memory that offloading uses.", examples=["see [system.memory_tier2]"]
    )
    network_tiers: list[NetworkTierFile] = Field(
        min_length=1, description="Networks, fastest first.", examples=["see [[system.network_tiers]]"]
    )
    memory_overheads: MemoryOverheadsFile = Field(
        default={},
        validate_default=True,
        description="What frameworks take of memory tier 1.",
        examples=["see [system.memory_overheads]"],
    )
    fused_attention: FusedAttentionFile | None = Field(
        None, description="Speed of attention in one pass.", examples=["see [system.fused_attention]"]
    )
    launch: Annotated[float, _number("launch")] = Field(
        default="0 s",
        validate_default=True,
        description="What the host takes to start one operation: no pass is faster than starting all of its.",
        examples=["20 us"],
    )
    price: PriceFile | None = Field(None, description="What a processor costs.", examples=["see [system.price]"])
    power: PowerFile | None = Field(None, description="What a processor draws.", examples=["see [system.power]"])


class DerivedSystemFile(FileModel):
    """A system that starts from one of the catalogue; a system file may hold the same keys."""

    base: str = Field(description="The system to start from.", examples=["h100-80g-nvl8"])
    name: str | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="What reports call it; else the base's name.",
        examples=["h100-big"],
    )
    description: str = _DESCRIPTION
    source: str = _SOURCE
    sources: _Sources = _SOURCES
    set: Annotated[dict[str, Any], BeforeValidator(flattened)] = Field(
        default={},
        description="Numbers that differ, by dotted path.",
        examples=[{"memory_tier1.bandwidth": "3072 GB/s"}],
    )
    price: PriceFile | None = Field(None, description="Price in place of the base's.", examples=["see [system.price]"])
    power: PowerFile | None = Field(None, description="Power in place of the base's.", examples=["see [system.power]"])


def _pairs(value: Any, first: Kind, second: Kind, *, where: str, example: str) -> list[tuple[float, float]]:
    if not isinstance(value, list) or not value:
        raise InputError(f"{where}: {shown(value)} is not a list of pairs", f"write for instance {example}")
    for index, pair in enumerate(value):
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError(f"{where}.{index}: {shown(pair)} is not a pair", f"write for instance {example}")
    return [
        (first.parse(left, where=f"{where}.{index}.0"), second.parse(right, where=f"{where}.{index}.1"))
        for index, (left, right) in enumerate(value)
    ]
