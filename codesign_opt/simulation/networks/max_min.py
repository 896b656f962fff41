"""Max-min fair rates: no flow can gain without taking from one that has no more."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codesign_opt.graphs.graph import Ragged

Array = NDArray[Any]

AT_CAP = -1
"""Stands for a bottleneck: the flow is limited by its own cap, or by nothing."""

_SAME = 1e-12
"""Shares that differ by less, relatively, are one level: they differ by rounding only."""


def max_min_rates(
    capacity: ArrayLike, routes: Ragged, *, caps: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Array:
    """The max-min fair rate of each flow, bytes/s.

    Args:
        capacity: Of each link, bytes/s, finite.
        routes: Links of each flow, none of them twice.
        caps: Most that each flow can take, bytes/s; None for no cap. A flow without links needs one to be finite.
        weights: Shares are in proportion to these; None for equal ones.
    """
    return water_fill(capacity, routes, caps=caps, weights=weights)[0]


def water_fill(
    capacity: ArrayLike, routes: Ragged, *, caps: ArrayLike | None = None, weights: ArrayLike | None = None
) -> tuple[Array, Array]:
    """The max-min fair rate of each flow and the link that limits it, or `AT_CAP`; arguments as `max_min_rates`.

    In each round every link whose share is the least on the whole route of each of its flows is a bottleneck: other
    shares only rise while flows are fixed. That takes as many rounds as bottlenecks depend on each other in a row, not
    as many as there are different rates.
    """
    flows = len(routes)
    weight = np.ones(flows) if weights is None else np.asarray(weights, dtype=np.float64)
    level = np.full(flows, np.inf) if caps is None else np.asarray(caps, dtype=np.float64) / weight
    limits = np.full(flows, AT_CAP, dtype=np.int64)
    left = np.array(capacity, dtype=np.float64)
    rows, links = np.repeat(np.arange(flows), np.diff(routes.offsets)), routes.values
    while len(rows):
        demand = np.bincount(links, weight[rows], minlength=len(left))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(demand > 0, np.maximum(left, 0.0) / demand, np.inf)
        first = np.flatnonzero(np.diff(rows, prepend=-1))
        flow = rows[first]
        link_share = share[links]
        least = np.minimum.reduceat(link_share, first)
        capped = level[flow] <= least
        least = np.minimum(least, level[flow])
        lengths = np.diff(first, append=len(rows))
        least_of_entry = np.repeat(least, lengths)
        least_on_link = np.full(len(left), np.inf)
        np.minimum.at(least_on_link, links, least_of_entry)
        limiting = (least_on_link[links] >= link_share * (1 - _SAME)) & (link_share <= least_of_entry * (1 + _SAME))
        fixed = np.logical_or.reduceat(limiting, first) | capped
        level[flow[fixed]] = least[fixed]
        entries = np.flatnonzero(limiting)[::-1]
        limits[rows[entries]] = links[entries]
        limits[flow[capped]] = AT_CAP
        gone = np.repeat(fixed, lengths)
        taken = (weight[rows] * level[rows])[gone]
        left -= np.bincount(links[gone], taken, minlength=len(left))
        rows, links = rows[~gone], links[~gone]
    return level * weight, limits


def certificate(
    capacity: ArrayLike,
    routes: Ragged,
    rates: ArrayLike,
    *,
    caps: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    tolerance: float = 1e-9,
) -> Array:
    """For each flow whether its rate is proven to be the max-min fair one; all are exactly where all are proven.

    A rate is proven where the flow is at its cap, or has a saturated link on which no other flow has more for its
    weight. No rate on a link that carries more than its capacity is, and none above its cap.

    Args:
        capacity, routes, caps, weights: As for `max_min_rates`.
        rates: Bytes/s of each flow.
        tolerance: Relative, for saturated, equal and above.
    """
    limit = np.asarray(capacity, dtype=np.float64)
    rate = np.asarray(rates, dtype=np.float64)
    weight = np.ones(len(rate)) if weights is None else np.asarray(weights, dtype=np.float64)
    cap = np.full(len(rate), np.inf) if caps is None else np.asarray(caps, dtype=np.float64)
    rows, links = np.repeat(np.arange(len(rate)), np.diff(routes.offsets)), routes.values
    load = np.bincount(links, rate[rows], minlength=len(limit))
    fastest = np.zeros(len(limit))
    np.maximum.at(fastest, links, (rate / weight)[rows])
    saturated = load >= limit * (1 - tolerance)
    leads = (rate / weight)[rows] >= fastest[links] * (1 - tolerance)
    overfull = load > limit * (1 + tolerance)
    proven = np.bincount(rows, saturated[links] & leads, minlength=len(rate)) > 0
    proven |= rate >= cap * (1 - tolerance)
    broken = np.bincount(rows, overfull[links], minlength=len(rate)) > 0
    return proven & ~broken & (rate <= cap * (1 + tolerance))
