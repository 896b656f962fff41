"""What a graph contains, counted by hand and against the reference's logs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_cases import DATA, SHIPPED, chain, single

from codesign_opt.graphs import Graph, GraphBuilder, graph_summary, read_graph
from codesign_opt.tables import Table


def row(table: Table, word: str) -> dict[str, Any]:
    (found,) = [entry for entry in table.to_dicts() if word in entry.values()]
    return found


def program() -> Graph:
    """A loop of three rounds with compute, a branch, a message each way and an all-reduce; beside it 7 s of compute."""
    builder = GraphBuilder("program", 2)
    main = builder.subroutine("main")
    loop = builder.instruction(main, "loop", "while", seconds=1000.0)
    aside = builder.instruction(main, "aside", "delay", seconds=7.0)
    builder.instruction(main, "end", "null", operands=[loop, aside], seconds=99.0)

    body = builder.subroutine("body", caller=loop, count=3)
    compute = builder.instruction(
        body, "compute", "delay", seconds=1.0, ops=10.0, transcendentals=2.0, bytes_in=3.0, bytes_out=4.0
    )
    choice = builder.instruction(body, "choice", "conditional", operands=[compute])
    exchange = builder.instruction(body, "exchange", "sendrecv", groups=[[1, 3]], bytes_in=5.0, bytes_out=6.0)
    reduce = builder.instruction(
        body, "reduce", "all-reduce", operands=[exchange], groups=[[1, 2]], bytes_in=64.0, bytes_out=32.0, ops=8.0
    )
    builder.instruction(body, "body end", "null", operands=[choice, reduce])
    condition = builder.subroutine("condition", caller=loop, count=3)
    builder.instruction(condition, "test", "infeed", seconds=0.125)

    for name, weight, seconds in (("left", 0.25, 4.0), ("right", 0.75, 2.0)):
        branch = builder.subroutine(name, caller=choice, probability=weight)
        builder.instruction(branch, f"in {name}", "delay", seconds=seconds)
    addition = builder.subroutine("addition", caller=reduce)
    call = builder.instruction(addition, "twice", "call")
    for number in range(2):
        inner = builder.subroutine(f"add {number}", caller=call)
        builder.instruction(inner, f"sum {number}", "delay", seconds=0.5, ops=1.0)
    return builder.build()


def test_size_and_shape() -> None:
    summary = graph_summary(program())
    assert (summary.name, summary.processor, summary.processors) == ("program", 2, (2,))
    assert (summary.instructions, summary.subroutines, summary.depth) == (14, 8, 4)
    assert summary.groups == 2
    # main 3; body 3·5; condition 3; branches 3·(0.25 + 0.75); addition 3; two subroutines in it 3·2.
    assert summary.executed == 3 + 15 + 3 + 3 + 3 + 6


def test_opcodes_by_hand() -> None:
    opcodes = graph_summary(program()).opcodes
    assert list(opcodes) == [
        "opcode", "class", "instructions", "executed", "seconds", "ops", "transcendentals", "memory", "communicated",
    ]  # fmt: skip
    assert opcodes["opcode"].tolist() == [
        "null", "delay", "infeed", "call", "while", "conditional", "all-reduce", "sendrecv",
    ]  # fmt: skip
    assert row(opcodes, "delay") == {
        "opcode": "delay", "class": "general", "instructions": 6, "executed": 1 + 3 + 3 + 6,
        # aside, compute, left, right, sums
        "seconds": 7 + 3 * 1 + 3 * (0.25 * 4 + 0.75 * 2) + 6 * 0.5,
        "ops": 3 * 10 + 6 * 1, "transcendentals": 6, "memory": 3 * 7, "communicated": 0,
    }  # fmt: skip
    assert row(opcodes, "infeed")["seconds"] == 0.375
    # A null costs nothing, a while and an all-reduce with a reduction what is inside of them.
    for opcode in ("null", "while", "all-reduce"):
        assert [row(opcodes, opcode)[name] for name in ("seconds", "ops", "memory")] == [0, 0, 0]
    assert row(opcodes, "all-reduce")["communicated"] == 3 * 32
    assert row(opcodes, "sendrecv")["communicated"] == 3 * (5 + 6)
    assert opcodes.units["communicated"] == opcodes.units["memory"] == "B"
    assert (opcodes.units["seconds"], opcodes.units["ops"]) == ("s", "flop")


def test_classes_are_sums_of_opcodes() -> None:
    summary = graph_summary(program())
    assert summary.classes["class"].tolist() == ["general", "control", "collective", "individual"]
    for column in ("instructions", "executed", "seconds", "ops", "transcendentals", "memory", "communicated"):
        for name in summary.classes["class"]:
            expected = summary.opcodes[column][summary.opcodes["class"] == name].sum()
            assert row(summary.classes, name)[column] == expected
    assert summary.classes["instructions"].dtype.kind == "i"
    assert summary.classes.units == {name: summary.opcodes.units[name] for name in summary.classes}


def test_loops() -> None:
    builder = GraphBuilder("g")
    outer = builder.instruction(builder.subroutine("main"), "outer", "while")
    body = builder.subroutine("body", caller=outer, count=4)
    inner = builder.instruction(body, "inner", "while")
    builder.instruction(builder.subroutine("condition", caller=outer, count=5), "test", "delay")
    builder.instruction(builder.subroutine("inner body", caller=inner, count=10), "work", "delay", seconds=1.0)
    builder.instruction(builder.subroutine("inner condition", caller=inner, count=11), "test too", "delay", seconds=0.5)
    summary = graph_summary(builder.build())
    assert summary.loops.to_dicts() == [
        {"loop": "outer", "depth": 1, "body": 4, "condition": 5, "executed": 1.0},
        {"loop": "inner", "depth": 2, "body": 10, "condition": 11, "executed": 4.0},
    ]
    assert summary.executed == 1 + 4 + 5 + 40 + 44
    assert summary.longest_chain == 4 * (10 * 1.0 + 11 * 0.5)
    assert graph_summary(single()).loops.rows == 0


def test_longest_chain_by_hand() -> None:
    # A round: compute 1 + the longer branch 4 = 5, beside the all-reduce's two additions of 0.5 one after the other;
    # then the condition 0.125. Three rounds, longer than the 7 s beside them.
    assert graph_summary(program()).longest_chain == 3 * (5 + 0.125)


def test_longest_chain_does_not_depend_on_the_order_of_the_list() -> None:
    builder = GraphBuilder("g")
    main = builder.subroutine("main")
    last = builder.instruction(main, "last", "delay", seconds=1.0)
    middle = builder.instruction(main, "middle", "outfeed", seconds=2.0)
    first = builder.instruction(main, "first", "infeed", seconds=4.0)
    builder.instruction(main, "alone", "delay", seconds=6.5)
    builder.depend(last, [middle])
    builder.depend(middle, [first])
    builder.set_root(main, last)
    assert graph_summary(builder.build()).longest_chain == 7.0


def test_communicated_bytes_of_each_opcode() -> None:
    expected = {
        "send": 2, "recv": 3, "sendrecv": 5, "send-start": 2, "send-done": 0, "recv-start": 0, "recv-done": 3,
        "all-gather": 3, "reduce-scatter": 3, "all-to-all": 3, "delay": 0, "null": 0,
    }  # fmt: skip
    for opcode, communicated in expected.items():
        summary = graph_summary(single(opcode, bytes_in=2.0, bytes_out=3.0))
        assert row(summary.opcodes, opcode)["communicated"] == communicated, opcode


def test_groups_and_processors_of_a_composite_graph() -> None:
    summary = graph_summary(chain("all-reduce", "barrier", groups=[[0, 1], [2, 3], [5]]))
    assert (summary.processor, summary.processors, summary.groups) == (None, (0, 1, 2, 3, 5), 3)


def test_shipped_programs_are_executed_as_often_as_the_reference_logs() -> None:
    """The simple simulator of the reference writes 909 rows; its delays take 334.822482 us and 84 messages are sent."""
    rounding = 336 * 0.5e-12  # of the rows, which have 12 decimals
    for name in SHIPPED[1:]:
        summary = graph_summary(read_graph(DATA / name))
        assert summary.executed == 909
        assert row(summary.opcodes, "delay")["seconds"] == pytest.approx(0.000334822482, abs=rounding)
        assert row(summary.opcodes, "send-start")["executed"] == 84
        assert row(summary.opcodes, "send-start")["communicated"] == pytest.approx(29360142, abs=0.5)
        assert row(summary.loops, "while.123") == {
            "loop": "while.123", "depth": 1, "body": 2, "condition": 2, "executed": 1.0,
        }  # fmt: skip
        assert summary.opcodes["instructions"].sum() == summary.instructions == 476
        assert np.all(summary.opcodes["executed"] >= summary.opcodes["instructions"])
