from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from network_topology_cases import CASES, FAST, MIDDLE, SLOW, all_pairs

from codesign_opt.errors import InputError
from codesign_opt.simulation.topologies import (
    Topology,
    bare_links,
    dragonfly,
    fat_tree,
    leaf_spine,
    mesh,
    rail_optimised,
    ring,
    torus,
)

ROUTINGS = ["ecmp", "destination", "spray"]


def check_routes(topology: Topology, sources: np.ndarray, destinations: np.ndarray) -> None:
    """Each route leads link by link from its source to its destination and takes no link twice."""
    routes = topology.routes(sources, destinations)
    assert len(routes) == len(sources)
    for source, destination, route in zip(sources, destinations, routes, strict=True):
        nodes = [source, *topology.head[route]]
        assert nodes[:-1] == list(topology.tail[route])
        assert nodes[-1] == destination
        assert len(set(route.tolist())) == len(route) <= topology.diameter


@pytest.mark.parametrize("name", CASES)
def test_routes_of_all_pairs_lead_there(name: str) -> None:
    topology = CASES[name]()
    check_routes(topology, *all_pairs(topology))


@pytest.mark.parametrize("name", CASES)
def test_the_diameter_is_the_longest_route(name: str) -> None:
    topology = CASES[name]()
    assert np.diff(topology.routes(*all_pairs(topology)).offsets).max() == topology.diameter


@pytest.mark.parametrize("name", CASES)
def test_every_node_has_a_name_of_its_own(name: str) -> None:
    topology = CASES[name]()
    nodes = topology.processors + len(topology.switches)
    assert max(topology.tail.max(), topology.head.max()) == nodes - 1
    assert len({topology.node_name(node) for node in range(nodes)}) == nodes


@st.composite
def _large(draw: st.DrawFn) -> Topology:
    count = st.integers(2, 12)
    kind = draw(st.sampled_from(["ring", "torus", "mesh", "tree", "rail", "dragonfly"]))
    if kind == "ring":
        return ring(draw(st.integers(2, 2000)), FAST, bidirectional=draw(st.booleans()))
    if kind in ("torus", "mesh"):
        widths = draw(st.lists(count, min_size=1, max_size=3))
        return (torus if kind == "torus" else mesh)(widths, [FAST] * len(widths))
    if kind == "tree":
        children = draw(st.lists(st.integers(2, 6), min_size=1, max_size=4))
        parents = [draw(st.integers(1, 5)) for _ in children[1:]]
        return fat_tree(children, parents, [FAST] * len(children), routing=draw(st.sampled_from(ROUTINGS)))
    if kind == "rail":
        spine = draw(st.sampled_from([None, MIDDLE]))
        return rail_optimised(draw(count), draw(count), inside=FAST, rail=SLOW, spine=spine)
    routers, global_links = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    return dragonfly(
        draw(st.integers(1, routers * global_links + 1)),
        routers,
        processors_per_router=draw(st.integers(1, 3)),
        global_links=global_links,
        terminal=FAST,
        local=SLOW,
        optical=MIDDLE,
        routing=draw(st.sampled_from(["minimal", "valiant"])),
    )


@given(_large(), st.data())
def test_routes_of_random_pairs_lead_there(topology: Topology, data: st.DataObject) -> None:
    processor = st.integers(0, topology.processors - 1)
    pairs = data.draw(st.lists(st.tuples(processor, processor), min_size=1, max_size=20))
    check_routes(topology, *np.array(pairs).T)


@pytest.mark.parametrize("name", CASES)
def test_a_pair_has_the_same_route_in_any_company(name: str) -> None:
    topology = CASES[name]()
    sources, destinations = all_pairs(topology)
    together = topology.routes(sources, destinations)
    for pair in range(0, len(sources), 7):
        alone = topology.routes(sources[pair], destinations[pair])
        assert alone[0].tolist() == together[pair].tolist()


@pytest.mark.parametrize("name", CASES)
def test_a_topology_can_be_sent_to_another_process(name: str) -> None:
    topology = CASES[name]()
    copy = pickle.loads(pickle.dumps(topology))
    pairs = all_pairs(topology)
    assert copy.routes(*pairs).values.tolist() == topology.routes(*pairs).values.tolist()


def test_dimension_order_and_the_shorter_way() -> None:
    # 4 × 4, processor x + 4y. From (3, 0) to (1, 2): x at a tie goes up, 3 → 0 → 1; then y at a tie, 0 → 1 → 2.
    topology = torus([4, 4], [FAST, FAST])
    route = topology.routes([3], [9])[0]
    assert topology.head[route].tolist() == [0, 1, 5, 9]
    # From (0, 0) to (3, 3): one step back in both.
    assert topology.head[topology.routes([0], [15])[0]].tolist() == [3, 15]


def test_a_mesh_does_not_wrap() -> None:
    topology = mesh([4, 4], [FAST, FAST])
    assert topology.head[topology.routes([0], [15])[0]].tolist() == [1, 2, 3, 7, 11, 15]


