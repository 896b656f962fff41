"""What the tests of network models share: the reference's values, and traffic that goes on in steps."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from codesign_opt.graphs import Ragged
from codesign_opt.simulation.networks import Network

DATA = Path(__file__).parents[2] / "data"
Step = tuple[ArrayLike, ArrayLike, ArrayLike]


def golden(key: str) -> list[dict[str, Any]]:
    """The cases under a key of the golden network values."""
    with gzip.open(DATA / "paragraph" / "network.json.gz") as file:
        return json.load(file)[key]


def numbered(case: dict[str, Any]) -> tuple[np.ndarray, Ragged]:
    """Capacities and routes of a golden case, with numbers for the names of links."""
    names = list(case["capacity"])
    routes = [[names.index(link) for link in flow] for flow in case["flows"]]
    return np.array([float(case["capacity"][name]) for name in names]), Ragged.from_lists(routes)


def delivered(network: Network, sources: ArrayLike, destinations: ArrayLike, sizes: ArrayLike) -> np.ndarray:
    """When each of some messages, all posted at 0, is delivered."""
    return _step(network, 0.0, (sources, destinations, sizes))


def time_of_steps(network: Network, steps: Iterable[Step]) -> float:
    """When the last message is delivered where each step begins when the one before has ended."""
    time = 0.0
    for step in steps:
        time = float(_step(network, time, step).max())
    return time


def _step(network: Network, time: float, step: Step) -> np.ndarray:
    sources, destinations, sizes = (
        np.broadcast_to(column, np.broadcast_shapes(*map(np.shape, step))) for column in step
    )
    messages = [
        network.post(time, route_class, size)
        for route_class, size in zip(network.classes(sources, destinations).tolist(), sizes.tolist(), strict=True)
    ]
    times = {delivery.message: delivery.delivered for delivery in network.advance(math.inf)}
    return np.array([times[message] for message in messages])
