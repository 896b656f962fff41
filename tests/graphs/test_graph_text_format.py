"""The text form: every way of writing a field that the format has, and what is refused."""

from __future__ import annotations

import math

import pytest

from codesign_opt.errors import InputError
from codesign_opt.graphs.messages import GraphMessage, GroupMessage, InstructionMessage, SubroutineMessage
from codesign_opt.graphs.text_format import encode, parse

SMALL = GraphMessage(
    "g",
    -1,
    SubroutineMessage(
        "s",
        2,
        0.5,
        3,
        [
            InstructionMessage("a", "delay", 1, seconds=1e-11),
            InstructionMessage("b", "send", 2, communication_groups=[GroupMessage([0, 1])], operand_ids=[1, 7]),
        ],
    ),
)
SMALL_TEXT = """\
name: "g"
processor_id: -1
entry_subroutine {
  name: "s"
  subroutine_root_id: 2
  execution_probability: 0.5
  execution_count: 3
  instructions {
    name: "a"
    opcode: "delay"
    instruction_id: 1
    seconds: 1e-11
  }
  instructions {
    name: "b"
    opcode: "send"
    instruction_id: 2
    communication_groups {
      group_ids: 0
      group_ids: 1
    }
    operand_ids: 1
    operand_ids: 7
  }
}
"""


def first(text: str) -> InstructionMessage:
    """The instruction in a graph with one of these fields."""
    message = parse(f"entry_subroutine {{ instructions {{\n{text}\n}} }}".encode(), "x")
    assert message.entry_subroutine is not None
    return message.entry_subroutine.instructions[0]


def test_one_field_a_line() -> None:
    assert encode(SMALL).decode() == SMALL_TEXT
    assert parse(SMALL_TEXT.encode(), "x") == SMALL


@pytest.mark.parametrize(
    "text",
    [
        SMALL_TEXT.replace("\n", "\r\n"),
        " ".join(SMALL_TEXT.split()),
        SMALL_TEXT.replace("\n", ' # a comment { " }\n'),
        SMALL_TEXT.replace(" {", ": {"),
        SMALL_TEXT.replace(" {", "<").replace("}", ">"),
        SMALL_TEXT.replace(": ", "\t:\n "),
        SMALL_TEXT.replace("1\n", "1;\n").replace('"\n', '",\n').replace("}\n", "},\n"),
        SMALL_TEXT.replace("operand_ids: 1\n    operand_ids: 7", "operand_ids: [1, 7]"),
        SMALL_TEXT.replace("operand_ids: 1\n", "operand_ids: [] operand_ids: [ 1 ]\n"),
        SMALL_TEXT.replace("  }\n  instructions {", "}, {")
        .replace("instructions {", "instructions: [{")
        .replace("  }\n}\n", "  }]\n}\n"),
        SMALL_TEXT.replace("instruction_id", "inner_subroutines: [] instruction_id"),
        SMALL_TEXT.replace('"delay"', "'delay'"),
        SMALL_TEXT.replace('"delay"', '"de" \'l\'\n"ay"'),
        SMALL_TEXT.replace("id: -1", "id: - 1"),
        "\ufeff" + SMALL_TEXT,
    ],
)
def test_other_ways_to_write_it(text: str) -> None:
    assert parse(text.encode(), "x") == SMALL


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0.5", 0.5), ("5e-1f", 0.5), (".5F", 0.5), ("5", 5.0), ("5.", 5.0), ("-2.5E+3", -2500.0), ("0", 0.0),
        ("1f", 1.0), ("inf", math.inf), ("-Infinity", -math.inf), ("INFF", math.inf), ("9007199254740993", 2.0**53),
    ],
)  # fmt: skip
def test_numbers(written: str, value: float) -> None:
    assert first(f"seconds: {written}").seconds == value


def test_not_a_number() -> None:
    assert math.isnan(first("seconds: -nan").seconds)


@pytest.mark.parametrize(
    ("written", "value"),
    [("12", 12), ("-0x1F", -31), ("017", 15), ("0", 0), (str(2**63 - 1), 2**63 - 1), (str(-(2**63)), -(2**63))],
)
def test_integers(written: str, value: int) -> None:
    assert first(f"instruction_id: {written}").instruction_id == value


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r'"a\"b\'c\\d"', "a\"b'c\\d"), (r"'\n\r\t\a\b\f\v\?'", "\n\r\t\a\b\f\v?"), (r'"\101\0\60x"', "A\x000x"),
        (r'"\x41\X4a\x9"', "AJ\t"), (r'"\u00e9\U0001F600"', "é😀"), (r'"\303\251"', "é"), ('"é"', "é"),
        (r'"\303" "\251"', "é"), ('"it\'s"', "it's"), ('""', ""),
    ],
)  # fmt: skip
def test_strings(written: str, value: str) -> None:
    assert first(f"name: {written}").name == value


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain (text)", '"plain (text)"'),
        ("a\"b'c\\d", r'"a\"b\'c\\d"'),
        ("\n\r\t\x01\x7f", r'"\n\r\t\001\177"'),
        ("é1", r'"\303\2511"'),
    ],
)
def test_strings_as_they_are_written(value: str, written: str) -> None:
    assert encode(GraphMessage(value)).decode() == f"name: {written}\n"
    assert parse(encode(GraphMessage(value)), "x").name == value


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1.0, "1"), (1349386240.0, "1349386240"), (0.1, "0.1"), (1e15, "1e+15"), (123456789012345.0, "123456789012345"),
        (1e-5, "1e-05"), (7.4505804303903744e-11, "7.4505804303903744e-11"), (1 / 3, "0.33333333333333331"),
        (2.0**53, "9007199254740992"), (5e-324, "4.94065645841247e-324"), (math.inf, "inf"), (-math.inf, "-inf"),
    ],
)  # fmt: skip
def test_numbers_in_15_digits_or_in_17_where_they_need_them(value: float, written: str) -> None:
    message = GraphMessage(entry_subroutine=SubroutineMessage(execution_probability=value))
    text = f"entry_subroutine {{\n  execution_probability: {written}\n}}\n"
    assert encode(message).decode() == text
    assert parse(text.encode(), "x") == message


