"""Kinds of strategies, and the interval of the nearest kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codesign_opt.catalog import resolve_system, resolve_workload
from codesign_opt.catalog.lookup import names
from codesign_opt.objectives.intervals import (
    ANY,
    PARALLELISMS,
    Interval,
    generation_of,
    intervals_for,
    kinds,
    nearest_interval,
    parallelism_of,
    published_intervals,
)
from codesign_opt.strategies import Strategy, StrategyTable


def interval(generation: str, parallelism: str) -> Interval:
    return Interval(generation=generation, parallelism=parallelism, runs=20, families=2, lower=0.9, upper=1.2)


def test_generations_of_the_catalogue() -> None:
    generations = {name: generation_of(resolve_system(name)) for name in names("systems")}
    assert ANY not in generations.values()
    assert {name for name, generation in generations.items() if generation == "hopper"} == {
        "h100-80g-nvl8", "h100-pcie", "h100-price-study", "h100-sxm", "h100-sxm-calibrated", "h200", "h200-calibrated"
    }  # fmt: skip
    assert generations["gb200-nvl72"] == generations["b300"] == "blackwell"
    own = replace(resolve_system("h200"), name="our cluster")
    assert generation_of(own) == ANY


def test_classes_of_parallelism() -> None:
    degrees = {"tp": [1, 8, 1, 8, 1], "cp": [1, 1, 2, 1, 1], "pp": [1, 1, 1, 4, 2]}
    columns = {name: np.array(values) for name, values in degrees.items()}
    llama, mixtral = resolve_workload("llama3-70b"), resolve_workload("mixtral-8x7b")
    words = [PARALLELISMS[index] for index in parallelism_of(llama, columns)]
    assert words == ["data", "tensor", "tensor", "pipeline", "pipeline"]
    assert {PARALLELISMS[index] for index in parallelism_of(mixtral, columns)} == {"experts"}


def test_wider_kinds_answer_where_there_are_too_few_runs() -> None:
    assert kinds("tpu", "data") == [("tpu", "data"), ("tpu", ANY), (ANY, "data"), (ANY, ANY)]
    assert kinds(ANY, "data") == [(ANY, "data"), (ANY, ANY)]
    known = [interval("tpu", "data"), interval("tpu", ANY), interval(ANY, "tensor"), interval(ANY, ANY)]
    found = {
        ("tpu", "data"): ("tpu", "data"),
        ("tpu", "tensor"): ("tpu", ANY),
        ("gaudi", "tensor"): (ANY, "tensor"),
        ("gaudi", "data"): (ANY, ANY),
    }
    for asked, answered in found.items():
        nearest = nearest_interval(known, *asked)
        assert nearest is not None
        assert (nearest.generation, nearest.parallelism) == answered
    assert nearest_interval([], "tpu", "data") is None


def test_intervals_of_strategies() -> None:
    strategies = StrategyTable.from_strategies(
        [
            Strategy(processors=8, tp=1, pp=1, dp=8, batch=8, microbatch=1),
            Strategy(processors=8, tp=1, pp=8, dp=1, batch=8, microbatch=1),
        ]
    )
    data, pipeline = intervals_for(resolve_workload("llama3-70b"), resolve_system("a100-80g-sxm"), strategies)
    published = {(one.generation, one.parallelism): one for one in published_intervals()}
    assert data == published["ampere", "data"]
    assert pipeline == published["ampere", "pipeline"]
    assert data is not None
    assert data.lower < data.upper
    with pytest.raises(AttributeError):
        data.lower = 0.0  # type: ignore[misc]
