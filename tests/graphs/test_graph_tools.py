"""Each tool on small graphs whose result is worked out by hand, and on the shipped ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from graph_cases import DATA, SHIPPED, chain, differences, operand_names, place_of, single

from codesign_opt.errors import InputError
from codesign_opt.graphs import (
    Graph,
    GraphBuilder,
    check_graph,
    drop_disconnected,
    enforce_post_order,
    extend_data_parallel,
    graph_summary,
    individual_graph,
    processors_of,
    read_graph,
    trim,
)
from codesign_opt.graphs.conversion import graph_of, message_of


def tangled() -> Graph:
    """b and a feed the root in this order, a needs c; `loose` and what it needs lead nowhere; a loop is inside of a."""
    builder = GraphBuilder("tangled", 4)
    main = builder.subroutine("main")
    loose_operand = builder.instruction(main, "loose operand", "delay", seconds=9.0, identifier=50)
    c = builder.instruction(main, "c", "delay", seconds=1.0, ops=3.0)
    a = builder.instruction(main, "a", "while", operands=[c])
    b = builder.instruction(main, "b", "send", bytes_in=5.0, groups=[[1]], tag=8)
    builder.instruction(main, "loose", "call", operands=[loose_operand, c])
    builder.instruction(main, "root", "null", operands=[b, a, c])
    for name in ("body", "condition"):
        inner = builder.subroutine(name, caller=a, count=3)
        first = builder.instruction(inner, f"{name} first", "delay", transcendentals=2.0)
        builder.instruction(inner, f"{name} aside", "delay")
        builder.instruction(inner, f"{name} root", "delay", operands=[first])
    inner = builder.subroutine("called", caller=4)
    builder.instruction(inner, "called root", "delay")
    return builder.build()


def order_of(graph: Graph, subroutine: str) -> list[str]:
    return [graph.names[place] for place in graph.members[graph.subroutine_names.index(subroutine)]]


def test_post_order() -> None:
    graph = tangled()
    ordered = enforce_post_order(graph)
    check_graph(ordered)
    assert order_of(ordered, "main") == ["b", "c", "a", "loose operand", "loose", "root"]
    assert order_of(ordered, "body") == ["body first", "body aside", "body root"]
    assert {name: operand_names(ordered, name) for name in order_of(ordered, "main")} == {
        "b": [],
        "c": ["b"],
        "a": ["c"],
        "loose operand": ["a"],
        "loose": ["loose operand", "c"],
        "root": ["b", "a", "c", "loose"],
    }
    assert operand_names(ordered, "body root") == ["body first", "body aside"]
    assert operand_names(ordered, "condition aside") == ["condition first"]


def test_post_order_keeps_everything_else() -> None:
    graph = tangled()
    ordered = enforce_post_order(graph)
    assert (ordered.name, ordered.processor) == (graph.name, graph.processor)
    assert sorted(ordered.names) == sorted(graph.names)
    for name in graph.names:
        before, after = place_of(graph, name), place_of(ordered, name)
        for column in ("opcode", "identifier", "ops", "transcendentals", "bytes_in", "seconds", "bonded", "tag"):
            assert getattr(graph, column)[before] == getattr(ordered, column)[after]
        assert graph.groups[before] == ordered.groups[after]
        inside = [graph.subroutine_names[subroutine] for subroutine in graph.inner[before]]
        assert [ordered.subroutine_names[subroutine] for subroutine in ordered.inner[after]] == inside
    # Written and read again, instructions are where they were: the order of the file is that of the graph.
    assert not differences(ordered, graph_of(message_of(ordered), "x"))
    again = enforce_post_order(ordered)
    assert not differences(ordered, again)


def test_post_order_leaves_no_overlap() -> None:
    """The longest chain is all there is: every second of compute follows another."""
    ordered = graph_summary(enforce_post_order(read_graph(DATA / SHIPPED[0])))
    plain = graph_summary(read_graph(DATA / SHIPPED[0]))
    total = plain.classes["seconds"].sum()
    # A collective, which computes its reduction once, and a call are among the callers.
    assert ordered.classes["seconds"].sum() == pytest.approx(total, rel=1e-12)
    assert ordered.longest_chain == pytest.approx(total, rel=1e-12)
    assert plain.longest_chain < 0.6 * total


def test_data_parallel_extension() -> None:
    builder = GraphBuilder("g")
    main = builder.subroutine("main")
    builder.instruction(main, "send", "send", groups=[[0, 1]])
    outer = builder.instruction(main, "call", "call")
    builder.instruction(main, "reduce", "all-reduce", groups=[[2, 1, 0]], bytes_out=64.0)
    inner = builder.subroutine("inner", caller=outer)
    builder.instruction(inner, "gather", "all-gather", groups=[[1, 2]])
    graph = builder.build()
    extended = extend_data_parallel(graph, 5)
    assert differences(graph, extended) == ["groups"]
    everybody = ((0, 1, 2, 3, 4),)
    assert dict(zip(extended.names, extended.groups, strict=True)) == {
        "send": ((0, 1),), "call": (), "reduce": everybody, "gather": everybody,
    }  # fmt: skip
    assert processors_of(extended) == [0, 1, 2, 3, 4]
    check_graph(individual_graph(extended, 4))


def test_data_parallel_extension_of_the_shipped_graph() -> None:
    extended = extend_data_parallel(read_graph(DATA / SHIPPED[0]), 1024)
    assert processors_of(extended) == list(range(1024))
    check_graph(extended)


@pytest.mark.parametrize(
    ("graph", "processors", "what"),
    [
        (single("all-reduce", groups=[[0, 1], [2, 3]]), 8, "'x' (id 1) has 2 communication groups"),
        (single("barrier"), 8, "'x' (id 1) has 0 communication groups"),
        (single("all-reduce", groups=[[1, 2]]), 8, "processor 0 is missing among its 2 processors"),
        (single("all-reduce", groups=[[0, 1, 3]]), 8, "processor 2 is missing among its 3 processors"),
        (single("all-reduce", groups=[[0]], processor=0), 8, "processor 0 alone cannot be extended"),
        (single("all-reduce", groups=[[0]]), 0, "cannot be extended to 0 processors"),
    ],
)
def test_what_cannot_be_extended(graph: Graph, processors: int, what: str) -> None:
    with pytest.raises(InputError) as caught:
        extend_data_parallel(graph, processors)
    assert str(caught.value).startswith("graph 'one': ")
    assert what in str(caught.value)


def nested(opcodes: list[str], leaf: str = "delay", **attributes: float) -> Graph:
    """A subroutine in a subroutine …, each caller followed by a root; the innermost holds a leaf."""
    builder = GraphBuilder("g")
    caller = None
    for number, opcode in enumerate(opcodes):
        subroutine = builder.subroutine(f"s{number}", caller=caller)
        caller = builder.instruction(subroutine, f"c{number}", opcode)
        builder.instruction(subroutine, f"r{number}", "null", operands=[caller])
    builder.instruction(builder.subroutine("innermost", caller=caller), "leaf", leaf, **attributes)
    return builder.build()


def opcodes_of(graph: Graph) -> dict[str, str]:
    return {name: graph.opcode_name(place) for place, name in enumerate(graph.names)}


@pytest.mark.parametrize("leaf", ["delay", "null"])
def test_trim_from_the_inside_out(leaf: str) -> None:
    trimmed = trim(nested(["call", "null", "call"], leaf))
    assert opcodes_of(trimmed) == {"c0": "delay", "r0": "null"}
    assert trimmed.subroutine_names == ("s0",)
    assert operand_names(trimmed, "r0") == ["c0"]
    check_graph(trimmed)


@pytest.mark.parametrize("cost", ["ops", "transcendentals", "bytes_in", "bytes_out", "seconds"])
def test_trim_keeps_what_costs(cost: str) -> None:
    graph = nested(["call", "null"], **{cost: 1e-30})
    assert not differences(trim(graph), graph)


@pytest.mark.parametrize("leaf", ["infeed", "outfeed", "barrier"])
def test_trim_keeps_other_opcodes(leaf: str) -> None:
    graph = nested(["call"], leaf)
    assert not differences(trim(graph), graph)


def test_trim_only_inside_of_call_and_null() -> None:
    graph = nested(["all-reduce", "call"])
    assert opcodes_of(trim(graph)) == {"c0": "all-reduce", "r0": "null", "c1": "delay", "r1": "null"}
    loop = single("while")
    assert not differences(trim(loop), loop)


def test_trim_one_of_several_subroutines() -> None:
    builder = GraphBuilder("g")
    call = builder.instruction(builder.subroutine("main"), "call", "call", seconds=4.0)
    for name, seconds in (("free", 0.0), ("costly", 1.0), ("free too", 0.0)):
        builder.instruction(builder.subroutine(name, caller=call), f"in {name}", "delay", seconds=seconds)
    trimmed = trim(builder.build())
    assert opcodes_of(trimmed) == {"call": "call", "in costly": "delay"}
    assert trimmed.subroutine_names == ("main", "costly")
    assert trimmed.caller.tolist() == [-1, 0]
    assert trimmed.root.tolist() == [0, 1]


def test_trim_a_call_with_costs_of_its_own_becomes_a_delay_that_stays() -> None:
    graph = nested(["call", "call"])
    costly = replace(graph, seconds=np.where(np.array(graph.names) == "c1", 2.0, 0.0))
    assert opcodes_of(trim(costly)) == {"c0": "call", "r0": "null", "c1": "delay", "r1": "null"}


def test_drop_disconnected() -> None:
    graph = tangled()
    connected = drop_disconnected(graph)
    check_graph(connected)
    assert connected.names == (
        "c", "a", "body first", "body root", "condition first", "condition root", "b", "root",
    )  # fmt: skip
    assert connected.subroutine_names == ("main", "body", "condition")
    assert connected.caller.tolist() == [-1, 1, 1]
    assert connected.count.tolist() == [1, 3, 3]
    assert [connected.names[root] for root in connected.root] == ["root", "body root", "condition root"]
    assert operand_names(connected, "root") == ["b", "a", "c"]
    assert operand_names(connected, "condition root") == ["condition first"]
    assert connected.identifier[place_of(connected, "c")] == graph.identifier[place_of(graph, "c")]
    assert connected.groups[place_of(connected, "b")] == ((1,),)
    assert not differences(connected, drop_disconnected(connected))
    assert not differences(connected, graph_of(message_of(connected), "x"))


def test_half_of_a_message_is_not_dropped() -> None:
    builder = GraphBuilder("g", 0)
    main = builder.subroutine("main")
    start = builder.instruction(main, "start", "send-start", groups=[[1]])
    done = builder.instruction(main, "done", "send-done", groups=[[1]], operands=[start])
    builder.instruction(main, "root", "null", operands=[start])
    builder.bond(start, done)
    with pytest.raises(InputError, match=r"'start' \(id 1\) is bonded to 2, for which the root does not wait"):
        drop_disconnected(builder.build())
    builder.depend(2, [done])
    assert len(drop_disconnected(builder.build())) == 3


def test_connected_graphs_stay_as_they_are() -> None:
    graph = chain("delay", "delay", "null")
    assert not differences(graph, drop_disconnected(graph))


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("tool", [enforce_post_order, trim, drop_disconnected])
def test_shipped_graphs_can_still_be_run(name: str, tool: Callable[[Graph], Graph]) -> None:
    graph = tool(read_graph(DATA / name))
    check_graph(graph)
    assert not differences(graph, graph_of(message_of(graph), "x"))


@pytest.mark.parametrize(
    "tool", [enforce_post_order, trim, drop_disconnected, lambda graph: extend_data_parallel(graph, 4)]
)
def test_tools_refuse_graphs_that_cannot_be_run(tool: Callable[[Graph], Graph]) -> None:
    with pytest.raises(InputError, match="seconds is -1, but must be"):
        tool(single(seconds=-1.0))
