"""Options of collective algorithms, as they stand in a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codesign_opt.errors import InputError, nearest


@dataclass(frozen=True)
class Option:
    """An option of an algorithm.

    Attributes:
        name: The key.
        allowed: What its value may be, in words.
        read: The value as the algorithm takes it; raises ValueError for anything that is not allowed.
        required: Whether it must be there.
    """

    name: str
    allowed: str
    read: Callable[[Any], Any]
    required: bool = False


def read_options(given: Mapping[str, Any], options: Sequence[Option], *, where: str) -> dict[str, Any]:
    """The values of options as the algorithm takes them; those that are not given are left out.

    Args:
        given: Keys and values as written.
        options: The ones that there are.
        where: What the messages start with: file and key.

    Raises:
        InputError: A key that does not exist, a required one that is missing, or a value that is not allowed.
    """
    known = {option.name: option for option in options}
    for key in given:
        if key not in known:
            hint = nearest(key, known) if known else "it has no options"
            raise InputError(f"{where}: unknown key '{key}'", hint)
    for option in options:
        if option.required and option.name not in given:
            raise InputError(f"{where}: missing key '{option.name}'", option.allowed)
    values = {}
    for key, value in given.items():
        try:
            values[key] = known[key].read(value)
        except ValueError:
            raise InputError(f"{where}: {key} = {value!r} is not allowed", known[key].allowed) from None
    return values


def flag(name: str) -> Option:
    """An option that is on or off."""

    def read(value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    return Option(name, "true or false", read)


def count(name: str, *, required: bool = False) -> Option:
    """An option that counts something, from 1 on."""

    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError
        return value

    return Option(name, "a whole number from 1 on", read, required)


def word(name: str, words: Sequence[str]) -> Option:
    """An option that is one of some words."""

    def read(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return Option(name, " or ".join(f"'{entry}'" for entry in words), read)


def widths(name: str, *, even_width: bool = False) -> Option:
    """The width and height of a grid, both required and greater than 1."""

    def read(value: Any) -> tuple[int, int]:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError
        if any(not isinstance(width, int) or isinstance(width, bool) or width < 2 for width in value):
            raise ValueError
        if even_width and value[0] % 2:
            raise ValueError
        return value[0], value[1]

    return Option(name, f"[width, height], both greater than 1{', the width even' * even_width}", read, required=True)


def algorithm_table(name: str, words: Sequence[str]) -> Option:
    """A collective that is part of the algorithm, given as `{"algorithm": word}`; its value is True."""

    def read(value: Any) -> bool:
        if not isinstance(value, Mapping) or list(value) != ["algorithm"] or value["algorithm"] not in words:
            raise ValueError
        return True

    return Option(name, " or ".join(f'{{"algorithm": "{entry}"}}' for entry in words), read)
