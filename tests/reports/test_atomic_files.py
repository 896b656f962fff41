from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codesign_opt.errors import InputError
from codesign_opt.reports.files import write_atomically


def _raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "front.csv"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["front.csv"]


@pytest.mark.parametrize("function", ["replace", "fsync"])
@pytest.mark.parametrize("existing", [True, False])
def test_a_failure_in_the_middle_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, existing: bool
) -> None:
    path = tmp_path / "front.csv"
    if existing:
        path.write_bytes(b"old")
    monkeypatch.setattr(os, function, _raising(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(InputError, match=r"cannot write '.*front\.csv': No space left on device \(free some space"):
        write_atomically(path, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == (["front.csv"] if existing else [])
    assert not existing or path.read_bytes() == b"old"


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", _raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "front.csv", b"new")
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent.*the directory does not exist"):
        write_atomically(tmp_path / "absent" / "front.csv", b"")
    with pytest.raises(InputError, match="give the name of a file"):
        write_atomically(tmp_path, b"")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match=r"cannot write '.*file/front\.csv'"):
        write_atomically(tmp_path / "file" / "front.csv", b"")
    with pytest.raises(InputError, match="choose a shorter name"):
        write_atomically(tmp_path / ("x" * 300), b"")
    with pytest.raises(InputError, match="null"):
        write_atomically(tmp_path / "a\0b", b"")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InputError, match="cannot write"):
        write_atomically(loop, b"")


def test_an_unwritable_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "open", _raising(PermissionError(errno.EACCES, "Permission denied")))
    with pytest.raises(InputError, match=r"Permission denied \(choose a directory that you may write to\)"):
        write_atomically(tmp_path / "front.csv", b"new")


def test_a_protected_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "front.csv"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="Permission denied"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"


def test_a_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_device_is_written_to_and_stays_a_device() -> None:
    write_atomically(Path(os.devnull), b"gone")
    assert Path(os.devnull).is_char_device()
