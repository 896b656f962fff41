"""Pareto fronts and hypervolume of values that are all to be minimised."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

REFERENCE_MARGIN = 0.1
"""How far `reference_point` lies beyond the front, as a share of the front's extent."""


def pareto_front(values: ArrayLike) -> NDArray[np.intp]:
    """Rows that no other row dominates, as rising indices; equal rows are all kept.

    Args:
        values: Shape (rows, objectives), all to be minimised.

    Raises:
        ValueError: Not two-dimensional, or NaN among the values.
    """
    rows = _rows(values)
    if not rows.size:
        return np.empty(0, dtype=np.intp)
    import moocore

    return np.flatnonzero(moocore.is_nondominated(rows, keep_weakly=True))


def hypervolume(values: ArrayLike, reference: ArrayLike) -> float:
    """Volume between the front of `values` and `reference`; rows beyond the reference add nothing.

    Args:
        values: Shape (rows, objectives), all to be minimised.
        reference: One value for each objective, finite.

    Raises:
        ValueError: Not of these shapes, NaN among the values, or a reference that is not finite.
    """
    rows = _rows(values)
    corner = np.asarray(reference, dtype=np.float64)
    if corner.ndim != 1 or not np.isfinite(corner).all():
        raise ValueError(f"the reference must be one finite value for each objective, not {reference!r}")
    if not rows.size:
        return 0.0
    if rows.shape[1] != len(corner):
        raise ValueError(f"{rows.shape[1]} objectives, but a reference of {len(corner)} values")
    import moocore

    return float(moocore.hypervolume(rows, ref=corner))


def reference_point(values: ArrayLike, *, margin: float = REFERENCE_MARGIN) -> NDArray[np.float64]:
    """A reference for `hypervolume`: the front's worst value of each objective and `margin` of its extent more.

    Where the front has no extent, `margin` is taken of the value itself, or of 1 where that is 0.

    Args:
        values: Shape (rows, objectives), all to be minimised.
        margin: Share of the extent, above 0, so that the front's ends have a volume.

    Raises:
        ValueError: No rows, or values on the front that are not finite.
    """
    rows = _rows(values)
    front = rows[pareto_front(rows)]
    if not front.size or not np.isfinite(front).all():
        raise ValueError("a reference point needs at least one row, and finite values on the front")
    worst, extent = front.max(axis=0), np.ptp(front, axis=0)
    extent = np.where(extent > 0, extent, np.where(worst != 0, np.abs(worst), 1.0))
    return np.asarray(worst + margin * extent)


def _rows(values: ArrayLike) -> NDArray[Any]:
    rows = np.asarray(values, dtype=np.float64)
    if rows.size == 0:
        return rows.reshape(0, rows.shape[1] if rows.ndim == 2 else 0)
    if rows.ndim != 2:
        raise ValueError(f"values must have the shape (rows, objectives), not {rows.shape}")
    if np.isnan(rows).any():
        raise ValueError("NaN among the values: leave such rows out first")
    return rows
