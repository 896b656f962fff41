"""The simple simulator against the reference's logs, and where the reference is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from execution_cases import DATA, GOLDEN, Sketch, golden_graph

from codesign_opt.errors import InputError
from codesign_opt.graphs import read_graph
from codesign_opt.graphs.opcodes import CODES, OPCODES
from codesign_opt.simulation.log import TIMES, Log
from codesign_opt.simulation.processor import ProcessorRun, simulate_processor
from codesign_opt.simulation.program import compile_program
from codesign_opt.simulation.scheduler import ReadyAt
from codesign_opt.simulation.translation import read_translation, translate

BANDWIDTH = 1e11
CORRECTED = {"diamond": {"z": {"ready": 0.006}}}
"""Rows that differ from the reference: it takes the last operand that it hears of for the latest (defect 3)."""


def run_golden(case: dict[str, Any], *, ready_at: ReadyAt = "latest") -> ProcessorRun:
    program = compile_program(golden_graph(case["graph"]))
    return simulate_processor(program, network_bandwidth=BANDWIDTH, ready_at=ready_at)


def assert_same_log(log: Log, expected: list[list[Any]]) -> None:
    """Names, opcodes and order exactly, times to 1e-12."""
    table = log.table()
    assert list(table["instruction_name"]) == [row[0] for row in expected]
    assert list(table["opcode"]) == [row[1] for row in expected]
    times = np.array([table[name] for name in TIMES]).T
    np.testing.assert_allclose(times, np.array([row[2:] for row in expected]), rtol=0, atol=1e-12)


def assert_same_clocks(run: ProcessorRun, expected: dict[str, Any]) -> None:
    clocks = [run.processor, run.transmit, run.receive]
    named = [expected[name] for name in ("processor_time", "nic_tx_time", "nic_rx_time")]
    np.testing.assert_allclose(clocks, named, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", GOLDEN["scheduler_and_sim"], ids=lambda case: case["name"])
def test_logs_with_the_reference_rule_are_those_of_the_reference(case: dict[str, Any]) -> None:
    run = run_golden(case, ready_at="last-reported")
    assert_same_log(run.log, case["log"])
    assert_same_clocks(run, case)


@pytest.mark.parametrize(
    "case", [case for case in GOLDEN["scheduler_and_sim"] if case["name"] != "causality"], ids=lambda case: case["name"]
)
def test_logs_differ_from_the_reference_only_where_it_is_wrong(case: dict[str, Any]) -> None:
    run = run_golden(case)
    expected = [list(row) for row in case["log"]]
    for row in expected:
        for name, value in CORRECTED.get(case["name"], {}).get(row[0], {}).items():
            row[2 + TIMES.index(name)] = value
    assert_same_log(run.log, expected)
    assert_same_clocks(run, case)


def test_nothing_starts_before_its_operands_have_finished() -> None:
    case = next(case for case in GOLDEN["scheduler_and_sim"] if case["name"] == "causality")
    run = run_golden(case)
    row = run.log.table().to_dicts()[3]
    assert (row["instruction_name"], row["ready"], row["started"], row["finished"]) == ("C_start", 10.0, 10.0, 11.0)
    assert (run.processor, run.transmit, run.end) == (10.0, 11.0, 11.0)


@pytest.mark.parametrize("case", GOLDEN["translated_sim"], ids=lambda case: case["description"])
def test_translated_programs(case: dict[str, Any]) -> None:
    graphs = translate(golden_graph(case["composite"]), read_translation(case["config"]))
    assert [graph.processor for graph in graphs] == [result["processor"] for result in case["results"]]
    for graph, expected in zip(graphs, case["results"], strict=True):
        run = simulate_processor(compile_program(graph), network_bandwidth=BANDWIDTH)
        assert_same_clocks(run, expected)
        assert run.end == pytest.approx(expected["last_finish"], abs=1e-12)
        if "log" not in expected:
            continue
        if case["description"].startswith("torus"):
            # Its two streams take turns in another order here, and its phases have other names.
            theirs = sorted(
                (row[1], *(round(row[column], 12) for column in (3, 4))) for row in expected["log"] if row[5]
            )
            assert busy_leaves(run.log) == [row for row in theirs if row[0] in ("delay", "send-start", "recv-done")]
        else:
            assert_same_log(run.log, expected["log"])
            assert len(run.log) == expected["n_log_rows"]


def busy_leaves(log: Log) -> list[tuple[Any, ...]]:
    """Opcode, start and finish, to 12 decimals, of all that takes time itself."""
    busy = log.table(log.rows(skip_zeros=True)).to_dicts()
    rows = [(row["opcode"], *(round(float(row[name]), 12) for name in ("started", "finished"))) for row in busy]
    return sorted(row for row in rows if row[0] in ("delay", "send-start", "recv-done"))


def test_shipped_graph() -> None:
    shipped = GOLDEN["shipped_graph"]
    composite = read_graph(DATA / "graphs" / "supersim_test_graph.textproto")
    for graph in translate(composite, read_translation(shipped["config"])):
        expected = shipped["simple_sim_1e11_Bps"].get(str(graph.processor))
        if expected is None:
            continue
        run = simulate_processor(compile_program(graph), network_bandwidth=BANDWIDTH)
        assert_same_clocks(run, expected)
        assert len(run.log) == expected["log_rows"]
        delays = run.log.opcodes[run.log.instruction] == CODES["delay"]
        # The expected sum is one of numbers with 12 decimals.
        assert run.log.clock[delays].sum() == pytest.approx(expected["clock_sum_delay"], abs=909 * 0.5e-12)


def test_clock_is_busy_time_and_wall_is_elapsed_time() -> None:
    """A call with 2 s and 3 s of work beside 5 s of other work: 5 s busy, from 0 to 10 s."""
    sketch = Sketch()
    call = sketch.called("call", name="call")
    sketch.inside(call)
    first = sketch.delay(2.0)
    sketch.delay(3.0, after=[first])
    sketch.inside(None)
    sketch.delay(5.0)
    run = simulate_processor(sketch.program(), network_bandwidth=1.0)
    row = next(row for row in run.log.table().to_dicts() if row["instruction_name"] == "call")
    assert (row["started"], row["finished"], row["clock"], row["wall"]) == (0.0, 10.0, 5.0, 10.0)


def test_all_clocks_start_at_the_given_time() -> None:
    sketch = Sketch()
    sketch.delay(2.0)
    run = simulate_processor(sketch.program(), network_bandwidth=1.0, start=7.0)
    assert (run.processor, run.transmit, run.receive) == (9.0, 7.0, 7.0)


def test_collectives_are_refused() -> None:
    sketch = Sketch()
    sketch.builder.instruction(0, "ar", "all-reduce", groups=[[0, 1]], bytes_out=1.0, seconds=1.0)
    with pytest.raises(InputError, match="all-reduce 'ar' is not translated"):
        simulate_processor(sketch.program(), network_bandwidth=1.0)


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, float("nan")])
def test_bandwidth_must_be_positive(bandwidth: float) -> None:
    sketch = Sketch()
    sketch.null()
    with pytest.raises(InputError, match="must be positive"):
        simulate_processor(sketch.program(), network_bandwidth=bandwidth)


def test_a_circle_is_an_error() -> None:
    sketch = Sketch()
    first = sketch.delay(1.0)
    second = sketch.delay(1.0, after=[first])
    sketch.builder.depend(first, [second])
    with pytest.raises(InputError, match="in a circle"):
        simulate_processor(sketch.program(), network_bandwidth=1.0)


def test_opcodes_of_the_log_are_words() -> None:
    sketch = Sketch()
    sketch.delay(1.0, opcode="infeed")
    table = simulate_processor(sketch.program(), network_bandwidth=1.0).log.table()
    assert list(table["opcode"]) == ["infeed"]
    assert "infeed" in OPCODES
    assert table.units["clock"] == "s"
