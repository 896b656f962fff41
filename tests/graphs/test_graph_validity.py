"""Every rule that a graph must keep to be run, broken once."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from graph_cases import single

from codesign_opt.errors import InputError
from codesign_opt.graphs import Graph, GraphBuilder, Ragged, check_graph, individual_graph
from codesign_opt.graphs.opcodes import COLLECTIVES, COMMUNICATION, OPCODES


def message_about(graph: Graph) -> str:
    with pytest.raises(InputError) as caught:
        check_graph(graph)
    return str(caught.value)


def with_inner(opcode: str, subroutines: int, **attributes: Any) -> Graph:
    """An instruction with some inner subroutines."""
    builder = GraphBuilder("g")
    place = builder.instruction(builder.subroutine("main"), "x", opcode)
    for number in range(subroutines):
        inner = builder.subroutine(f"s{number}", caller=place, **attributes)
        builder.instruction(inner, f"leaf{number}", "delay")
    return builder.build()


def pair(first: str = "send-start", second: str = "send-done", *, processor: int | None = 0) -> Graph:
    """Two instructions bonded to each other, towards processor 1."""
    builder = GraphBuilder("g", processor)
    main = builder.subroutine("main")
    groups = [[1]] if processor is not None else [[0, 1]]
    start = builder.instruction(main, "start", first, groups=groups)
    done = builder.instruction(main, "done", second, groups=groups, operands=[start])
    builder.bond(start, done)
    return builder.build()


def test_every_opcode_can_be_right() -> None:
    for opcode in OPCODES:
        composite, own = [[0, 1], [2, 3]], [[1]]
        if opcode == "sendrecv":
            composite, own = [[2, 0, 1], [0, 1, 0]], [[2, 1]]
        elif opcode in COLLECTIVES:
            own = [[0, 1]]
        elif opcode not in COMMUNICATION:
            composite = own = []
        if opcode in ("send-start", "recv-start"):
            check_graph(pair(opcode, opcode.replace("start", "done")))
            check_graph(pair(opcode, opcode.replace("start", "done"), processor=None))
        elif not opcode.endswith("-done"):
            check_graph(single(opcode, groups=composite))
            check_graph(single(opcode, groups=own, processor=0))


@pytest.mark.parametrize("column", ["ops", "transcendentals", "bytes_in", "bytes_out", "seconds"])
@pytest.mark.parametrize(("value", "text"), [(-1.5, "-1.5"), (math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_numbers(column: str, value: float, text: str) -> None:
    message = message_about(single(**{column: value}))
    assert message == (
        f"graph 'one' cannot be run: instruction 'x' (id 1): {column} is {text}, but must be finite and not negative"
    )


def test_identifiers() -> None:
    assert "'x' (id 0): the id must be positive" in message_about(single(identifier=0))
    assert "'x' (id -4): the id must be positive" in message_about(single(identifier=-4))
    twice = replace(with_inner("call", 1), identifier=np.array([7, 7]))
    assert "'leaf0' (id 7): the id is that of 'x' as well, but must be unique" in message_about(twice)


def test_operands() -> None:
    graph = with_inner("call", 1)
    across = replace(graph, operands=Ragged.from_lists([[], [0]]))
    assert "'leaf0' (id 2): operand 'x' is in another subroutine" in message_about(across)
    builder = GraphBuilder("g")
    main = builder.subroutine("main")
    first = builder.instruction(main, "a", "delay")
    second = builder.instruction(main, "b", "delay", operands=[first])
    builder.depend(first, [second])
    builder.instruction(main, "c", "delay")
    assert "'a' (id 1): waits for itself" in message_about(builder.build())


def test_roots() -> None:
    builder = GraphBuilder("g")
    main = builder.subroutine("main")
    first = builder.instruction(main, "a", "delay")
    builder.instruction(main, "b", "delay", operands=[first])
    builder.set_root(main, first)
    message = message_about(builder.build())
    assert "subroutine 'main': its root 'a' has users, but nothing may wait for a root" in message
    elsewhere = replace(with_inner("call", 1), root=np.array([0, 0]))
    assert "subroutine 's0' of 'x': its root 'x' is not in it" in message_about(elsewhere)


@pytest.mark.parametrize(
    ("opcode", "count", "allowed"),
    [
        ("conditional", 0, "at least 2"), ("conditional", 1, "at least 2"), ("while", 0, "2"), ("while", 1, "2"),
        ("while", 3, "2"), ("call", 0, "at least 1"), ("delay", 1, "0"), ("null", 2, "0 or 1"), ("infeed", 2, "0 or 1"),
        ("all-reduce", 2, "0 or 1"), ("sendrecv", 2, "0 or 1"), ("send", 3, "0 or 1"),
    ],
)  # fmt: skip
def test_numbers_of_inner_subroutines(opcode: str, count: int, allowed: str) -> None:
    message = message_about(
        with_inner(opcode, count, probability=1.0 if opcode != "conditional" else 1 / max(count, 1))
    )
    assert f"instruction 'x' (id 1): {opcode} has {count} inner subroutines, but must have {allowed}" in message


def test_call_and_conditional_may_have_many() -> None:
    check_graph(with_inner("call", 5))
    check_graph(with_inner("conditional", 5, probability=0.2))
    check_graph(with_inner("null", 1))
    check_graph(with_inner("all-reduce", 1))


@pytest.mark.parametrize("count", [0, -1])
def test_counts_of_loops(count: int) -> None:
    check_graph(with_inner("while", 2, count=7))
    message = message_about(with_inner("while", 2, count=count))
    for name in ("s0", "s1"):
        assert f"subroutine '{name}' of 'x': execution_count is {count}, but must be at least 1" in message


@pytest.mark.parametrize("count", [0, 2])
def test_counts_elsewhere(count: int) -> None:
    expected = f"execution_count is {count}, but must be 1, since it is not part of a while"
    assert f"subroutine 's0' of 'x': {expected}" in message_about(with_inner("call", 1, count=count))
    entry = replace(single(), count=np.array([count]))
    assert f"subroutine 'main': {expected}" in message_about(entry)


def test_probabilities() -> None:
    expected = "execution_probability is 0.5, but must be 1, since it is no branch of a conditional"
    assert f"subroutine 's0' of 'x': {expected}" in message_about(with_inner("call", 1, probability=0.5))
    assert f"subroutine 's1' of 'x': {expected}" in message_about(with_inner("while", 2, probability=0.5))
    assert f"subroutine 'main': {expected}" in message_about(replace(single(), probability=np.array([0.5])))
    beyond = replace(with_inner("conditional", 2), probability=np.array([1.0, 1.5, -0.5]))
    message = message_about(beyond)
    assert "subroutine 's0' of 'x': execution_probability is 1.5, but must be from 0 to 1" in message
    assert "subroutine 's1' of 'x': execution_probability is -0.5, but must be from 0 to 1" in message
    assert "nan, but must be from 0 to 1" in message_about(with_inner("conditional", 2, probability=math.nan))


def test_weights_of_branches() -> None:
    graph = with_inner("conditional", 3)
    exact = replace(graph, probability=np.array([1.0, 0.2, 0.3, 0.5]))
    check_graph(exact)
    check_graph(replace(graph, probability=np.array([1.0, 0.2, 0.3, 0.5000009])))
    short = replace(graph, probability=np.array([1.0, 0.2, 0.3, 0.499998]))
    assert "'x' (id 1): the probabilities of the branches sum to 0.999998, but must sum to 1" in message_about(short)
    check_graph(individual_graph(short, 0))


@pytest.mark.parametrize(
    ("opcode", "groups", "what"),
    [
        ("delay", [[0, 1]], "delay has 1 communication groups, but does not communicate"),
        ("while", [[0], [1]], "while has 2 communication groups, but does not communicate"),
        ("send", [[0]], "send has the group {0}, but must have 2 in it"),
        ("send", [[0, 1], [1, 2, 3]], "send has the group {1, 2, 3}, but must have 2 in it"),
        ("recv", [[]], "recv has the group {}, but must have 2 in it"),
        ("sendrecv", [[0, 1]], "sendrecv has the group {0, 1}, but must have 3 in it"),
        ("send", [range(12)], "send has the group {0, 1, 2, 3, 4, 5, 6, 7, … 12 processors}, but must have 2 in it"),
        ("send", [[3, 3]], "send has the group {3, 3}, in which processor 3 is a peer of itself"),
        ("sendrecv", [[2, 1, 1]], "sendrecv has the group {2, 1, 1}, in which processor 1 is a peer of itself"),
        ("sendrecv", [[1, 1, 2]], "sendrecv has the group {1, 1, 2}, in which processor 1 is a peer of itself"),
        ("send", [[0, 1], [0, 2]], "send belongs to processor 0 by two groups, but must by one at most"),
        ("recv", [[0, 1], [2, 1]], "recv belongs to processor 1 by two groups, but must by one at most"),
        ("sendrecv", [[0, 1, 2], [2, 1, 0]], "sendrecv belongs to processor 1 by two groups"),
        ("all-reduce", [[0, 1], [2, 1]], "all-reduce has processor 1 in its groups 2 times, but must have it once"),
        ("barrier", [[5, 5, 5]], "barrier has processor 5 in its groups 3 times, but must have it once"),
        ("all-gather", [[0, 1], []], "all-gather has a group without processors"),
        ("all-to-all", [[0, -2]], "processor -2 in a communication group, but processors are counted from 0"),
        ("send", [[0, -2]], "processor -2 in a communication group, but processors are counted from 0"),
    ],
)
def test_groups_of_all_processors(opcode: str, groups: list[list[int]], what: str) -> None:
    assert f"instruction 'x' (id 1): {what}" in message_about(single(opcode, groups=groups))


@pytest.mark.parametrize(
    ("opcode", "groups", "what"),
    [
        ("all-reduce", [], "all-reduce of processor 1 has 0 communication groups, but must have one"),
        ("all-reduce", [[0, 1], [2, 3]], "all-reduce of processor 1 has 2 communication groups, but must have one"),
        ("send", [], "send of processor 1 has 0 communication groups, but must have one"),
        ("all-reduce", [[0, 2]], "all-reduce of processor 1 has the group {0, 2}, but must contain the processor"),
        ("all-reduce", [[0, 1, 0]], "all-reduce has processor 0 in its groups 2 times, but must have it once"),
        ("recv", [[0, 2]], "recv has the group {0, 2}, but must have 1 in it: the peers"),
        ("sendrecv", [[0]], "sendrecv has the group {0}, but must have 2 in it: the peers"),
        ("send", [[1]], "send of processor 1 has that processor itself as a peer"),
        ("sendrecv", [[0, 1]], "sendrecv of processor 1 has that processor itself as a peer"),
        ("null", [[0]], "null has 1 communication groups, but does not communicate"),
    ],
)
def test_groups_of_one_processor(opcode: str, groups: list[list[int]], what: str) -> None:
    assert f"instruction 'x' (id 1): {what}" in message_about(single(opcode, groups=groups, processor=1))


@pytest.mark.parametrize("processor", [None, 0])
def test_bonds(processor: int | None) -> None:
    for half in ("send", "recv"):
        check_graph(pair(f"{half}-start", f"{half}-done", processor=processor))
    graph = pair(processor=processor)
    for place, name in enumerate(("start", "done")):
        alone = replace(graph, bonded=np.where(np.arange(2) == place, 0, graph.bonded))
        other = ("done", "start")[place]
        message = message_about(alone)
        assert f"instruction '{name}' (id {place + 1}): send-{name} must be bonded to its send-{other}" in message
        assert f"instruction '{other}' (id {2 - place}): bonded to '{name}' (send-{name}, bonded to 0)" in message
    astray = replace(graph, bonded=np.array([9, 1]))
    assert "instruction 'start' (id 1): bonded to 9, which does not exist" in message_about(astray)
    crossed = message_about(pair("send-start", "recv-done", processor=processor))
    assert "'start' (id 1): bonded to 'done' (recv-done, bonded to 1), but must be to its send-done" in crossed
    message = message_about(single("delay", bonded=1))
    assert "'x' (id 1): delay is bonded to 1, but only the protocol opcodes are bonded" in message


def test_the_first_few_violations_and_how_many_more() -> None:
    builder = GraphBuilder("g")
    main = builder.subroutine("main")
    for number in range(9):
        builder.instruction(main, f"i{number}", "delay", seconds=-1.0)
    message = message_about(builder.build())
    assert all(f"'i{number}'" in message for number in range(5))
    assert "'i5'" not in message
    assert message.endswith("; and 4 more")
