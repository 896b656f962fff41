"""Measured runs for the tests of validation: the shipped ones, and one to vary."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from codesign_opt.validation import MappedRun, MeasuredRun, Skipped, map_run, map_runs, shipped_runs


@pytest.fixture(scope="session")
def runs() -> dict[str, MeasuredRun]:
    """The shipped runs by name."""
    return {run.row_id: run for run in shipped_runs()}


@pytest.fixture(scope="session")
def outcomes(runs: dict[str, MeasuredRun]) -> list[MappedRun | Skipped]:
    """What became of each of them."""
    return map_runs(runs.values())


@pytest.fixture(scope="session")
def mapped(outcomes: list[MappedRun | Skipped]) -> dict[str, MappedRun]:
    """Those that could be mapped, by name."""
    return {outcome.run.row_id: outcome for outcome in outcomes if isinstance(outcome, MappedRun)}


@pytest.fixture
def varied(runs: dict[str, MeasuredRun]) -> Callable[..., MappedRun | Skipped]:
    """What becomes of a whole row (Llama-3-70B, 64 H100, Megatron-Bridge) with some fields changed."""
    whole = runs["megatron_bridge-0054"]

    def outcome(**changes: Any) -> MappedRun | Skipped:
        return map_run(dataclasses.replace(whole, **changes))

    return outcome
