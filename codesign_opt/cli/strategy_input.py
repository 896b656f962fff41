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

_DEGREES = ("tp", "pp", "dp")


def strategy(file: Path | None, changes: Mapping[str, Any], system: System) -> Strategy:
    """The strategy of a file (TOML, or the published tool's JSON) with changes, or of the changes alone.

    Where the number of processors is not given it is tp · pp · dp; where it is, but `dp` is not, `dp` follows from it.
    Network tiers that are not given are the fastest of the system that take their groups.

    Raises:
        InputError: For whatever is wrong in the file or in the changes.
    """
    from codesign_opt.strategies.files import strategy_from_dict

    base = {} if file is None else _file(file, system)
    degrees_change = any(name in changes for name in _DEGREES)
    values = {name: value for name, value in base.items() if name != "processors" or not degrees_change}
    values |= changes
    if "processors" in changes and "dp" not in changes:
        values |= _remaining_degree(values)
    if "batch" not in values:
        raise InputError("--batch: missing", "give it, or a strategy file that says it")
    with naming_options(WHERE, changes):
        return strategy_from_dict(values, system, where=WHERE)


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
    """`dp` of the processors that tp and pp leave, where they divide; else nothing, and the legality rules say why."""
    others = values.get("tp", 1) * values.get("pp", 1)
    return {"dp": values["processors"] // others} if values["processors"] % others == 0 else {}
