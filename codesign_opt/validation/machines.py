"""The system that a measured run ran on: a machine of the catalogue with the node and the links that the row names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from codesign_opt.catalog import resolve_system
from codesign_opt.systems import System
from codesign_opt.validation.runs import MeasuredRun
from codesign_opt.validation.unmapped import Unmapped

SYSTEMS: Mapping[str, Mapping[int, str]] = {
    "V100": {16: "v100-16g-sxm", 32: "v100-32g-sxm"},
    "A100": {40: "a100-40g-sxm", 80: "a100-80g-sxm"},
    "A100 PCIe": {40: "a100-40g-pcie", 80: "a100-80g-pcie"},
    "H100": {80: "h100-sxm"},
    "H100 PCIe": {80: "h100-pcie"},
    "H200": {141: "h200"},
    "B200": {180: "b200", 192: "b200"},
    "B300": {270: "b300", 288: "b300"},
    "GB200": {186: "gb200-nvl72", 192: "gb200-nvl72"},
    "GB300": {279: "gb300-nvl72", 288: "gb300-nvl72"},
    "MI250X": {64: "mi250x"},
    "MI300X": {192: "mi300x"},
    "MI325X": {256: "mi325x"},
    "MI355X": {288: "mi355x"},
    "TPU v4": {32: "tpu-v4"},
    "TPU v5e": {16: "tpu-v5e"},
    "TPU v5p": {95: "tpu-v5p", 96: "tpu-v5p"},
    "TPU v6e": {32: "tpu-v6e"},
    "Trainium1": {16: "trainium1"},
    "Trainium2": {12: "trainium2"},
    "Gaudi2": {96: "gaudi2"},
}
"""Name of a processor, then the GB that its name says, then the system."""

_RACK_IN_USE = 64
"""Processors of a 72-processor rack that runs of several racks use, so that powers of two divide evenly."""

_GENERATIONS = {"EDR": 100, "HDR": 200, "NDR": 400, "XDR": 800}
"""Gb/s of an InfiniBand port."""

_CLUSTERS: Mapping[str, float] = {
    # Google Cloud, machine type a3-highgpu-8g: four network cards of 200 Gb/s serve the eight processors.
    "GCP A3 (GPUDirect-TCPX)": 12.5e9,
}
"""One-way bytes/s of a processor in networks that are known by name."""

_USUAL = ("DCN", "DCN between slices", "DGX SuperPOD InfiniBand")
"""Networks that are those of the catalogue's system."""


def system_of(run: MeasuredRun) -> tuple[System, list[str]]:
    """The system, and what had to be assumed about it, in words.

    Raises:
        Unmapped: For a processor or a network that is not known.
    """
    name, assumed = _catalogue_name(run)
    system = _catalogue_system(name)
    node, network = system.network_tiers[-2:]
    node = replace(node, size=_node_size(run, node.size), bandwidth=_link_rate(run, node.bandwidth))
    rate = network_rate(run.inter_network or "", node_size=run.node_size or system.network_tiers[-2].size)
    if run.processors > node.size and not run.inter_network:
        assumed.append(f"network between nodes not stated: that of {name}")
    if rate is not None:
        network = replace(network, bandwidth=rate)
    return replace(system, network_tiers=(*system.network_tiers[:-2], node, network)), assumed


def network_rate(words: str, *, node_size: int) -> float | None:
    """One-way bytes/s of one processor into the network between nodes, from the words of a source.

    Known are rates of a port ("4x 100 Gb RoCE", "8x HDR InfiniBand"), of a node ("RoCE 1600 Gbps", "800 Gbps per
    node"), and of a processor ("400 Gbps per GPU"). None where there are no words, or a network that is the usual one.

    Raises:
        Unmapped: For other words.
    """
    if words == "" or words in _USUAL:
        return None
    if words in _CLUSTERS:
        return _CLUSTERS[words]
    ports = re.match(r"(\d+)x ", words)
    rate = _gigabits(words) / 8 * 1e9
    if re.search(r"per (GPU|processor|chip)", words):
        return rate
    return rate * (int(ports[1]) if ports is not None else 1) / node_size


def _gigabits(words: str) -> float:
    """Gb/s of a port or a link in the words of a source."""
    if rate := re.search(r"(\d+(?:\.\d+)?) ?(?:Gb/s|Gbps|Gbit/s|Gb\b)", words):
        return float(rate[1])
    if port := re.search(r"\b(EDR|HDR|NDR|XDR)\d*\b", words):
        return _GENERATIONS[port[1]]
    raise Unmapped("unknown-network", f"'{words}' names no rate such as '4x 100 Gb/s' or '400 Gbps per GPU'")


@cache
def _catalogue_system(name: str) -> System:
    return resolve_system(name)


def _catalogue_name(run: MeasuredRun) -> tuple[str, list[str]]:
    """The system's name, and what was assumed about the memory."""
    kind = "PCIe" if (run.intra_link or "").startswith("PCIe") else ""
    processor = f"{run.processor} {kind}".strip()
    sizes = SYSTEMS.get(processor)
    if sizes is None:
        raise Unmapped("unknown-processor", f"'{processor}' is none of {', '.join(SYSTEMS)}")
    if run.processor_memory is not None:
        if run.processor_memory not in sizes:
            known = " or ".join(map(str, sizes))
            raise Unmapped("unknown-processor", f"{processor} with {run.processor_memory:g} GB; known: {known}")
        return sizes[int(run.processor_memory)], []
    size = _likely_memory(run, sizes)
    return sizes[size], [f"memory not stated: {size} GB"] if len(set(sizes.values())) > 1 else []


def _likely_memory(run: MeasuredRun, sizes: Mapping[int, str]) -> int:
    """The larger memory, but for runs before the A100 with 80 GB came (November 2020)."""
    early = run.processor.startswith("A100") and run.year is not None and run.year <= 2020
    return min(sizes) if early else max(sizes)


def _node_size(run: MeasuredRun, usual: int) -> int:
    """Processors that the fast links join, no more than the run uses."""
    if run.processor.startswith("GB"):
        size = _RACK_IN_USE if run.processors % _RACK_IN_USE == 0 else usual
    elif run.processor.startswith("TPU"):
        # Slices that the data-centre network joins have a whole sharding group each.
        sliced = (run.inter_network or "").startswith("DCN")
        size = (run.shard_group or run.processors) * (run.tp or 1) if sliced else usual
    else:
        size = run.node_size or usual
    return min(size, run.processors)


def _link_rate(run: MeasuredRun, usual: float) -> float:
    """One-way bytes/s of a processor inside a node: that of its generation, or half of the rate that the words name."""
    named = re.search(r"(\d+(?:\.\d+)?) GB/s", run.intra_link or "")
    return float(named[1]) / 2 * 1e9 if named is not None else usual
