"""Quantities written for people ("450 GB/s", "80 GiB", "10 us") to and from SI numbers: all that knows units."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from decimal import Decimal, localcontext
from fractions import Fraction

from codesign_opt.errors import InputError

_LARGE: Mapping[str, int | str] = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY: Mapping[str, int | str] = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_SMALL: Mapping[str, int | str] = {"m": "1e-3", "u": "1e-6", "µ": "1e-6", "μ": "1e-6", "n": "1e-9"}

_TABLE: tuple[tuple[str, str, str, str, Mapping[str, int | str]], ...] = (
    # spellings, size in SI units, base units of the numerator and of the denominator, prefixes
    ("B byte bytes", "1", "B", "", {**_LARGE, **_BINARY}),
    ("b bit bits", "0.125", "B", "", {**_LARGE, **_BINARY}),
    ("bps", "0.125", "B", "s", _LARGE),
    ("flop FLOP", "1", "flop", "", _LARGE),
    ("FLOPS", "1", "flop", "s", _LARGE),
    ("s", "1", "s", "", _SMALL),
    ("sec second seconds", "1", "s", "", {}),
    ("min minute minutes", "60", "s", "", {}),
    ("h hour hours", "3600", "s", "", {}),
    ("day days", "86400", "s", "", {}),
    ("year years", "31557600", "s", "", {}),
    ("W", "1", "J", "s", {**_LARGE, **_SMALL}),
    ("J", "1", "J", "", {**_LARGE, **_SMALL}),
    ("Wh", "3600", "J", "", _LARGE),
    ("$ USD", "1", "$", "", _LARGE),
    ("token tokens", "1", "tokens", "", _LARGE),
    ("sample samples", "1", "samples", "", _LARGE),
    ("% percent", "0.01", "", "", {}),
    ("1", "1", "", "", {}),
)

_UNITS = {
    prefix + spelling: (Fraction(size) * Fraction(scale), above, below)
    for spellings, size, above, below, prefixes in _TABLE
    for spelling in spellings.split()
    for prefix, scale in {"": 1, **prefixes}.items()
}

_EXAMPLES = {
    "B": "80 GiB",
    "B/s": "450 GB/s",
    "s": "10 us",
    "flop": "2 Tflop",
    "flop/s": "312 Tflop/s",
    "W": "700 W",
    "J": "3.6 MJ",
    "$": "125 M$",
    "1": "90 %",
}

_NUMBER = re.compile(
    r"([+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?![\d.,_])|(?:nan|inf(?:inity)?)\b))\s*(.*)", re.IGNORECASE
)
_DURATION = re.compile(
    r"(\d+\.?\d*|\.\d+)\s*(ms|seconds?|sec|s|minutes?|min|m|hours?|h|days?|d)(?![a-z])\s*", re.IGNORECASE
)
_DURATION_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_DIGITS = 60
"""Decimal digits of the arithmetic below: enough that only the last step, to float, rounds."""

_LONGEST = 200
"""Characters of the longest quantity that is read."""

_FLOAT_DIGITS = 17
"""Decimal digits that tell any two floats apart."""


def parse_quantity(
    value: str | float, unit: str, *, where: str, minimum: float | None = None, maximum: float | None = None
) -> float:
    """The number of `unit`s that `value` says; SI where `unit` is an SI unit such as "B/s".

    Args:
        value: A number and its unit, "450 GB/s"; the unit may be left out only where `unit` is "1".
        unit: The unit of the result: "B", "s", "flop/s", "$/h", "tokens/s", "1", …
        where: File and key, for messages: "my.toml: system.memory_tier1.capacity".
        minimum, maximum: What is allowed, both ends included, in `unit`.

    Raises:
        InputError: No number, no unit, an unknown or a wrong unit, not finite, or out of the range allowed.
    """
    example = _EXAMPLES.get(unit, f"2.5 {unit}")
    written_out = str(value).strip()
    is_short = not isinstance(value, bool) and len(written_out) <= _LONGEST
    match = _NUMBER.fullmatch(written_out) if is_short else None
    if match is None:
        raise InputError(f"{where}: {value!r} is not a number with a unit", f"write for instance '{example}'")
    number, written = match.groups()
    if not math.isfinite(float(number)):
        raise InputError(f"{where}: {value!r} is not a finite number", f"write for instance '{example}'")
    if not written and unit != "1":
        suggestion = f"{number} {example.partition(' ')[2]}"
        raise InputError(f"{where}: {value!r} has no unit", f"write for instance '{suggestion}'")
    size, dimension = _unit(written or "1", number, unit, where)
    unit_size, unit_dimension = _unit(unit, number, unit, where)
    if dimension != unit_dimension:
        raise InputError(f"{where}: {value!r} is not a quantity in '{unit}'", f"write for instance '{example}'")
    # A number too small for a float may have an exponent too large to write out.
    result = _to_float(Fraction(number) * size / unit_size) if float(number) else 0.0
    if not math.isfinite(result):
        raise InputError(f"{where}: {value!r} is not a finite number", f"write for instance '{example}'")
    if minimum is not None and result < minimum:
        raise InputError(f"{where}: {value!r} is too small", f"at least {format_quantity(minimum, unit)}")
    if maximum is not None and result > maximum:
        raise InputError(f"{where}: {value!r} is too large", f"at most {format_quantity(maximum, unit)}")
    return result


def parse_duration(text: str, *, where: str) -> float:
    """Seconds of "90s", "10m", "2h", "1.5 h" or "1h30m"; `m` is minutes.

    Raises:
        InputError: Anything else, or too long for a float.
    """
    hint = "write for instance '90s', '10m' or '2h'"
    stripped = str(text).strip()
    parts = [match.groups() for match in _DURATION.finditer(stripped[:_LONGEST])]
    if not parts or len(stripped) > _LONGEST or _DURATION.sub("", stripped):
        raise InputError(f"{where}: {text!r} is not a duration", hint)
    seconds = sum(float(number) * _DURATION_SECONDS[_duration_letter(word)] for number, word in parts)
    if not math.isfinite(seconds):
        raise InputError(f"{where}: {text!r} is not a finite duration", hint)
    return seconds


def format_quantity(value: float, unit: str, digits: int = 4) -> str:
    """`value` in `unit`s for people: (85899345920, "B") is "80 GiB", (4.5e11, "B/s") is "450 GB/s".

    At least `digits` significant digits; with 17, as many as `parse_quantity` needs to give back the very same float.
    """
    if not math.isfinite(value):
        return str(float(value)) if unit == "1" else f"{float(value)} {unit}"
    texts = []
    for names in _scales(unit, exact=digits >= _FLOAT_DIGITS):
        name, scale = _fitting(abs(float(value)), unit, names)
        with localcontext(prec=_DIGITS):
            number = _number(float(value), scale, digits)
        texts.append(number if unit == "1" else f"{number} {name}")
    return min(texts, key=len)


def _unit(written: str, number: str, wanted: str, where: str) -> tuple[Fraction, tuple[list[str], list[str]]]:
    """Size of a unit such as "GB/s" in SI units, and its dimension: base units above and below the line."""
    size, above, below = Fraction(1), [], []
    for position, part in enumerate(written.split("/")):
        if part.strip() not in _UNITS:
            raise InputError(f"{where}: unknown unit '{written}'", _near(written, part, number, wanted))
        part_size, part_above, part_below = _UNITS[part.strip()]
        if position:
            part_above, part_below = part_below, part_above
        size = size / part_size if position else part_size
        above += [part_above] if part_above else []
        below += [part_below] if part_below else []
    common = [base for base in above if base in below]
    for base in common:
        above.remove(base)
        below.remove(base)
    return size, (sorted(above), sorted(below))


def _near(written: str, part: str, number: str, wanted: str) -> str:
    """A hint for an unknown unit: spellings that differ in case, an `i` or `ps` for `/s` only, or that look alike."""
    folded = part.strip().lower()
    per_second = folded.endswith("bps")
    folded = folded.removesuffix("ps") if per_second else folded
    known = [name for name in _UNITS if folded in (name.lower(), name.lower().replace("ib", "b"))]
    known = known or difflib.get_close_matches(part.strip(), _UNITS, n=2, cutoff=0.7)
    if per_second:
        known = [f"{name}/s" for name in known if "i" not in name]
    else:
        known.sort(key=lambda name: name.endswith("b"))
    suggestions = [f"'{number} {written.replace(part, name, 1)}'" for name in known[:2]]
    if suggestions:
        return "did you mean " + " or ".join(suggestions) + "?"
    return f"write for instance '{_EXAMPLES.get(wanted, f'2.5 {wanted}')}'"


def _duration_letter(word: str) -> str:
    return "ms" if word.lower() == "ms" else word[0].lower()


def _scales(unit: str, *, exact: bool) -> list[list[str]]:
    """Names of the units that `unit` is shown in, rising; more than one list where the shorter text is to be taken."""
    large, small = [prefix + unit for prefix in _LARGE], [prefix + unit for prefix in "num"]
    if unit == "B":
        binary = [unit, *(prefix + unit for prefix in _BINARY)]
        return [binary, [unit, *large]] if exact else [binary]
    if unit == "s":
        return [["ns", "us", "ms", "s"]] if exact else [["ns", "us", "ms", "s", "h"]]
    if unit in ("W", "J"):
        return [[*small, unit, *large]]
    return [[unit, *large]] if unit.startswith(("B/", "flop", "$")) else [[unit]]


def _fitting(magnitude: float, unit: str, names: list[str]) -> tuple[str, Decimal]:
    """The largest unit with at least one before the point (hours: ten thousand seconds), and its size in `unit`s."""
    sizes = {name: _UNITS[name.partition("/")[0]][0] / _UNITS[unit.partition("/")[0]][0] for name in names}
    if not magnitude:
        return unit, _decimal(sizes[unit])
    fitting = [name for name in names if magnitude >= (10_000 if name == "h" else sizes[name])]
    name = fitting[-1] if fitting else names[0]
    return name, _decimal(sizes[name])


def _decimal(size: Fraction) -> Decimal:
    with localcontext(prec=_DIGITS):
        return Decimal(size.numerator) / Decimal(size.denominator)


def _to_float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _number(value: float, scale: Decimal, digits: int) -> str:
    scaled = Decimal(value) / scale
    if digits < _FLOAT_DIGITS:
        return _plain(scaled, digits)
    texts = (_plain(scaled, fewer) for fewer in range(1, _FLOAT_DIGITS + 1))
    return next(text for text in texts if float(Decimal(text) * scale) == value)


def _plain(number: Decimal, digits: int) -> str:
    """`digits` significant digits, all of the integer part, no trailing zeros; an exponent where it is long."""
    if not number:
        return "0"
    exponent = number.adjusted()
    if -5 <= exponent < 15:
        text = f"{number:.{max(0, digits - 1 - exponent)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, power = f"{number:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(power)}"
