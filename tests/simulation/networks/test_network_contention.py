"""Effects of sharing links that can be predicted by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from network_cases import delivered

from codesign_opt.simulation.networks import FlowNetwork
from codesign_opt.simulation.topologies import (
    Link,
    Topology,
    dragonfly,
    fat_tree,
    leaf_spine,
    mesh,
    ring,
    switch,
    torus,
)

LINK = Link(bandwidth=10.0, latency=0.0)


def span(topology: Topology, sources: np.ndarray, destinations: np.ndarray, size: float = 1.0) -> float:
    """Until the last of equal messages that start together is delivered."""
    return float(delivered(FlowNetwork(topology), sources, destinations, size).max())


def heaviest_load(topology: Topology, sources: np.ndarray, destinations: np.ndarray) -> int:
    """Messages on the link that has most of them: equal messages that start together take so many times their own time.

    None on that link ever gets more than its share there, and no other link has less to give.
    """
    return int(np.bincount(topology.routes(sources, destinations).values).max())


@pytest.mark.parametrize("rings", [2, 3, 8])
def test_rings_that_share_one_ring_take_so_many_times_as_long(rings: int) -> None:
    here = np.tile(np.arange(16), rings)
    alone = span(ring(16, LINK), np.arange(16), (np.arange(16) + 1) % 16)
    together = span(ring(16, LINK), here, (here + 1) % 16)
    assert together == pytest.approx(rings * alone, rel=1e-12)


@pytest.mark.parametrize("senders", [2, 5, 31])
def test_incast_shares_the_receivers_link(senders: int) -> None:
    sources = np.arange(1, senders + 1)
    together = span(switch(32, LINK), sources, np.zeros_like(sources))
    assert together == pytest.approx(senders * 0.1, rel=1e-12)


def test_oversubscription_of_two_doubles_the_time_across_leaves() -> None:
    here = np.arange(32)
    across, inside = (here + 8) % 32, here // 8 * 8 + (here + 1) % 8
    full, half = (leaf_spine(4, 8, spines, link=LINK, uplink=LINK, routing="spray") for spines in (8, 4))
    assert span(half, here, across) == pytest.approx(2 * span(full, here, across), rel=1e-12)
    assert span(half, here, inside) == span(full, here, inside) == pytest.approx(0.1, rel=1e-12)


def test_oversubscription_of_two_doubles_an_all_to_all_across_leaves() -> None:
    sources, destinations = np.indices((32, 32)).reshape(2, -1)
    across = sources // 8 != destinations // 8
    full, half = (leaf_spine(4, 8, spines, link=LINK, uplink=LINK, routing="spray") for spines in (8, 4))
    ends = [span(topology, sources[across], destinations[across]) for topology in (full, half)]
    # 24 messages on every port; half the uplinks: twice that.
    assert ends == pytest.approx([2.4, 4.8], rel=1e-12)


def test_hashing_onto_spines_collides_where_spraying_does_not() -> None:
    here = np.arange(64)
    there = (here + 8) % 64
    hashed = leaf_spine(8, 8, 8, link=LINK, uplink=LINK)
    sprayed = leaf_spine(8, 8, 8, link=LINK, uplink=LINK, routing="spray")
    assert span(sprayed, here, there) == pytest.approx(0.1, rel=1e-12)
    load = heaviest_load(hashed, here, there)
    assert load >= 2
    assert span(hashed, here, there) == pytest.approx(load * 0.1, rel=1e-12)


def _dragonfly(routing: str) -> Topology:
    return dragonfly(
        9,
        4,
        processors_per_router=2,
        global_links=2,
        terminal=LINK,
        local=LINK,
        optical=LINK,
        routing=routing,
    )


def test_adversarial_traffic_on_a_dragonfly_meets_one_global_link() -> None:
    here = np.arange(72)
    # All eight processors of a group send to the next group, over the one link between the two.
    adversarial = span(_dragonfly("minimal"), here, (here + 8) % 72)
    assert adversarial == pytest.approx(8 * 0.1, rel=1e-12)
    # Uniform: one message of each group to each of the other eight groups.
    group, place = np.divmod(here, 8)
    uniform = (group + 1 + place) % 9 * 8 + place
    minimal = _dragonfly("minimal")
    assert span(minimal, here, uniform) == pytest.approx(heaviest_load(minimal, here, uniform) * 0.1, rel=1e-12)
    assert span(minimal, here, uniform) <= 0.5 * adversarial
    # A detour over a third group spreads the adversarial traffic.
    assert span(_dragonfly("valiant"), here, (here + 8) % 72) < adversarial


def _row_major(width: int, height: int) -> np.ndarray:
    return np.arange(width * height)


def _snake(width: int, height: int) -> np.ndarray:
    rows = np.arange(width * height).reshape(height, width)
    rows[1::2] = rows[1::2, ::-1]
    return rows.ravel()


def _column_major(width: int, height: int) -> np.ndarray:
    return np.arange(width * height).reshape(height, width).T.ravel()


def _scattered(width: int, height: int) -> np.ndarray:
    return np.arange(width * height) * 27 % (width * height)


@pytest.mark.parametrize("build", [torus, mesh])
@pytest.mark.parametrize("mapping", [_row_major, _snake, _column_major, _scattered])
def test_a_logical_ring_costs_the_load_of_its_mapping(
    build: Callable[..., Topology], mapping: Callable[[int, int], np.ndarray]
) -> None:
    topology = build([8, 8], [LINK, LINK])
    place = mapping(8, 8)
    sources = np.concatenate([place, place])
    destinations = np.concatenate([np.roll(place, -1), np.roll(place, 1)])
    load = heaviest_load(topology, sources, destinations)
    assert span(topology, sources, destinations) == pytest.approx(load * 0.1, rel=1e-12)


def test_snake_and_row_major() -> None:
    loads, hops = {}, {}
    for build in (torus, mesh):
        topology = build([8, 8], [LINK, LINK])
        for mapping in (_row_major, _snake):
            place = mapping(8, 8)[:-1]
            along = (np.concatenate([place[:-1], place[1:]]), np.concatenate([place[1:], place[:-1]]))
            key = build.__name__, mapping.__name__
            loads[key] = heaviest_load(topology, *along)
            hops[key] = int(np.diff(topology.routes(*along).offsets).max())
    # The snake's neighbours are neighbours. Row by row the step to the next row is two links where rows are closed;
    # where they are not, it goes back over the whole row, against the messages of the other direction.
    assert hops == {
        ("torus", "_row_major"): 2,
        ("torus", "_snake"): 1,
        ("mesh", "_row_major"): 8,
        ("mesh", "_snake"): 1,
    }
    assert loads == {
        ("torus", "_row_major"): 1,
        ("torus", "_snake"): 1,
        ("mesh", "_row_major"): 2,
        ("mesh", "_snake"): 1,
    }


_PROCESSORS = 16
_HERE = np.arange(_PROCESSORS)
_PAIRS = np.indices((_PROCESSORS, _PROCESSORS)).reshape(2, -1)
_TRAFFIC = {
    "ring": (_HERE, (_HERE + 1) % _PROCESSORS),
    "all-to-all": (_PAIRS[0], _PAIRS[1]),
    "incast": (_HERE[1:], np.zeros(_PROCESSORS - 1, dtype=int)),
}
_NETWORKS: dict[str, Callable[[Link], Topology]] = {
    "ring": lambda link: ring(_PROCESSORS, link),
    "switch": lambda link: switch(_PROCESSORS, link),
    "torus": lambda link: torus([4, 4], [link, link]),
    "fat tree": lambda link: fat_tree((2, 2, 4), (2, 2), (link, link, link)),
    "oversubscribed": lambda link: leaf_spine(4, 4, 2, link=link, uplink=link),
}


@pytest.mark.parametrize("traffic", _TRAFFIC)
@pytest.mark.parametrize("network", _NETWORKS)
def test_more_bandwidth_everywhere_never_slows_anything(network: str, traffic: str) -> None:
    sources, destinations = _TRAFFIC[traffic]
    sizes = 1.0 + np.arange(len(sources)) % 3
    narrow, wide = (
        delivered(
            FlowNetwork(_NETWORKS[network](Link(bandwidth=bandwidth, latency=0.125))), sources, destinations, sizes
        )
        for bandwidth in (10.0, 25.0)
    )
    latency = delivered(FlowNetwork(_NETWORKS[network](Link(bandwidth=1.0, latency=0.125))), sources, destinations, 0.0)
    np.testing.assert_allclose(wide - latency, (narrow - latency) / 2.5, rtol=1e-9, atol=1e-12)