def test_empty_messages_are_written() -> None:
    message = GraphMessage(
        entry_subroutine=SubroutineMessage(instructions=[InstructionMessage(communication_groups=[GroupMessage()])])
    )
    expected = "entry_subroutine {\n  instructions {\n    communication_groups {\n    }\n  }\n}\n"
    assert encode(message).decode() == expected
    assert parse(expected.encode(), "x") == message


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("operand: 1", "unknown field 'operand' in instruction 'a' (did you mean 'operand_ids'?)"),
        ("seconds 1", "'1' instead of ':' after 'seconds' in instruction 'a'"),
        ("seconds: ]", "']' instead of a number for 'seconds' in instruction 'a'"),
        ('seconds: "1"', "'\"1\"' instead of a number for 'seconds'"),
        ("seconds: true", "'seconds: true' is not of type double"),
        ("seconds: 0x10", "'seconds: 0x10' is not of type double"),
        ("seconds: 010", "'seconds: 010' is not of type double"),
        ("seconds: [1]", "'[' instead of a number"),
        ("seconds: 1 seconds: 2", "'seconds' is given twice in instruction 'a'"),
        ("instruction_id: 1.0", "'instruction_id: 1.0' is not of type int64"),
        ("instruction_id: 089", "'instruction_id: 089' is not of type int64"),
        ("instruction_id: 9223372036854775808", "is not of type int64"),
        ("instruction_id: -9223372036854775809", "'instruction_id: -9223372036854775809' is not of type int64"),
        ("communication_tag: -1", "'communication_tag: -1' is not of type uint64"),
        ("communication_tag: 18446744073709551616", "is not of type uint64"),
        (f"instruction_id: {'9' * 5000}", "is not of type int64"),
        ("opcode: delay", "'delay' instead of a string in quotes for 'opcode' in instruction 'a'"),
        ('opcode: "delay', "unexpected '\"'"),
        (r'opcode: "\q"', r"'opcode': unknown escape '\q'"),
        (r'opcode: "\UFFFFFFFF"', r"'opcode': unknown escape '\U'"),
        (r'opcode: "\ud800"', "'opcode': not UTF-8 text"),
        (r'opcode: "\400"', "'opcode': "),
        (r'opcode: "\377"', "'opcode': not UTF-8 text"),
        ("operand_ids: [1 2]", "'2' instead of ',' or ']'"),
        ("operand_ids: [1,]", "']' instead of a number"),
        ("operand_ids: [1", "'}' instead of ',' or ']'"),
        ("inner_subroutines: [{} {}]", "'{' instead of ',' or ']'"),
        ("inner_subroutines 3", "'3' instead of '{' or '<'"),
        ("inner_subroutines { >", "'>' instead of a field or '}' in instruction 'a'"),
        ("ops: 12abc", "unexpected '1'"),
        ("ops: 1.2.3", "unexpected '1'"),
        ("ops: 1 % 2", "unexpected '%'"),
        ("[a.b]: 1", "'[' instead of a field or '}'"),
        (": 1", "':' instead of a field"),
        ("ops: 1,; seconds: 2", "';' instead of a field"),
    ],
)
def test_refusals_name_line_and_instruction(text: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(f'entry_subroutine {{\n instructions {{\n  name: "a"\n  {text}\n }}\n}}'.encode(), "file.textproto")
    message = str(caught.value)
    assert message.startswith(("file.textproto: line 4: ", "file.textproto: line 5: "))
    assert what in message


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("entry_subroutine {", "line 1: the end of the file instead of a field or '}'"),
        ("}", "line 1: '}' instead of a field"),
        ('name: "g"\n"h" x', "line 2: unknown field 'x'"),
        ("entry_subroutine {} entry_subroutine {}", "line 1: 'entry_subroutine' is given twice"),
        ("entry_subroutine: [{}]", "line 1: '[' instead of '{' or '<'"),
        ("name:", "line 1: the end of the file instead of a string in quotes for 'name'"),
    ],
)
def test_refusals_outside_of_instructions(text: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text.encode(), "x")
    assert what in str(caught.value)


def test_cut_off_anywhere() -> None:
    for size in range(len(SMALL_TEXT) - 1):
        text = SMALL_TEXT[:size]
        try:
            read = parse(text.encode(), "x")
        except InputError as error:
            assert str(error).startswith("x: line ")
        else:
            # Whole lines of the graph itself.
            assert "{" not in text
            assert read.entry_subroutine is None
