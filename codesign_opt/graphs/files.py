"""Program graphs in files: `.pb` is binary, `.textproto` is text."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from codesign_opt.errors import InputError
from codesign_opt.graphs import protobuf, text_format
from codesign_opt.graphs.conversion import graph_of, message_of
from codesign_opt.graphs.graph import Graph
from codesign_opt.partial_files import whole_file

EXTENSIONS: Final = (".pb", ".textproto")
"""What a graph file may be called: binary, text."""


def read_graph(path: Path) -> Graph:
    """The graph in a file. It can be drawn and written; whether it can be run, `check_graph` says.

    Raises:
        InputError: Another extension, or a file that cannot be read, is damaged or no graph; names the instruction.
    """
    extension = _extension(path)
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        # ValueError: a name with a NUL character.
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read '{path}': {reason}", "give a file that exists and may be read") from None
    message = protobuf.decode(content, str(path)) if extension == ".pb" else text_format.parse(content, str(path))
    return graph_of(message, str(path))


def write_graph(graph: Graph, path: Path) -> None:
    """Put a graph into a file, which is there completely or not at all.

    Raises:
        InputError: Another extension, a name that cannot be written, or a place that may not be written to.
    """
    encode = protobuf.encode if _extension(path) == ".pb" else text_format.encode
    try:
        content = encode(message_of(graph))
    except UnicodeEncodeError as error:
        raise InputError(f"graph '{graph.name}': the name {error.object!r} is not Unicode text") from None
    with whole_file(path) as file:
        file.write(content)


def _extension(path: Path) -> str:
    if path.suffix not in EXTENSIONS:
        raise InputError(f"'{path}': a graph file cannot be called '*{path.suffix}'", "allowed: *.pb, *.textproto")
    return path.suffix
