"""Values of options: text to numbers, lists and tables, with errors that name the option."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from codesign_opt.errors import InputError, nearest

Value = int | bool | str
Word = TypeVar("Word", bound=str)


def whole_number(text: str, option: str, *, lowest: int = 1) -> int:
    """A whole number of at least `lowest`.

    Raises:
        InputError: Anything else.
    """
    if not re.fullmatch(r"[+-]?\d{1,18}", text.strip()) or int(text) < lowest:
        raise InputError(f"{option}: {text!r} is not allowed", f"a whole number, at least {lowest}")
    return int(text)


def share(text: str, option: str) -> float:
    """The share that "1%", "1 %" or "0.01" says; at least 0.

    Raises:
        InputError: Anything else.
    """
    from codesign_opt.units import parse_quantity

    number = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)(e-?\d+)?\s*(%?)\s*", text, re.IGNORECASE)
    if number is None:
        raise InputError(f"{option}: {text!r} is not a share", "write for instance 1% or 0.01")
    return parse_quantity(f"{number[1]}{number[2] or ''} {number[3]}".strip(), "1", where=option)


def choice(text: str, option: str, allowed: Sequence[Word]) -> Word:
    """One of the `allowed` words.

    Raises:
        InputError: Any other word; the hint names the nearest.
    """
    for word in allowed:
        if word == text:
            return word
    raise InputError(f"{option}: {text!r} is not allowed", nearest(text, allowed))


def limits(texts: Iterable[str], option: str = "--limit") -> dict[str, list[Value]]:
    """Dimension to the values it may take, of texts such as "tp=1,2,4".

    Raises:
        InputError: No "=", no value, an unknown dimension, or one that comes twice.
    """
    from codesign_opt.strategies.space import LIMITABLE

    result: dict[str, list[Value]] = {}
    for text in texts:
        name, values = _assignment(text, option, "tp=1,2,4")
        if name not in LIMITABLE:
            raise InputError(f"{option}: unknown dimension '{name}' in {text!r}", nearest(name, LIMITABLE))
        if name in result:
            raise InputError(f"{option}: '{name}' comes twice", f"list its values: {name}=A,B")
        result[name] = [_plain(value) for value in _listed(values, option, text)]
    return result


def settings(texts: Iterable[str], option: str = "--set") -> dict[str, str]:
    """Parameter path to value, of texts such as "memory_tier1.capacity=80 GiB".

    Raises:
        InputError: No "=", no value, or a path that comes twice.
    """
    result: dict[str, str] = {}
    for text in texts:
        path, value = _assignment(text, option, "memory_tier1.capacity=80 GiB")
        if path in result:
            raise InputError(f"{option}: '{path}' comes twice", "keep one of them")
        result[path] = value
    return result


def algorithms(texts: Iterable[str], option: str = "--algorithm") -> dict[str, dict[str, Any]]:
    """Collective of a step to algorithm, of texts such as "all-reduce=bidir-ring".

    Options of the algorithm follow it: "all-reduce=hierarchical:node_size=8", "…=mesh-2d:dimension_widths=[4,2]".

    Returns:
        Tables with `algorithm` and the options, as in a translation file.

    Raises:
        InputError: No "=", no value, an unknown collective, algorithm or option, or a collective that comes twice.
    """
    from codesign_opt.simulation.collectives import ALGORITHMS
    from codesign_opt.simulation.collectives.options import read_options
    from codesign_opt.simulation.step.topology_times import DEFAULT_ALGORITHMS

    result: dict[str, dict[str, Any]] = {}
    for text in texts:
        collective, choice = _assignment(text, option, "all-reduce=bidir-ring")
        if collective not in DEFAULT_ALGORITHMS:
            raise InputError(f"{option}: a step has no '{collective}'", nearest(collective, DEFAULT_ALGORITHMS))
        if collective in result:
            raise InputError(f"{option}: '{collective}' comes twice", "keep one of them")
        name, colon, settings = choice.partition(":")
        if name not in ALGORITHMS[collective]:
            raise InputError(
                f"{option}: {collective}: unknown algorithm '{name}'", nearest(name, ALGORITHMS[collective])
            )
        options = _algorithm_options(settings, option) if colon else {}
        read_options(options, ALGORITHMS[collective][name].options, where=f"{option}: {collective}: {name}")
        result[collective] = {"algorithm": name, **options}
    return result


def free_parameters(texts: Iterable[str], option: str = "--free") -> dict[str, dict[str, Any]]:
    """Parameter path to range or choices, as a study file's `[system.free]` holds them.

    A range is "path=20 GiB..120 GiB", logarithmic with ":log" after it; choices are "path=20 GiB,40 GiB".

    Raises:
        InputError: No "=", no value, an unknown scale, or a path that comes twice.
    """
    result: dict[str, dict[str, Any]] = {}
    for text in texts:
        path, values = _assignment(text, option, "memory_tier1.capacity=20 GiB..120 GiB")
        if path in result:
            raise InputError(f"{option}: '{path}' comes twice", "keep one of them")
        low, dots, high = (part.strip() for part in values.partition(".."))
        if not dots:
            result[path] = {"choices": _listed(values, option, text)}
            continue
        high, colon, scale = (part.strip() for part in high.partition(":"))
        if not low or not high:
            raise InputError(f"{option}: {text!r} lacks an end of the range", "write for instance 20 GiB..120 GiB")
        result[path] = {"low": low, "high": high}
        if colon:
            result[path]["scale"] = choice(scale, f"{option}: {path}: scale", ("linear", "log"))
    return result


def processors(text: str, option: str = "--processors") -> Any:
    """What a study file's key `processors` holds: "512", "16,32,64", "64..512:64", or a budget such as "125 M$".

    Raises:
        InputError: Anything else.
    """
    if "$" in text or "USD" in text:
        budget, colon, multiple = (part.strip() for part in text.partition(":"))
        return {"budget": budget, **({"multiple": whole_number(multiple, option)} if colon else {})}
    low, dots, rest = text.partition("..")
    if dots:
        high, colon, step = rest.partition(":")
        if not colon:
            raise InputError(f"{option}: {text!r} has no step", "write for instance 64..512:64")
        counts = {"low": low, "high": high, "step": step}
        return {name: whole_number(count, option) for name, count in counts.items()}
    counts_listed = [whole_number(part, option) for part in text.split(",")]
    return counts_listed if len(counts_listed) > 1 else counts_listed[0]


def names(text: str, option: str) -> list[str]:
    """The names in "a,b,c".

    Raises:
        InputError: There is none, or an empty one.
    """
    return _listed(text, option, text)


def _algorithm_options(text: str, option: str) -> dict[str, Any]:
    """Options and values of "node_size=8:inside=bidir-ring"; a value is JSON, or a word."""
    import json

    options: dict[str, Any] = {}
    for part in re.split(r":(?=\w+=)", text):
        name, value = _assignment(part, option, "all-reduce=hierarchical:node_size=8")
        try:
            options[name] = json.loads(value)
        except (ValueError, RecursionError):
            options[name] = value
    return options


def _assignment(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not name or not equals or not value:
        raise InputError(f"{option}: {text!r} is not a name, '=' and a value", f"write for instance '{example}'")
    return name, value


def _listed(values: str, option: str, text: str) -> list[str]:
    parts = [part.strip() for part in values.split(",")]
    if not all(parts):
        raise InputError(f"{option}: an empty value in {text!r}", "separate values with single commas")
    return parts


def _plain(text: str) -> Value:
    """A whole number, true or false, or the word itself."""
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    return {"true": True, "false": False}.get(text, text)
