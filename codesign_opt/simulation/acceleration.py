"""The event engine's inner loop, compiled by numba where that is installed."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

from codesign_opt.errors import MissingExtraError
from codesign_opt.simulation import kernel


def has_numba() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


@cache
def compiled_run() -> Any:
    """`kernel.run`, compiled. The first call takes seconds; later ones find the result on disk where it can be kept.

    Raises:
        MissingExtraError: Without numba.
    """
    if not has_numba():
        raise MissingExtraError("the compiled event engine needs numba", "pip install 'codesign-opt[fast]'")
    import numba

    try:
        return numba.njit(cache=True)(kernel.run)
    except RuntimeError:
        # No directory to keep the result in.
        return numba.njit(kernel.run)
