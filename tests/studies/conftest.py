"""A study so small that a trial takes milliseconds, and a stand-in for the model that takes none."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from codesign_opt import api
from codesign_opt.studies.outcome import Candidate, Outcome
from codesign_opt.studies.points import Point
from codesign_opt.studies.specification import StudySpecification, study_from_dict
from codesign_opt.studies.study import Study

MEMORY, NETWORK = "memory_tier1.bandwidth", "network_tiers.0.bandwidth"

TINY: dict[str, Any] = {
    "name": "tiny",
    "workload": {
        "name": "two-blocks", "hidden": 256, "feedforward": 1024, "sequence_length": 64, "attention_heads": 4,
        "head_size": 64, "blocks": 2,
    },
    "system": {
        "base": "h100-price-study",
        "free": {
            MEMORY: {"low": "100 GB/s", "high": "3000 GB/s", "scale": "log"},
            NETWORK: {"low": "10 GB/s", "high": "900 GB/s"},
        },
    },
    "processors": 8,
    "batch": 8,
    "strategies": {
        "tp": 2, "pp": 2, "tp_communication": "all_reduce", "tp_overlap": "none", "recompute": "none",
        "optimizer_sharding": False, "dp_overlap": False, "weight_offload": False, "activation_offload": False,
        "optimizer_offload": False, "tp_tier": 0, "pp_tier": 0, "dp_tier": 0,
    },
    "objectives": ["sample_rate", "system_price"],
    "budget": 32,
    "top_k": 2,
    "seed": 3,
}  # fmt: skip


def stand_in(specification: StudySpecification, method: str, point: Point) -> Outcome:
    """Values that any point has without a model; the best points are infeasible, and some fail."""
    memory, network = math.log10(float(point[MEMORY])) - 11, float(point[NETWORK]) / 1e12
    if 0.45 < network < 0.5:
        return Outcome(state="failed", reason="between the chairs", values={}, constraints={})
    metrics = {"sample_rate": memory + network, "system_price": 1 + memory**2, "step_time": 3 - memory - network}
    values = {objective.metric: metrics[objective.metric] for objective in specification.objectives}
    missing = memory + network - 1.6
    if missing > 0:
        return Outcome(state="infeasible", reason="too good", values=values, constraints={"limit": missing})
    best = Candidate(on_front=True, strategy={"tp": 2}, metrics=metrics)
    return Outcome(state="complete", values=values, constraints={"limit": missing}, candidates=(best,))


@pytest.fixture(scope="session")
def tiny() -> Callable[..., StudySpecification]:
    """Makes the small study; keyword arguments replace keys of its file."""
    return lambda **changes: study_from_dict({**TINY, **changes}, where="tiny.toml")


@pytest.fixture
def without_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials cost nothing, in this process."""
    monkeypatch.setattr("codesign_opt.studies.evaluator.evaluate_point", stand_in)


@pytest.fixture(scope="session")
def finished(tiny: Callable[..., StudySpecification], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Study]:
    """Makes finished studies of 24 trials, of every state, without a model; the same one for the same changes."""

    @cache
    def study(key: str) -> Study:
        url = str(tmp_path_factory.mktemp("finished") / "studies.db")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("codesign_opt.studies.evaluator.evaluate_point", stand_in)
            return api.search(tiny(**{"budget": 24, **json.loads(key)}), db=url)

    return lambda **changes: study(json.dumps(changes))


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Address of a database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'studies.db'}"
