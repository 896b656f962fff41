"""The binary form of a graph file: proto3 wire format, fields in number order, lists of numbers packed."""

from __future__ import annotations

import struct
from typing import Any, Final

from codesign_opt.errors import InputError
from codesign_opt.graphs.messages import FIELDS, Field, GraphMessage, Kind, Message, describe, walk

_VARINT, _FIXED64, _LENGTH, _GROUP_START, _GROUP_END, _FIXED32 = range(6)
_WIRE_TYPES: Final[dict[Kind, int]] = {
    "string": _LENGTH,
    "int64": _VARINT,
    "uint64": _VARINT,
    "double": _FIXED64,
    "message": _LENGTH,
}
_HIGHEST_NUMBER: Final = 2**29 - 1
_DOUBLE: Final = struct.Struct("<d")
_NUMBERS: Final = {kind: {entry.number: entry for entry in fields} for kind, fields in FIELDS.items()}


def decode(data: bytes, source: str) -> GraphMessage:
    """The message in `data`. Fields with unknown numbers are skipped; of a field given twice the last value holds.

    Raises:
        InputError: Truncated or not this message; names `source` and the byte.
    """
    return _Reader(data, source).graph()


def encode(message: GraphMessage) -> bytes:
    """The bytes of a message."""
    pieces: list[bytes] = []
    written = 0
    # Of the messages that are open: where their length goes, and what was written before them.
    opened: list[tuple[int, int]] = []
    for event, entry, value in walk(message):
        if event == "open":
            opened.append((len(pieces), written))
            pieces.append(b"")
            continue
        if event == "close":
            slot, before = opened.pop()
            piece = pieces[slot] = _TAGS[entry] + _varint(written - before)
        else:
            piece = _value(entry, value)
            pieces.append(piece)
        written += len(piece)
    return b"".join(pieces)


