"""Translations against the reference implementation."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from translated_rows import Row, canonical, composite, flat_rows, longest_communication_chain

from codesign_opt.graphs import Graph, read_graph
from codesign_opt.simulation.translation import read_translation, translate

DATA = Path(__file__).parents[2] / "data"
REFERENCE = json.loads(gzip.decompress((DATA / "paragraph" / "translations.json.gz").read_bytes()))
CASES = {case["id"]: case for case in REFERENCE["translations"]}
PUSH = {opcode: {"algorithm": "push"} for opcode in ("send", "recv", "sendrecv")}


def test_all_cases_are_there() -> None:
    assert len(CASES) == 107


@pytest.mark.parametrize("name", CASES)
def test_rows(name: str) -> None:
    case = CASES[name]
    programs = _translated(name, protocol=False)
    for processor, expected in case["rows"].items():
        assert canonical(flat_rows(programs[int(processor)], _row)) == canonical(expected)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "protocol_rows" in case])
def test_protocol_rows(name: str) -> None:
    """The reference loses the bytes of one-sided messages; ours must carry those of every other message."""
    case = CASES[name]
    chunk = case["size"] / len(case["group"])
    programs = _translated(name, protocol=True)
    for processor, rows in case["protocol_rows"].items():
        expected = [
            [opcode, peer, chunk if _is_lost(case, opcode, size) else size, tag, seconds, operands]
            for opcode, peer, size, tag, seconds, operands in rows
        ]
        assert canonical(flat_rows(programs[int(processor)], _protocol_row)) == canonical(expected)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "traffic" in case])
def test_traffic_chains_and_reductions(name: str) -> None:
    case = CASES[name]
    traffic: dict[tuple[int, int], list[float]] = defaultdict(lambda: [0, 0.0])
    arrived: dict[tuple[int, int], list[float]] = defaultdict(lambda: [0, 0.0])
    for processor, program in _translated(name, protocol=True).items():
        rows = flat_rows(program, _protocol_row)
        for opcode, peer, size, *_ in rows:
            if opcode == "send-start":
                traffic[processor, peer] = [traffic[processor, peer][0] + 1, traffic[processor, peer][1] + size]
            if opcode == "recv-done":
                arrived[peer, processor] = [arrived[peer, processor][0] + 1, arrived[peer, processor][1] + size]
    expected = {(source, target): [messages, size] for source, target, messages, size in case["traffic"]}
    assert traffic.keys() == arrived.keys() == expected.keys()
    for pair, counted in expected.items():
        assert traffic[pair] == pytest.approx(counted, rel=1e-12)
        assert arrived[pair] == pytest.approx(counted, rel=1e-12)
    for processor, program in _translated(name, protocol=False).items():
        rows = flat_rows(program, _row)
        chain = case["longest_comm_chain"]
        assert longest_communication_chain(rows) == (chain if isinstance(chain, int) else chain[str(processor)])
        assert sum(row[5] for row in rows) == pytest.approx(case.get("reduce_ops", 0), rel=1e-11)


def test_shipped_graph_counts() -> None:
    shipped = REFERENCE["shipped_graph"]
    graph, programs = _shipped()
    assert len(graph) == shipped["composite_instructions"]
    assert [program.processor for program in programs] == shipped["processors"]
    for program in programs:
        sends = [program.opcode_name(place) == "send-start" for place in range(len(program))]
        loop = np.array([_times(program, place) for place in range(len(program))])
        processor = str(program.processor)
        assert len(program) == shipped["individual_instructions"][processor] == 476
        messages, size = shipped["sends_per_processor_messages_bytes"][processor]
        assert loop[sends].sum() == messages
        assert (program.bytes_in * loop)[sends].sum() == size


@pytest.mark.parametrize("processor", [0, 5])
def test_shipped_graphs_are_the_same(processor: int) -> None:
    """Up to the identifiers, which are compared as places in the file."""
    ours = _shipped()[1][processor]
    theirs = read_graph(DATA / "graphs" / f"supersim_test_graph.{processor}.pb")
    assert (ours.name, ours.processor) == (theirs.name, theirs.processor)
    assert ours.names == theirs.names
    assert ours.groups == theirs.groups
    assert ours.subroutine_names == theirs.subroutine_names
    for column in (
        "opcode", "subroutine", "ops", "transcendentals", "bytes_in", "bytes_out", "seconds", "tag", "root", "caller",
        "probability", "count",
    ):  # fmt: skip
        assert np.array_equal(getattr(ours, column), getattr(theirs, column)), column
    assert [entry.tolist() for entry in ours.operands] == [entry.tolist() for entry in theirs.operands]
    assert _partners(ours) == _partners(theirs)


@cache
def _translated(name: str, *, protocol: bool) -> dict[int, Graph]:
    case = CASES[name]
    configuration = {"collective": {case["collective"]: case["config"]}, "protocol": PUSH if protocol else {}}
    graph = composite(case["collective"], case["group"], case["size"])
    return {program.processor: program for program in translate(graph, read_translation(configuration))}


@cache
def _shipped() -> tuple[Graph, list[Graph]]:
    graph = read_graph(DATA / "graphs" / "supersim_test_graph.textproto")
    return graph, translate(graph, read_translation(REFERENCE["shipped_graph"]["config"]))


def _row(graph: Graph, place: int) -> Row:
    opcode = graph.opcode_name(place)
    if opcode == "delay":
        return opcode, None, None, 0, 0, float(graph.ops[place]), float(graph.seconds[place])
    peers = graph.groups[place][0]
    to = None if opcode == "recv" else peers[-1]
    source = None if opcode == "send" else peers[0]
    return opcode, to, source, float(graph.bytes_in[place]), float(graph.bytes_out[place]), 0, 0


def _protocol_row(graph: Graph, place: int) -> Row:
    opcode = graph.opcode_name(place)
    if opcode == "delay":
        return opcode, None, 0, 0, float(graph.seconds[place])
    size = float(graph.bytes_in[place] + graph.bytes_out[place])
    return opcode, graph.groups[place][0][0], size, int(graph.tag[place]), 0


def _is_lost(case: dict[str, Any], opcode: str, size: float) -> bool:
    return "protocol_rows_have_zero_byte_defect" in case and opcode in ("send-start", "recv-done") and size == 0


def _times(graph: Graph, place: int) -> int:
    """How often an instruction runs."""
    times, subroutine = 1, int(graph.subroutine[place])
    while graph.caller[subroutine] >= 0:
        times *= int(graph.count[subroutine])
        subroutine = int(graph.subroutine[graph.caller[subroutine]])
    return times


def _partners(graph: Graph) -> list[int]:
    places = dict(zip(graph.identifier.tolist(), range(len(graph)), strict=True))
    return [places.get(identifier, -1) for identifier in graph.bonded.tolist()]
