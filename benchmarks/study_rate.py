"""How many cheap points a second a study proposes, evaluates and stores, beside Optuna with its own storage.

The evaluation is a stand-in that costs nothing, so that what is left is the study's own work: proposing, keeping count,
and writing to SQLite. Both sides have the same dimensions, values and constraints. Plain Optuna gets fewer trials; its
rate falls as a study grows, so that the shorter run flatters it.

    python benchmarks/study_rate.py [--points 10000] [--plain 100]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import optuna

from codesign_opt.db import open_database
from codesign_opt.studies.flat import strategy_dimensions
from codesign_opt.studies.outcome import Candidate, Outcome
from codesign_opt.studies.points import Dimension, Point, hardware_dimensions
from codesign_opt.studies.runner import run_study
from codesign_opt.studies.specification import StudySpecification, study_from_dict

STUDY: dict[str, Any] = {
    "workload": "gpt3-13b",
    "system": {
        "base": "h100-price-study",
        "free": {
            "memory_tier1.bandwidth": {"low": "1 TB/s", "high": "4 TB/s", "scale": "log"},
            "network_tiers.0.bandwidth": {"low": "100 GB/s", "high": "900 GB/s"},
        },
    },
    "processors": 64,
    "batch": 128,
    "objectives": ["sample_rate", "system_price"],
    "method": "flat",
}
STRATEGY = {"tp": 8, "pp": 2, "dp": 4, "microbatch": 1, "recompute": "full", "tp_communication": "sequence_parallel"}


def main() -> None:
    """Run all, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000, help="points of the studies")
    parser.add_argument("--plain", type=int, default=100, help="trials of plain Optuna")
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    print(f"{'what':40} {'points':>8} {'seconds':>8} {'points/s':>9} {'10,000 points':>14}")
    for sampler in ("random", "qmc"):
        show(f"study in SQLite, {sampler}", arguments.points, study_seconds(sampler, arguments.points))
    show("Optuna in memory, random", arguments.plain, plain_seconds(None, arguments.plain))
    with tempfile.TemporaryDirectory() as directory:
        storage = f"sqlite:///{Path(directory) / 'optuna.db'}"
        show("Optuna in SQLite, random", arguments.plain, plain_seconds(storage, arguments.plain))


def show(what: str, points: int, seconds: float) -> None:
    """One row of the table."""
    rate = points / seconds
    print(f"{what:40} {points:>8,} {seconds:>8.1f} {rate:>9,.0f} {10_000 / rate:>12,.0f} s", flush=True)


def study_seconds(sampler: str, points: int) -> float:
    """Time of a study of so many points."""
    specification = study_from_dict({**STUDY, "sampler": sampler, "budget": points}, where="benchmark")
    with (
        tempfile.TemporaryDirectory() as directory,
        open_database(str(Path(directory) / "studies.db")) as database,
        patch("codesign_opt.studies.evaluator.evaluate_point", stand_in),
    ):
        start = time.perf_counter()
        run_study(specification, database)
        return time.perf_counter() - start


def plain_seconds(storage: str | None, trials: int) -> float:
    """Time of an Optuna study of so many trials."""
    specification = study_from_dict(STUDY, where="benchmark")
    dimensions = (*hardware_dimensions(specification), *strategy_dimensions())

    def objective(trial: optuna.Trial) -> tuple[float, ...]:
        outcome = stand_in(
            specification, "flat", {dimension.name: suggest(trial, dimension) for dimension in dimensions}
        )
        for name, share in outcome.constraints.items():
            trial.set_constraint(name, share)
        for name, value in STRATEGY.items():
            trial.set_user_attr(name, value)
        return tuple(outcome.values.values())

    sampler = optuna.samplers.RandomSampler(seed=1)
    study = optuna.create_study(storage=storage, sampler=sampler, directions=["maximize", "minimize"])
    start = time.perf_counter()
    study.optimize(objective, n_trials=trials)
    return time.perf_counter() - start


def suggest(trial: optuna.Trial, dimension: Dimension) -> float:
    """What Optuna proposes along a dimension that is a range."""
    return trial.suggest_float(dimension.name, dimension.low, dimension.high, log=dimension.logarithmic)


def stand_in(specification: StudySpecification, method: str, point: Point) -> Outcome:
    """An outcome of the usual size, without a model."""
    memory, network = float(point["memory_tier1.bandwidth"]), float(point["network_tiers.0.bandwidth"])
    metrics = {"sample_rate": memory + network, "system_price": memory}
    constraints = {"memory_tier1": -0.2, "memory_tier2": -1.0, "network": 0.0}
    best = Candidate(on_front=True, strategy=STRATEGY, metrics=metrics)
    return Outcome(state="complete", values=metrics, constraints=constraints, candidates=(best,))


if __name__ == "__main__":
    main()
