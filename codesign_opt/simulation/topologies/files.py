"""Topology files: this project's TOML, and ASTRA-sim's network YAML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from codesign_opt.configuration import FileModel, at, read_text, read_toml, shown, validated
from codesign_opt.errors import InputError, nearest
from codesign_opt.simulation.topologies.concentration import concentrated
from codesign_opt.simulation.topologies.dragonfly import dragonfly
from codesign_opt.simulation.topologies.full_mesh import full_mesh
from codesign_opt.simulation.topologies.line import line
from codesign_opt.simulation.topologies.product import product
from codesign_opt.simulation.topologies.rail import rail_optimised
from codesign_opt.simulation.topologies.ring import ring
from codesign_opt.simulation.topologies.schema import (
    AstraSimFile,
    DimensionFile,
    DragonflyFile,
    FatTreeFile,
    FullMeshFile,
    GridFile,
    LeafSpineFile,
    LinkFile,
    ProductFile,
    RailFile,
    RingFile,
    SwitchFile,
)
from codesign_opt.simulation.topologies.switch import switch
from codesign_opt.simulation.topologies.topology import Link, Topology
from codesign_opt.simulation.topologies.torus import mesh, torus
from codesign_opt.simulation.topologies.tree import fat_tree, uplink_bandwidth

_GIBIBYTE = 2**30
_NANOSECOND = 1e-9

T = TypeVar("T")


def read_topology(path: str | Path) -> Topology:
    """The network that a file describes: ASTRA-sim's where its name ends in .yml or .yaml, else TOML.

    Raises:
        InputError: For a file that cannot be read, and for whatever is wrong in it.
    """
    if Path(path).suffix.lower() in (".yml", ".yaml"):
        return product(astra_sim_blocks(_read_yaml(path), where=str(path)))
    return topology_from_dict(read_toml(path), where=str(path))


def topology_from_dict(data: dict[str, Any], *, where: str) -> Topology:
    """The network that the content of a TOML file describes, a table `topology` with the key `kind`.

    Raises:
        InputError: For whatever is wrong in `data`.
    """
    for key in data:
        if key != "topology":
            raise InputError(f"{at(where, key)}: unknown key", nearest(key, ["topology"]))
    place = at(where, "topology")
    table = data.get("topology")
    if not isinstance(table, dict):
        found = "missing" if table is None else f"{shown(table)} is not allowed"
        raise InputError(f"{place}: {found}", 'a table [topology] with kind = "fat-tree", for instance')
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        found = "missing" if kind is None else f"{shown(kind)} is not allowed"
        raise InputError(f"{at(place, 'kind')}: {found}", nearest(str(kind or ""), _KINDS))
    model, build = _KINDS[kind]
    file: Any = validated(model, table, where=place)
    try:
        network = build(file)
        if file.concentration is None:
            return network
        return concentrated(network, file.concentration.processors_per_node, _link(file.concentration))
    except InputError as error:
        raise InputError(f"{place}: {error.message}", error.hint) from None


def astra_sim_blocks(data: Any, *, where: str) -> list[Topology]:
    """The network along each dimension that the content of ASTRA-sim's network file describes.

    Raises:
        InputError: For whatever is wrong in `data`.
    """
    file = validated(AstraSimFile, data, where=where)
    dimensions = len(file.topology)
    for key in ("npus_count", "bandwidth", "latency"):
        if (entries := len(getattr(file, key))) != dimensions:
            raise InputError(f"{at(where, key)}: {entries} entries", f"as many as `topology` has, {dimensions}")
    columns = zip(file.topology, file.npus_count, file.bandwidth, file.latency, strict=True)
    return [
        _ASTRA_SIM_BLOCKS[kind](width, Link(bandwidth=bandwidth * _GIBIBYTE, latency=latency * _NANOSECOND))
        for kind, width, bandwidth, latency in columns
    ]


def _read_yaml(path: str | Path) -> Any:
    import yaml  # type: ignore[import-untyped, unused-ignore]

    try:
        return yaml.safe_load(read_text(path))
    except RecursionError:
        raise InputError(f"{path}: nested too deeply", "is this the right file?") from None
    except (yaml.YAMLError, ValueError) as error:
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        mark = getattr(error, "problem_mark", None)
        line_number = f", line {mark.line + 1}" if mark is not None else ""
        raise InputError(f"{path}{line_number}: not YAML: {problem}", "write for instance topology: [ Ring ]") from None


def _link(file: LinkFile) -> Link:
    return Link(bandwidth=file.bandwidth, latency=file.latency, efficiency=file.efficiency)


def _full_mesh(file: FullMeshFile) -> Topology:
    return full_mesh(file.processors, _link(file), shared=file.shared)


def _switch(file: SwitchFile) -> Topology:
    return switch(file.processors, _link(file), switch_latency=file.switch_latency)


def _ring(file: RingFile) -> Topology:
    return ring(file.processors, _link(file), bidirectional=file.bidirectional)


def _grid(file: GridFile) -> Topology:
    dimensions = len(file.widths)
    bandwidths = _each("bandwidth", file.bandwidth, dimensions)
    latencies = _each("latency", file.latency, dimensions)
    links = [
        Link(bandwidth=bandwidth, latency=latency, efficiency=file.efficiency)
        for bandwidth, latency in zip(bandwidths, latencies, strict=True)
    ]
    return (torus if file.kind == "torus" else mesh)(file.widths, links)


def _leaf_spine(file: LeafSpineFile) -> Topology:
    return _tree(file, [file.processors_per_leaf, file.leaves], [file.spines])


def _fat_tree(file: FatTreeFile) -> Topology:
    return _tree(file, file.children, file.parents)


def _tree(file: LeafSpineFile | FatTreeFile, children: list[int], parents: list[int]) -> Topology:
    levels = len(children)
    if len(parents) != levels - 1:
        raise InputError(f"parents: {len(parents)} entries", f"one less than `children` has, {levels - 1}")
    latencies = _each("latency", file.latency, levels)
    bandwidths = file.bandwidth
    if file.oversubscription is None:
        bandwidths = _each("bandwidth", bandwidths, levels)
    elif len(bandwidths) > 1:
        raise InputError(f"bandwidth: {len(bandwidths)} entries", "only one beside `oversubscription`: the ports'")
    links = [Link(bandwidth=bandwidths[0], latency=latencies[0], efficiency=file.efficiency)]
    for level in range(levels - 1):
        if file.oversubscription is None:
            bandwidth = bandwidths[level + 1]
        else:
            ratio = _each("oversubscription", file.oversubscription, levels - 1)[level]
            bandwidth = uplink_bandwidth(
                links[-1], children=children[level], parents=parents[level], oversubscription=ratio
            )
        links.append(Link(bandwidth=bandwidth, latency=latencies[level + 1], efficiency=file.efficiency))
    return fat_tree(children, parents, links, routing=file.routing)


def _rail(file: RailFile) -> Topology:
    spine = None if file.spine is None else _link(file.spine)
    return rail_optimised(
        file.nodes, file.processors_per_node, inside=_link(file.inside), rail=_link(file.rail), spine=spine
    )


def _dragonfly(file: DragonflyFile) -> Topology:
    return dragonfly(
        file.groups,
        file.routers,
        processors_per_router=file.processors_per_router,
        global_links=file.global_links,
        terminal=_link(file.terminal),
        local=_link(file.local),
        optical=_link(file.optical),
        routing=file.routing,
    )


def _product(file: ProductFile) -> Topology:
    return product([_block(dimension) for dimension in file.dimensions])


def _block(file: DimensionFile) -> Topology:
    return _BLOCKS[file.kind](file.width, _link(file))


def _each(key: str, values: list[T], count: int) -> list[T]:
    """One value for each dimension or level."""
    if len(values) not in (1, count):
        raise InputError(f"{key}: {len(values)} entries", f"one, or {count}")
    return values * count if len(values) == 1 else values


_BLOCKS: Mapping[str, Callable[[int, Link], Topology]] = {
    "ring": ring,
    "line": line,
    "switch": switch,
    "full-mesh": full_mesh,
}

_ASTRA_SIM_BLOCKS: Mapping[str, Callable[[int, Link], Topology]] = {
    "Ring": ring,
    "Switch": switch,
    "FullyConnected": full_mesh,
}

_KINDS: Mapping[str, tuple[type[FileModel], Callable[[Any], Topology]]] = {
    "full-mesh": (FullMeshFile, _full_mesh),
    "switch": (SwitchFile, _switch),
    "ring": (RingFile, _ring),
    "torus": (GridFile, _grid),
    "mesh": (GridFile, _grid),
    "leaf-spine": (LeafSpineFile, _leaf_spine),
    "fat-tree": (FatTreeFile, _fat_tree),
    "rail-optimised": (RailFile, _rail),
    "dragonfly": (DragonflyFile, _dragonfly),
    "product": (ProductFile, _product),
}
