"""Files of a run: the CSV log, the timeline; and that both are the same bytes every time."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from execution_cases import GOLDEN, Sketch, all_reduce_programs, golden_graph, mesh

from codesign_opt.errors import InputError
from codesign_opt.simulation.events import Simulation, simulate
from codesign_opt.simulation.log import write_csv
from codesign_opt.simulation.processor import simulate_processor
from codesign_opt.simulation.program import compile_program
from codesign_opt.simulation.timeline import timeline_events, write_timeline


def overlapping() -> Simulation:
    """Processor 0 computes for 3 ms while it sends two messages of 1 ms each at once to processor 1."""
    sender, receiver = Sketch(0), Sketch(1)
    sender.delay(3e-3, name="work")
    for tag in (1, 2):
        sender.send(1, 1e6, tag=tag, name=f"out{tag}")
        receiver.receive(0, 1e6, tag=tag)
    return simulate([sender.program(), receiver.program()], mesh(2, latency=0.5e-3), record=True)


def test_csv_is_the_log(tmp_path: Path) -> None:
    case = next(case for case in GOLDEN["scheduler_and_sim"] if case["name"] == "while_nested")
    run = simulate_processor(compile_program(golden_graph(case["graph"])), network_bandwidth=1e11)
    write_csv(tmp_path / "log.csv", run.log, skip_zeros=False)
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert lines[0] == "processor_id,instruction_name,opcode,ready,started,finished,clock,wall"
    assert lines[1] == "0,init,delay,0.000000000000,0.000000000000,0.010000000000,0.010000000000,0.010000000000"
    rows = list(csv.reader(lines[1:]))
    assert [[row[1], row[2], *map(float, row[3:])] for row in rows] == [
        [row[0], row[1], *(pytest.approx(value, abs=1e-12) for value in row[2:])] for row in case["log"]
    ]


def test_csv_leaves_out_what_takes_no_time(tmp_path: Path) -> None:
    case = next(case for case in GOLDEN["scheduler_and_sim"] if case["name"] == "while_nested")
    run = simulate_processor(compile_program(golden_graph(case["graph"])), network_bandwidth=1e11)
    write_csv(tmp_path / "log.csv", run.log)
    names = [row[1] for row in csv.reader((tmp_path / "log.csv").read_text().splitlines()[1:])]
    assert names == [row[0] for row in case["log"] if row[5]]


def test_csv_of_one_processor(tmp_path: Path) -> None:
    simulation = overlapping()
    assert simulation.log is not None
    write_csv(tmp_path / "log.csv", simulation.log, processor=1)
    rows = list(csv.reader((tmp_path / "log.csv").read_text().splitlines()[1:]))
    # Two messages share one link of 1 GB/s for 2 ms, and take 0.5 ms more to arrive.
    assert [(row[0], row[2], float(row[5])) for row in rows] == [("1", "recv-done", 2.5e-3)] * 2


def test_csv_into_nowhere(tmp_path: Path) -> None:
    simulation = overlapping()
    assert simulation.log is not None
    with pytest.raises(InputError, match="cannot write"):
        write_csv(tmp_path / "nowhere" / "log.csv", simulation.log)


def read_timeline(path: Path, simulation: Simulation, **options: Any) -> list[dict[str, Any]]:
    write_timeline(path, simulation, **options)
    document = json.loads(path.read_text())
    assert set(document) == {"displayTimeUnit", "traceEvents"}
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


def test_timeline_is_trace_event_json(tmp_path: Path) -> None:
    """The fields that the format asks for, by phase of the event."""
    events = read_timeline(tmp_path / "t.json", overlapping())
    required = {
        "M": {"name", "pid", "args"},
        "X": {"name", "cat", "pid", "tid", "ts", "dur"},
        "s": {"name", "cat", "pid", "tid", "ts", "id"},
        "f": {"name", "cat", "pid", "tid", "ts", "id", "bp"},
    }
    assert Counter(event["ph"] for event in events).keys() == required.keys()
    for event in events:
        assert required[event["ph"]] <= event.keys()
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 0) >= 0


def test_timeline_has_a_named_track_for_all_that_goes_on_at_once(tmp_path: Path) -> None:
    events = read_timeline(tmp_path / "t.json", overlapping(), labels={0: "stage 0"})
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert processes == {0: "stage 0", 1: "processor 1"}
    tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert sorted((pid, name) for (pid, _), name in tracks.items()) == [
        (0, "compute"), (0, "send"), (0, "send 2"), (1, "receive"), (1, "receive 2"),
    ]  # fmt: skip
    slices = [event for event in events if event["ph"] == "X"]
    assert {(event["pid"], event["tid"]) for event in slices} == tracks.keys()
    for track in tracks:
        spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in slices if (e["pid"], e["tid"]) == track)
        assert all(first[1] <= second[0] for first, second in pairwise(spans))


def test_timeline_slices_are_what_happened(tmp_path: Path) -> None:
    events = read_timeline(tmp_path / "t.json", overlapping())
    slices = {(e["pid"], e["name"]): (e["ts"], e["dur"], e.get("args")) for e in events if e["ph"] == "X"}
    assert slices[0, "work"] == (0.0, pytest.approx(3000.0), None)
    details = {"from": 0, "to": 1, "tag": 1, "bytes": 1e6}
    assert slices[0, "out1_start"] == (0.0, pytest.approx(2000.0), details)
    assert slices[1, "out1_start"] == (pytest.approx(500.0), pytest.approx(2000.0), details)


def test_timeline_ties_messages_together(tmp_path: Path) -> None:
    events = read_timeline(tmp_path / "t.json", overlapping())
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys() == {0, 1}
    for number, start in starts.items():
        assert (start["pid"], ends[number]["pid"], ends[number]["bp"]) == (0, 1, "e")
        assert start["ts"] <= ends[number]["ts"]
        for event in (start, ends[number]):
            assert any(
                other["ph"] == "X"
                and (other["pid"], other["tid"]) == (event["pid"], event["tid"])
                and other["ts"] <= event["ts"] <= other["ts"] + other["dur"]
                for other in events
            )


def test_timeline_needs_no_record() -> None:
    simulation = simulate(all_reduce_programs(3, 3e6), mesh(3))
    phases = Counter(event["ph"] for event in timeline_events(simulation))
    # Three processors send four messages each; each has a slice at both ends and an arrow.
    assert (phases["X"], phases["s"], phases["f"]) == (24, 12, 12)


SCRIPT = """
import sys
from pathlib import Path
from execution_cases import all_reduce_programs, mesh
from codesign_opt.simulation.events import simulate
from codesign_opt.simulation.log import write_csv
from codesign_opt.simulation.timeline import write_timeline

directory = Path(sys.argv[1])
for model in ("flows", "fifo", "latency-bandwidth"):
    run = simulate(all_reduce_programs(5, 1e6, algorithm="bidir-ring", seconds=1e-4), mesh(5), model=model, record=True)
    write_csv(directory / f"{model}.csv", run.log, skip_zeros=False)
    write_timeline(directory / f"{model}.json", run)
    (directory / f"{model}.path").write_text(repr(run.critical_path()))
"""


def test_results_do_not_depend_on_the_order_of_hashes(tmp_path: Path) -> None:
    written = []
    for seed in ("0", "1"):
        directory = tmp_path / seed
        directory.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", SCRIPT, str(directory)], check=True, env=environment)
        written.append({path.name: path.read_bytes() for path in sorted(directory.iterdir())})
    assert len(written[0]) == 9
    assert written[0] == written[1]
