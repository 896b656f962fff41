from __future__ import annotations

import itertools

import numpy as np
import pytest
from network_topology_cases import CASES, FAST, MIDDLE, SLOW
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow

from codesign_opt.errors import InputError
from codesign_opt.simulation.topologies import (
    Link,
    Topology,
    concentrated,
    describe,
    dragonfly,
    fat_tree,
    full_mesh,
    leaf_spine,
    mesh,
    product,
    rail_optimised,
    ring,
    switch,
    torus,
    uplink_bandwidth,
)

LINKS = {
    "full mesh": 5 * 4,
    "switch": 2 * 6,
    "switch of one": 2,
    "even ring": 2 * 8,
    "odd ring": 2 * 7,
    "ring of two": 2,
    "one-way ring": 5,
    "line": 2 * 5,
    "torus": 2 * 2 * 12,
    "torus of three dimensions": 2 * 24 + 24 + 2 * 24,
    "mesh": 2 * (2 * 4 + 3 * 3),
    "leaf-spine": 2 * (16 + 4 * 3),
    "sprayed leaf-spine": 2 * (16 + 4),
    "fat tree": 2 * (24 + 12 * 2 + 4 * 2 * 3),
    "fat tree by destination": 2 * (24 + 12 * 2 + 4 * 2 * 3),
    "sprayed fat tree": 2 * (24 + 12 + 4),
    "fat tree of one level": 2 * 5,
    "rails": 4 * 12,
    "rails with spine": 4 * 12 + 2 * 3,
    "rails of one node": 4 * 4,
    "full dragonfly": 2 * 72 + 9 * 4 * 3 + 9 * 8,
    "small dragonfly": 2 * 24 + 4 * 3 * 2 + 4 * 6,
    "valiant dragonfly": 2 * 40 + 5 * 4 * 3 + 5 * 8,
    "dragonfly of one group": 2 * 8 + 4 * 3,
    "dragonfly of single routers": 2 * 6 + 3 * 2,
    "product": 2 * 4 * 6 + 2 * 3 * 8 + 2 * 12,
    "concentrated torus": 2 * 2 * 9 + 2 * 18,
    "concentrated switch": 2 * 3 + 2 * 6,
}


@pytest.mark.parametrize("name", CASES)
def test_the_number_of_links(name: str) -> None:
    topology = CASES[name]()
    assert topology.links == LINKS[name]
    for column in (topology.tail, topology.head, topology.capacity, topology.latency):
        assert len(column) == topology.links


BISECTIONS = {
    "full mesh": (lambda: full_mesh(8, FAST), 4 * 4 * 10),
    "switch": (lambda: switch(8, FAST), 4 * 10),
    "ring": (lambda: ring(8, FAST), 2 * 10),
    "one-way ring": (lambda: ring(8, FAST, bidirectional=False), 10),
    "torus": (lambda: torus([4, 2], [FAST, FAST]), 2 * 2 * 10),
    "torus with a slow dimension": (lambda: torus([4, 2], [FAST, Link(bandwidth=1.0, latency=0.0)]), 4),
    "mesh": (lambda: mesh([4, 2], [FAST, FAST]), 2 * 10),
    "leaf-spine": (lambda: leaf_spine(2, 4, 2, link=FAST, uplink=SLOW), 2 * 3),
    "sprayed leaf-spine": (lambda: leaf_spine(2, 4, 2, link=FAST, uplink=SLOW, routing="spray"), 2 * 3),
    "wide leaf-spine": (lambda: leaf_spine(4, 2, 8, link=FAST, uplink=SLOW), 4 * 10),
    "fat tree": (lambda: fat_tree((2, 2, 2), (2, 2), (FAST, FAST, SLOW)), 4 * 3),
    "rails": (lambda: rail_optimised(4, 2, inside=FAST, rail=SLOW), 4 * 3),
    "slow inside": (lambda: rail_optimised(2, 4, inside=Link(bandwidth=1.0, latency=0.0), rail=FAST), 4),
    "slow inside, slow spine": (
        lambda: rail_optimised(2, 4, inside=Link(bandwidth=1.0, latency=0.0), rail=FAST, spine=SLOW),
        4 + 2 * 3,
    ),
    "dragonfly": (
        lambda: dragonfly(2, 2, processors_per_router=2, global_links=1, terminal=FAST, local=FAST, optical=SLOW),
        2 * 3,
    ),
    "dragonfly of four groups": (
        lambda: dragonfly(4, 2, processors_per_router=1, global_links=2, terminal=FAST, local=FAST, optical=SLOW),
        2 * 2 * 3,
    ),
    "product": (lambda: product([ring(4, FAST), switch(2, SLOW)]), 4 * 3),
    "concentrated": (lambda: concentrated(ring(4, FAST), 2, MIDDLE), 2 * 10),
    "concentrated with slow ports": (lambda: concentrated(ring(4, FAST), 2, Link(bandwidth=1.0, latency=0.0)), 4),
}


