from __future__ import annotations

import os
from pathlib import Path

import pytest

from codesign_opt.configuration import MAX_BYTES, at, flattened, read_text, read_toml, shown
from codesign_opt.errors import InputError

BROKEN_FILES = {
    "empty": (b"", ["is empty"]),
    "blank": (b" \n\t\n", ["is empty"]),
    "huge": (b"#" * (MAX_BYTES + 1), ["larger than 10 MB"]),
    "binary": (b'name = "a\x00b"', ["binary"]),
    "latin-1": ("name = 'é'".encode("latin-1"), ["byte 8", "not UTF-8"]),
    "utf-16": ("name = 'x'".encode("utf-16"), ["not UTF-8"]),
    "no value": (b"hidden = \n", ["not TOML", "line 1"]),
    "unquoted text": (b"a = 1\nb = 80 GiB\n", ["not TOML", "line 2", "quotes"]),
    "key twice": (b"a = 1\na = 2\n", ["not TOML", "line 2"]),
    "nested without end": (b"a = " + b"[" * 100_000, ["nested too deeply"]),
    "endless number": (b"a = " + b"9" * 5000, ["not TOML", "4300 digits"]),
}


@pytest.mark.parametrize("name", BROKEN_FILES)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(name: str, tmp_path: Path) -> None:
    content, parts = BROKEN_FILES[name]
    path = tmp_path / "study.toml"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_toml(path)
    for part in (str(path), *parts):
        assert part in str(caught.value)


def test_missing_files_and_directories_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.toml: no such file"):
        read_text(tmp_path / "nothing.toml")
    with pytest.raises(InputError, match="is a directory"):
        read_text(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_text("a\0b.toml")
    with pytest.raises(InputError, match="cannot be read"):
        read_text("x" * 5000)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the super-user may read every file")
def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "secret.toml"
    path.write_text("a = 1")
    path.chmod(0)
    with pytest.raises(InputError, match=r"secret\.toml: cannot be read: Permission denied"):
        read_text(path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert read_toml(path) == {"a": 1}


def test_a_file_of_exactly_the_largest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"a = 1\n" + b"#" * (MAX_BYTES - 6))
    assert read_toml(path) == {"a": 1}


def test_unquoted_and_quoted_paths_mean_the_same() -> None:
    nested = {"memory_tier1": {"capacity": "1 GiB"}, "network_tiers": {"0": {"size": 8}}}
    assert flattened(nested) == {"memory_tier1.capacity": "1 GiB", "network_tiers.0.size": 8}
    free = {"a": {"b": {"low": 1, "high": 2}}, "c.d": {"choices": [1]}}
    leaves = frozenset({"low", "high", "choices"})
    assert flattened(free, leaves) == {"a.b": {"low": 1, "high": 2}, "c.d": {"choices": [1]}}
    assert flattened({"a": {}}) == {"a": {}}
    assert flattened("text") == "text"


def test_places_read_as_file_and_key() -> None:
    assert at("my.toml", "price", "processor") == "my.toml: price.processor"
    assert at("my.toml: system", "price") == "my.toml: system.price"
    assert at("my.toml") == "my.toml"
    assert at("", "price") == "price"


def test_long_values_are_shortened() -> None:
    assert shown("x" * 200) == "'" + "x" * 56 + "..."
    assert shown({"a": 1}) == "a table"
