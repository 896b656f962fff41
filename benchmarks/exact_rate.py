"""How many raw combinations a second the exact solver covers.

    python benchmarks/exact_rate.py [--repetitions 3]

Three published searches: every strategy of a model on A100 processors, batch as large as their number, fused
activation. Each is asked in a fresh process, with the solver's reductions and without; by one process, and by two side
by side, whose rates add up. `first` is a process's first question, `again` the same one once more, when memory needs
are known. Repetitions go through all cases in turn, so that what else the machine does falls on all alike.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections import defaultdict
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import NamedTuple

from machine import machine

from codesign_opt.catalog import resolve_system, resolve_workload
from codesign_opt.studies.exact import ExactQuestion, solve

SEARCHES = (("gpt3-175b", 512), ("gpt3-175b", 4096), ("megatron-1t", 4096))
SYSTEM = "a100-80g"
QUESTIONS = ("first", "again")


class Case(NamedTuple):
    """One row of the table."""

    workload: str
    processors: int
    reduced: bool
    processes: int


class Run(NamedTuple):
    """Raw combinations covered by all processes, and the seconds that the slower one took, for each of `QUESTIONS`."""

    combinations: int
    seconds: tuple[float, ...]


def main() -> None:
    """Time all cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3, help="how often each case is timed")
    repetitions = parser.parse_args().repetitions
    cases = [Case(*search, reduced, n) for search in SEARCHES for reduced in (True, False) for n in (1, 2)]
    runs: dict[Case, list[Run]] = defaultdict(list)
    for _ in range(repetitions):
        for case in cases:
            runs[case].append(timed(case))
    print(f"{machine()}; {repetitions} repetitions\n")
    print(f"{'':<21}{'':>12}{'':>11}{'':>11}" + "".join(f"{name + ': seconds':>17}{'M/s':>15}" for name in QUESTIONS))
    print(
        f"{'search':<21}{'raw':>12}{'reductions':>11}{'processes':>11}"
        + f"{'min':>9}{'median':>8}{'best':>8}{'median':>7}" * len(QUESTIONS)
    )
    for case in cases:
        show(case, runs[case])


def timed(case: Case) -> Run:
    """Run a case in fresh processes that start together."""
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(case.processes), context.Queue()
    processes = [context.Process(target=cover, args=(case, start, results)) for _ in range(case.processes)]
    for process in processes:
        process.start()
    covered = [results.get() for _ in processes]
    for process in processes:
        process.join()
    slowest = tuple(max(run.seconds[index] for run in covered) for index in range(len(QUESTIONS)))
    return Run(sum(run.combinations for run in covered), slowest)


def cover(case: Case, start: Barrier, results: Queue[Run]) -> None:
    """Answer the question as often as there are `QUESTIONS`, each time together with the other process."""
    question = ExactQuestion(
        workload=resolve_workload(case.workload),
        system=resolve_system(SYSTEM),
        processors=case.processors,
        batch=case.processors,
        top=10,
    )
    seconds = []
    for _ in QUESTIONS:
        start.wait()
        begin = time.perf_counter()
        answer = solve(question, reduced=case.reduced)
        seconds.append(time.perf_counter() - begin)
    results.put(Run(answer.considered, tuple(seconds)))


def show(case: Case, runs: list[Run]) -> None:
    """Print the row of a case."""
    each = runs[0].combinations // case.processes
    switch = "on" if case.reduced else "off"
    line = f"{f'{case.workload} / {case.processors}':<21}{each:>12,}{switch:>11}{case.processes:>11}"
    for index in range(len(QUESTIONS)):
        seconds = [run.seconds[index] for run in runs]
        rates = [run.combinations / run.seconds[index] / 1e6 for run in runs]
        line += f"{min(seconds):>9.2f}{statistics.median(seconds):>8.2f}"
        line += f"{max(rates):>8.1f}{statistics.median(rates):>7.1f}"
    print(line)


if __name__ == "__main__":
    main()
