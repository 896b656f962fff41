"""Predictions of many runs at once, against the estimate of each alone."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from codesign_opt.analytical import estimate
from codesign_opt.strategies import StrategyTable
from codesign_opt.validation import MappedRun, predict
from codesign_opt.validation.predict import PARTS, joined


def test_each_run_as_if_it_were_alone(mapped: dict[str, MappedRun]) -> None:
    some = list(mapped.values())[::97]
    predictions = predict(some)
    for row, run in enumerate(some):
        alone = estimate(run.workload, run.system, StrategyTable.from_strategies([run.strategy]))
        assert predictions.seconds[row] == pytest.approx(np.ravel(alone.times.total)[0], rel=1e-12)
        need = np.ravel(alone.memory.tier1)[0]
        assert predictions.memory[row] == pytest.approx(need, rel=1e-12)
        assert predictions.fits[row] == (need <= run.system.memory_tier1.capacity)


def test_all_runs_in_seconds_and_parts_add_up(mapped: dict[str, MappedRun]) -> None:
    start = time.perf_counter()
    predictions = predict(list(mapped.values()))
    assert time.perf_counter() - start < 10
    assert np.all(np.isfinite(predictions.seconds) & (predictions.seconds > 0))
    assert np.all(np.isfinite(predictions.memory) & (predictions.memory > 0))
    assert sum(predictions.parts[part] for part in PARTS) == pytest.approx(predictions.seconds, rel=1e-9)


def test_a_run_is_predicted_on_its_own_system(mapped: dict[str, MappedRun]) -> None:
    run = mapped["megatron_bridge-0054"]
    tier = run.system.memory_tier1
    small = replace(run, system=replace(run.system, memory_tier1=replace(tier, capacity=1.0)))
    predictions = predict([run, small, run])
    assert predictions.fits.tolist() == [predictions.fits[0], False, predictions.fits[0]]
    assert predictions.seconds[0] == predictions.seconds[1] == predictions.seconds[2]


def test_entries_are_taken_and_joined(mapped: dict[str, MappedRun]) -> None:
    some = list(mapped.values())[:6]
    whole = predict(some)
    again = joined([whole.take([0, 1]), whole.take(slice(2, None))])
    assert again.seconds.tolist() == whole.seconds.tolist()
    assert again.parts["forward"].tolist() == whole.parts["forward"].tolist()
    assert whole.take([3, 0]).memory.tolist() == [whole.memory[3], whole.memory[0]]


def test_no_runs_no_predictions() -> None:
    nothing = predict([])
    assert (nothing.seconds.size, nothing.memory.size, nothing.fits.size) == (0, 0, 0)
