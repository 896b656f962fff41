"""How many flows a second the network of max-min fair flows completes, and how many link events the FIFO network.

    python benchmarks/network_rate.py [--processors 1024] [--rounds 20] [--repetitions 3]

Every processor sends one message a round: to its neighbour (ring), to the one 32 further on (stride), or to another one
each round (all-to-all, direct). "In step" all begin a round together, when the round before has ended; "on their own"
each processor goes on as soon as its message is delivered and the one for it has arrived. That spreads the ends of
flows over time, most of all where the hash of the pairs (ECMP, where no other routing is named) puts some on one link.
Messages are equal, or of 50 to 150 % of the size. Routes are looked up before the clock starts. Seconds are those of
the processor; rates are medians of the repetitions, which go through all cases in turn.
"""

from __future__ import annotations

import argparse
import heapq
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from machine import machine
from numpy.typing import NDArray

from codesign_opt.simulation.networks import FifoNetwork, FlowNetwork
from codesign_opt.simulation.topologies import Link, Topology, fat_tree, leaf_spine, ring, switch, torus

LINK = Link(bandwidth=50e9, latency=1e-6)
SIZE = 1e6
STRIDE = 32

Shifts = NDArray[np.int64]


class Case(NamedTuple):
    """One row of the table: a network, and how far each round's messages go."""

    name: str
    topology: Topology
    traffic: str
    shifts: Shifts
    equal: bool


def main() -> None:
    """Time all cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--processors", type=int, default=1024, help="a square, and a multiple of 64 (default 1024)")
    parser.add_argument("--rounds", type=int, default=20, help="messages of each processor (default 20)")
    parser.add_argument("--repetitions", type=int, default=3, help="how often each case is timed (default 3)")
    options = parser.parse_args()

    cases = list(all_cases(options.processors, options.rounds))
    rates: dict[tuple[int, str], list[float]] = defaultdict(list)
    fifo: list[float] = []
    for _ in range(options.repetitions):
        for number, case in enumerate(cases):
            rates[number, "in step"].append(rate(in_step, case))
            rates[number, "alone"].append(rate(on_their_own, case))
        fifo.append(fifo_rate())

    print(
        f"{machine()}\n{options.processors} processors, {options.repetitions} repetitions, flow completions a second\n"
    )
    print(f"{'network':<24}{'traffic':<26}{'flows':>8}{'in step':>12}{'on their own':>14}")
    for number, case in enumerate(cases):
        together, alone = (statistics.median(rates[number, way]) for way in ("in step", "alone"))
        flows = len(case.shifts) * case.topology.processors
        print(f"{case.name:<24}{case.traffic:<26}{flows:>8}{together:>12,.0f}{alone:>14,.0f}")
    print(f"\nFIFO network, all-to-all at once on a ring of 64: {statistics.median(fifo):,.0f} link events a second")


def all_cases(processors: int, rounds: int) -> Iterator[Case]:
    """The rows of the table."""
    width = math.isqrt(processors)
    networks = {
        "ring": ring(processors, LINK),
        "switch": switch(processors, LINK),
        f"torus {width}×{width}": torus([width, width], [LINK, LINK]),
        "leaf-spine": leaf_spine(processors // 32, 32, 32, link=LINK, uplink=LINK),
        "leaf-spine, destination": leaf_spine(processors // 32, 32, 32, link=LINK, uplink=LINK, routing="destination"),
        "leaf-spine 2:1, sprayed": leaf_spine(processors // 32, 32, 16, link=LINK, uplink=LINK, routing="spray"),
        "fat tree, 3 levels": fat_tree((8, 8, processors // 64), (8, 8), (LINK, LINK, LINK)),
    }
    neighbours, stride = np.full(rounds, 1), np.full(rounds, STRIDE)
    others = np.linspace(1, processors - 1, rounds).astype(np.int64)
    for name, topology in networks.items():
        if not name.startswith("torus"):
            yield Case(name, topology, "ring", neighbours, equal=True)
        if "leaf" in name or "tree" in name:
            yield Case(name, topology, "stride", stride, equal=True)
        if name != "ring":
            yield Case(name, topology, "all-to-all", others, equal=True)
    yield Case("ring", networks["ring"], "ring, sizes vary", neighbours, equal=False)
    yield Case("leaf-spine", networks["leaf-spine"], "all-to-all, sizes vary", others, equal=False)


def rate(run: Callable[[FlowNetwork, NDArray[np.int64], NDArray[np.float64]], int], case: Case) -> float:
    """Flows that a way to drive a case completes in a second."""
    processors = case.topology.processors
    network = FlowNetwork(case.topology)
    here = np.arange(processors)
    classes = np.stack([network.classes(here, (here + shift) % processors) for shift in case.shifts])
    variation = np.random.default_rng(1).uniform(0.5, 1.5, classes.shape)
    sizes = np.full(classes.shape, SIZE) if case.equal else SIZE * variation
    start = time.process_time()
    completed = run(network, classes, sizes) if run is in_step else on_their_own(network, classes, sizes, case.shifts)
    seconds = time.process_time() - start
    if completed != classes.size:
        raise SystemExit(f"{case.name}, {case.traffic}: {completed} of {classes.size} flows completed")
    return completed / seconds


def in_step(network: FlowNetwork, classes: NDArray[np.int64], sizes: NDArray[np.float64]) -> int:
    """Begin each round when the one before has ended; returns the number of flows that were completed."""
    now, completed = 0.0, 0
    for classes_of_round, sizes_of_round in zip(classes.tolist(), sizes.tolist(), strict=True):
        for route_class, size in zip(classes_of_round, sizes_of_round, strict=True):
            network.post(now, route_class, size)
        deliveries = network.advance(math.inf)
        now = max(delivery.delivered for delivery in deliveries)
        completed += len(deliveries)
    return completed


def on_their_own(network: FlowNetwork, classes: NDArray[np.int64], sizes: NDArray[np.float64], shifts: Shifts) -> int:
    """Let each processor begin its next round when its message and the one for it have arrived."""
    rounds, processors = classes.shape
    class_of, size_of = classes.tolist(), sizes.tolist()
    arrived = [[0] * processors for _ in range(rounds)]
    sender: list[tuple[int, int]] = []
    on_the_way: list[tuple[float, int]] = []
    completed = 0

    def begin(processor: int, number: int, now: float) -> None:
        network.post(now, class_of[number][processor], size_of[number][processor])
        sender.append((processor, number))

    for processor in range(processors):
        begin(processor, 0, 0.0)
    while True:
        completion = network.next_completion()
        now = min(completion, on_the_way[0][0] if on_the_way else math.inf)
        if now == math.inf:
            return completed
        if completion <= now:
            for message, _, delivered in network.advance(now):
                heapq.heappush(on_the_way, (delivered, message))
                completed += 1
        while on_the_way and on_the_way[0][0] <= now:
            processor, number = sender[heapq.heappop(on_the_way)[1]]
            for end in (processor, (processor + int(shifts[number])) % processors):
                arrived[number][end] += 1
                if arrived[number][end] == 2 and number + 1 < rounds:
                    begin(end, number + 1, now)


def fifo_rate() -> float:
    """Messages taken up by links in a second."""
    topology = ring(64, LINK)
    sources, destinations = np.indices((64, 64)).reshape(2, -1)
    network = FifoNetwork(topology)
    classes = network.classes(sources, destinations).tolist()
    start = time.process_time()
    for route_class in classes:
        network.post(0.0, route_class, SIZE)
    network.advance(math.inf)
    return len(topology.routes(sources, destinations).values) / (time.process_time() - start)


if __name__ == "__main__":
    main()