def test_width_two_has_one_link_each_way() -> None:
    assert torus([2, 2], [FAST, FAST]).links == 8
    assert ring(2, FAST).links == ring(2, FAST, bidirectional=False).links == 2


def test_a_one_way_ring_goes_the_long_way_round() -> None:
    topology = ring(5, FAST, bidirectional=False)
    assert topology.head[topology.routes([0], [4])[0]].tolist() == [1, 2, 3, 4]


def test_messages_to_another_rail_go_inside_first_or_over_the_spine() -> None:
    # Two nodes of three: processor 0 of node 0 to processor 2 of node 1, number 5, over processor 2 of node 0.
    inside = rail_optimised(2, 3, inside=FAST, rail=SLOW)
    names = [inside.node_name(node) for node in inside.head[inside.routes([0], [5])[0]]]
    assert names == ["inside node 0", "2", "rail 2", "5"]
    spine = rail_optimised(2, 3, inside=FAST, rail=SLOW, spine=MIDDLE)
    names = [spine.node_name(node) for node in spine.head[spine.routes([0], [5])[0]]]
    assert names == ["rail 0", "spine", "rail 2", "5"]
    # Same rail: one switch. Same node: the switch inside.
    assert [spine.node_name(node) for node in spine.head[spine.routes([0], [3])[0]]] == ["rail 0", "3"]
    assert [spine.node_name(node) for node in spine.head[spine.routes([0], [2])[0]]] == ["inside node 0", "2"]


def test_the_hash_of_a_fat_tree_spreads_pairs_over_all_spines() -> None:
    topology = leaf_spine(16, 16, 8, link=FAST, uplink=FAST)
    sources, destinations = all_pairs(topology)
    routes = topology.routes(sources, destinations)
    spine = topology.head[routes.values] - topology.processors - 16
    counts = np.bincount(spine[(spine >= 0)], minlength=8)
    pairs = 256 * 240
    # Binomial: 8 standard deviations around an eighth.
    assert np.abs(counts - pairs / 8).max() < 8 * np.sqrt(pairs * 7 / 64)


@pytest.mark.parametrize(("children", "parents"), [((4, 8), (4,)), ((4, 4, 8), (4, 4)), ((2, 3, 4, 2), (2, 3, 4))])
def test_shifts_meet_nobody_where_the_destination_chooses_the_way(
    children: tuple[int, ...], parents: tuple[int, ...]
) -> None:
    topology = fat_tree(children, parents, [FAST] * len(children), routing="destination")
    here = np.arange(topology.processors)
    for shift in range(1, topology.processors):
        links = topology.routes(here, (here + shift) % topology.processors).values
        assert len(np.unique(links)) == len(links)


def test_minimal_routes_of_a_dragonfly_cross_one_group_border_and_valiant_ones_two() -> None:
    for routing, borders in (("minimal", 1), ("valiant", 2)):
        topology = dragonfly(
            9, 4, processors_per_router=2, global_links=2, terminal=FAST, local=SLOW, optical=MIDDLE, routing=routing
        )
        sources, destinations = all_pairs(topology)
        apart = sources // 8 != destinations // 8
        for route in topology.routes(sources[apart], destinations[apart]):
            assert (topology.capacity[route] == MIDDLE.capacity).sum() == borders


def test_every_pair_of_dragonfly_groups_has_as_many_links() -> None:
    topology = dragonfly(4, 3, processors_per_router=2, global_links=2, terminal=FAST, local=SLOW, optical=MIDDLE)
    between = topology.capacity == MIDDLE.capacity
    groups = np.stack([topology.tail[between], topology.head[between]]) - topology.processors
    pairs, counts = np.unique(groups // 3, axis=1, return_counts=True)
    assert pairs.shape[1] == 4 * 3
    assert set(counts.tolist()) == {2}


def test_links_have_names() -> None:
    topology = leaf_spine(2, 2, 1, link=FAST, uplink=SLOW)
    names = [topology.link_name(link) for link in topology.routes([0], [3])[0]]
    assert names == ["0 → leaf 0", "leaf 0 → spine 0", "spine 0 → leaf 1", "leaf 1 → 3"]


@pytest.mark.parametrize("pair", [(0, 8), (-1, 2), (99, 0)])
def test_processors_that_do_not_exist_are_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="no processor") as caught:
        ring(8, FAST).routes(*pair)
    assert caught.value.hint == "0 to 7"


def test_bare_links_have_no_processors() -> None:
    topology = bare_links([1.0, 2.0], 0.5)
    assert topology.links == 2
    assert topology.latency.tolist() == [0.5, 0.5]
    assert len(topology.routes([], [])) == 0
    assert topology.link_name(1) == "start of link 1 → end of link 1"
    with pytest.raises(InputError, match="no processor 0"):
        topology.routes([0], [0])
    with pytest.raises(InputError, match="capacity"):
        bare_links([1.0, 0.0])
