"""The configuration of a translation, as a JSON file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign_opt.errors import InputError, nearest
from codesign_opt.graphs.opcodes import INDIVIDUAL
from codesign_opt.simulation.collectives import ALGORITHMS, Algorithm
from codesign_opt.simulation.collectives.options import read_options
from codesign_opt.simulation.collectives.registry import find_algorithm
from codesign_opt.simulation.protocol import PUSH


@dataclass(frozen=True)
class CollectiveChoice:
    """How a collective is done.

    Attributes:
        algorithm: The algorithm.
        options: Its options, as it takes them.
    """

    algorithm: Algorithm
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Translation:
    """What to translate, and how.

    Attributes:
        collectives: Opcode of a collective to how it is done; others stay as they are.
        protocols: Which of `send`, `recv` and `sendrecv` are done by the push protocol.
    """

    collectives: Mapping[str, CollectiveChoice]
    protocols: frozenset[str]


def read_translation(source: Path | str | Mapping[str, Any]) -> Translation:
    """The configuration of a translation: a JSON file, or what would stand in one.

    Its keys are `collective`, with a table for each opcode that names the `algorithm` and its options, and `protocol`,
    with a table for each of `send`, `recv` and `sendrecv` that names the `algorithm` `push`.

    Raises:
        InputError: A file that cannot be read, an unknown key or algorithm, a missing option or a value that is not
            allowed; names file, key and value.
    """
    where = "translation" if isinstance(source, Mapping) else str(source)
    tables = source if isinstance(source, Mapping) else _json(Path(source))
    _check_keys(tables, ("collective", "protocol"), where)
    collectives = _table(tables.get("collective", {}), f"{where}: collective")
    protocols = _table(tables.get("protocol", {}), f"{where}: protocol")
    _check_keys(collectives, ALGORITHMS, f"{where}: collective")
    _check_keys(protocols, INDIVIDUAL, f"{where}: protocol")
    for opcode, table in protocols.items():
        _check_protocol(table, f"{where}: protocol.{opcode}")
    return Translation(
        collectives={
            opcode: _choice(opcode, table, f"{where}: collective.{opcode}") for opcode, table in collectives.items()
        },
        protocols=frozenset(protocols),
    )


def _json(path: Path) -> Mapping[str, Any]:
    try:
        tables = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror}", "give a file that exists and may be read") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a JSON file: {error}", 'write for instance {"collective": {…}}') from None
    return _table(tables, str(path))


def _choice(opcode: str, value: Any, where: str) -> CollectiveChoice:
    table = _table(value, where)
    options = {key: entry for key, entry in table.items() if key != "algorithm"}
    algorithm = find_algorithm(opcode, _algorithm(table, where, ALGORITHMS[opcode]), where=where)
    return CollectiveChoice(algorithm, read_options(options, algorithm.options, where=where))


def _check_protocol(value: Any, where: str) -> None:
    table = _table(value, where)
    _check_keys(table, ("algorithm",), where)
    name = _algorithm(table, where, (PUSH,))
    if name != PUSH:
        raise InputError(f"{where}: unknown algorithm '{name}'", f"allowed: {PUSH}")


def _algorithm(table: Mapping[str, Any], where: str, allowed: Iterable[str]) -> str:
    name = table.get("algorithm")
    if not isinstance(name, str):
        what = f"algorithm = {name!r} is not a name" if "algorithm" in table else "missing key 'algorithm'"
        raise InputError(f"{where}: {what}", "allowed: " + ", ".join(allowed))
    return name


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: {value!r} is not a table", 'give {"key": value, …}')
    return value


def _check_keys(table: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    for key in table:
        if key not in allowed:
            raise InputError(f"{where}: unknown key '{key}'", nearest(key, allowed))
