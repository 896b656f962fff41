"""Local polish: better than where it began, stored like any trial, and repeatable."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign_opt import api
from codesign_opt.db import open_database
from codesign_opt.errors import InputError
from codesign_opt.studies.outcome import Candidate, Outcome
from codesign_opt.studies.points import Dimension, Point
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.studies.study import Study

MEMORY, NETWORK = "memory_tier1.bandwidth", "network_tiers.0.bandwidth"
BEST = {MEMORY: 1.0e12, NETWORK: 0.4e12}

Tiny = Callable[..., StudySpecification]


def bowl(specification: StudySpecification, method: str, point: Point) -> Outcome:
    """A step time with one minimum, 1 s at `BEST`; what is left of a fifth of the network is infeasible."""
    memory = math.log10(float(point[MEMORY]) / BEST[MEMORY])
    network = (float(point[NETWORK]) - BEST[NETWORK]) / 1e12
    values = {"step_time": 1.0 + memory**2 + network**2}
    missing = 0.2 - float(point[NETWORK]) / 1e12
    if missing > 0:
        return Outcome(state="infeasible", reason="slow", values=values, constraints={"limit": missing})
    best = Candidate(on_front=True, strategy={"tp": 2}, metrics=values)
    return Outcome(state="complete", values=values, constraints={"limit": missing}, candidates=(best,))


@pytest.fixture(autouse=True)
def _without_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codesign_opt.studies.evaluator.evaluate_point", bowl)


def step_times(study: Study) -> list[float]:
    return [row.values["step_time"] or 0.0 for row in study.evaluations]


def samplers(url: str) -> list[str]:
    with open_database(url) as database:
        return [batch.sampler for batch in database.read_batches("tiny")]


def test_the_minimum_is_found(tiny: Tiny, tmp_path: Path) -> None:
    specification = tiny(objectives="step_time", sampler="random", budget=8)
    url = str(tmp_path / "studies.db")
    study = api.search(specification, db=url, polish=120)
    times = step_times(study)
    assert min(times[:8]) > 1.001
    assert min(times) == pytest.approx(1.0, abs=1e-6)
    assert study.best_point == pytest.approx(BEST, rel=2e-3)
    assert study.finished == "budget"
    # One batch of the sampler; each point of the polish is stored at once.
    assert samplers(url) == ["random", *["polish"] * (len(times) - 8)]
    assert len(times) <= 8 + 120


def test_an_interrupted_polish_goes_on_as_if_it_had_not_been(tiny: Tiny, tmp_path: Path) -> None:
    specification = tiny(objectives="step_time", sampler="tpe", budget=8)
    whole = api.search(specification, db=str(tmp_path / "whole.db"), polish=30)
    url = str(tmp_path / "parts.db")
    for points in (4, 11, 30):
        study = api.search(specification, db=url, polish=points)
        assert len(study.evaluations) == 8 + points
    assert list(study.evaluations) == list(whole.evaluations)


@pytest.mark.parametrize("sampler", ["auto", "qmc", "tpe", "nsga2", "random"])
def test_a_polished_study_continues_with_the_points_of_any_other(tiny: Tiny, tmp_path: Path, sampler: str) -> None:
    plain = str(tmp_path / "plain.db")
    polished = str(tmp_path / "polished.db")
    short = tiny(objectives="step_time", sampler=sampler, budget=20)
    api.search(short, db=plain)
    before = api.search(short, db=polished, polish=5)
    assert len(before.evaluations) == 25
    points = [
        row.key for row in api.search(tiny(objectives="step_time", sampler=sampler, budget=40), db=plain).evaluations
    ]
    study = api.search(tiny(objectives="step_time", sampler=sampler, budget=45), db=polished)
    assert [row.key for row in study.evaluations[:20]] == points[:20]
    # The budget counts polished points: 20 more of the sampler follow them.
    assert [row.key for row in study.evaluations[25:]] == points[20:]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "polishing improves one objective, not sample_rate, system_price"),
        (
            {
                "objectives": "step_time",
                "system": {"base": "h100-price-study", "free": {MEMORY: {"choices": ["1 TB/s", "2 TB/s"]}}},
            },
            "nothing to polish",
        ),
    ],
)
def test_what_cannot_be_polished_is_refused_before_anything_runs(
    tiny: Tiny, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    url = str(tmp_path / "studies.db")
    with pytest.raises(InputError, match=words):
        api.search(tiny(**changes), db=url, polish=5)
    assert not (tmp_path / "studies.db").exists()


def test_nothing_feasible_leaves_nothing_to_polish(tiny: Tiny, tmp_path: Path) -> None:
    free = {MEMORY: {"low": "1 TB/s", "high": "2 TB/s"}, NETWORK: {"low": "10 GB/s", "high": "100 GB/s"}}
    specification = tiny(objectives="step_time", budget=16, system={"base": "h100-price-study", "free": free})
    study = api.search(specification, db=str(tmp_path / "studies.db"), polish=5)
    assert len(study.evaluations) == 16
    assert study.best_point is None


@given(
    st.floats(0, 1),
    st.sampled_from(
        [Dimension(name="x", low=2.0, high=50.0), Dimension(name="x", low=2.0, high=50.0, logarithmic=True)]
    ),
)
def test_a_share_of_a_range_is_that_of_its_value(share: float, dimension: Dimension) -> None:
    assert dimension.share(float(dimension.at(share))) == pytest.approx(share, abs=1e-12)
