"""The models of a topology file: every key of every kind of network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field
from pydantic_core import CoreSchema, core_schema

from codesign_opt.configuration import FileModel, Parsed
from codesign_opt.systems.parameters import KINDS, Kind

T = TypeVar("T")

_LATENCY = Parsed(KINDS["latency"].parse, "quantity in s")
_BANDWIDTH = Parsed(KINDS["bandwidth"].parse, "quantity in B/s")
_EFFICIENCY = Parsed(KINDS["efficiency"].parse, "number")
_OVERSUBSCRIPTION = Parsed(Kind(above_minimum=True).parse, "number")

Bandwidth = Annotated[float, _BANDWIDTH]
Latency = Annotated[float, _LATENCY]
Efficiency = Annotated[float, _EFFICIENCY]
Oversubscription = Annotated[float, _OVERSUBSCRIPTION]
Count = Annotated[int, Field(ge=1, le=10_000_000)]


@dataclass(frozen=True)
class _OneOrMore:
    """Annotation of a list that may be written as its only value."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], CoreSchema]) -> CoreSchema:
        return core_schema.no_info_before_validator_function(
            lambda value: value if isinstance(value, list) else [value], handler(source)
        )


OneOrMore = Annotated[list[T], Field(min_length=1), _OneOrMore()]


class LinkFile(FileModel):
    """What one direction of a link can do."""

    bandwidth: Bandwidth = Field(description="One way.", examples=["50 GB/s"])
    latency: Latency = Field(description="From one end to the other.", examples=["1 us"])
    efficiency: Efficiency = Field(1.0, description="Share of the bandwidth that messages reach.", examples=[0.9])


class ConcentrationFile(LinkFile):
    """Processors that share the ports of a node; the link is each processor's own to its node."""

    processors_per_node: Count = Field(description="Processors of a node.", examples=[2])


class _NetworkFile(FileModel):
    concentration: ConcentrationFile | None = Field(
        None,
        description="Makes every endpoint a node of several processors.",
        examples=["see [topology.concentration]"],
    )


class _OneLinkFile(_NetworkFile, LinkFile):
    processors: Count = Field(description="Number of endpoints.", examples=[8])


class FullMeshFile(_OneLinkFile):
    """A link between every two processors."""

    kind: Literal["full-mesh"]
    shared: bool = Field(
        False, description="Whether `bandwidth` is what a processor has for all its peers together.", examples=[True]
    )


class SwitchFile(_OneLinkFile):
    """One switch that never blocks."""

    kind: Literal["switch"]
    switch_latency: Latency = Field(0.0, description="Through the switch.", examples=["300 ns"])


class RingFile(_OneLinkFile):
    """A ring."""

    kind: Literal["ring"]
    bidirectional: bool = Field(True, description="Whether it runs both ways.", examples=[False])


class GridFile(_NetworkFile):
    """A torus, or a mesh."""

    kind: Literal["torus", "mesh"]
    widths: Annotated[list[Count], Field(min_length=1)] = Field(
        description="Processors along each dimension.", examples=[[4, 8]]
    )
    bandwidth: OneOrMore[Bandwidth] = Field(description="One way; one, or one a dimension.", examples=["80 GB/s"])
    latency: OneOrMore[Latency] = Field(description="One, or one a dimension.", examples=["1 us"])
    efficiency: Efficiency = Field(1.0, description="Share of the bandwidth that messages reach.", examples=[0.9])


class _TreeFile(_NetworkFile):
    latency: OneOrMore[Latency] = Field(description="Of a link; one, or one a level.", examples=["1 us"])
    efficiency: Efficiency = Field(1.0, description="Share of the bandwidth that messages reach.", examples=[0.9])
    routing: Literal["ecmp", "destination", "spray"] = Field(
        "ecmp",
        description="One way up for each pair, one for each destination, or an even split over all.",
        examples=["spray"],
    )
    bandwidth: OneOrMore[Bandwidth] = Field(
        description="Of a link, from the processors' ports up; with `oversubscription` only the ports'.",
        examples=["50 GB/s"],
    )
    oversubscription: OneOrMore[Oversubscription] | None = Field(
        None,
        description="What a switch's children can send over what it can send up; one, or one a level below the top.",
        examples=[2.0],
    )


