"""How many instructions, messages and events a second the simulation engines do.

    python benchmarks/simulation_rate.py [--repetitions 3] [--processors 128]

An event is the end of an instruction with seconds, or a step of a message: it comes to a link, leaves its sender,
arrives. Instructions are those of the programs, so that a translated sendrecv counts six, however few of them the
engine has to touch. Building and compiling programs is not timed, nor is the first run of a compiled loop. `anchor` is
what was measured of others elsewhere (million a second): paragraph-core's simulator without its log, ASTRA-sim's
congestion-aware network, a list scheduler on Python's heapq, and the same compiled by numba. The first row is such a
heapq scheduler on this machine, by which the anchors can be brought to its speed.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from machine import machine

from codesign_opt.graphs import GraphBuilder
from codesign_opt.simulation.acceleration import has_numba
from codesign_opt.simulation.collective_levels import collective_ends
from codesign_opt.simulation.collectives import collective_schedule
from codesign_opt.simulation.events import simulate
from codesign_opt.simulation.levels import simulate_levels
from codesign_opt.simulation.processor import simulate_processor
from codesign_opt.simulation.program import Program, compile_program
from codesign_opt.simulation.topologies import Link, Topology, fat_tree, ring, switch
from codesign_opt.simulation.translation import read_translation, translate

LINK = Link(bandwidth=50e9, latency=1e-6)
MILLION = 1e6


class Work(NamedTuple):
    """What a run did: instructions, messages and events; 0 for what does not apply."""

    instructions: float
    messages: float
    events: float


class Case(NamedTuple):
    """One row of the table."""

    engine: str
    what: str
    anchor: str
    run: Callable[[], Work]


def main() -> None:
    """Time all cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3, help="how often each case is timed")
    parser.add_argument("--processors", type=int, default=128, help="of the collectives; a power of two")
    options = parser.parse_args()
    print(f"{machine()}; numba {'is' if has_numba() else 'is not'} installed; {options.repetitions} repetitions")
    print("median processor seconds; millions a second\n")
    print(f"{'engine':<34}{'what':<34}{'seconds':>9}{'instructions':>14}{'messages':>10}{'events':>9}  anchor")
    for case in cases(options.processors):
        if "numba" in case.engine:
            case.run()
        seconds, work = timed(case.run, options.repetitions)
        rates = [f"{amount / seconds / MILLION:.3f}" if amount else "" for amount in work]
        print(
            f"{case.engine:<34}{case.what:<34}{seconds:>9.3f}{rates[0]:>14}{rates[1]:>10}{rates[2]:>9}  {case.anchor}",
            flush=True,
        )


