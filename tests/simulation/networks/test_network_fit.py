from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign_opt.errors import InputError
from codesign_opt.simulation.networks import fit_alpha_beta


@given(st.floats(1e-7, 1e-2), st.floats(1e-13, 1e-6), st.lists(st.floats(1.0, 1e10), min_size=2, max_size=10))
def test_a_line_is_found_again(alpha: float, beta: float, sizes: list[float]) -> None:
    sizes = [*sizes, 10.0, 1e9]
    seconds = alpha + beta * np.array(sizes)
    np.testing.assert_allclose(fit_alpha_beta(sizes, seconds).seconds(sizes), seconds, rtol=1e-6)


def test_relative_errors_are_what_is_made_small() -> None:
    # Two sizes, two times each, as much above as below in relation: no line does better than their harmonic middle.
    # Minimising ((t - 1) / 1)² + ((t - 2) / 2)² gives t = (1 + 1/2) / (1 + 1/4) = 6/5.
    fit = fit_alpha_beta([1.0, 1.0, 3.0, 3.0], [1.0, 2.0, 10.0, 20.0])
    assert fit.seconds([1.0, 3.0]).tolist() == pytest.approx([1.2, 12.0], rel=1e-12)
    assert (fit.alpha, fit.beta) == pytest.approx((1.2 - 5.4, 5.4), rel=1e-12)


def test_what_cannot_be_fitted_is_refused() -> None:
    with pytest.raises(InputError, match="all sizes are the same"):
        fit_alpha_beta([5.0, 5.0], [1.0, 2.0])
    with pytest.raises(InputError, match=r"time of 0\.0 s"):
        fit_alpha_beta([5.0, 6.0], [0.0, 2.0])
