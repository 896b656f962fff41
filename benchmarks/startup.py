"""How long the command line takes from start to end, and the memory that it needs.

    python benchmarks/startup.py [--repetitions 5]

Byte-code: `all` is a second start, when Python has compiled every module; `libraries` is a start where it has compiled
all but this package's modules, as after a change or in a checkout that cannot be written to; `none` is the first start
ever. Repetitions go through all cases in turn, so that what else the machine does falls on all alike.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from machine import machine

import codesign_opt

SWEEP = "sweep --workload {} --system a100-80g --processors {} --batch {} --quiet"
COMMANDS = (
    "--help",
    "--version",
    "catalog list",
    SWEEP.format("gpt3-175b", 512, 512),
    SWEEP.format("gpt3-175b", 4096, 4096),
    SWEEP.format("megatron-1t", 4096, 4096),
)
BYTE_CODE = ("all", "libraries", "none")


class Case(NamedTuple):
    """One row of the table."""

    command: str
    byte_code: str


class Run(NamedTuple):
    """Wall time in seconds and peak memory in bytes."""

    seconds: float
    memory: float


def main() -> None:
    """Time all commands and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5, help="how often each command is timed")
    repetitions = parser.parse_args().repetitions
    cases = [Case(command, byte_code) for command in COMMANDS for byte_code in BYTE_CODE]
    runs: dict[Case, list[Run]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        caches = prepared_caches(Path(folder))
        for _ in range(repetitions):
            for case in cases:
                runs[case].append(timed(case.command, {**caches[case.byte_code], "PYTHONDONTWRITEBYTECODE": "1"}))
    print(f"{machine()}; {repetitions} repetitions\n")
    width = max(map(len, COMMANDS))
    print(f"{'command':<{width}}  {'byte-code':<10}{'min s':>7}{'median s':>10}{'peak MB':>9}")
    for case in cases:
        seconds = [run.seconds for run in runs[case]]
        memory = max(run.memory for run in runs[case]) / 1e6
        low, median = min(seconds), statistics.median(seconds)
        print(f"{case.command:<{width}}  {case.byte_code:<10}{low:>7.2f}{median:>10.2f}{memory:>9.0f}")


def prepared_caches(folder: Path) -> dict[str, dict[str, str]]:
    """For each of `BYTE_CODE` the environment variable that names a folder with just that."""
    caches = {name: folder / name for name in BYTE_CODE}
    for command in COMMANDS:
        timed(command, {"PYTHONPYCACHEPREFIX": str(caches["all"]), "PYTHONDONTWRITEBYTECODE": ""})
    package = Path(codesign_opt.__file__).resolve().parent
    shutil.copytree(caches["all"], caches["libraries"])
    shutil.rmtree(caches["libraries"] / package.relative_to(package.anchor))
    return {name: {"PYTHONPYCACHEPREFIX": str(cache)} for name, cache in caches.items()}


def timed(command: str, environment: dict[str, str]) -> Run:
    """Run one command in a process of its own."""
    arguments = [sys.executable, "-m", "codesign_opt", *command.split()]
    start = time.perf_counter()
    process = subprocess.Popen(arguments, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"'{command}' failed with status {process.returncode}")
    # Linux counts kibibytes, macOS bytes.
    return Run(seconds, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))


if __name__ == "__main__":
    main()
