"""Prediction intervals from residuals, by hand and against distributions whose quantiles are known."""

from __future__ import annotations

import math
import tomllib

import numpy as np
import pytest

from codesign_opt.objectives.intervals import ANY, Interval
from codesign_opt.validation import MappedRun, Predictions, predict
from codesign_opt.validation.intervals import (
    Residual,
    coverage_table,
    interval_columns,
    intervals_of,
    intervals_toml,
    kind_of,
    residuals,
)


def made(family: str, values: list[float], kind: tuple[str, str] = ("hopper", "data")) -> list[Residual]:
    return [Residual(family, *kind, value) for value in values]


def test_ends_are_the_quantiles_of_the_ratios() -> None:
    # Ratios 1..99 in steps of one: 80 % of the next run lies between the 10th and the 90th, each end a 100th further.
    found = made("one", [math.log(value) for value in range(1, 100)])
    narrow, *wider = intervals_of(found)
    assert (narrow.generation, narrow.parallelism, narrow.runs, narrow.families) == ("hopper", "data", 99, 1)
    assert narrow.lower == pytest.approx(10.0)
    assert narrow.upper == pytest.approx(90.0)
    assert [(one.generation, one.parallelism) for one in wider] == [("hopper", ANY), (ANY, "data"), (ANY, ANY)]


def test_families_count_alike() -> None:
    # 400 runs from 0.9 to 1.1 and 20 from 1.8 to 2.2, on a logarithmic scale: half of the weight is at either.
    spread = math.log(1.1)
    large = [spread * (2 * number / 399 - 1) for number in range(400)]
    small = [math.log(2) + spread * (2 * number / 19 - 1) for number in range(20)]
    interval = intervals_of(made("large", large) + made("small", small))[0]
    # Each collection is a factor of two from the other's: wide enough for four fifths of all runs, it holds both.
    assert interval.lower < 1 / 1.1 < 2.2 < interval.upper
    assert math.sqrt(interval.lower * interval.upper) == pytest.approx(math.sqrt(2), rel=0.1)


def test_one_family_alone_makes_nothing_wider() -> None:
    found = made("one", [0.1 * number for number in range(-20, 21)])
    [interval, *_] = intervals_of(found)
    # 41 values: a tenth of them is left out at either end, with a correction for their number.
    assert (math.log(interval.lower), math.log(interval.upper)) == pytest.approx((-1.7, 1.7))


def test_kinds_with_fewer_than_twenty_runs_have_no_interval() -> None:
    found = made("one", [0.1] * 19, ("volta", "data")) + made("two", [0.2], ("volta", "tensor"))
    assert [(one.generation, one.parallelism) for one in intervals_of(found)] == [("volta", ANY), (ANY, ANY)]


def test_four_of_five_new_runs_lie_within() -> None:
    generator = np.random.default_rng(1)
    inside = 0
    for _ in range(400):
        *seen, new = generator.normal(0.3, 0.2, size=61).tolist()
        interval = intervals_of(made("one", seen))[0]
        inside += interval.lower <= math.exp(new) <= interval.upper
    assert inside / 400 == pytest.approx(0.8, abs=0.06)


def test_a_family_is_judged_by_the_others(mapped: dict[str, MappedRun]) -> None:
    runs = [run for run in mapped.values() if run.run.family in ("korthikanti_2205_05198", "vtrain_a100")]
    measured = np.array([run.measured_seconds for run in runs], dtype=np.float64)
    families = np.array([run.run.family for run in runs])
    # One family is predicted exactly, the other at half of its time: neither lies within what the other one shows.
    seconds = np.where(families == "vtrain_a100", measured, measured / 2)
    predictions = Predictions(seconds=seconds, memory=seconds, fits=np.ones(len(runs), dtype=bool))
    lower, upper = interval_columns(runs, predictions)
    published = families == "korthikanti_2205_05198"
    assert lower[published] == pytest.approx(seconds[published])
    assert upper[published] == pytest.approx(seconds[published])
    # Eight rows are too few for an interval of their own, so that the larger family has none.
    assert np.all(np.isnan(lower[~published]))
    table = {row["family"]: row for row in coverage_table(runs, predictions).to_dicts()}
    assert table["korthikanti_2205_05198"] == {"family": "korthikanti_2205_05198", "rows": 8, "coverage": 0.0}
    assert (table["vtrain_a100"]["rows"], table["all"]["rows"]) == (0, 8)


def test_residuals_of_timed_runs(mapped: dict[str, MappedRun]) -> None:
    runs = [mapped[name] for name in ("megatron_bridge-0054", "nanotron_ultrascale-0022", "nanotron_ultrascale-0300")]
    assert kind_of(runs[0])[0] == "hopper"
    assert kind_of(runs[1]) == ("hopper", "data")
    assert runs[2].measured_seconds is None
    predictions = predict(runs)
    found = residuals(runs, predictions)
    assert [one.family for one in found] == ["megatron_bridge", "nanotron_ultrascale"]
    assert found[1].log_ratio == pytest.approx(math.log(0.88586 / predictions.seconds[1]))


def test_the_file_says_what_the_intervals_are() -> None:
    interval = Interval(generation="tpu", parallelism=ANY, runs=49, families=1, lower=0.86264, upper=1.1982)
    text = intervals_toml([interval], heading="Two\nlines")
    assert text.startswith("# Two\n# lines\n\n[[interval]]\n")
    [entry] = tomllib.loads(text)["interval"]
    assert entry == {
        "generation": "tpu",
        "parallelism": "any",
        "runs": 49,
        "families": 1,
        "lower": 0.8626,
        "upper": 1.198,
        "calibrated": False,
    }
