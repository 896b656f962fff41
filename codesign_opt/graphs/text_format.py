"""The text form of a graph file: the protocol-buffer text format, one field a line."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from codesign_opt.errors import InputError, nearest
from codesign_opt.graphs.messages import FIELDS, Field, GraphMessage, Message, describe, walk
from codesign_opt.graphs.text_tokens import (
    Tokens,
    format_double,
    format_string,
    parse_double,
    parse_integer,
    parse_string,
)

_NAMES: Final = {kind: {entry.name: entry for entry in fields} for kind, fields in FIELDS.items()}
_CLOSING: Final = {"{": "}", "<": ">"}
_RANGES: Final = {"int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1)}


def parse(content: bytes, source: str) -> GraphMessage:
    """The message in a text.

    Raises:
        InputError: Not this format, a field that does not exist or is given twice; names `source` and the line.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: byte {error.start} is not UTF-8 text", "is it a binary file (*.pb)?") from None
    return _Parser(text, source).graph()


def encode(message: GraphMessage) -> bytes:
    """The text of a message."""
    lines: list[str] = []
    indent = ""
    for event, entry, value in walk(message):
        if event == "open":
            lines.append(f"{indent}{entry.name} {{\n")
            indent += "  "
        elif event == "close":
            indent = indent[:-2]
            lines.append(f"{indent}}}\n")
        else:
            lines += [f"{indent}{entry.name}: {_written(item)}\n" for item in (value if entry.repeated else (value,))]
    return "".join(lines).encode()


class _Open(NamedTuple):
    """A message that is being read: how it ends, whether it stands in a list, and the fields that it has already."""

    message: Message
    closing: str
    listed: Field | None
    seen: set[str]


class _Parser:
    """Reads messages one inside the other, however deep."""

    def __init__(self, text: str, source: str) -> None:
        self._tokens = Tokens(text, source)
        self._opened: list[_Open] = []

    def graph(self) -> GraphMessage:
        graph = GraphMessage()
        self._opened = [_Open(graph, "", None, set())]
        tokens = self._tokens
        while self._opened:
            opened = self._opened[-1]
            if tokens.kind in ("key", "name"):
                self._field(opened)
            elif opened.closing:
                if not tokens.accept(opened.closing):
                    tokens.fail(f"a field or '{opened.closing}'{self._place()}")
                self._close()
            elif tokens.kind == "end":
                self._opened.pop()
            else:
                tokens.fail("a field")
        return graph

    def _field(self, opened: _Open) -> None:
        tokens = self._tokens
        position, has_colon = tokens.position, tokens.kind == "key"
        name = tokens.advance()
        name = name[:-1].rstrip() if has_colon else name
        message = opened.message
        entry = _NAMES[type(message)].get(name)
        if entry is None:
            allowed = nearest(name, _NAMES[type(message)])
            raise tokens.error(f"unknown field '{name}'{self._place()}", allowed, position=position)
        if not entry.repeated:
            if name in opened.seen:
                raise tokens.error(f"'{name}' is given twice{self._place()}", "once at most", position=position)
            opened.seen.add(name)
        has_colon = has_colon or bool(tokens.accept(":"))
        if entry.message is not None:
            self._message(message, entry)
        elif not has_colon:
            tokens.fail(f"':' after '{name}'{self._place()}")
        else:
            self._scalar(message, entry)

    def _message(self, message: Message, entry: Field) -> None:
        listed = entry.repeated and bool(self._tokens.accept("["))
        if listed and self._tokens.accept("]"):
            self._tokens.accept(",;")
        else:
            self._open(message, entry, listed=listed)

    def _scalar(self, message: Message, entry: Field) -> None:
        if not entry.repeated:
            setattr(message, entry.name, self._value(entry))
        elif not self._tokens.accept("["):
            getattr(message, entry.name).append(self._value(entry))
        elif not self._tokens.accept("]"):
            values = getattr(message, entry.name)
            values.append(self._value(entry))
            while self._tokens.expect(",]") == ",":
                values.append(self._value(entry))
        self._tokens.accept(",;")

    def _open(self, message: Message, entry: Field, *, listed: bool) -> None:
        mark = self._tokens.expect("{<")
        assert entry.message is not None
        inner = entry.message()
        if entry.repeated:
            getattr(message, entry.name).append(inner)
        else:
            setattr(message, entry.name, inner)
        self._opened.append(_Open(inner, _CLOSING[mark], entry if listed else None, set()))

    def _close(self) -> None:
        closed = self._opened.pop()
        if closed.listed and self._tokens.expect(",]") == ",":
            self._open(self._opened[-1].message, closed.listed, listed=True)
        else:
            self._tokens.accept(",;")

    def _value(self, entry: Field) -> Any:
        if entry.kind == "string":
            return self._string(entry)
        tokens = self._tokens
        sign = -1 if tokens.accept("-") else 1
        position = tokens.position
        if tokens.kind not in ("number", "name"):
            tokens.fail(f"a number for '{entry.name}'{self._place()}")
        text = tokens.advance()
        if entry.kind == "double":
            number = parse_double(text)
            if number is not None:
                return sign * number
        else:
            integer = parse_integer(text)
            lowest, highest = _RANGES[entry.kind]
            if integer is not None and lowest <= sign * integer <= highest:
                return sign * integer
        written = f"-{text}" if sign < 0 else text
        raise tokens.error(f"'{entry.name}: {written}' is not of type {entry.kind}{self._place()}", position=position)

    def _string(self, entry: Field) -> str:
        tokens = self._tokens
        position = tokens.position
        if tokens.kind != "string":
            tokens.fail(f"a string in quotes for '{entry.name}'{self._place()}")
        content = b""
        try:
            while tokens.kind == "string":
                content += parse_string(tokens.text)
                tokens.advance()
            return content.decode()
        except ValueError as error:
            what = "not UTF-8 text" if isinstance(error, UnicodeError) else str(error)
            raise tokens.error(f"'{entry.name}': {what}{self._place()}", position=position) from None

    def _place(self) -> str:
        return describe([opened.message for opened in self._opened])


def _written(value: str | float) -> str:
    if isinstance(value, str):
        return format_string(value)
    return format_double(value) if isinstance(value, float) else str(value)
