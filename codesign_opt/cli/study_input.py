"""The study that a command line asks for: a file or the default study, changed by options, or options alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign_opt.cli.errors import naming_options
from codesign_opt.errors import InputError, StorageError

if TYPE_CHECKING:
    from codesign_opt.db import StudyRecord
    from codesign_opt.studies.specification import StudySpecification

DEFAULT_STUDY = "default"
WHERE = "command line"

_RUN_KEYS = ("budget", "seed", "method", "sampler", "top_k")
_REQUIRED = ("workload", "system", "processors", "batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyChanges:
    """What options say about a study.

    Attributes:
        keys: Keys of a study file to their values; those not given are absent.
        settings: Parameter path of the system to value, with its unit.
        free: Parameter path of the system to range or choices.
        strategies: Keys of a study file's `[strategies]` to their values.
    """

    keys: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    free: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    strategies: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether any option was given."""
        return bool(self.given)

    @property
    def given(self) -> set[str]:
        """The keys of a study file that options say."""
        tables = {"system.set": self.settings, "system.free": self.free, "strategies": self.strategies}
        return {*self.keys, *(name for name, table in tables.items() if table)}


def study_specification(study: str | None, changes: StudyChanges) -> StudySpecification:
    """The study of a catalogue name or file with changes; without either, the default study with changes.

    With a workload or a system but no file, the options are all there is.

    Raises:
        InputError: For whatever is wrong in the file or in the options.
    """
    from codesign_opt.studies.specification import study_from_dict

    if study is None and ("workload" in changes.keys or "system" in changes.keys):
        with naming_options(WHERE, changes.given):
            return study_from_dict(_changed(_without_file(changes), changes, folder=None), where=WHERE)
    path, data = _file(DEFAULT_STUDY if study is None else study)
    specification = study_from_dict(data, where=str(path), folder=path.parent)
    if not changes:
        return specification
    # The file alone is right, so whatever is wrong from here on comes from an option.
    with naming_options(WHERE, changes.given):
        return study_from_dict(_changed(data, changes, folder=path.parent), where=WHERE, folder=path.parent)


def stored_study(study: str | None, changes: StudyChanges, database: str) -> StudySpecification | None:
    """The specification stored under the name given, where nothing but the name and how to go on was given.

    Raises:
        InputError: For a budget that cannot be used.
    """
    import json

    from codesign_opt.studies.budget import parse_budget
    from codesign_opt.studies.canonical import specification_from_dict

    name = changes.keys.get("name")
    if study is not None or name is None or changes.settings or changes.free or changes.strategies:
        return None
    if not changes.keys.keys() <= {"name", *_RUN_KEYS}:
        return None
    record = stored_record(name, database)
    if record is None:
        return None
    stored = specification_from_dict(json.loads(record.specification), where=f"study '{name}'")
    given = {key: value for key, value in changes.keys.items() if key in _RUN_KEYS}
    if "budget" in given:
        given["budget"] = parse_budget(given["budget"], where="--budget")
    return replace(stored, **given)


def stored_record(name: str, database: str) -> StudyRecord | None:
    """The stored study of that name; None where there is none, or no database that could hold it."""
    from codesign_opt.db import open_database

    try:
        with open_database(database, create=False) as opened:
            return opened.find_study(name)
    except StorageError:
        # The search itself reports what is wrong with the database.
        return None


def _file(study: str) -> tuple[Path, dict[str, Any]]:
    from codesign_opt.catalog import study_path
    from codesign_opt.configuration import read_toml

    path = study_path(study, where="STUDY")
    return path, {"name": path.stem, **read_toml(path)}


def _without_file(changes: StudyChanges) -> dict[str, Any]:
    missing = [f"--{name}" for name in _REQUIRED if name not in changes.keys]
    if missing:
        needed = ", ".join(f"--{name}" for name in _REQUIRED)
        raise InputError(f"{missing[0]}: missing", f"a study without a file needs {needed}")
    workload, system = (_short_name(changes.keys[name]) for name in ("workload", "system"))
    return {"name": f"{workload}-on-{system}"}


def _short_name(given: Any) -> str:
    """What to call a workload or system: its own name, that of its file, or that of the folder of a `config.json`."""
    if isinstance(given, Mapping):
        return str(given["name"])
    path = Path(given)
    return path.parent.name if path.name == "config.json" and path.parent.name else path.stem


def _changed(data: Mapping[str, Any], changes: StudyChanges, *, folder: Path | None) -> dict[str, Any]:
    keys = {name: _from_here(value) if folder is not None else value for name, value in changes.keys.items()}
    result = {**data, **keys}
    if changes.strategies:
        result["strategies"] = {**result.get("strategies", {}), **changes.strategies}
    if changes.settings or changes.free:
        result["system"] = _changed_system(result["system"], changes)
    return result


def _changed_system(system: Any, changes: StudyChanges) -> Any:
    """The system with parameters set or freed; what an option sets is no longer free, and the other way round."""
    from codesign_opt.configuration import flattened
    from codesign_opt.studies.schema import FreeChoicesFile, FreeRangeFile

    if isinstance(system, str):
        system = {"base": system}
    if not isinstance(system, Mapping):
        return system
    leaves = frozenset([*FreeRangeFile.model_fields, *FreeChoicesFile.model_fields])
    settings = {**flattened(system.get("set", {})), **changes.settings}
    free = {**flattened(system.get("free", {}), leaves), **changes.free}
    tables = {
        "set": {path: value for path, value in settings.items() if path not in changes.free},
        "free": {path: value for path, value in free.items() if path not in changes.settings},
    }
    return {**system, **{name: table for name, table in tables.items() if table or name in system}}


def _from_here(value: Any) -> Any:
    """A file named on the command line is relative to the working directory, not to the study's folder."""
    is_file = isinstance(value, str) and Path(value).suffix in (".toml", ".json")
    return str(Path(value).absolute()) if is_file else value
