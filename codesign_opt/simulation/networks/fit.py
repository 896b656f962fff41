"""Latency and bandwidth fitted to measured times."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codesign_opt.errors import InputError

Array = NDArray[Any]


class AlphaBeta(NamedTuple):
    """Time of an operation over its size: alpha + beta · size.

    Attributes:
        alpha: Seconds.
        beta: Seconds a byte.
    """

    alpha: float
    beta: float

    def seconds(self, sizes: ArrayLike) -> Array:
        """Time of operations of these sizes in bytes."""
        return self.alpha + self.beta * np.asarray(sizes, dtype=np.float64)


def fit_alpha_beta(sizes: ArrayLike, seconds: ArrayLike) -> AlphaBeta:
    """The line with the least squares of relative errors.

    Args:
        sizes: Bytes, at least two different ones.
        seconds: Measured, above 0.

    Raises:
        InputError: For fewer than two different sizes, or a time that is not above 0.
    """
    size, time = (np.atleast_1d(np.asarray(column, dtype=np.float64)) for column in (sizes, seconds))
    if len(np.unique(size)) < 2:
        raise InputError("fit: all sizes are the same", "measure at least two sizes")
    if not (time > 0).all():
        raise InputError(f"fit: a time of {time.min()} s is not allowed", "above 0 s")
    # Sizes in units of the largest: both columns are then of one magnitude.
    scale = size.max()
    solution, *_ = np.linalg.lstsq(np.stack([1 / time, size / scale / time], axis=1), np.ones(len(time)), rcond=None)
    return AlphaBeta(float(solution[0]), float(solution[1] / scale))
