"""Read the published tool's JSON: applications, executions and systems (interop-formats section 10)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from codesign_opt.errors import InputError, StrategyError, nearest
from codesign_opt.interop.calculon.names import APPLICATION, COLLECTIVES, EXECUTION, WORDS
from codesign_opt.strategies import Strategy, StrategyTable
from codesign_opt.strategies.table import FLAG_COLUMNS, OPTION_CODES, OPTION_COLUMNS
from codesign_opt.systems import CollectiveCost, EfficiencyCurve, Engine, MemoryTier, NetworkTier, System
from codesign_opt.workloads import Workload

Source = Mapping[str, Any] | str | Path
"""A parsed JSON object, or the path of a file that holds one."""

MAXIMUM_BYTES = 10_000_000

MAXIMUM_NUMBER = 1e100
"""Below what floats hold, so that numbers stay finite in SI units."""


def read_application(source: Source, *, name: str = "") -> Workload:
    """The workload of an application file or dict.

    Raises:
        InputError: Naming file, key and value.
    """
    data, where = _load(source)
    _keys(data, APPLICATION, where)
    sizes: dict[str, Any] = {ours: _integer(data, theirs, where) for theirs, ours in APPLICATION.items()}
    return Workload(name=name or _name(source, "application"), **sizes)


def read_execution(source: Source) -> Strategy:
    """The strategy of an execution file or dict, which must have exactly the 23 published keys.

    Raises:
        InputError: Naming file, key and value.
        StrategyError: For an unknown word, with its reason code.
    """
    data, where = _load(source)
    row = encode_execution(data, where)
    for error in unknown_words(data, where):
        raise error
    return StrategyTable({name: [value] for name, value in row.items()}).strategy(0)


def encode_execution(data: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """One row of a strategy table; an unknown word becomes -1, for the legality rules to refuse in their order."""
    _keys(data, EXECUTION, where)
    row: dict[str, Any] = {}
    for theirs, ours in EXECUTION.items():
        value = data[theirs]
        if ours in OPTION_COLUMNS:
            word = WORDS[ours].get(value) if isinstance(value, str) else None
            row[ours] = -1 if word is None else OPTION_CODES[word]
        elif ours in FLAG_COLUMNS:
            if not isinstance(value, bool):
                raise InputError(f"{where}{theirs} = {value!r} is not true or false", "write true or false")
            row[ours] = value
        else:
            row[ours] = _integer(data, theirs, where, positive=False)
    return row


def unknown_words(data: Mapping[str, Any], where: str = "") -> Iterator[StrategyError]:
    """An error for each option of an execution whose word is not known."""
    for theirs, ours in EXECUTION.items():
        if ours in OPTION_COLUMNS and not (isinstance(data[theirs], str) and data[theirs] in WORDS[ours]):
            yield StrategyError(
                f"{where}{theirs} = {data[theirs]!r} is not a known word",
                "allowed: " + ", ".join(WORDS[ours]),
                "datatype_unknown" if ours == "datatype" else "bad_enum",
            )


def read_system(source: Source, *, name: str = "") -> System:
    """The system of a system file or dict.

    Raises:
        InputError: Naming file, key and value.
    """
    data, where = _load(source)
    _keys(data, ("matrix", "vector", "mem1", "mem2", "processing_mode", "networks"), where)
    mode = data["processing_mode"]
    if mode not in ("roofline", "no_overlap"):
        raise InputError(f"{where}processing_mode = {mode!r}", "allowed: roofline, no_overlap")
    networks = data["networks"]
    if not isinstance(networks, list) or not networks:
        raise InputError(f"{where}networks must be a list of at least one network")
    return System(
        name=name or _name(source, "system"),
        matrix=_engines(data, "matrix", where),
        vector=_engines(data, "vector", where),
        memory_tier1=_memory(data, "mem1", where),
        memory_tier2=_memory(data, "mem2", where),
        roofline=mode == "roofline",
        network_tiers=tuple(_network(value, f"{where}networks[{i}].") for i, value in enumerate(networks)),
    )


def _load(source: Source) -> tuple[Mapping[str, Any], str]:
    """The object, and the beginning of every message about it."""
    if isinstance(source, Mapping):
        return source, ""
    if not isinstance(source, str | Path):
        raise InputError(f"{source!r} is neither a JSON object nor a path", "give a dict, or the path of a JSON file")
    path = Path(source)
    try:
        if path.stat().st_size > MAXIMUM_BYTES:
            raise InputError(f"{path}: larger than {MAXIMUM_BYTES // 1_000_000} MB", "is this the right file?")
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}: must hold one JSON object")
    return data, f"{path}: "


def _name(source: Source, default: str) -> str:
    return default if isinstance(source, Mapping) else Path(source).stem


def _keys(data: Any, allowed: Collection[str], where: str) -> None:
    if not isinstance(data, Mapping):
        raise InputError(f"{where.rstrip(': .') or 'input'} must be an object with the keys {', '.join(allowed)}")
    for key in data:
        if key not in allowed:
            raise InputError(f"{where}unknown key '{key}'", nearest(str(key), allowed))
    missing = [key for key in allowed if key not in data]
    if missing:
        raise InputError(f"{where}missing key '{missing[0]}'", "required: " + ", ".join(allowed))


def _integer(data: Mapping[str, Any], key: str, where: str, *, positive: bool = True) -> int:
    value = data[key]
    if isinstance(value, bool) or not isinstance(value, int) or (positive and value < 1) or abs(value) >= 2**53:
        kind = "a positive whole number" if positive else "a whole number"
        raise InputError(f"{where}{key} = {value!r}", f"must be {kind}")
    return value


def _number(
    data: Mapping[str, Any], key: str, where: str, *, above: float | None = None, least: float = 0.0,
    most: float | None = None, below: float | None = None,
) -> float:  # fmt: skip
    value = data[key]
    good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAXIMUM_NUMBER
    good = good and (value > above if above is not None else value >= least)
    good = good and (most is None or value <= most) and (below is None or value < below)
    if not good:
        lower = f"> {above:g}" if above is not None else f">= {least:g}"
        upper = f" and <= {most:g}" if most is not None else f" and < {below:g}" if below is not None else ""
        raise InputError(f"{where}{key} = {value!r}", f"must be a number {lower}{upper}")
    return float(value)


def _engines(data: Mapping[str, Any], section: str, where: str) -> dict[str, Engine]:
    engines = data[section]
    if not isinstance(engines, Mapping) or not engines:
        raise InputError(f"{where}{section} must be an object with at least one datatype")
    result = {}
    for datatype, values in engines.items():
        place = f"{where}{section}.{datatype}."
        if datatype not in WORDS["datatype"]:
            raise InputError(f"{where}{section}: unknown datatype '{datatype}'", nearest(datatype, WORDS["datatype"]))
        _keys(values, ("tflops", "gflops_efficiency"), place)
        result[datatype] = Engine(
            peak=_number(values, "tflops", place, above=0) * 1e12,
            efficiency=_curve(values["gflops_efficiency"], 1e9, place + "gflops_efficiency"),
        )
    return result


def _memory(data: Mapping[str, Any], section: str, where: str) -> MemoryTier:
    place = f"{where}{section}."
    _keys(data[section], ("GiB", "GBps", "MB_efficiency"), place)
    return MemoryTier(
        capacity=_number(data[section], "GiB", place) * 1024**3,
        bandwidth=_number(data[section], "GBps", place, above=0) * 1e9,
        efficiency=_curve(data[section]["MB_efficiency"], 1e6, place + "MB_efficiency"),
    )


def _curve(points: Any, scale: float, where: str) -> EfficiencyCurve:
    if not isinstance(points, list) or not points:
        raise InputError(f"{where} must be a list of [threshold, efficiency] pairs")
    rows = []
    for index, point in enumerate(points):
        if not isinstance(point, list | tuple) or len(point) != 2:
            raise InputError(f"{where}[{index}] = {point!r}", "must be a pair [threshold, efficiency]")
        pair = {"threshold": point[0], "efficiency": point[1]}
        place = f"{where}[{index}]."
        rows.append((_number(pair, "threshold", place), _number(pair, "efficiency", place, above=0, most=1)))
    if rows[-1][0] != 0 or any(a <= b for (a, _), (b, _) in pairwise(rows)):
        raise InputError(f"{where}: thresholds must fall strictly and end with 0", "sizes of 0 are looked up")
    return EfficiencyCurve(tuple(size * scale for size, _ in rows), tuple(share for _, share in rows))


def _network(data: Any, where: str) -> NetworkTier:
    _keys(
        data,
        ("bandwidth", "efficiency", "size", "latency", "ops", "must_be_filled", "processor_usage"),
        where,
    )
    _keys(data["ops"], COLLECTIVES, where + "ops.")
    if not isinstance(data["must_be_filled"], bool):
        raise InputError(f"{where}must_be_filled = {data['must_be_filled']!r}", "write true or false")
    costs: dict[str, Any] = {name: _cost(data["ops"][name], f"{where}ops.{name}") for name in COLLECTIVES}
    return NetworkTier(
        bandwidth=_number(data, "bandwidth", where, above=0) * 1e9,
        efficiency=_number(data, "efficiency", where, above=0, most=1),
        size=_integer(data, "size", where),
        must_be_filled=data["must_be_filled"],
        latency=_number(data, "latency", where),
        processor_usage=_number(data, "processor_usage", where, below=1),
        **costs,
    )


def _cost(value: Any, where: str) -> CollectiveCost:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise InputError(f"{where} = {value!r}", "must be a pair [scalar, offset]")
    pair = {"scalar": value[0], "offset": 0.0 if value[1] is None else value[1]}
    return CollectiveCost(
        scalar=_number(pair, "scalar", where + "."), offset=_number(pair, "offset", where + ".", least=-1.0)
    )
