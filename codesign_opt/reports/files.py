"""Files that are either written completely or not at all."""

from __future__ import annotations

from pathlib import Path

from codesign_opt.partial_files import whole_file


def write_atomically(path: Path, content: bytes) -> None:
    """Put `content` into the file at `path`, replacing what is there; see `whole_file`.

    Raises:
        InputError: A directory, a place that may not be written to, a full disk, …
    """
    with whole_file(path) as file:
        file.write(content)
