"""The shipped intervals are those of the shipped runs."""

from __future__ import annotations

import tomllib

import pytest

from codesign_opt.objectives.intervals import PARALLELISMS, nearest_interval, published_intervals
from codesign_opt.validation.residuals import shipped_residuals


@pytest.mark.slow
def test_the_shipped_file_is_what_the_script_makes() -> None:
    made = tomllib.loads(shipped_residuals())["interval"]
    shipped = published_intervals()
    assert [(one.generation, one.parallelism, one.runs, one.families) for one in shipped] == [
        (one["generation"], one["parallelism"], one["runs"], one["families"]) for one in made
    ]
    for end in ("lower", "upper"):
        assert [getattr(one, end) for one in shipped] == pytest.approx([one[end] for one in made], rel=0.01)


def test_every_system_and_class_has_an_interval() -> None:
    for generation in ("ampere", "hopper", "blackwell", "volta", "tpu", "gaudi", "any"):
        for parallelism in PARALLELISMS:
            interval = nearest_interval(published_intervals(), generation, parallelism)
            assert interval is not None
            assert interval.runs >= 20
            assert 0 < interval.lower < interval.upper
