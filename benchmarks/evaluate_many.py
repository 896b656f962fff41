"""One call of `evaluate_many` against evaluating the same cases one by one.

Run from the project's directory: python benchmarks/evaluate_many.py [--repetitions 3]

The cases are the 1,200 feasible ones of the golden data. Both ways are timed in the same run, alternately; the results
are checked to be the same.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from codesign_opt.interop.calculon import evaluate, evaluate_many

DATA = Path(__file__).parents[1] / "tests" / "data" / "calculon"


def main() -> None:
    """Time both ways and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repetitions", type=int, default=3, help="how often each way is timed (default 3)")
    repetitions = parser.parse_args().repetitions
    cases = feasible_cases()
    evaluate_many(cases[:10])

    together, alone, results = [], [], ([], [])
    for _ in range(repetitions):
        together.append(timed(lambda: evaluate_many(cases), results[0]))
        alone.append(timed(lambda: [evaluate(*case) for case in cases], results[1]))
    check_equal(results[0][0], results[1][0])

    print(f"{machine()}\n{len(cases)} cases, {repetitions} repetitions, seconds\n")
    print(f"{'':<12}{'median':>10}{'best':>10}{'worst':>10}{'cases/s':>10}")
    for name, seconds in (("one call", together), ("one by one", alone)):
        median = statistics.median(seconds)
        print(f"{name:<12}{median:>10.3f}{min(seconds):>10.3f}{max(seconds):>10.3f}{len(cases) / median:>10.0f}")
    ratios = [slow / fast for slow, fast in zip(alone, together, strict=True)]
    print(f"\nOne call is {statistics.median(ratios):.0f} times as fast ({min(ratios):.0f} to {max(ratios):.0f}).")


def feasible_cases() -> list[tuple[Any, Any, Any]]:
    """Application, execution and system of the feasible golden cases."""
    systems = {path.stem: json.loads(path.read_text()) for path in (DATA / "systems").glob("*.json")}
    with gzip.open(DATA / "calculon_golden.jsonl.gz", "rt") as file:
        records = [json.loads(line) for line in file]
    return [(record["app"], record["exe"], systems[record["sys"]]) for record in records if "stats" in record]


def timed(run: Callable[[], Any], results: list[Any]) -> float:
    """Seconds that a run takes; its result is appended to `results`."""
    start = time.perf_counter()
    results.append(run())
    return time.perf_counter() - start


def check_equal(one_call: list[Any], one_by_one: list[Any]) -> None:
    """Stop where any statistic differs by more than rounding."""
    for first, second in zip(one_call, one_by_one, strict=True):
        for name, value in first.items():
            same = value is second[name] or math.isclose(value, second[name], rel_tol=1e-12)
            if not same:
                raise SystemExit(f"{name}: {value} in one call, {second[name]} alone")


def machine() -> str:
    """Processor cores and versions."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores ({platform.machine()}), Python {platform.python_version()}, NumPy {np.__version__}"


if __name__ == "__main__":
    main()
