from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codesign_opt.errors import InputError
from codesign_opt.simulation.topologies import (
    Link,
    Topology,
    concentrated,
    dragonfly,
    fat_tree,
    full_mesh,
    leaf_spine,
    line,
    mesh,
    product,
    rail_optimised,
    ring,
    switch,
    torus,
)
from codesign_opt.simulation.topologies.files import read_topology

FAST = Link(bandwidth=50e9, latency=1e-6)
SLOW = Link(bandwidth=25e9, latency=2e-6, efficiency=0.9)
LINK = 'bandwidth = "50 GB/s"\nlatency = "1 us"\n'
FAST_TABLE = '{ bandwidth = "50 GB/s", latency = "1 us" }'
SLOW_TABLE = '{ bandwidth = "25 GB/s", latency = "2 us", efficiency = 0.9 }'
RAILS = 'kind = "rail-optimised"\nnodes = 4\nprocessors_per_node = 2\n'

GOOD = {
    f'kind = "full-mesh"\nprocessors = 4\n{LINK}': lambda: full_mesh(4, FAST),
    f'kind = "full-mesh"\nprocessors = 4\nshared = true\n{LINK}': lambda: full_mesh(4, FAST, shared=True),
    f'kind = "switch"\nprocessors = 4\nswitch_latency = "300 ns"\n{LINK}': lambda: switch(
        4, FAST, switch_latency=300e-9
    ),
    f'kind = "ring"\nprocessors = 6\n{LINK}': lambda: ring(6, FAST),
    f'kind = "ring"\nprocessors = 6\nbidirectional = false\n{LINK}': lambda: ring(6, FAST, bidirectional=False),
    f'kind = "torus"\nwidths = [4, 8]\n{LINK}': lambda: torus([4, 8], [FAST, FAST]),
    'kind = "mesh"\nwidths = [2, 3]\nbandwidth = ["50 GB/s", "400 Gb/s"]\nlatency = ["1 us", "2 us"]': lambda: mesh(
        [2, 3], [FAST, Link(bandwidth=50e9, latency=2e-6)]
    ),
    f'kind = "leaf-spine"\nleaves = 4\nprocessors_per_leaf = 8\nspines = 2\noversubscription = 2.0\n{LINK}': lambda: (
        leaf_spine(4, 8, 2, link=FAST, uplink=Link(bandwidth=100e9, latency=1e-6))
    ),
    'kind = "fat-tree"\nchildren = [2, 4, 4]\nparents = [2, 4]\nrouting = "spray"\nlatency = "1 us"\n'
    'bandwidth = ["50 GB/s", "25 GB/s", "10 GB/s"]': lambda: fat_tree(
        (2, 4, 4),
        (2, 4),
        (FAST, Link(bandwidth=25e9, latency=1e-6), Link(bandwidth=10e9, latency=1e-6)),
        routing="spray",
    ),
    f"{RAILS}inside = {FAST_TABLE}\nrail = {SLOW_TABLE}": lambda: rail_optimised(4, 2, inside=FAST, rail=SLOW),
    f"{RAILS}inside = {FAST_TABLE}\nrail = {FAST_TABLE}\nspine = {SLOW_TABLE}": lambda: rail_optimised(
        4, 2, inside=FAST, rail=FAST, spine=SLOW
    ),
    'kind = "dragonfly"\ngroups = 5\nrouters = 2\nprocessors_per_router = 2\nglobal_links = 2\nrouting = "valiant"\n'
    f"terminal = {FAST_TABLE}\nlocal = {FAST_TABLE}\noptical = {SLOW_TABLE}": lambda: dragonfly(
        5,
        2,
        processors_per_router=2,
        global_links=2,
        terminal=FAST,
        local=FAST,
        optical=SLOW,
        routing="valiant",
    ),
    f'kind = "product"\n[[topology.dimensions]]\nkind = "line"\nwidth = 3\n{LINK}'
    f'[[topology.dimensions]]\nkind = "full-mesh"\nwidth = 4\n{LINK}': lambda: product(
        [line(3, FAST), full_mesh(4, FAST)]
    ),
    f'kind = "ring"\nprocessors = 4\n{LINK}[topology.concentration]\nprocessors_per_node = 2\n{LINK}': lambda: (
        concentrated(ring(4, FAST), 2, FAST)
    ),
}


