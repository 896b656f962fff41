"""Systems of measured runs: which machine, which node, which links."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from codesign_opt.catalog import names, resolve_system
from codesign_opt.validation import MappedRun, Skipped
from codesign_opt.validation.machines import SYSTEMS, network_rate
from codesign_opt.validation.unmapped import Unmapped


@pytest.mark.parametrize(
    ("words", "node", "rate"),
    [
        # ports x Gb/s / 8 bits / processors of a node
        ("4x 100 Gb RoCE", 8, 4 * 100e9 / 8 / 8),
        ("4x Omni-Path 100 Gb/s", 4, 100e9 / 8),
        ("8x HDR200 InfiniBand", 8, 200e9 / 8),
        ("8x HDR InfiniBand", 8, 200e9 / 8),
        ("4x NDR", 4, 400e9 / 8),
        ("RoCE 1600 Gbps", 8, 1600e9 / 8 / 8),
        ("800 Gbps per node (from the validation configs)", 8, 800e9 / 8 / 8),
        ("RoCE 400 Gbps per GPU", 8, 400e9 / 8),
        ("GCP A3 (GPUDirect-TCPX)", 8, 4 * 200e9 / 8 / 8),
    ],
)
def test_rates_by_hand(words: str, node: int, rate: float) -> None:
    assert network_rate(words, node_size=node) == pytest.approx(rate)


@pytest.mark.parametrize("words", ["", "DCN", "DCN between slices", "DGX SuperPOD InfiniBand"])
def test_words_for_the_usual_network(words: str) -> None:
    assert network_rate(words, node_size=8) is None


def test_unknown_words_are_refused() -> None:
    with pytest.raises(Unmapped, match="'fast network' names no rate"):
        network_rate("fast network", node_size=8)


@pytest.mark.parametrize(
    ("name", "system", "tiers"),
    [
        ("nanotron_ultrascale-0001", "h100-sxm", [(8, 450e9), (65536, 50e9)]),
        ("llm_foundry_mpt-0142", "a100-40g-sxm", [(8, 300e9), (65536, 25e9)]),
        ("vtrain_a100-0010", "a100-80g-sxm", [(8, 300e9), (65536, 12.5e9)]),
        # Two of the eight processors of a node.
        ("vtrain_a100-0300", "a100-80g-sxm", [(2, 300e9), (65536, 12.5e9)]),
        ("bigscience_v100-0001", "v100-16g-sxm", [(4, 150e9), (65536, 12.5e9)]),
        ("bigscience_v100-0041", "v100-32g-sxm", [(4, 150e9), (65536, 12.5e9)]),
        ("internevo_a100-0018", "a100-80g-sxm", [(8, 300e9), (65536, 6.25e9)]),
        # Before the A100 with 80 GB; a DGX-2 has 16 processors.
        ("megatron_sc21-0026", "a100-40g-sxm", [(8, 300e9), (65536, 25e9)]),
        ("megatron_sc21-0033", "v100-32g-sxm", [(8, 150e9), (65536, 6.25e9)]),
        # 256 processors use 64 of the 72 of each rack; 8 and 32 fit one.
        ("megatron_bridge-0009", "gb300-nvl72", [(64, 900e9), (65536, 100e9)]),
        ("megatron_bridge-0014", "gb200-nvl72", [(8, 900e9), (65536, 50e9)]),
        ("megatron_bridge-0038", "gb300-nvl72", [(32, 900e9), (65536, 100e9)]),
        ("megatron_bridge-0027", "b300", [(8, 900e9), (65536, 100e9)]),
        ("primus_amd-0016", "mi325x", [(8, 448e9), (65536, 50e9)]),
        ("primus_amd-0020", "mi355x", [(8, 537.6e9), (65536, 50e9)]),
        # Slices: 64 chips twice; 16 x 16 chips 32 times; one of 192.
        ("maxtext_tpu-0002", "tpu-v4", [(64, 300e9), (65536, 6.25e9)]),
        ("maxtext_tpu-0030", "tpu-v5e", [(256, 200e9), (65536, 3.125e9)]),
        ("maxtext_tpu-0005", "tpu-v4", [(192, 300e9), (65536, 6.25e9)]),
        ("maxtext_tpu-0048", "h100-sxm", [(8, 450e9), (65536, 12.5e9)]),
    ],
)
def test_systems_by_hand(name: str, system: str, tiers: list[tuple[int, float]], mapped: dict[str, MappedRun]) -> None:
    machine = mapped[name].system
    assert machine.name == system
    assert [tier.size for tier in machine.network_tiers] == [size for size, _ in tiers]
    assert [tier.bandwidth for tier in machine.network_tiers] == pytest.approx([rate for _, rate in tiers])


def test_only_node_and_links_differ_from_the_catalogue(mapped: dict[str, MappedRun]) -> None:
    for run in list(mapped.values())[::50]:
        base = resolve_system(run.system.name)
        assert run.system.matrix == base.matrix
        assert run.system.memory_tier1 == base.memory_tier1
        for tier, usual in zip(run.system.network_tiers, base.network_tiers, strict=True):
            assert (tier.latency, tier.efficiency) == (usual.latency, usual.efficiency)


def test_every_system_of_the_table_is_in_the_catalogue() -> None:
    assert {name for sizes in SYSTEMS.values() for name in sizes.values()} <= set(names("systems"))


def test_links_by_their_words(varied: Callable[..., MappedRun | Skipped]) -> None:
    slower = varied(intra_link="NVLink4 400 GB/s")
    assert isinstance(slower, MappedRun)
    assert slower.system.network_tiers[0].bandwidth == 200e9
    card = varied(intra_link="PCIe 5")
    assert isinstance(card, MappedRun)
    assert card.system.name == "h100-pcie"


def test_what_is_not_stated_is_assumed(varied: Callable[..., MappedRun | Skipped]) -> None:
    outcome = varied(processor="A100", processor_memory=None, precision="bf16", inter_network=None)
    assert isinstance(outcome, MappedRun)
    assert "memory not stated: 80 GB" in outcome.assumptions
    assert "network between nodes not stated: that of a100-80g-sxm" in outcome.assumptions
