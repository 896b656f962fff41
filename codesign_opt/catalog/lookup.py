"""The shipped TOML files, and what a name or a path stands for."""

from __future__ import annotations

import os
import tomllib
from importlib import resources
from pathlib import Path
from typing import Literal

from codesign_opt.errors import InputError, nearest
from codesign_opt.systems import Notes, System
from codesign_opt.systems.pricing import processor_price
from codesign_opt.units import format_quantity
from codesign_opt.workloads import Workload

Shelf = Literal["workloads", "systems", "studies"]

_SUFFIXES = {"workloads": (".toml", ".json"), "systems": (".toml", ".json"), "studies": (".toml",)}


def names(shelf: Shelf) -> list[str]:
    """Names of all shipped entries, sorted."""
    return sorted(path.stem for path in _folder(shelf).glob("*.toml"))


def text(shelf: Shelf, name: str) -> str:
    """The file of a shipped entry.

    Raises:
        InputError: For an unknown name, with the near ones.
    """
    if name not in names(shelf):
        raise _unknown(shelf, name, "")
    return _shipped(shelf, name).read_text(encoding="utf-8")


def describe(shelf: Shelf, name: str) -> str:
    """One line about a shipped entry, or about the workload of a path.

    Raises:
        InputError: For an unknown name, with the near ones.
    """
    if shelf == "workloads":
        return _describe_workload(resolve_workload(name))
    content = text(shelf, name)
    if shelf == "systems":
        words, numbers = system_notes(name).description, _describe_system(resolve_system(name))
        return f"{words}: {numbers}" if words else numbers
    return str(tomllib.loads(content)["description"])


def resolve_workload(name_or_path: str, *, where: str = "") -> Workload:
    """The workload of a catalogue name, of a TOML file, of a JSON application file of the reference tool, or of the
    `config.json` of a Hugging Face model, which its keys tell apart.

    Args:
        name_or_path: A catalogue name, or a path that ends in .toml or .json.
        where: File and key that the name came from, for messages.

    Raises:
        InputError: For an unknown name, a file that cannot be read, or whatever is wrong in it.
    """
    from codesign_opt.workloads.files import read_workload

    path = _path("workloads", name_or_path, where)
    if path.suffix == ".json":
        from codesign_opt.interop import hugging_face
        from codesign_opt.interop.calculon import read_application

        return hugging_face.read_config(path) if hugging_face.is_config(path) else read_application(path)
    return read_workload(path)


def workload_notes(name_or_path: str) -> tuple[str, ...]:
    """What one should know about the workload of a name or a path: what its file has that was left out.

    Raises:
        InputError: As `resolve_workload`.
    """
    path = _path("workloads", name_or_path, "")
    if path.suffix != ".json":
        return ()
    from codesign_opt.interop import hugging_face

    return hugging_face.config_notes(path) if hugging_face.is_config(path) else ()


def resolve_system(name_or_path: str, *, where: str = "") -> System:
    """The system of a catalogue name, of a TOML file, or of a JSON system file of the reference tool.

    Args:
        name_or_path: A catalogue name, or a path that ends in .toml or .json.
        where: File and key that the name came from, for messages.

    Raises:
        InputError: For an unknown name, a file that cannot be read, or whatever is wrong in it.
    """
    from codesign_opt.systems.files import read_system

    path = _path("systems", name_or_path, where)
    if path.suffix == ".json":
        from codesign_opt.interop.calculon import read_system as read_foreign_system

        return read_foreign_system(path)
    return read_system(path, resolve_base=_base)


def system_notes(name: str) -> Notes:
    """What the file of a shipped system says about it, and about its base where it has one.

    Raises:
        InputError: For an unknown name, with the near ones.
    """
    from codesign_opt.systems.files import read_notes

    if name not in names("systems"):
        raise _unknown("systems", name, "")
    return read_notes(_shipped("systems", name), resolve_base=system_notes)


def study_path(name_or_path: str, *, where: str = "") -> Path:
    """The file of a catalogue name, or the path itself where it ends in .toml.

    Raises:
        InputError: For an unknown name, with the near ones.
    """
    return _path("studies", name_or_path, where)


def _base(name: str, *, where: str) -> System:
    """A base is a catalogue name: files that start from each other would have no end."""
    if name not in names("systems"):
        raise InputError(f"{where}: unknown system '{name}'", nearest(name, names("systems")))
    return resolve_system(name)


def _path(shelf: Shelf, name_or_path: str, where: str) -> Path:
    if name_or_path in names(shelf):
        return _shipped(shelf, name_or_path)
    path = Path(name_or_path)
    if path.suffix in _SUFFIXES[shelf]:
        return path
    if os.sep in name_or_path or path.suffix in (".toml", ".json", ".yaml", ".yml"):
        place = f"{where}: " if where else ""
        suffixes = " or ".join(_SUFFIXES[shelf])
        raise InputError(
            f"{place}'{name_or_path}' is no {suffixes} file", f"give a name or the path of a {suffixes} file"
        )
    raise _unknown(shelf, name_or_path, where)


def _unknown(shelf: Shelf, name: str, where: str) -> InputError:
    word = {"workloads": "workload", "systems": "system", "studies": "study"}[shelf]
    hint = f"{nearest(name, names(shelf))}; the path of a {' or '.join(_SUFFIXES[shelf])} file may stand here too"
    return InputError(f"{f'{where}: ' if where else ''}unknown {word} '{name}'", hint)


def _folder(shelf: Shelf) -> Path:
    return Path(str(resources.files("codesign_opt.catalog"))) / shelf


def _shipped(shelf: Shelf, name: str) -> Path:
    return _folder(shelf) / f"{name}.toml"


def _describe_workload(workload: Workload) -> str:
    from codesign_opt.workloads.parameters import active_parameter_count

    active = active_parameter_count(workload)
    each = f", {active / 1e9:.4g} G for each token" if active != workload.parameters else ""
    return (
        f"{workload.parameters / 1e9:.4g} G parameters{each}: {workload.blocks} blocks, hidden {workload.hidden}, "
        f"{workload.attention_heads} heads of {workload.head_size}, sequences of {workload.sequence_length} tokens"
    )


def _describe_system(system: System) -> str:
    engines = ", ".join(f"{word} {format_quantity(engine.peak, 'flop/s')}" for word, engine in system.matrix.items())
    memory, second = system.memory_tier1, system.memory_tier2
    tiers = ", ".join(f"{tier.size} at {format_quantity(tier.bandwidth, 'B/s')}" for tier in system.network_tiers)
    parts = [engines, f"{format_quantity(memory.capacity, 'B')} at {format_quantity(memory.bandwidth, 'B/s')}"]
    if second.capacity > 0:
        parts.append(f"offload {format_quantity(second.capacity, 'B')} at {format_quantity(second.bandwidth, 'B/s')}")
    parts.append(f"networks {tiers}")
    if system.price is not None:
        price = float(processor_price(system))
        parts.append(f"{format_quantity(price, '$')} a processor")
    return "; ".join(parts)
