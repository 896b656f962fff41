"""What a system file says for people: what the machine is, and where each of its numbers comes from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from codesign_opt.errors import InputError, nearest
from codesign_opt.systems.curve import EfficiencyCurve
from codesign_opt.systems.price import PriceCurve
from codesign_opt.systems.system import System

Value = int | float | EfficiencyCurve | PriceCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """Words about a system; no result depends on them.

    Attributes:
        description: What the machine is, in a line. May be empty.
        source: Where the numbers come from that `sources` does not name. May be empty.
        sources: Dotted path of a number, a curve or a section to where it comes from.
    """

    description: str = ""
    source: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    def own_source(self, path: str) -> str | None:
        """What `sources` says of the value at `path`: the longest path in it counts; None where it says nothing."""
        covering = [named for named in self.sources if _covers(named, path)]
        return self.sources[max(covering, key=len)] if covering else None

    def source_of(self, path: str) -> str:
        """Where the value at `path` comes from; empty where that is not known."""
        own = self.own_source(path)
        return self.source if own is None else own

    def changed(self, changes: Mapping[str, str]) -> Notes:
        """The notes of a system in which the values and sections at some paths are others.

        Args:
            changes: Path to the source of what is there now.
        """
        kept = {
            path: text for path, text in self.sources.items() if not any(_covers(changed, path) for changed in changes)
        }
        return dataclasses.replace(self, sources={**kept, **changes})


def values(system: System) -> dict[str, Value]:
    """Every value of a system by its dotted path: the numbers of `parameters`, the switches and the curves.

    Memory overheads, and the time of a launch, count only where there are any.
    """
    there = {"memory_overheads": system.memory_overheads.any, "launch": system.launch > 0}
    silent = [name for name, any_ in there.items() if not any_]
    return {path: value for path, value in _values(system, "") if path.partition(".")[0] not in silent}


def check_sources(sources: Iterable[str], system: System, *, where: str) -> None:
    """Refuse a path at which the system has nothing.

    Raises:
        InputError: With the near paths.
    """
    known = [prefix for path in values(system) for prefix in _prefixes(path)]
    for path in sources:
        if path not in known:
            hint = nearest(path, dict.fromkeys(known))
            raise InputError(f"{where}: '{system.name}' has nothing at '{path}'", hint)


def _covers(section: str, path: str) -> bool:
    return path == section or path.startswith(f"{section}.")


def _prefixes(path: str) -> list[str]:
    names = path.split(".")
    return [".".join(names[: count + 1]) for count in range(len(names))]


def _values(node: Any, path: str) -> Iterator[tuple[str, Value]]:
    if isinstance(node, Value):
        yield path, node
    elif dataclasses.is_dataclass(node):
        for part in dataclasses.fields(node):
            # Files call the switch by another name.
            name = "processing" if part.name == "roofline" else part.name
            yield from _values(getattr(node, part.name), f"{path}.{name}" if path else name)
    elif isinstance(node, Mapping):
        for name, child in node.items():
            yield from _values(child, f"{path}.{name}")
    elif isinstance(node, tuple):
        for index, child in enumerate(node):
            yield from _values(child, f"{path}.{index}")
