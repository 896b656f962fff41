"""The binary form, against bytes written down by hand, and whatever may be wrong with them."""

from __future__ import annotations

import struct

import pytest
from graph_cases import DATA, SHIPPED
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign_opt.errors import InputError
from codesign_opt.graphs.conversion import graph_of
from codesign_opt.graphs.messages import GraphMessage, GroupMessage, InstructionMessage, SubroutineMessage
from codesign_opt.graphs.protobuf import decode, encode

ALL_FIELDS = InstructionMessage(
    name="a",
    opcode="send-start",
    instruction_id=300,
    ops=1.0,
    bytes_in=2.0,
    bytes_out=0.5,
    transcendentals=-1.0,
    seconds=1e-300,
    bonded_instruction_id=127,
    communication_tag=2**64 - 1,
    communication_groups=[GroupMessage([0, 1]), GroupMessage([])],
    operand_ids=[1, 128, -1],
)


def double(value: float) -> bytes:
    return struct.pack("<d", value)


def inside(*, instruction: bytes) -> bytes:
    """A graph with one instruction of these bytes (fewer than 120)."""
    subroutine = bytes([0x2A, len(instruction)]) + instruction
    return bytes([0x1A, len(subroutine)]) + subroutine


def only_instruction(message: GraphMessage) -> InstructionMessage:
    assert message.entry_subroutine is not None
    (instruction,) = message.entry_subroutine.instructions
    return instruction


def test_bytes_of_every_field() -> None:
    expected = (
        b"\x0a\x01a"
        b"\x12\x0asend-start"
        b"\x18\xac\x02"
        + (b"\x21" + double(1.0) + b"\x29" + double(2.0) + b"\x31" + double(0.5))
        + (b"\x39" + double(-1.0) + b"\x41" + double(1e-300))
        + b"\x48\x7f"
        + (b"\x50" + b"\xff" * 9 + b"\x01")
        + b"\x5a\x04\x0a\x02\x00\x01\x5a\x00"
        + (b"\x62\x0d\x01\x80\x01" + b"\xff" * 9 + b"\x01")
    )
    graph = GraphMessage("g", -1, SubroutineMessage("s" * 20, 300, 1.0, 2, [ALL_FIELDS]))
    subroutine = (
        b"\x0a\x14"
        + b"s" * 20
        + b"\x10\xac\x02\x19"
        + double(1.0)
        + b"\x20\x02\x2a"
        + bytes([len(expected)])
        + expected
    )
    whole = b"\x0a\x01g\x10" + b"\xff" * 9 + b"\x01\x1a" + bytes([len(subroutine) & 127 | 128, 1]) + subroutine
    assert 128 <= len(subroutine) < 256
    assert encode(graph) == whole
    assert decode(whole, "x") == graph


def test_zeros_and_empty_lists_take_no_bytes() -> None:
    assert encode(GraphMessage("", 0, SubroutineMessage(instructions=[InstructionMessage()]))) == b"\x1a\x02\x2a\x00"


def test_lists_are_read_packed_and_one_by_one() -> None:
    packed, single_, mixed = b"\x62\x03\x01\xac\x02", b"\x60\x01\x60\xac\x02", b"\x60\x01\x62\x02\xac\x02"
    for content in (packed, single_, mixed):
        assert only_instruction(decode(inside(instruction=content), "x")).operand_ids == [1, 300]


def test_the_last_value_of_a_field_holds_and_parts_of_a_message_are_one() -> None:
    twice = decode(b"\x0a\x01a\x0a\x01b" + b"\x1a\x03\x0a\x01s" + b"\x1a\x02\x20\x05", "x")
    assert twice == GraphMessage("b", 0, SubroutineMessage("s", execution_count=5))


@pytest.mark.parametrize(
    "unknown",
    [
        b"\x78\x05",  # field 15, varint
        b"\x79" + bytes(8),  # eight bytes
        b"\x7d" + bytes(4),  # four bytes
        b"\x7a\x03abc",  # with a length
        b"\x7b\x08\x01\x7c",  # a group with a field inside
        b"\x7b\x7b\x7d1234\x7c\x7c",  # a group in a group
        b"\xf8\x07\x01",  # field 127
        b"\xf8\xff\xff\xff\x0f\x00",  # the highest number there is
    ],
)
def test_unknown_fields_are_skipped(unknown: bytes) -> None:
    content = unknown + b"\x0a\x01a" + unknown + b"\x18\x07" + unknown
    assert only_instruction(decode(inside(instruction=content), "x")) == InstructionMessage("a", instruction_id=7)
    assert decode(unknown + b"\x0a\x01g" + unknown, "x") == GraphMessage("g")


