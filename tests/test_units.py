from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign_opt.errors import InputError
from codesign_opt.units import format_quantity, parse_duration, parse_quantity

WHERE = "my.toml: system.memory_tier1.bandwidth"
FORMATTED_UNITS = ["B", "B/s", "s", "flop", "flop/s", "W", "J", "$", "$/h", "1", "tokens/s", "samples/s", "samples/s/$"]


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("450 GB/s", "B/s", 450e9),
        ("450GB/s", "B/s", 450e9),
        ("  450   GB / s ", "B/s", 450e9),
        ("80 GiB", "B", 80 * 2**30),
        ("80 GB", "B", 80e9),
        ("1.5 TiB", "B", 1.5 * 2**40),
        ("3 KiB", "B", 3072),
        ("7 MiB", "B", 7 * 2**20),
        ("2 PiB", "B", 2 * 2**50),
        ("2 kB", "B", 2000),
        ("16 b", "B", 2),
        ("400 Gb/s", "B/s", 50e9),
        ("400 Gbit/s", "B/s", 50e9),
        ("400 Gbps", "B/s", 50e9),
        ("512 bytes", "B", 512),
        ("10 us", "s", 1e-5),
        ("10 µs", "s", 1e-5),
        ("10 μs", "s", 1e-5),
        ("3 ms", "s", 3e-3),
        ("20 ns", "s", 2e-8),
        ("1.5 min", "s", 90),
        ("2 h", "s", 7200),
        ("4 years", "s", 4 * 365.25 * 86400),
        ("312 Tflop/s", "flop/s", 312e12),
        ("312 TFLOP/s", "flop/s", 312e12),
        ("312 TFLOPS", "flop/s", 312e12),
        ("1 Eflop", "flop", 1e18),
        ("700 W", "W", 700),
        ("1.2 MW", "W", 1.2e6),
        ("50 mW", "W", 0.05),
        ("5 J/s", "W", 5),
        ("1 kWh", "J", 3.6e6),
        ("3.6 MJ", "J", 3.6e6),
        ("2.5 $", "$", 2.5),
        ("2.5 USD", "$", 2.5),
        ("30 k$", "$", 30e3),
        ("125 M$", "$", 125e6),
        ("125 MUSD", "$", 125e6),
        ("2.5 $/h", "$/h", 2.5),
        ("3.6 $/h", "$/s", 1e-3),
        ("8 $/GiB", "$/B", 8 / 2**30),
        ("0.1 $/kWh", "$/J", 0.1 / 3.6e6),
        ("1e3 tokens/s", "tokens/s", 1000),
        ("+1.5e-3 samples/s", "samples/s", 0.0015),
        ("2 Mtokens/h", "tokens/s", 2e6 / 3600),
        ("90 %", "1", 0.9),
        ("0.9", "1", 0.9),
        (".5", "1", 0.5),
        (512, "1", 512.0),
        (0.25, "1", 0.25),
        ("-5 GiB", "B", -5 * 2**30),
        ("0 B", "B", 0),
        ("1e-400 B", "B", 0),
        ("1e-99999999999999999999 B", "B", 0),
    ],
)
def test_parses(text: str | float, unit: str, expected: float) -> None:
    assert parse_quantity(text, unit, where=WHERE) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("value", "unit", "message"),
    [
        ("450", "B/s", "'450' has no unit (write for instance '450 GB/s')"),
        (450, "B/s", "450 has no unit (write for instance '450 GB/s')"),
        ("450 GBps", "B/s", "unknown unit 'GBps' (did you mean '450 GB/s'"),
        ("80 gb", "B", "unknown unit 'gb' (did you mean '80 GB' or '80 GiB'?)"),
        ("80 KB", "B", "unknown unit 'KB' (did you mean '80 kB' or '80 KiB'?)"),
        ("450 gb/s", "B/s", "did you mean '450 GB/s' or '450 GiB/s'?"),
        ("312 tflops", "flop/s", "did you mean '312 TFLOPS'?"),
        ("5 furlongs", "s", "unknown unit 'furlongs' (write for instance '10 us')"),
        ("5 B//s", "B/s", "unknown unit 'B//s'"),
        ("1e400", "1", "'1e400' is not a finite number"),
        ("1e400 GB", "B", "'1e400 GB' is not a finite number"),
        ("1e308 EB", "B", "'1e308 EB' is not a finite number"),
        ("nan GB", "B", "'nan GB' is not a finite number"),
        (math.nan, "1", "nan is not a finite number"),
        (-math.inf, "1", "-inf is not a finite number"),
        ("80 GiB", "B/s", "'80 GiB' is not a quantity in 'B/s' (write for instance '450 GB/s')"),
        ("80 GiB", "1", "'80 GiB' is not a quantity in '1' (write for instance '90 %')"),
        ("90 %", "B", "'90 %' is not a quantity in 'B'"),
        ("7 s", "tokens/s", "write for instance '2.5 tokens/s'"),
        ("", "B", "'' is not a number with a unit (write for instance '80 GiB')"),
        ("GB", "B", "'GB' is not a number with a unit"),
        ("1,000 GB", "B", "'1,000 GB' is not a number with a unit"),
        ("1_000 GB", "B", "'1_000 GB' is not a number with a unit"),
        ("1.2.3 GB", "B", "'1.2.3 GB' is not a number with a unit"),
        (True, "1", "True is not a number with a unit"),
    ],
)
def test_refuses_with_a_pointed_message(value: str | float, unit: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_quantity(value, unit, where=WHERE)
    assert str(caught.value).startswith(f"{WHERE}: ")
    assert message in str(caught.value)


def test_range_is_checked_and_says_what_is_allowed() -> None:
    assert parse_quantity("0 GiB", "B", where=WHERE, minimum=0) == 0
    assert parse_quantity("100 %", "1", where=WHERE, maximum=1) == 1
    with pytest.raises(InputError, match=r"'-5 GiB' is too small \(at least 0 B\)"):
        parse_quantity("-5 GiB", "B", where=WHERE, minimum=0)
    with pytest.raises(InputError, match=r"'101 %' is too large \(at most 1\)"):
        parse_quantity("101 %", "1", where=WHERE, maximum=1)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (85899345920, "B", "80 GiB"),
        (80e9, "B", "74.51 GiB"),
        (1023, "B", "1023 B"),
        (4.5e11, "B/s", "450 GB/s"),
        (1e-5, "s", "10 us"),
        (75.234, "s", "75.23 s"),
        (9_999, "s", "9999 s"),
        (18_000, "s", "5 h"),
        (459.5e12, "flop/s", "459.5 Tflop/s"),
        (0.69444, "$", "0.6944 $"),
        (125e6, "$", "125 M$"),
        (10_643.27, "tokens/s", "10643 tokens/s"),
        (16_384, "1", "16384"),
        (0.46444, "1", "0.4644"),
        (-3e-3, "s", "-3 ms"),
        (0.0, "s", "0 s"),
        (1.2e6, "W", "1.2 MW"),
        (0.05, "W", "50 mW"),
        (1e-7, "samples/s/$", "1e-7 samples/s/$"),
        (1e30, "samples/s", "1e30 samples/s"),
        (math.inf, "s", "inf s"),
        (math.nan, "1", "nan"),
    ],
)
def test_formats_for_people(value: float, unit: str, text: str) -> None:
    assert format_quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(80e9, "B", "80 GB"), (80 * 2**30, "B", "80 GiB"), (1e-5, "s", "10 us"), (989.4e12, "flop/s", "989.4 Tflop/s")],
)
def test_exact_text_is_the_shortest(value: float, unit: str, text: str) -> None:
    assert format_quantity(value, unit, 17) == text


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(FORMATTED_UNITS))
def test_round_trip_is_exact_with_17_digits(value: float, unit: str) -> None:
    assert parse_quantity(format_quantity(value, unit, 17), unit, where=WHERE) == value


