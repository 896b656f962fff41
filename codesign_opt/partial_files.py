"""Files that take long to write: under their name only when they are whole."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from codesign_opt.errors import InputError

if sys.platform != "win32":
    import fcntl

SUFFIX = ".partial"
"""Ending of the temporary files, which stand beside their targets as hidden files with the target's name in theirs."""

_LONGEST_STEM = 200
"""Bytes of the target's name that its temporary files keep; file systems allow 255 altogether."""

_HINTS = {
    errno.ENOENT: "the directory does not exist: create it first",
    errno.ENOTDIR: "a part of the path is a file, not a directory",
    errno.EISDIR: "give the name of a file",
    errno.EACCES: "choose a directory that you may write to",
    errno.EPERM: "choose a directory that you may write to",
    errno.EROFS: "choose a directory that you may write to",
    errno.ENOSPC: "free some space, or choose another disk",
    errno.EDQUOT: "free some space, or choose another disk",
    errno.ENAMETOOLONG: "choose a shorter name",
}


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A binary file to write; it replaces the one at `path` when the block ends without an exception.

    A reader sees the old file or the whole new one. After an exception nothing is left behind; where the process is
    killed a temporary file is, which the next success for the same `path` removes. A symbolic link keeps pointing to
    the file it names; devices and pipes are written to directly.

    Raises:
        InputError: A directory, a place that may not be written to, a full disk, …
    """
    try:
        target = _target(path)
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                yield file
            return
        with _replacing(target) as file:
            yield file
        _remove_leftovers(target)
    except OSError as error:
        raise _cannot_write(path, error) from None


def _target(path: Path) -> Path:
    """The file that is to be replaced."""
    try:
        target = path.resolve()
    except (ValueError, RuntimeError) as error:
        # ValueError: a name with a NUL character; RuntimeError: a loop of symbolic links.
        raise _cannot_write(path, error) from None
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return target


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """Write a temporary file beside `target`, then move it there in one step."""
    temporary = target.with_name(f"{_stem(target)}{secrets.token_hex(8)}{SUFFIX}")
    try:
        with temporary.open("xb") as file:
            _lock(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files of runs that were killed; not those of runs that go on."""
    for leftover in target.parent.iterdir():
        if leftover.name.startswith(_stem(target)) and leftover.name.endswith(SUFFIX):
            with contextlib.suppress(OSError), leftover.open("rb") as file:
                _lock(file)
                leftover.unlink()


def _stem(target: Path) -> str:
    """How the names of a target's temporary files begin."""
    return f".{os.fsdecode(os.fsencode(target.name)[:_LONGEST_STEM])}."


def _lock(file: BinaryIO) -> None:
    """Lock a file as long as it is open; an OSError where it is locked already."""
    # Elsewhere no lock is needed: an open file cannot be removed.
    if sys.platform != "win32":
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _cannot_write(path: Path, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    hint = _HINTS.get(getattr(error, "errno", None) or 0, "choose another file")
    return InputError(f"cannot write '{path}': {reason}", hint)
