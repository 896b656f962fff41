"""Files that are either written completely or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

from codesign_opt.errors import InputError

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


def write_atomically(path: Path, content: bytes) -> None:
    """Put `content` into the file at `path`, replacing what is there.

    A reader sees the old file or the whole new one. When anything fails nothing is left behind and an existing file
    is unchanged. A symbolic link keeps pointing to the file it names; devices and pipes are written to directly.

    Raises:
        InputError: A directory, a place that may not be written to, a full disk, …
    """
    try:
        target = path.resolve()
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if target.exists() and not target.is_file():
            target.write_bytes(content)
        else:
            _replace(target, content)
    except (OSError, ValueError, RuntimeError) as error:
        # ValueError: a name with a NUL character; RuntimeError: a loop of symbolic links.
        reason = getattr(error, "strerror", None) or str(error)
        hint = _HINTS.get(getattr(error, "errno", None) or 0, "choose another file")
        raise InputError(f"cannot write '{path}': {reason}", hint) from None


def _replace(target: Path, content: bytes) -> None:
    """Write a temporary file beside `target`, then move it there in one step."""
    temporary = target.with_name(f".codesign-opt-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
