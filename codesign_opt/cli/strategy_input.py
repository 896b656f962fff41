"""The strategy that a command line describes: a file, options, or a file that options change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign_opt.cli.errors import naming_options
from codesign_opt.cli.study_input import WHERE
from codesign_opt.errors import InputError

if TYPE_CHECKING:
    from codesign_opt.strategies import Strategy
    from codesign_opt.systems import System
    from codesign_opt.workloads import Workload

_DEGREES = ("tp", "pp", "dp", "cp")
_SHORTHANDS = ("zero", "accumulation")


def strategy(
    file: Path | None,
    changes: Mapping[str, Any],
    system: System,
    *,
    workload: Workload | None = None,
    target: str = "free",
) -> Strategy:
    """The strategy of a file (TOML, or the published tool's JSON) with changes, or of the changes alone.

    Where the number of processors is not given it is tp · pp · dp · cp; where it is, but `dp` is not, `dp` follows from
    it. Network tiers that are not given are the fastest of the system that take their groups, or those of an order.
    `zero` and `accumulation` among the changes stand for other keys (`strategies.shorthands`).

    Args:
        file: The strategy file.
        changes: Keys of a strategy file to their values.
        system: The machine.
        workload: What is computed, where the target is asked for what it assumes of it.
        target: Name of the framework whose defaults hold where nothing is said.

    Raises:
        InputError: For whatever is wrong in the file or in the changes.
    """
    from codesign_opt.strategies.files import strategy_from_dict
    from codesign_opt.strategies.targets import with_defaults

    said = _without_shorthands(changes)
    base = {name: value for name, value in _base(file, system).items() if not _follows(name, said)}
    values = {**base, **said}
    if "processors" in changes and "dp" not in changes:
        values |= _remaining_degree(values)
    if "accumulation" in changes:
        values["batch"] = _accumulated(values, changes)
    if "batch" not in values:
        raise InputError("--batch: missing", "give it, or a strategy file that says it")
    if workload is not None:
        values = with_defaults(values, workload, target)
    with naming_options(WHERE, changes):
        return strategy_from_dict(values, system, where=WHERE)


def _without_shorthands(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes with what a ZeRO stage stands for; accumulation needs the other values and is left out."""
    from codesign_opt.strategies.shorthands import expanded_zero_stage

    said = {name: value for name, value in changes.items() if name not in _SHORTHANDS}
    if "zero" not in changes:
        return said
    return expanded_zero_stage({**said, "zero_stage": int(changes["zero"])}, where="--zero")


def _follows(name: str, said: Mapping[str, Any]) -> bool:
    """Whether what a file says of a key no longer holds, because what it follows from has changed."""
    if name == "processors":
        return any(degree in said for degree in _DEGREES)
    return name.endswith("_tier") and "placement" in said


def _accumulated(values: Mapping[str, Any], changes: Mapping[str, Any]) -> int:
    from codesign_opt.strategies.shorthands import accumulated_batch

    return accumulated_batch(
        microbatch=values.get("microbatch", 1),
        accumulation=changes["accumulation"],
        dp=values.get("dp", 1),
        batch=changes.get("batch"),
        where="--accumulation",
    )


def _base(file: Path | None, system: System) -> dict[str, Any]:
    """The keys that a file says, those that its shorthands stand for among them."""
    from codesign_opt.strategies.shorthands import expanded_zero_stage

    return {} if file is None else expanded_zero_stage(_file(file, system), where=f"{file}: zero_stage")


def _file(path: Path, system: System) -> dict[str, Any]:
    """The keys of a strategy file, which is right by itself."""
    from codesign_opt.configuration import read_toml
    from codesign_opt.interop.calculon import read_execution
    from codesign_opt.strategies.files import strategy_from_dict
    from codesign_opt.strategies.table import StrategyTable

    if path.suffix == ".json":
        words = StrategyTable.from_strategies([read_execution(path)]).words()
        return {name: column[0].item() for name, column in words.items()}
    if path.suffix != ".toml":
        raise InputError(f"--strategy: '{path}' is no strategy file", "give the path of a .toml or .json file")
    data = read_toml(path)
    strategy_from_dict(data, system, where=str(path))
    return data


def _remaining_degree(values: Mapping[str, Any]) -> dict[str, int]:
    """`dp` of the processors that the others leave, where they divide; else nothing, and the legality rules say why."""
    others = values.get("tp", 1) * values.get("pp", 1) * values.get("cp", 1)
    return {"dp": values["processors"] // others} if values["processors"] % others == 0 else {}
