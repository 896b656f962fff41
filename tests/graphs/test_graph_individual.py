"""What each processor runs of a graph of all processors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_cases import DATA, SHIPPED, chain, differences, operand_names, place_of, single

from codesign_opt.errors import InputError
from codesign_opt.graphs import (
    Graph,
    GraphBuilder,
    check_graph,
    individual_graph,
    individual_graphs,
    processors_of,
    read_graph,
)


def groups_of(graph: Graph, name: str = "x") -> tuple[str, Any]:
    place = place_of(graph, name)
    return graph.opcode_name(place), graph.groups[place]


def reducing(groups: list[list[int]]) -> Graph:
    """compute → all-reduce (its reduction: add) → end."""
    builder = GraphBuilder("g")
    main = builder.subroutine("main")
    compute = builder.instruction(main, "compute", "delay", seconds=1.0)
    reduce = builder.instruction(
        main, "x", "all-reduce", operands=[compute], groups=groups, bytes_in=8, bytes_out=4, ops=1, seconds=2.0
    )
    reduction = builder.subroutine("reduction", caller=reduce)
    call = builder.instruction(reduction, "call", "call")
    builder.instruction(builder.subroutine("inside", caller=call), "add", "delay", seconds=0.5)
    builder.instruction(main, "end", "delay", operands=[reduce, compute])
    return builder.build()


def test_processors_are_those_of_all_groups() -> None:
    builder = GraphBuilder("g")
    main = builder.subroutine("main")
    builder.instruction(main, "a", "all-reduce", groups=[[9, 3], [5]])
    builder.instruction(main, "b", "send", groups=[[3, 12]])
    assert processors_of(builder.build()) == [3, 5, 9, 12]
    assert processors_of(single()) == []
    assert processors_of(single("send", processor=4, groups=[[7]])) == [4]
    assert processors_of(read_graph(DATA / SHIPPED[0])) == list(range(8))


@pytest.mark.parametrize(
    ("opcode", "groups", "seen"),
    [
        ("all-reduce", [[2, 0], [1, 3, 5], [4]], {0: [2, 0], 1: [1, 3, 5], 2: [2, 0], 3: [1, 3, 5], 4: [4], 6: None}),
        ("barrier", [[0, 1]], {0: [0, 1], 1: [0, 1], 2: None}),
        ("send", [[0, 1], [1, 2]], {0: [1], 1: [2], 2: None}),
        ("send-start", [[0, 1]], {0: [1], 1: None}),
        ("send-done", [[0, 1]], {0: [1], 1: None}),
        ("recv", [[0, 1], [2, 0]], {0: [2], 1: [0], 2: None}),
        ("recv-start", [[0, 1]], {0: None, 1: [0]}),
        ("recv-done", [[0, 1]], {0: None, 1: [0]}),
        ("sendrecv", [[2, 0, 1], [0, 1, 0]], {0: [2, 1], 1: [0, 0], 2: None}),
    ],
)
def test_groups_of_each_processor(opcode: str, groups: list[list[int]], seen: dict[int, list[int] | None]) -> None:
    graph = single(opcode, groups=groups, bytes_in=5, seconds=1, bonded=3, tag=2)
    for processor, group in seen.items():
        program = individual_graph(graph, processor)
        assert (program.name, program.processor) == (f"one_{processor}", processor)
        costs = [column.tolist() for column in (program.bytes_in, program.seconds, program.bonded, program.tag)]
        if group is None:
            assert groups_of(program) == ("null", ())
            assert costs == [[0], [0], [0], [0]]
        else:
            assert groups_of(program) == (opcode, (tuple(group),))
            assert costs == [[5], [1], [3], [2]]


def test_a_processor_outside_of_every_group_pays_no_reduction() -> None:
    graph = reducing([[0, 1], [2, 3]])
    inside, outside = individual_graphs(graph, [3, 4])
    assert set(differences(inside, graph)) == {"name", "processor", "groups"}
    assert groups_of(inside) == ("all-reduce", ((2, 3),))
    assert groups_of(outside) == ("null", ())
    assert outside.names == ("compute", "x", "end")
    assert outside.subroutine_names == ("main",)
    assert outside.identifier.tolist() == [1, 2, 5]
    assert operand_names(outside, "end") == ["x", "compute"]
    assert outside.seconds.tolist() == [1.0, 0.0, 0.0]
    assert outside.root.tolist() == [2]
    for program in (inside, outside):
        check_graph(program)


def test_a_collective_of_one_keeps_its_group() -> None:
    program = individual_graph(reducing([[4]]), 4)
    assert groups_of(program) == ("all-reduce", ((4,),))
    assert len(program) == 5


def test_compute_alone_is_the_same_for_every_processor() -> None:
    graph = single("while", seconds=3.0)
    program = individual_graph(graph, 6)
    assert set(differences(program, graph)) == {"name", "processor"}


def test_programs_of_the_shipped_graph() -> None:
    graph = read_graph(DATA / SHIPPED[0])
    programs = list(individual_graphs(graph))
    assert [program.processor for program in programs] == list(range(8))
    for program in programs:
        check_graph(program)
        assert set(differences(program, graph)) <= {"name", "processor"}
    # What ParaGraph made of it has other instructions inside the collectives, and names no operand twice.
    for name, program in ((SHIPPED[1], programs[0]), (SHIPPED[2], programs[5])):
        translated = read_graph(DATA / name)
        assert translated.name == program.name
        assert translated.processor == program.processor
        places = {identifier: place for place, identifier in enumerate(translated.identifier.tolist())}
        inside = np.isin(
            program.subroutine, [place for place, name in enumerate(program.subroutine_names) if "sum" in name]
        )
        assert inside.sum() == 9
        for place in np.flatnonzero(~inside):
            other = places[program.identifier[place]]
            assert translated.names[other] == program.names[place]
            for column in ("opcode", "bytes_in", "bytes_out", "ops", "seconds"):
                assert getattr(translated, column)[other] == getattr(program, column)[place]
            assert translated.groups[other] == program.groups[place]
            ids = program.identifier[program.operands[place]]
            assert translated.identifier[translated.operands[other]].tolist() == list(dict.fromkeys(ids.tolist()))


@pytest.mark.parametrize(
    ("graph", "processor", "what"),
    [
        (single(processor=3), 3, "it is the program of processor 3 alone already"),
        (single(), -1, "processor -1 does not exist"),
        (single("send", groups=[[1]]), 1, "'x' (id 1), send: group (1,) has 1 processors instead of 2"),
        (single("sendrecv", groups=[[1, 2]]), 1, "sendrecv: group (1, 2) has 2 processors instead of 3"),
        (single("recv-done", groups=[[1, 2, 3]]), 1, "recv-done: group (1, 2, 3) has 3 processors instead of 2"),
        (single("all-reduce", groups=[[1, 2], [2]]), 1, "all-reduce: processor 2 takes part twice"),
        (single("send", groups=[[1, 2], [1, 3]]), 1, "send: processor 1 takes part twice"),
        (single("delay", groups=[[1, 2]]), 1, "delay: communication groups, but nothing to communicate"),
    ],
)
def test_refusals(graph: Graph, processor: int, what: str) -> None:
    with pytest.raises(InputError) as caught:
        individual_graph(graph, processor)
    assert str(caught.value).startswith("graph 'one': ")
    assert what in str(caught.value)


def test_many_processors_in_one_pass() -> None:
    """The groups are looked through once, not once for each processor."""
    graph = chain("all-reduce", "all-gather", groups=[range(64 * start, 64 * start + 64) for start in range(64)])
    programs = list(individual_graphs(graph))
    assert len(programs) == 4096
    assert all(processor in program.groups[1][0] for processor, program in enumerate(programs))
    assert programs[4095].groups == ((tuple(range(4032, 4096)),),) * 2