@settings(deadline=None)
@given(
    st.floats(min_value=1e-12, max_value=1e20),
    st.sampled_from(FORMATTED_UNITS),
    st.integers(min_value=3, max_value=12),
)
def test_round_trip_keeps_the_digits_asked_for(value: float, unit: str, digits: int) -> None:
    back = parse_quantity(format_quantity(value, unit, digits), unit, where=WHERE)
    assert back == pytest.approx(value, rel=0.5000001 * 10 ** (1 - digits))


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_parses_or_is_refused(text: str) -> None:
    for unit in ("B/s", "1"):
        try:
            assert math.isfinite(parse_quantity(text, unit, where=WHERE))
        except InputError as error:
            assert error.hint


@pytest.fixture(scope="module")
def pint_quantity() -> Any:
    return pytest.importorskip("pint").UnitRegistry().Quantity


@pytest.mark.parametrize(
    ("ours", "theirs", "unit"),
    [
        ("GiB", "gibibyte", "byte"),
        ("kb", "kilobit", "byte"),
        ("Tbit", "terabit", "byte"),
        ("us", "microsecond", "second"),
        ("h", "hour", "second"),
        ("years", "julian_year", "second"),
        ("kWh", "kilowatt_hour", "joule"),
        ("MW", "megawatt", "watt"),
        ("%", "percent", "dimensionless"),
        ("GB/s", "gigabyte / second", "byte / second"),
    ],
)
@settings(deadline=None)
@given(number=st.floats(min_value=1e-6, max_value=1e6))
def test_agrees_with_pint(pint_quantity: Any, ours: str, theirs: str, unit: str, number: float) -> None:
    symbols = {"byte": "B", "second": "s", "joule": "J", "watt": "W", "dimensionless": "1", "byte / second": "B/s"}
    expected = pint_quantity(number, theirs).to(unit).magnitude
    assert parse_quantity(f"{number!r} {ours}", symbols[unit], where=WHERE) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("10m", 600),
        ("10 min", 600),
        ("2h", 7200),
        ("1.5 h", 5400),
        ("1h30m", 5400),
        ("1h 30m 5s", 5405),
        ("250ms", 0.25),
        ("1 day", 86_400),
        ("0s", 0),
    ],
)
def test_parses_durations(text: str, seconds: float) -> None:
    assert parse_duration(text, where="--budget") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "10", "m", "-5m", "5x", "10 mins ago", "nan s", "1h30", "1" + "0" * 400 + "h"])
def test_refuses_other_durations(text: str) -> None:
    with pytest.raises(InputError, match=r"^--budget: .*duration \(write for instance '90s', '10m' or '2h'\)$"):
        parse_duration(text, where="--budget")