class _Reader:
    """Reads messages one inside the other, however deep."""

    def __init__(self, data: bytes, source: str) -> None:
        self._data = data
        self._source = source
        self._position = 0
        self._messages: list[Message] = []

    def graph(self) -> GraphMessage:
        graph = GraphMessage()
        self._messages = [graph]
        ends = [len(self._data)]
        while ends:
            end = ends[-1]
            if self._position == end:
                ends.pop()
                self._messages.pop()
                continue
            number, wire_type = self._read_tag(end)
            message = self._messages[-1]
            entry = _NUMBERS[type(message)].get(number)
            if entry is None:
                self._skip(number, wire_type, end)
            elif entry.message is not None:
                ends.append(self._open(message, entry, wire_type, end))
            else:
                self._scalar(message, entry, wire_type, end)
        return graph

    def _open(self, message: Message, entry: Field, wire_type: int, end: int) -> int:
        """Begin a message inside `message`; where it ends."""
        if wire_type != _LENGTH:
            raise self._wrong_type(entry, wire_type)
        inner_end = self._read_length(end)
        assert entry.message is not None
        if entry.repeated:
            inner = entry.message()
            getattr(message, entry.name).append(inner)
        else:
            # A message given in two parts is one message.
            inner = getattr(message, entry.name) or entry.message()
            setattr(message, entry.name, inner)
        self._messages.append(inner)
        return inner_end

    def _scalar(self, message: Message, entry: Field, wire_type: int, end: int) -> None:
        if entry.repeated and wire_type == _LENGTH:
            values = getattr(message, entry.name)
            packed_end = self._read_length(end)
            while self._position < packed_end:
                values.append(self._integer(entry, packed_end))
            return
        if wire_type != _WIRE_TYPES[entry.kind]:
            raise self._wrong_type(entry, wire_type)
        value: Any
        if entry.kind == "double":
            value = self._double(end)
        elif entry.kind == "string":
            value = self._string(entry, end)
        else:
            value = self._integer(entry, end)
        if entry.repeated:
            getattr(message, entry.name).append(value)
        else:
            setattr(message, entry.name, value)

    def _integer(self, entry: Field, end: int) -> int:
        value = self._read_varint(end)
        return value - (1 << 64) if entry.kind == "int64" and value >> 63 else value

    def _double(self, end: int) -> float:
        start = self._advance(8, end)
        return float(_DOUBLE.unpack_from(self._data, start)[0])

    def _string(self, entry: Field, end: int) -> str:
        string_end = self._read_length(end)
        start, self._position = self._position, string_end
        try:
            return self._data[start:string_end].decode()
        except UnicodeDecodeError:
            raise self._error(f"'{entry.name}' is not UTF-8 text") from None

    def _skip(self, number: int, wire_type: int, end: int) -> None:
        """Pass over a field that is not known."""
        groups: list[int] = []
        while True:
            if wire_type == _VARINT:
                self._read_varint(end)
            elif wire_type == _LENGTH:
                self._position = self._read_length(end)
            elif wire_type in (_FIXED64, _FIXED32):
                self._advance(8 if wire_type == _FIXED64 else 4, end)
            elif wire_type == _GROUP_START:
                groups.append(number)
            elif wire_type != _GROUP_END or not groups or groups.pop() != number:
                raise self._error(f"wire type {wire_type} of field {number} does not belong here")
            if not groups:
                return
            number, wire_type = self._read_tag(end)

    def _read_tag(self, end: int) -> tuple[int, int]:
        """The number of a field, and the wire type of what follows."""
        tag = self._read_varint(end)
        if not 0 < tag >> 3 <= _HIGHEST_NUMBER:
            raise self._error(f"field number {tag >> 3}, which does not exist")
        return tag >> 3, tag & 7

    def _read_length(self, end: int) -> int:
        """Where the bytes end whose number stands here."""
        length = self._read_varint(end)
        if length > end - self._position:
            raise self._error("ends too early")
        return self._position + length

    def _read_varint(self, end: int) -> int:
        if self._position < end and (value := self._data[self._position]) < 0x80:
            self._position += 1
            return value
        value = shift = 0
        for position in range(self._position, min(end, self._position + 10)):
            byte = self._data[position]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self._position = position + 1
                return value & 0xFFFF_FFFF_FFFF_FFFF
            shift += 7
        raise self._error("ends too early" if end - self._position < 10 else "an integer of more than ten bytes")

    def _advance(self, size: int, end: int) -> int:
        """Pass over `size` bytes; where they start."""
        start = self._position
        if size > end - start:
            raise self._error("ends too early")
        self._position = start + size
        return start

    def _wrong_type(self, entry: Field, wire_type: int) -> InputError:
        expected = _WIRE_TYPES[entry.kind]
        return self._error(f"'{entry.name}' ({entry.kind}) has wire type {wire_type} instead of {expected}")

    def _error(self, what: str) -> InputError:
        place = f"byte {self._position}{describe(self._messages)}"
        return InputError(f"{self._source}: {place}: {what}", "the file is damaged, or not a binary program graph")


def _value(entry: Field, value: Any) -> bytes:
    if entry.repeated:
        return _with_length(entry, b"".join(map(_varint, value)))
    if entry.kind == "string":
        return _with_length(entry, value.encode())
    return _TAGS[entry] + (_DOUBLE.pack(value) if entry.kind == "double" else _varint(value))


def _with_length(entry: Field, content: bytes) -> bytes:
    return _TAGS[entry] + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return _BYTES[value]
    value &= 0xFFFF_FFFF_FFFF_FFFF
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


_BYTES: Final = [bytes([value]) for value in range(0x80)]
_TAGS: Final = {
    entry: _BYTES[entry.number << 3 | (_LENGTH if entry.repeated else _WIRE_TYPES[entry.kind])]
    for fields in FIELDS.values()
    for entry in fields
}
"""How each field begins: its number and wire type, one byte since there are fewer than 16 numbers."""