class LeafSpineFile(_TreeFile):
    """Two levels of switches."""

    kind: Literal["leaf-spine"]
    leaves: Count = Field(description="Leaf switches.", examples=[16])
    processors_per_leaf: Count = Field(description="Processors of a leaf.", examples=[32])
    spines: Count = Field(description="Spine switches; each leaf has a link to each.", examples=[8])


class FatTreeFile(_TreeFile):
    """Any number of levels of switches."""

    kind: Literal["fat-tree"]
    children: Annotated[list[Count], Field(min_length=1)] = Field(
        description="Of a switch, from the leaves to the top.", examples=[[8, 8, 16]]
    )
    parents: list[Count] = Field(description="Of a switch, from the leaves to below the top.", examples=[[8, 8]])


class RailFile(_NetworkFile):
    """Rail-optimised: processor j of every node on rail switch j."""

    kind: Literal["rail-optimised"]
    nodes: Count = Field(description="Number of nodes.", examples=[16])
    processors_per_node: Count = Field(description="Processors of a node, and rails.", examples=[8])
    inside: LinkFile = Field(
        description="Between a processor and its node's switch.",
        examples=[{"bandwidth": "450 GB/s", "latency": "500 ns"}],
    )
    rail: LinkFile = Field(
        description="Between a processor and its rail.", examples=[{"bandwidth": "50 GB/s", "latency": "1 us"}]
    )
    spine: LinkFile | None = Field(
        None,
        description="All links of a rail switch to the spine together; absent for none.",
        examples=[{"bandwidth": "400 GB/s", "latency": "1 us"}],
    )


class DragonflyFile(_NetworkFile):
    """Groups of routers."""

    kind: Literal["dragonfly"]
    groups: Count = Field(description="At most routers · global_links + 1.", examples=[9])
    routers: Count = Field(description="Routers of a group.", examples=[4])
    processors_per_router: Count = Field(description="Processors of a router.", examples=[2])
    global_links: Count = Field(description="Links of a router to other groups.", examples=[2])
    terminal: LinkFile = Field(
        description="Between a processor and its router.", examples=[{"bandwidth": "25 GB/s", "latency": "200 ns"}]
    )
    local: LinkFile = Field(
        description="Between two routers of a group.", examples=[{"bandwidth": "25 GB/s", "latency": "200 ns"}]
    )
    optical: LinkFile = Field(
        description="Between two groups.", examples=[{"bandwidth": "25 GB/s", "latency": "500 ns"}]
    )
    routing: Literal["minimal", "valiant"] = Field(
        "minimal", description="The shortest way, or through a third group.", examples=["valiant"]
    )


class DimensionFile(LinkFile):
    """One dimension of a product."""

    kind: Literal["ring", "line", "switch", "full-mesh"] = Field(description="Its building block.", examples=["ring"])
    width: Count = Field(description="Places along it.", examples=[4])


class ProductFile(_NetworkFile):
    """A building block in each dimension, the first dimension fastest."""

    kind: Literal["product"]
    dimensions: Annotated[list[DimensionFile], Field(min_length=1)] = Field(
        description="The building blocks.",
        examples=[[{"kind": "ring", "width": 4, "bandwidth": "80 GB/s", "latency": "1 us"}]],
    )


class AstraSimFile(FileModel):
    """ASTRA-sim's network file: one entry a dimension in each list; GB/s of 2^30 bytes, ns."""

    topology: Annotated[list[Literal["Ring", "Switch", "FullyConnected"]], Field(min_length=1)] = Field(
        examples=[["Ring", "Switch"]]
    )
    npus_count: list[Annotated[int, Field(ge=2, le=10_000_000)]] = Field(examples=[[4, 8]])
    bandwidth: list[Annotated[float, Field(gt=0)]] = Field(examples=[[400.0, 50.0]])
    latency: list[Annotated[float, Field(ge=0)]] = Field(examples=[[500.0, 1000.0]])
