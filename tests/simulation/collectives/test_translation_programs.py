"""What translated programs look like: names, groups, numbers of messages, costs of reductions, special groups."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from collective_execution import FAMILIES, Case
from hypothesis import given, settings
from hypothesis import strategies as st
from translated_rows import canonical, composite, flat_rows

from codesign_opt.errors import InputError
from codesign_opt.graphs import Graph, GraphBuilder, check_graph
from codesign_opt.simulation.collectives import REDUCE, ROW_OPCODES
from codesign_opt.simulation.translation import read_translation, translate

PUSH = {opcode: {"algorithm": "push"} for opcode in ("send", "recv", "sendrecv")}

cases = st.one_of(list(FAMILIES.values()))


def _translate(graph: Graph, opcode: str, algorithm: str, *, protocol: bool = True, **options: Any) -> list[Graph]:
    tables = {"collective": {opcode: {"algorithm": algorithm, **options}}, "protocol": PUSH if protocol else {}}
    return translate(graph, read_translation(tables))


def _of_case(case: Case, *, protocol: bool) -> list[Graph]:
    graph = composite(case.opcode, case.processors, 1.2e6)
    return _translate(graph, case.opcode, case.algorithm, protocol=protocol, **case.options)


@given(cases)
def test_programs_do_what_the_schedule_says(case: Case) -> None:
    schedule = case.schedule(1.2e6)
    for program in _of_case(case, protocol=False):
        rank = case.processors.index(program.processor)
        rows = schedule.by_rank[rank]
        place = {row: index for index, row in enumerate(rows.tolist())}
        expected = [
            (
                "delay" if schedule.opcode[row] == REDUCE else ROW_OPCODES[schedule.opcode[row]],
                schedule.bytes_out[row],
                schedule.bytes_in[row],
                1.2e6 / 4 * schedule.scale[row],
                [case.processors[peer] for peer in (schedule.source[row], schedule.to[row]) if peer >= 0],
                sorted(place[operand] for operand in schedule.operands[row].tolist()),
            )
            for row in rows.tolist()
        ]

        def describe(graph: Graph, place: int) -> tuple[Any, ...]:
            opcode = graph.opcode_name(place)
            peers = list(graph.groups[place][0]) if graph.groups[place] else []
            sizes = (0, 0) if opcode == "delay" else (graph.bytes_in[place], graph.bytes_out[place])
            return opcode, *sizes, graph.ops[place], peers

        assert canonical(flat_rows(program, describe)) == canonical(_reduced(expected))


@given(cases)
def test_numbers_of_messages_are_the_same_at_both_ends(case: Case) -> None:
    """On both sides messages are numbered in the order of the rows, in which the schedule matches them."""
    sent: dict[tuple[int, int], list[float]] = defaultdict(list)
    received: dict[tuple[int, int], list[float]] = defaultdict(list)
    for program in _of_case(case, protocol=True):
        check_graph(program)
        tags: dict[tuple[str, int], list[int]] = defaultdict(list)
        for place, opcode in enumerate(map(program.opcode_name, range(len(program)))):
            if opcode in ("send-start", "recv-start"):
                tags[opcode, program.groups[place][0][0]].append(int(program.tag[place]))
            if opcode == "send-start":
                sent[program.processor, program.groups[place][0][0]].append(program.bytes_in[place])
            if opcode == "recv-done":
                received[program.groups[place][0][0], program.processor].append(program.bytes_out[place])
        for numbers in tags.values():
            assert numbers == list(range(1, len(numbers) + 1))
    assert sent == received


@settings(max_examples=20)
@given(cases)
def test_each_processor_alone_is_translated_as_among_the_others(case: Case) -> None:
    graph = composite(case.opcode, case.processors, 1.2e6)
    translation = read_translation(
        {"collective": {case.opcode: {"algorithm": case.algorithm, **case.options}}, "protocol": PUSH}
    )
    for program in translate(graph, translation):
        (alone,) = translate(graph, translation, processors=[program.processor])
        assert alone.groups == program.groups
        assert alone.names == program.names
        assert np.array_equal(alone.tag, program.tag)
        assert np.array_equal(alone.bytes_in, program.bytes_in)


def test_names_say_where_an_instruction_comes_from() -> None:
    program = _translate(composite("all-reduce", [0, 1], 8.0), "all-reduce", "bidir-ring")[0]
    ring = "collective_bidir-ring_reduce-scatter_bidir-ring"
    push = f"{ring}_cw_unidir-ring_sendrecv_1"
    assert program.names[: program.names.index(f"{ring}_ccw")] == (
        "collective",
        "collective_bidir-ring_reduce-scatter",
        f"{ring}_cw",
        push,
        *(f"{push}_{what}" for what in ("recvstart", "sendstart", "senddone", "recvdone", "root")),
        f"{ring}_cw_unidir-ring_reduction_1",
        "add_phase_1",
    )
    assert f"{ring}_root_0" in program.names
    assert f"{push}_push" in program.subroutine_names


def test_names_on_a_torus_are_those_of_the_reference() -> None:
    """Stages are named after the collective that they are a part of, joins of two rings after the processor."""
    graph = composite("all-reduce", [0, 1, 2, 3], 64.0)
    program = _translate(graph, "all-reduce", "torus-2d", dimension_widths=[2, 2])[3]
    whole = "collective_torus-2d_reduce-scatter"
    stages = [f"{whole}_stream-{stream}_stage-{stage}" for stream in (0, 1) for stage in (0, 1)]
    assert [name for name in program.names if name.startswith(whole) and "ring" not in name] == [
        whole, *stages, f"{whole}_root",
    ]  # fmt: skip
    assert [name for name in program.names if name.endswith("bidir-ring_root_3") and name.startswith(whole)] == [
        f"{stage}_bidir-ring_root_3" for stage in stages
    ]


def test_phases_have_the_group_and_the_vector_that_they_are_for() -> None:
    """A 2 x 2 torus: along x first, with half of the vector on lines of two."""
    options = {"dimension_widths": [2, 2]}
    program = _translate(composite("reduce-scatter", [0, 1, 2, 3], 64.0), "reduce-scatter", "torus-2d", **options)[1]
    place = {name: index for index, name in enumerate(program.names)}
    first, second = (place[f"collective_stream-0_stage-{stage}"] for stage in (0, 1))
    assert program.groups[first] == ((0, 1),)
    assert program.groups[second] == ((1, 3),)
    assert program.bytes_out[[first, second]].tolist() == [32.0, 16.0]


def test_a_reduction_is_scaled_all_the_way_down() -> None:
    builder = GraphBuilder("program")
    collective = builder.instruction(
        builder.subroutine("main"), "sum", "reduce-scatter", bytes_out=8.0, groups=[[0, 1, 2, 3]]
    )
    reduction = builder.subroutine("reduction", caller=collective)
    load = builder.instruction(reduction, "load", "delay", bytes_in=80.0, seconds=4.0)
    call = builder.instruction(reduction, "compute", "call", operands=[load])
    inner = builder.subroutine("inner", caller=call)
    builder.instruction(inner, "add", "delay", ops=16.0, transcendentals=12.0, bytes_out=8.0, seconds=2.0)
    program = _translate(builder.build(), "reduce-scatter", "unidir-ring")[0]
    load, add = program.names.index("load_phase_2"), program.names.index("add_phase_2")
    assert (program.bytes_in[load], program.seconds[load]) == (20.0, 1.0)
    assert (program.ops[add], program.transcendentals[add], program.bytes_out[add]) == (4.0, 3.0, 2.0)
    assert program.seconds[add] == 0.5
    assert "inner_phase_2" in program.subroutine_names


@pytest.mark.parametrize(
    ("opcode", "algorithm"),
    [
        ("all-reduce", "unidir-ring"),
        ("all-reduce", "dissemination"),
        ("all-gather", "mesh-1d"),
        ("barrier", "centralized"),
    ],
)
def test_a_group_of_one_costs_nothing(opcode: str, algorithm: str) -> None:
    (program,) = _translate(composite(opcode, [3], 8.0), opcode, algorithm)
    assert program.processor == 3
    assert program.names == ("collective", f"collective_{algorithm}_root_3")
    assert [program.opcode_name(place) for place in range(2)] == [opcode, "null"]


def test_an_all_reduce_by_nothing_costs_nothing() -> None:
    for program in _translate(composite("all-reduce", [0, 1], 8.0), "all-reduce", "null"):
        assert program.names == ("collective", f"collective_null_root_{program.processor}")


def test_one_processor_on_each_node_has_no_local_exchange() -> None:
    options = {"dimension_widths": [2, 2], "concentration": 2}
    programs = _translate(composite("all-gather", [0, 2, 4, 6], 8.0), "all-gather", "mesh-2d", **options)
    assert not any("local" in name for program in programs for name in program.names)


def test_who_is_in_no_group_does_not_reduce() -> None:
    builder = GraphBuilder("program")
    entry = builder.subroutine("main")
    first = builder.instruction(entry, "all", "barrier", groups=[[0, 1, 2]])
    some = builder.instruction(entry, "some", "all-reduce", operands=[first], bytes_out=8.0, groups=[[0, 1]])
    builder.instruction(builder.subroutine("sum", caller=some), "add", "delay", seconds=1.0)
    tables = {"collective": {"all-reduce": {"algorithm": "unidir-ring"}, "barrier": {"algorithm": "centralized"}}}
    programs = translate(builder.build(), read_translation(tables))
    assert [program.seconds.sum() for program in programs] == [0.5, 0.5, 0.0]
    assert programs[2].opcode_name(programs[2].names.index("some")) == "null"


def test_what_is_not_configured_stays() -> None:
    builder = GraphBuilder("program")
    entry = builder.subroutine("main")
    gather = builder.instruction(entry, "gather", "all-gather", bytes_out=8.0, groups=[[0, 1]])
    builder.instruction(entry, "pass", "sendrecv", operands=[gather], bytes_in=4.0, bytes_out=4.0,
                        groups=[[1, 0, 1], [0, 1, 0]])  # fmt: skip
    programs = translate(builder.build(), read_translation({}))
    assert [program.names for program in programs] == [("gather", "pass")] * 2
    assert programs[0].groups == (((0, 1),), ((1, 1),))


def test_messages_of_the_program_itself_are_done_by_the_protocol() -> None:
    """Three processors pass something on; the last one, and a pair with one-sided messages."""
    builder = GraphBuilder("program")
    entry = builder.subroutine("main")
    shift = builder.instruction(
        entry, "shift", "sendrecv", bytes_in=3.0, bytes_out=3.0, groups=[[2, 0, 1], [0, 1, 2], [1, 2, 0]]
    )
    send = builder.instruction(entry, "give", "send", operands=[shift], bytes_in=5.0, groups=[[0, 1]])
    builder.instruction(entry, "take", "recv", operands=[send], bytes_out=5.0, groups=[[0, 1]])
    first, second, _ = translate(builder.build(), read_translation({"protocol": PUSH}))
    assert first.groups[first.names.index("shift")] == ((2, 1),)
    assert first.groups[first.names.index("shift_recvstart")] == ((2,),)
    start, done = (first.names.index(f"give_send{what}") for what in ("start", "done"))
    assert (first.bytes_in[start], first.tag[start], first.tag[done]) == (5.0, 2, 2)
    assert first.opcode_name(first.names.index("take")) == "null"
    arrival = second.names.index("take_recvdone")
    assert (second.bytes_out[arrival], second.tag[arrival], second.groups[arrival]) == (5.0, 2, ((0,),))


def test_an_operand_named_twice_is_waited_for_once() -> None:
    builder = GraphBuilder("program")
    entry = builder.subroutine("main")
    barrier = builder.instruction(entry, "all", "barrier", groups=[[0, 1]])
    builder.instruction(entry, "square", "delay", operands=[barrier, barrier])
    program = _translate(builder.build(), "barrier", "centralized")[0]
    assert program.operands[program.names.index("square")].tolist() == [0]


@pytest.mark.parametrize(
    ("opcode", "with_inner", "message"),
    [("all-reduce", False, "what reducing costs"), ("all-gather", True, "nothing to reduce")],
)
def test_only_what_reduces_says_what_that_costs(opcode: str, with_inner: bool, message: str) -> None:
    builder = GraphBuilder("program")
    collective = builder.instruction(builder.subroutine("main"), "it", opcode, bytes_out=8.0, groups=[[0, 1]])
    if with_inner:
        builder.instruction(builder.subroutine("sum", caller=collective), "add", "delay")
    with pytest.raises(InputError, match=message) as error:
        _translate(builder.build(), opcode, "unidir-ring")
    assert "program" in str(error.value)
    assert "'it' (id 1)" in str(error.value)


@pytest.mark.parametrize(
    ("processors", "options", "message"),
    [
        ([0, 1, 2], {"dimension_widths": [2, 2]}, "do not fill a grid of 2 x 2"),
        ([0, 1, 8, 9], {"dimension_widths": [2, 2]}, "processor 8 is not on a grid"),
    ],
)
def test_groups_that_are_no_grid(processors: list[int], options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        _translate(composite("all-reduce", processors, 8.0), "all-reduce", "torus-2d", **options)
    assert "instruction 'collective'" in str(error.value)


def test_a_program_of_one_processor_cannot_be_translated() -> None:
    program = _translate(composite("all-gather", [0, 1], 8.0), "all-gather", "unidir-ring")[0]
    with pytest.raises(InputError, match="processor 0 alone"):
        translate(program, read_translation({}))


def _reduced(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows without operands that another operand waits for anyway."""
    reach: list[set[int]] = []
    reduced = []
    for row in rows:
        beyond = set().union(*(reach[operand] for operand in row[-1]))
        reach.append(set(row[-1]) | beyond)
        reduced.append((*row[:-1], sorted(set(row[-1]) - beyond)))
    return reduced