@pytest.mark.parametrize("name", BISECTIONS)
def test_the_bisection_is_the_formulas_and_no_split_has_less(name: str) -> None:
    build, expected = BISECTIONS[name]
    topology = build()
    assert topology.bisection == expected
    assert least_cut_of_halves(topology) == expected


def least_cut_of_halves(topology: Topology) -> float:
    """The least maximum flow from one half of the processors to the other, over all halves."""
    nodes = topology.processors + len(topology.switches)
    source, sink = nodes, nodes + 1
    unlimited = int(topology.capacity.sum()) + 1
    least = np.inf
    for half in itertools.combinations(range(topology.processors), topology.processors // 2):
        other = [processor for processor in range(topology.processors) if processor not in half]
        tails = [*topology.tail, *[source] * len(half), *other]
        heads = [*topology.head, *half, *[sink] * len(other)]
        capacities = [*topology.capacity.astype(int), *[unlimited] * topology.processors]
        # Entries of one place add up: parallel links are one.
        graph = csr_matrix((np.array(capacities, dtype=np.int32), (tails, heads)), shape=(nodes + 2, nodes + 2))
        least = min(least, maximum_flow(graph, source, sink).flow_value)
    return least


def test_oversubscription_is_the_ratio_of_down_to_up() -> None:
    bandwidth = uplink_bandwidth(FAST, children=16, parents=4, oversubscription=2.0)
    assert bandwidth == 16 * 10 / (4 * 2)


def test_a_shared_full_mesh_divides_a_processors_bandwidth_among_its_peers() -> None:
    assert full_mesh(5, FAST, shared=True).capacity.tolist() == [2.5] * 20


def test_efficiency_counts_and_a_switch_adds_its_latency_once() -> None:
    topology = switch(4, Link(bandwidth=100.0, latency=2.0, efficiency=0.75), switch_latency=0.5)
    assert set(topology.capacity.tolist()) == {75.0}
    assert topology.latency[topology.routes([0], [1])[0]].sum() == 2 * 2.0 + 0.5


def test_dimensions_have_links_of_their_own() -> None:
    topology = torus([4, 3], [FAST, SLOW])
    along_x = topology.routes([0], [1])[0]
    along_y = topology.routes([0], [4])[0]
    assert topology.capacity[along_x].tolist() == [10.0]
    assert topology.capacity[along_y].tolist() == [3.0]


def test_description() -> None:
    link, uplink = Link(bandwidth=50e9, latency=2e-6), Link(bandwidth=200e9, latency=2e-6)
    assert describe(leaf_spine(4, 8, 2, link=link, uplink=uplink)) == (
        "leaf-spine 8×4, ecmp: 32 processors, 6 switches, 80 directed links (16 of 200 GB/s and 2 us; 64 of 50 GB/s and"
        " 2 us). Bisection 800 GB/s one way; the longest route has 4 links."
    )
    assert describe(ring(2, link)) == (
        "ring of 2: 2 processors, 2 directed links (2 of 50 GB/s and 2 us). Bisection 50 GB/s one way; the longest"
        " route has 1 link."
    )


def test_description_of_many_kinds_of_links_is_short() -> None:
    links = [Link(bandwidth=1e9 * (1 + number), latency=1e-6) for number in range(6)]
    text = describe(product([ring(2, link) for link in links]))
    assert "; 128 others)" in text


_BUILDERS = {
    "ring of one": (lambda: ring(1, FAST), "ring: processors: 1"),
    "no children": (lambda: fat_tree((), (), ()), "do not fit"),
    "one child at the top": (lambda: fat_tree((4, 1), (2,), (FAST, FAST)), "children"),
    "lists of different lengths": (lambda: fat_tree((4, 2), (2, 2), (FAST, FAST)), "do not fit"),
    "unknown routing": (lambda: fat_tree((4, 2), (2,), (FAST, FAST), routing="random"), "'random' is not allowed"),
    "one link for two dimensions": (lambda: torus([4, 4], [FAST]), "links: 1 for 2 dimensions"),
    "no dimension": (lambda: product([]), "no dimension"),
    "no rails": (lambda: rail_optimised(2, 0, inside=FAST, rail=FAST), "processors_per_node: 0"),
    "no processors on a node": (lambda: concentrated(ring(4, FAST), 0, FAST), "processors_per_node: 0"),
    "too many groups": (
        lambda: dragonfly(10, 4, processors_per_router=2, global_links=2, terminal=FAST, local=FAST, optical=FAST),
        "groups: 10",
    ),
    "too many links": (lambda: full_mesh(10_000, FAST), "too many"),
    "no bandwidth": (lambda: Link(bandwidth=0.0, latency=0.0), "bandwidth: 0"),
    "negative latency": (lambda: Link(bandwidth=1.0, latency=-1.0), "latency: -1"),
    "efficiency above one": (lambda: Link(bandwidth=1.0, latency=0.0, efficiency=1.5), "efficiency: 1.5"),
}


@pytest.mark.parametrize("name", _BUILDERS)
def test_what_cannot_be_built_is_refused_by_name(name: str) -> None:
    build, message = _BUILDERS[name]
    with pytest.raises(InputError) as caught:
        build()
    assert message in caught.value.message
    assert caught.value.hint