def cases(processors: int) -> list[Case]:
    """All rows."""
    around, crossbar = ring(processors, LINK), switch(processors, LINK)
    tree = fat_tree([8, processors // 8], [4], [LINK, LINK])
    all_reduce = translated("all-reduce", "unidir-ring", processors)
    all_to_all = translated("all-to-all", "direct", processors)
    compute = [chain(number, 512) for number in range(256)]
    forms = [("", False), (", numba", True)] if has_numba() else [("", False)]
    rows = [
        Case("heapq stand-in", "256 chains", "0.59-0.70", lambda: heap_scheduler(256, 512)),
        Case("simple simulator", "loop of 20 instructions", "4.9-5.2", lambda: simple(loop(20, 2000))),
    ]
    for suffix, compiled in forms:
        anchor = "4.7-7.8" if compiled else "0.59-0.70"
        rows.append(Case(f"events{suffix}", "256 chains", anchor, events(compute, around, "fifo", compiled)))
        for model in ("latency-bandwidth", "fifo"):
            name = f"events, {model}{suffix}"
            rows.append(Case(name, f"ring all-reduce, {processors}", "", events(all_reduce, around, model, compiled)))
        for what, topology, anchor in (
            ("switch", crossbar, "3.5-3.7"),
            ("fat tree 2:1", tree, ""),
            ("ring", around, "8-12"),
        ):
            run = events(all_to_all, topology, "fifo", compiled)
            rows.append(Case(f"events, fifo{suffix}", f"all-to-all, {what} of {processors}", anchor, run))
    for what, programs, topology in (
        ("ring all-reduce, ring", all_reduce, around),
        ("all-to-all, switch", all_to_all, crossbar),
        ("all-to-all, fat tree 2:1", all_to_all, tree),
    ):
        run = events(programs, topology, "flows", False)
        rows.append(Case("events, flows", f"{what} of {processors}", "", run))
    rows.append(Case("levels", f"ring all-reduce, {processors}", "15-27", levels(all_reduce, around)))
    rows.append(Case("levels, one collective", "ring all-reduce, 1024", "15-27", one_collective(1024)))
    return rows


def timed(run: Callable[[], Work], repetitions: int) -> tuple[float, Work]:
    """Median processor seconds of a run, and what it did."""
    seconds = []
    for _ in range(repetitions):
        start = time.process_time()
        work = run()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds), work


def translated(opcode: str, algorithm: str, processors: int) -> list[Program]:
    """The programs of one collective of all processors, 1 MB a member."""
    builder = GraphBuilder(opcode)
    main = builder.subroutine("main")
    collective = builder.instruction(
        main, "collective", opcode, bytes_out=MILLION * processors, groups=[range(processors)]
    )
    if opcode == "all-reduce":
        builder.instruction(builder.subroutine("sum", caller=collective), "add", "delay")
    push = {"algorithm": "push"}
    translation = read_translation(
        {
            "collective": {opcode: {"algorithm": algorithm}},
            "protocol": {"send": push, "recv": push, "sendrecv": push},
        }
    )
    return [compile_program(graph) for graph in translate(builder.build(), translation)]


def chain(processor: int, length: int) -> Program:
    """Delays of random seconds, one after the other."""
    draw = random.Random(processor)
    builder = GraphBuilder("chain", processor)
    main = builder.subroutine("main")
    before: list[int] = []
    for number in range(length):
        before = [builder.instruction(main, f"d{number}", "delay", seconds=draw.random(), operands=before)]
    return compile_program(builder.build())


def loop(length: int, turns: int) -> Program:
    """A loop over a chain of delays."""
    builder = GraphBuilder("loop", 0)
    turning = builder.instruction(builder.subroutine("main"), "loop", "while")
    body = builder.subroutine("body", caller=turning, count=turns)
    before: list[int] = []
    for number in range(length):
        before = [builder.instruction(body, f"d{number}", "delay", seconds=1e-6, operands=before)]
    builder.instruction(builder.subroutine("condition", caller=turning, count=turns), "compare", "null")
    return compile_program(builder.build())


def simple(program: Program) -> Work:
    """One run of the simple simulator."""
    return Work(len(simulate_processor(program, network_bandwidth=1e11).log), 0, 0)


def events(programs: list[Program], topology: Topology, model: str, compiled: bool) -> Callable[[], Work]:
    """A run of the event engine, with all that it does after the programs are compiled."""
    instructions = sum(int(program.executions.sum()) for program in programs)

    def run() -> Work:
        result = simulate(programs, topology, model=model, compiled=compiled)  # type: ignore[arg-type]
        return Work(instructions, len(result.messages), result.events)

    return run


def levels(programs: list[Program], topology: Topology) -> Callable[[], Work]:
    """A run of the level engine."""
    instructions = sum(int(program.executions.sum()) for program in programs)
    messages = sum(int(program.executions[program.bytes > 0].sum()) for program in programs) // 2

    def run() -> Work:
        if not math.isfinite(simulate_levels(programs, topology).makespan):
            raise SystemExit("no end")
        return Work(instructions, messages, 0)

    return run


def one_collective(members: int) -> Callable[[], Work]:
    """A ring all-reduce, level by level; its rows are sendrecvs and reductions."""
    schedule = collective_schedule("all-reduce", "unidir-ring", range(members), MILLION * members)
    topology = ring(members, LINK)
    messages = int((schedule.to >= 0).sum())

    def run() -> Work:
        collective_ends(schedule, topology)
        return Work(len(schedule), messages, 0)

    return run


def heap_scheduler(processors: int, length: int) -> Work:
    """Chains of tasks of random seconds by a heap of the next end of each."""
    draw = random.Random(0)
    seconds = [draw.random() for _ in range(processors * length)]
    heap = [(seconds[number * length], number, number * length) for number in range(processors)]
    heapq.heapify(heap)
    order = processors
    while heap:
        now, _, task = heapq.heappop(heap)
        if (task + 1) % length:
            heapq.heappush(heap, (now + seconds[task + 1], order, task + 1))
            order += 1
    return Work(processors * length, 0, processors * length)


if __name__ == "__main__":
    main()