def check_equal(topology: Topology, other: Topology) -> None:
    assert (topology.name, topology.switches, topology.diameter) == (other.name, other.switches, other.diameter)
    assert topology.bisection == pytest.approx(other.bisection, rel=1e-12)
    np.testing.assert_array_equal(topology.tail, other.tail)
    np.testing.assert_array_equal(topology.head, other.head)
    np.testing.assert_allclose(topology.capacity, other.capacity, rtol=1e-12)
    np.testing.assert_allclose(topology.latency, other.latency, rtol=1e-12)


def written(folder: Path, text: str, name: str = "network.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", GOOD, ids=lambda text: text.split("\n")[0])
def test_every_kind_can_be_read(text: str, tmp_path: Path) -> None:
    check_equal(read_topology(written(tmp_path, f"[topology]\n{text}\n")), GOOD[text]())


RING = f'[topology]\nkind = "ring"\nprocessors = 6\n{LINK}'
TREE = '[topology]\nkind = "fat-tree"\nchildren = [4, 4]\nparents = [2]\nlatency = "1 us"\n'

BAD = {
    "no table": ("x = 1\n", "x: unknown key", "topology"),
    "not a table": ("topology = 3\n", "topology: 3 is not allowed", "[topology]"),
    "empty table": ("[topology]\n", "topology.kind: missing", "allowed: full-mesh, switch, ring"),
    "near miss of a kind": (RING.replace('"ring"', '"rings"'), "topology.kind: 'rings' is not allowed", "'ring'"),
    "kind of another type": (RING.replace('"ring"', "7"), "topology.kind: 7 is not allowed", "full-mesh"),
    "near miss of a key": (
        RING.replace("processors", "procesors"),
        "topology.procesors: unknown key",
        "did you mean 'processors'",
    ),
    "missing key": (RING.replace("processors = 6\n", ""), "topology.processors: missing", "processors = 8"),
    "no unit": (RING.replace('"50 GB/s"', "50"), "topology.bandwidth: 50 has no unit", "50 GB/s"),
    "wrong unit": (RING.replace("1 us", "1 GB"), "topology.latency: '1 GB' is not a quantity in 's'", "us"),
    "zero bandwidth": (RING.replace("50 GB/s", "0 GB/s"), "topology.bandwidth: 0 B/s is not allowed", "above"),
    "one processor": (RING.replace("6", "1"), "topology: ring: processors: 1 is not allowed", "at least 2"),
    "efficiency above one": (f"{RING}efficiency = 1.1\n", "topology.efficiency", "at most 1"),
    "latencies for another number": (
        TREE.replace('"1 us"', '["1 us", "1 us", "1 us"]') + 'bandwidth = "50 GB/s"\n',
        "topology: latency: 3 entries",
        "one, or 2",
    ),
    "parents for another number": (
        TREE.replace("[2]", "[2, 2]") + 'bandwidth = "50 GB/s"\n',
        "topology: parents: 2 entries",
        "one less than `children` has, 1",
    ),
    "bandwidths beside oversubscription": (
        f'{TREE}bandwidth = ["50 GB/s", "50 GB/s"]\noversubscription = 2.0\n',
        "topology: bandwidth: 2 entries",
        "only one",
    ),
    "unknown routing": (
        f'{TREE}bandwidth = "50 GB/s"\nrouting = "emcp"\n',
        "topology.routing: 'emcp' is not allowed",
        "did you mean 'ecmp'",
    ),
    "nested table": (
        '[topology]\nkind = "rail-optimised"\nnodes = 2\nprocessors_per_node = 2\n'
        f'inside = {FAST_TABLE}\nrail = {{ bandwidth = "50 GB/s", latency = "1 parsec" }}\n',
        "topology.rail.latency: unknown unit 'parsec'",
        "",
    ),
    "product of nothing": (
        '[topology]\nkind = "product"\n',
        "topology.dimensions: missing",
        'for instance dimensions = [{"kind": "ring", "width": 4,',
    ),
    "bad concentration": (
        f"{RING}[topology.concentration]\nprocessors_per_node = 0\n{LINK}",
        "topology.concentration.processors_per_node: 0",
        "greater than or equal to 1",
    ),
    "no TOML": ("[topology\n", "not TOML", ""),
    "empty": ("", "is empty", ""),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_with_file_key_and_what_is_allowed(name: str, tmp_path: Path) -> None:
    text, message, hint = BAD[name]
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_topology(path)
    assert caught.value.message.startswith(str(path))
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for name in ("network.toml", "network.yml"):
        with pytest.raises(InputError, match="no such file"):
            read_topology(tmp_path / name)


YAML = (
    "topology: [ Ring, Ring ]  # 4 x 8\nnpus_count: [ 4, 8 ]\nbandwidth: [ 80, 80.0 ]  # GB/s\nlatency: [ 1000, 500 ]\n"
)


def test_astra_sims_network_file(tmp_path: Path) -> None:
    topology = read_topology(written(tmp_path, YAML, "network.yml"))
    links = [Link(bandwidth=80 * 2**30, latency=latency) for latency in (1e-6, 0.5e-6)]
    check_equal(topology, product([ring(4, links[0]), ring(8, links[1])]))
    assert set(topology.capacity.tolist()) == {80 * 2**30}


def test_astra_sims_other_blocks(tmp_path: Path) -> None:
    text = "topology: [FullyConnected, Switch]\nnpus_count: [4, 2]\nbandwidth: [100, 400]\nlatency: [700, 936.25]\n"
    topology = read_topology(written(tmp_path, text, "network.yaml"))
    mesh_link, port = Link(bandwidth=100 * 2**30, latency=700e-9), Link(bandwidth=400 * 2**30, latency=936.25e-9)
    check_equal(topology, product([full_mesh(4, mesh_link), switch(2, port)]))
    # A switch counts two hops.
    assert topology.latency[topology.routes([0], [4])[0]].sum() == pytest.approx(2 * 936.25e-9, rel=1e-12)


BAD_YAML = {
    "near miss of a block": (YAML.replace("[ Ring,", "[ Rings,"), "topology.0: 'Rings' is not allowed", "'Ring'"),
    "different lengths": (YAML.replace("[ 4, 8 ]", "[ 32 ]"), "npus_count: 1 entries", "as many as `topology` has, 2"),
    "one processor": (YAML.replace("[ 4, 8 ]", "[ 4, 1 ]"), "npus_count.1: 1 is not allowed", "equal to 2"),
    "no list": (YAML.replace("[ 4, 8 ]", "4"), "npus_count: 4 is not allowed", "a list"),
    "near miss of a key": (YAML.replace("npus_count", "npu_count"), "npu_count: unknown key", "'npus_count'"),
    "zero bandwidth": (YAML.replace("80.0", "0"), "bandwidth.1: 0 is not allowed", "greater than 0"),
    "no mapping": ("- 1\n- 2\n", "[1, 2] is not allowed", "a table"),
    "no YAML": ("topology: [ Ring\nnpus", "line 2: not YAML", "topology: [ Ring ]"),
}


@pytest.mark.parametrize("name", BAD_YAML)
def test_bad_astra_sim_files_are_refused(name: str, tmp_path: Path) -> None:
    text, message, hint = BAD_YAML[name]
    path = written(tmp_path, text, "network.yml")
    with pytest.raises(InputError) as caught:
        read_topology(path)
    assert caught.value.message.startswith(str(path))
    assert message in caught.value.message
    assert hint in caught.value.hint