@pytest.mark.parametrize(
    ("instruction", "what"),
    [
        (b"\x08\x01", "'name' (string) has wire type 0 instead of 2"),
        (b"\x1a\x01\x01", "'instruction_id' (int64) has wire type 2 instead of 0"),
        (b"\x19" + bytes(8), "'instruction_id' (int64) has wire type 1 instead of 0"),
        (b"\x20\x01", "'ops' (double) has wire type 0 instead of 1"),
        (b"\x25" + bytes(4), "'ops' (double) has wire type 5 instead of 1"),
        (b"\x61" + bytes(8), "'operand_ids' (int64) has wire type 1 instead of 0"),
        (b"\x68\x01", "'inner_subroutines' (message) has wire type 0 instead of 2"),
        (b"\x5b\x5c", "'communication_groups' (message) has wire type 3 instead of 2"),
        (b"\x00\x01", "field number 0, which does not exist"),
        (b"\x80\x80\x80\x80\x10\x00", "field number 536870912, which does not exist"),
        (b"\x7e\x01", "wire type 6 of field 15 does not belong here"),
        (b"\x7c", "wire type 4 of field 15 does not belong here"),
        (b"\x7b\x74", "wire type 4 of field 14 does not belong here"),
        (b"\x7b\x70\x00", "ends too early"),
        (b"\x0a\x02\xc3\x28", "'name' is not UTF-8 text"),
        (b"\x0a\x05a", "ends too early"),
        (b"\x21\x00", "ends too early"),
        (b"\x18\x80", "ends too early"),
        (b"\x62\x01\x80", "ends too early"),
        (b"\x18" + b"\x80" * 10 + b"\x01", "an integer of more than ten bytes"),
    ],
)
def test_damage_is_named(instruction: bytes, what: str) -> None:
    with pytest.raises(InputError) as caught:
        decode(inside(instruction=b"\x0a\x03foo" + instruction), "file.pb")
    assert str(caught.value).startswith("file.pb: byte ")
    assert what in str(caught.value)
    assert "in instruction 'foo'" in str(caught.value) or "UTF-8" in what


def test_a_message_may_not_reach_beyond_the_one_that_it_is_in() -> None:
    # The subroutine has three bytes, its instruction says that it has five.
    with pytest.raises(InputError, match=r"byte 4.*ends too early"):
        decode(b"\x1a\x03\x2a\x05\x0a\x01a\x18\x01", "x")


def test_a_shipped_file_cut_off_anywhere() -> None:
    content = (DATA / SHIPPED[1]).read_bytes()
    for size in range(len(content)):
        with pytest.raises(InputError, match=r"^x: "):
            graph_of(decode(content[:size], "x"), "x")


def test_a_subroutine_cut_off_anywhere() -> None:
    """Its length says how much is left of it, so that the cut goes through fields, or between two of them."""
    listed = [
        InstructionMessage(f"i{number}", "delay", number, seconds=1.5, operand_ids=[1]) for number in range(2, 40)
    ]
    message = SubroutineMessage("main", 1, 1.0, 1, [InstructionMessage("i1", "delay", 1), *listed])
    content = encode(GraphMessage(entry_subroutine=message))[3:]
    found = set()
    for size in range(len(content)):
        cut = b"\x1a" + bytes([size & 127 | 128, size >> 7]) + content[:size]
        try:
            found.add(len(graph_of(decode(cut, "x"), "x")))
        except InputError as error:
            assert str(error).startswith("x: ")
    assert found == set(range(1, 39))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_refused_or_read(data: st.DataObject) -> None:
    content = bytearray(encode(GraphMessage("g", 3, SubroutineMessage("s", 300, 1.0, 1, [ALL_FIELDS]))))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content)))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        graph_of(decode(bytes(content), "x"), "x")
    except InputError as error:
        assert str(error).startswith("x: ")


@given(content=st.binary(max_size=40))
def test_any_bytes_are_refused_or_read(content: bytes) -> None:
    try:
        graph_of(decode(content, "x"), "x")
    except InputError as error:
        assert str(error).startswith("x: ")
