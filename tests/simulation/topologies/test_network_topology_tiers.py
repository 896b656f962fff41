from __future__ import annotations

import dataclasses

import pytest

from codesign_opt.catalog import resolve_system
from codesign_opt.errors import InputError
from codesign_opt.simulation.topologies import topology_of

SYSTEM = resolve_system("h100-80g-nvl8", where="test")


def test_a_node_is_joined_by_the_first_tier_and_nodes_by_the_second() -> None:
    topology = topology_of(SYSTEM, 20)
    inside, outside = topology.routes([0, 7], [7, 8])
    assert [topology.node_name(node) for node in topology.head[inside]] == ["tier 0 switch 0", "7"]
    assert [topology.node_name(node) for node in topology.head[outside]] == ["tier 1 switch 0", "8"]
    assert topology.capacity[inside].tolist() == [450e9 * 0.65] * 2
    assert topology.capacity[outside].tolist() == [50e9 * 0.9] * 2
    assert topology.latency[inside].sum() == 10e-6
    assert topology.latency[outside].sum() == 20e-6


def test_every_processor_has_a_port_on_every_tier() -> None:
    topology = topology_of(SYSTEM, 20)
    assert topology.links == 2 * 2 * 20
    # Three nodes of up to eight, and one switch between them.
    assert topology.switches == ("tier 0 switch 0", "tier 0 switch 1", "tier 0 switch 2", "tier 1 switch 0")


def test_tiers_that_are_not_needed_are_left_out() -> None:
    assert topology_of(SYSTEM, 8).links == 2 * 8
    assert topology_of(SYSTEM, 1).links == 2


def test_bisection() -> None:
    assert topology_of(SYSTEM, 8).bisection == 4 * 450e9 * 0.65
    assert topology_of(SYSTEM, 64).bisection == 4 * 8 * 50e9 * 0.9


def test_more_processors_than_the_tiers_join_are_refused() -> None:
    small = dataclasses.replace(SYSTEM, network_tiers=SYSTEM.network_tiers[:1])
    with pytest.raises(InputError, match="9 are more than its network tiers join") as caught:
        topology_of(small, 9)
    assert "at most 8" in caught.value.hint
    with pytest.raises(InputError, match="processors: 0"):
        topology_of(SYSTEM, 0)
