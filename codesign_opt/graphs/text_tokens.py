"""The words of the protocol-buffer text format: names, numbers, strings and marks."""

from __future__ import annotations

import math
import re
from typing import Final, NoReturn

from codesign_opt.errors import InputError

_TOKEN: Final = re.compile(
    r"""
    (?:[ \t\r\n\f\v]+|\#[^\n]*)*                                     # space and comments
    (?: (?P<key>[A-Za-z_]\w*[ \t]*:)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>(?:0[xX][0-9A-Fa-f]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?)(?![\w.]))
      | (?P<string>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')
      | (?P<mark>[:{}<>\[\],;-])
      | (?P<other>.)
      | (?P<end>\Z)
    )
    """,
    re.VERBOSE | re.ASCII,
)

_ESCAPE: Final = re.compile(
    rb"""
    \\(?: ([0-7]{1,3}) | [xX]([0-9A-Fa-f]{1,2})
       | u([0-9A-Fa-f]{4}) | U(000[0-9A-Fa-f]{5}|0010[0-9A-Fa-f]{4})
       | (.?)
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_LETTERS: Final = {
    b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
    b"\\": b"\\", b"'": b"'", b'"': b'"', b"?": b"?",
}  # fmt: skip
_ESCAPED: Final = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", **{ord(mark): f"\\{mark}" for mark in "\"'\\"}}


class Tokens:
    """The words of a text, one after the other.

    Attributes:
        kind: Of the word that is to be read next: "key" (a name and a colon), "name", "number", "string", "mark" or
            "end".
        text: How that word is written.
        position: Where it begins.
    """

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source
        self._matches = _TOKEN.finditer(text)
        self.kind, self.text, self.position = "end", "", 0
        self.advance()

    def advance(self) -> str:
        """Pass over the current word and give its text."""
        passed = self.text
        match = next(self._matches)
        kind = match.lastgroup or ""
        self.kind, self.text, self.position = kind, match[kind], match.start(kind)
        if kind == "other":
            raise self.error(f"unexpected {self.text!r}")
        return passed

    def accept(self, marks: str) -> str:
        """Pass over the current word if it is one of the `marks`, and give it; "" if it is not."""
        return self.advance() if self.kind == "mark" and self.text in marks else ""

    def expect(self, marks: str) -> str:
        """Pass over one of the `marks`, which must stand here, and give it."""
        return self.accept(marks) or self.fail(" or ".join(f"'{mark}'" for mark in marks))

    def fail(self, expected: str) -> NoReturn:
        """Refuse the current word."""
        found = "the end of the file" if self.kind == "end" else f"'{self.text}'"
        raise self.error(f"{found} instead of {expected}")

    def error(self, what: str, hint: str = "", *, position: int | None = None) -> InputError:
        """The refusal of what stands at a position, by default of the current word: names file and line."""
        line = self._text.count("\n", 0, self.position if position is None else position) + 1
        return InputError(f"{self._source}: line {line}: {what}", hint)


def parse_integer(text: str) -> int | None:
    """The integer that a number says, decimal, 0x… or 0…; None where it says none."""
    try:
        if text[:2] in ("0x", "0X"):
            return int(text, 16)
        return int(text, 8 if text.startswith("0") else 10) if text.isdecimal() else None
    except ValueError:
        return None


def parse_double(text: str) -> float | None:
    """The number that a decimal number or one of the words inf, infinity and nan says; None for anything else."""
    if text[:2] in ("0x", "0X") or (text.isdecimal() and text.startswith("0") and len(text) > 1):
        return None
    lowered = text.lower()
    if lowered in ("inf", "infinity", "nan", "inff", "infinityf", "nanf"):
        return math.nan if lowered.startswith("nan") else math.inf
    try:
        return float(lowered.removesuffix("f"))
    except ValueError:
        return None


def parse_string(quoted: str) -> bytes:
    """The bytes that a string with its quotes says.

    Raises:
        ValueError: An escape that does not exist.
    """
    content = quoted[1:-1].encode()
    return _ESCAPE.sub(_unescaped, content) if b"\\" in content else content


def format_double(value: float) -> str:
    """A number in 15 significant digits, or in 17 where 15 would say another one."""
    text = f"{value:.15g}"
    return text if float(text) == value else f"{value:.17g}"


def format_string(text: str) -> str:
    """A string in double quotes; whatever is not printable ASCII escaped, as UTF-8."""
    if text.isascii() and text.isprintable() and not any(mark in text for mark in "\"'\\"):
        return f'"{text}"'
    escaped = (_ESCAPED.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}") for byte in text.encode())
    return f'"{"".join(escaped)}"'


def _unescaped(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, short, long, letter = match.groups()
    if octal:
        # Above 0o377 bytes() refuses with a ValueError.
        return bytes([int(octal, 8)])
    if hexadecimal:
        return bytes([int(hexadecimal, 16)])
    if short or long:
        return chr(int(short or long, 16)).encode()
    if letter not in _LETTERS:
        raise ValueError(f"unknown escape '\\{letter.decode(errors='replace')}'")
    return _LETTERS[letter]
