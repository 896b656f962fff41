"""Hypervolume against evaluations and against wall time: bilevel and flat search, by sampler.

    python benchmarks/search_quality.py [--seeds 5] [--studies default …] [--methods bilevel:tpe flat:tpe …]

Every run goes through the public interface with a database in memory, stops at its number of evaluations, and reports
the share of the best known hypervolume: that of all runs of a study together. Seconds are wall time of one process.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import codesign_opt
from codesign_opt.api import study_specification
from codesign_opt.objectives import hypervolume, pareto_front, reference_point

METHODS = (
    ("bilevel", "random", 100),
    ("bilevel", "tpe", 100),
    ("bilevel", "nsga2", 100),
    ("bilevel", "auto", 100),
    ("flat", "random", 1000),
    ("flat", "tpe", 1000),
    ("flat", "nsga2", 1000),
)
MARKS = (10, 30, 100, 300, 1000)


@dataclass
class Run:
    """One search: for each evaluation the values found by it, to be minimised, and the seconds passed."""

    study: str
    method: str
    sampler: str
    seed: int
    values: list[NDArray[np.float64]]
    seconds: list[float]


def main() -> None:
    """Run everything and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--studies", nargs="+", default=["default", "price-study", "memory-wall"])
    parser.add_argument("--methods", nargs="+", default=[f"{m}:{s}" for m, s, _ in METHODS])
    arguments = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, {arguments.seeds} seeds")
    for study in arguments.studies:
        runs = [
            run
            for method, sampler, evaluations in METHODS
            if f"{method}:{sampler}" in arguments.methods
            for run in [search(study, method, sampler, evaluations, seed) for seed in range(arguments.seeds)]
        ]
        report(study, runs)


def search(study: str, method: str, sampler: str, evaluations: int, seed: int) -> Run:
    """One search of a study."""
    specification = study_specification(
        study, {"method": method, "sampler": sampler, "seed": seed, "budget": evaluations, "top_k": 1}
    )
    start = time.perf_counter()
    marks: list[tuple[int, float]] = []
    result = codesign_opt.search(
        specification,
        db="sqlite:///:memory:",
        progress=lambda progress: marks.append((progress.trials, time.perf_counter() - start)),
    )
    found: dict[int, list[list[float]]] = defaultdict(list)
    for candidate in result.stored_candidates:
        if candidate.on_front:
            found[candidate.trial or 0].append(
                [
                    float(objective.minimized(np.array(candidate.metrics[objective.metric])))
                    for objective in result.objectives
                ]
            )
    trials = [row.number for row in result.evaluations if row.repeat_of is None]
    values = [np.array(found[number]).reshape(-1, len(result.objectives)) for number in trials]
    counts, seconds = zip(*marks, strict=True)
    passed = np.interp(np.arange(1, len(values) + 1), counts, seconds).tolist()
    return Run(study, method, sampler, seed, values, passed)


def report(study: str, runs: list[Run]) -> None:
    """The table of one study."""
    everything = np.concatenate([value for run in runs for value in run.values])
    front = everything[pareto_front(everything)]
    reference = reference_point(everything)
    best = hypervolume(front, reference)
    print(f"\n{study}: best known front has {len(np.unique(front, axis=0))} points")
    print(f"{'method':8} {'sampler':8} " + " ".join(f"{f'@{mark}':>13}" for mark in MARKS) + f" {'seconds':>9}")
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.method, run.sampler].append(run)
    for (method, sampler), members in groups.items():
        cells = []
        for mark in MARKS:
            shares = [
                100 * hypervolume(np.concatenate(run.values[:mark]), reference) / best
                for run in members
                if len(run.values) >= min(mark, max(len(other.values) for other in members)) and mark <= len(run.values)
            ]
            cells.append(f"{np.mean(shares):6.2f} ± {np.std(shares):4.2f}" if shares else "-".rjust(13))
        seconds = np.mean([run.seconds[-1] for run in members])
        print(f"{method:8} {sampler:8} " + " ".join(cell.rjust(13) for cell in cells) + f" {seconds:9.1f}")


if __name__ == "__main__":
    main()
