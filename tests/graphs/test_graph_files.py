"""Graph files: exact round trips, and one clear error for whatever cannot be read or written."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from graph_cases import DATA, SHIPPED, differences, graphs, single
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign_opt.errors import InputError
from codesign_opt.graphs import Graph, GraphBuilder, check_graph, graph_summary, read_graph, write_graph
from codesign_opt.graphs.conversion import graph_of, message_of
from codesign_opt.graphs.messages import GraphMessage, InstructionMessage, SubroutineMessage
from codesign_opt.graphs.protobuf import decode
from codesign_opt.graphs.protobuf import encode as to_binary
from codesign_opt.graphs.text_format import encode as to_text
from codesign_opt.graphs.text_format import parse


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_files_come_back_byte_by_byte(name: str, tmp_path: Path) -> None:
    graph = read_graph(DATA / name)
    check_graph(graph)
    write_graph(graph, tmp_path / name)
    assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes()


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_files_by_way_of_the_other_format(name: str, tmp_path: Path) -> None:
    graph = read_graph(DATA / name)
    other = tmp_path / ("other.pb" if name.endswith(".textproto") else "other.textproto")
    write_graph(graph, other)
    again = read_graph(other)
    assert not differences(graph, again)
    write_graph(again, tmp_path / name)
    assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes()


def test_what_the_shipped_graph_contains() -> None:
    graph = read_graph(DATA / SHIPPED[0])
    assert (graph.name, graph.processor, len(graph), len(graph.root)) == ("test_graph.151", None, 143, 8)
    place = graph.names.index("dynamic-slice.54")
    assert graph.identifier[place] == 58
    assert graph.identifier[graph.operands[place]].tolist() == [50, 55, 57]
    assert graph.seconds[place] == 1.39509461405396e-06
    assert graph.bytes_in[place] == 524296
    # Operands may be named twice: multiply.63 squares.
    assert graph.identifier[graph.operands[graph.names.index("multiply.63")]].tolist() == [66, 66]
    loop = graph.names.index("while.123")
    assert [graph.count[subroutine] for subroutine in graph.inner[loop]] == [2, 2]
    assert graph.subroutine_names[graph.inner[loop][0]] == "_functionalize_body_0__.32"
    reduce = graph.names.index("all-reduce.69")
    assert graph.groups[reduce] == (tuple(range(8)),)
    assert graph.names[graph.root[graph.inner[reduce][0]]] == "add.23"


@given(graph=graphs())
def test_random_graphs_come_back_from_both_formats(graph: Graph) -> None:
    message = message_of(graph)
    assert not differences(graph, graph_of(message, "x"))
    binary, text = to_binary(message), to_text(message)
    assert decode(binary, "x") == message
    assert parse(text, "x") == message
    assert to_binary(parse(text, "x")) == binary
    assert to_text(decode(binary, "x")) == text


@pytest.mark.parametrize("name", ["graph.json", "graph.pb.gz", "graph", "graph.PB", ".pb"])
def test_other_extensions(name: str, tmp_path: Path) -> None:
    for use in (lambda path: read_graph(path), lambda path: write_graph(single(), path)):
        with pytest.raises(InputError, match=r"(?s)cannot be called.*allowed: \*\.pb, \*\.textproto") as caught:
            use(tmp_path / name)
        assert name in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "folder.pb").mkdir()
    for name in ("missing.pb", "folder.pb", "nul\0.pb", "x" * 300 + ".textproto"):
        with pytest.raises(InputError, match="cannot read"):
            read_graph(tmp_path / name)


def test_a_graph_is_not_half_written(tmp_path: Path) -> None:
    path = tmp_path / "graph.textproto"
    write_graph(single(), path)
    before = path.read_bytes()
    with pytest.raises(InputError, match="not Unicode text"):
        write_graph(replace(single(), name="\ud800"), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    with pytest.raises(InputError, match="the directory does not exist"):
        write_graph(single(), tmp_path / "missing" / "graph.pb")


@pytest.mark.parametrize("extension", ["pb", "textproto"])
def test_empty_files(extension: str, tmp_path: Path) -> None:
    path = tmp_path / f"empty.{extension}"
    path.touch()
    with pytest.raises(InputError, match=rf"empty\.{extension}: no entry_subroutine"):
        read_graph(path)


def test_the_wrong_format_under_a_name(tmp_path: Path) -> None:
    shutil.copy(DATA / SHIPPED[0], tmp_path / "text.pb")
    with pytest.raises(InputError, match=r"text\.pb: byte \d+.*not a binary program graph"):
        read_graph(tmp_path / "text.pb")
    shutil.copy(DATA / SHIPPED[1], tmp_path / "binary.textproto")
    with pytest.raises(InputError, match=r"binary\.textproto: byte \d+ is not UTF-8 text"):
        read_graph(tmp_path / "binary.textproto")


def faulty(*instructions: InstructionMessage, root: int = 1) -> GraphMessage:
    return GraphMessage("g", -1, SubroutineMessage("main", root, 1.0, 1, list(instructions)))


def entry(name: str, identifier: int, operands: tuple[int, ...] = (), opcode: str = "delay") -> InstructionMessage:
    return InstructionMessage(name, opcode, identifier, operand_ids=list(operands))


def call(name: str, identifier: int, inner: InstructionMessage) -> InstructionMessage:
    subroutine = SubroutineMessage("inner", inner.instruction_id, 1.0, 1, [inner])
    return InstructionMessage(name, "call", identifier, inner_subroutines=[subroutine])


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (faulty(entry("a", 1, opcode="dealy")), "'a' (id 1): unknown opcode 'dealy' (did you mean 'delay'?)"),
        (faulty(entry("a", 1, opcode="")), "'a' (id 1): unknown opcode ''"),
        (faulty(entry("a", 1, (7,))), "'a' (id 1): operand 7 does not exist"),
        (faulty(entry("a", 1, (0,))), "'a' (id 1): operand 0 does not exist"),
        (faulty(entry("a", 1), entry("b", 1)), "'b' (id 1): instruction 'a' has the same id"),
        (faulty(entry("a", 1, (1,))), "'a' (id 1): waits for itself: 'a' ← 'a'"),
        (
            faulty(entry("a", 1), entry("b", 2, (3,)), entry("c", 3, (4, 1)), entry("d", 4, (2,)), entry("e", 5, (4,))),
            "'b' (id 2): waits for itself: 'b' ← 'c' ← 'd' ← 'b'",
        ),
        (
            faulty(*(entry(f"i{k}", k, (k % 9 + 1,)) for k in range(1, 10))),
            "'i1' (id 1): waits for itself: 'i1' ← 'i2' ← 'i3' ← 'i4' ← 'i5' ← … ← 'i1'",
        ),
        (
            faulty(call("a", 1, entry("b", 2)), entry("c", 3, (2,))),
            "'c' (id 3): operand 2 ('b') is in another subroutine",
        ),
        (
            faulty(call("a", 1, entry("b", 2, (3,))), entry("c", 3)),
            "'b' (id 2): operand 3 ('c') is in another subroutine",
        ),
        (faulty(entry("a", 1), root=2), "subroutine 'main': root 2 is not in it"),
        (faulty(call("a", 1, entry("b", 2)), root=2), "subroutine 'main': root 2 is not in it"),
        (faulty(root=0), "subroutine 'main' has no instructions"),
    ],
)
def test_graphs_that_do_not_hang_together(message: GraphMessage, what: str, tmp_path: Path) -> None:
    for name, content in (("bad.pb", to_binary(message)), ("bad.textproto", to_text(message))):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            read_graph(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert what in str(caught.value)


def test_operands_may_stand_later_in_the_list() -> None:
    graph = graph_of(faulty(entry("a", 1, (2,)), entry("b", 2)), "x")
    assert graph.operands[0].tolist() == [1]


def test_fields_that_are_left_out_are_zero() -> None:
    message = faulty(entry("a", 1))
    assert message.entry_subroutine is not None
    message.entry_subroutine.execution_count = 0
    message.processor_id = 0
    graph = graph_of(message, "x")
    assert (graph.processor, graph.count.tolist(), graph.seconds.tolist()) == (0, [0], [0.0])


@pytest.mark.parametrize("processor_id", [-1, -7])
def test_a_negative_processor_means_all_of_them(processor_id: int) -> None:
    message = faulty(entry("a", 1))
    message.processor_id = processor_id
    graph = graph_of(message, "x")
    assert graph.processor is None
    assert message_of(graph).processor_id == -1


def deep(levels: int, instructions: int) -> Graph:
    """Calls one inside the other, each subroutine with a chain of some instructions."""
    builder = GraphBuilder("deep")
    caller = None
    for level in range(levels):
        subroutine = builder.subroutine(f"s{level}", caller=caller)
        caller = builder.instruction(subroutine, f"call{level}", "call" if level < levels - 1 else "delay")
        place = caller
        for number in range(instructions):
            place = builder.instruction(subroutine, f"i{number}", "delay", operands=[place], seconds=0.25)
    return builder.build()


@pytest.mark.parametrize("extension", ["pb", "textproto"])
def test_a_thousand_subroutines_one_inside_the_other(extension: str, tmp_path: Path) -> None:
    graph = deep(1000, 1)
    path = tmp_path / f"deep.{extension}"
    write_graph(graph, path)
    again = read_graph(path)
    assert not differences(graph, again)
    check_graph(again)
    summary = graph_summary(again)
    assert (summary.depth, summary.longest_chain) == (1000, 250.0)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_damaged_texts_are_refused_or_read(data: st.DataObject) -> None:
    text = bytearray((DATA / SHIPPED[0]).read_bytes()[:3000] + b"}}")
    place = data.draw(st.integers(0, len(text) - 1))
    text[place : place + data.draw(st.integers(0, 4))] = data.draw(
        st.text('ab"{}[]<>:;,#.-01_\\\n', max_size=4)
    ).encode()
    try:
        graph_of(parse(bytes(text), "x"), "x")
    except InputError as error:
        assert str(error).startswith("x: ")


def test_arrays_of_a_file_and_of_a_builder_have_the_same_types() -> None:
    built = single("while", seconds=1.0)
    read = graph_of(message_of(built), "x")
    assert not differences(built, read)
    assert read.tag.dtype == np.uint64
