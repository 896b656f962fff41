"""Files that take long to write: whole under their name, or not there."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from codesign_opt.errors import InputError
from codesign_opt.partial_files import SUFFIX, whole_file

WRITE_UNTIL_KILLED = """
import sys, time
from pathlib import Path
from codesign_opt.partial_files import whole_file
with whole_file(Path(sys.argv[1])) as file:
    file.write(b"half of it")
    file.flush()
    print("written", flush=True)
    time.sleep(600)
"""


@contextmanager
def another_run(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has written half of the file and goes on; killed at the end."""
    command = [sys.executable, "-c", WRITE_UNTIL_KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "written\n"
            yield process
        finally:
            process.kill()


def write(path: Path, content: bytes) -> None:
    with whole_file(path) as file:
        file.write(content)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_the_name_appears_with_the_whole_content(tmp_path: Path) -> None:
    path = tmp_path / "all.parquet"
    path.write_bytes(b"old")
    with whole_file(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["all.parquet"]


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyboardInterrupt()], ids=["error", "interrupt"])
@pytest.mark.parametrize("existing", [True, False])
def test_after_an_exception_nothing_is_left(tmp_path: Path, error: BaseException, existing: bool) -> None:
    path = tmp_path / "all.parquet"
    if existing:
        path.write_bytes(b"old")

    def fail() -> None:
        with whole_file(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert names(tmp_path) == (["all.parquet"] if existing else [])
    assert not existing or path.read_bytes() == b"old"


@pytest.mark.parametrize("function", ["replace", "fsync"])
def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    monkeypatch.setattr(os, function, raising(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(InputError, match=r"cannot write '.*all\.parquet': No space left on device \(free some space"):
        write(tmp_path / "all.parquet", b"new")
    assert names(tmp_path) == []


def test_a_killed_run_leaves_what_the_next_one_removes(tmp_path: Path) -> None:
    path, other = tmp_path / "all.parquet", tmp_path / "other.parquet"
    for target in (path, other):
        with another_run(target) as process:
            process.kill()
            process.wait()
    leftovers = names(tmp_path)
    assert [(name.startswith(f".{target}."), name.endswith(SUFFIX)) for name, target in zip(
        leftovers, ["all.parquet", "other.parquet"], strict=True
    )] == [(True, True)] * 2  # fmt: skip
    write(path, b"new")
    assert names(tmp_path) == sorted(["all.parquet", leftovers[1]])


def test_a_failed_run_removes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "all.parquet"
    with another_run(path) as process:
        process.kill()
        process.wait()
    left = names(tmp_path)
    with pytest.raises(ValueError, match="wrong"), whole_file(path):
        raise ValueError("wrong")
    assert names(tmp_path) == left


@pytest.mark.skipif(sys.platform == "win32", reason="there an open file cannot be removed anyway")
def test_a_run_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "all.parquet"
    with another_run(path):
        write(path, b"new")
        assert len(names(tmp_path)) == 2
    assert path.read_bytes() == b"new"


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent.*the directory does not exist"):
        write(tmp_path / "absent" / "all.parquet", b"")
    with pytest.raises(InputError, match="give the name of a file"):
        write(tmp_path, b"")
    with pytest.raises(InputError, match="choose a shorter name"):
        write(tmp_path / ("x" * 300), b"")
    with pytest.raises(InputError, match="null"):
        write(tmp_path / "a\0b", b"")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InputError, match="cannot write"):
        write(loop, b"")


def test_a_protected_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "all.parquet"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="Permission denied"):
        write(path, b"new")
    assert path.read_bytes() == b"old"


def test_the_longest_name(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 127)
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert len(names(tmp_path)) == 1


def test_a_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "target.parquet", tmp_path / "link.parquet"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    write(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_device_is_written_to_and_stays_a_device() -> None:
    write(Path(os.devnull), b"gone")
    assert Path(os.devnull).is_char_device()
