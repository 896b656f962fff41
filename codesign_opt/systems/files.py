"""System files: TOML in, TOML out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomli_w

from codesign_opt.configuration import at, read_toml, validated
from codesign_opt.errors import InputError
from codesign_opt.systems.curve import EfficiencyCurve
from codesign_opt.systems.notes import Notes, check_sources
from codesign_opt.systems.parameters import KINDS, parameter_kind, with_parameters
from codesign_opt.systems.power import Power
from codesign_opt.systems.price import Price, PriceCurve
from codesign_opt.systems.schema import (
    CollectiveFile,
    DerivedSystemFile,
    EngineFile,
    FusedAttentionFile,
    MemoryOverheadsFile,
    MemoryTierFile,
    NetworkTierFile,
    PowerFile,
    PriceFile,
    SystemFile,
    parse_price_curve,
)
from codesign_opt.systems.system import (
    CollectiveCost,
    Engine,
    FusedAttention,
    MemoryOverheads,
    MemoryTier,
    NetworkTier,
    System,
)
from codesign_opt.units import format_quantity

_COLLECTIVES = ("p2p", "reduce_scatter", "all_gather", "all_reduce")


def read_system(path: str | Path, *, resolve_base: Callable[..., System] | None = None) -> System:
    """The system that a TOML file describes; for `resolve_base` see `system_from_dict`.

    Raises:
        InputError: For a file that cannot be read, and for whatever is wrong in it.
    """
    return system_from_dict(read_toml(path), where=str(path), resolve_base=resolve_base)


def read_notes(path: str | Path, *, resolve_base: Callable[[str], Notes] | None = None) -> Notes:
    """What a TOML file says about its system; `read_system` checks that `sources` names what is there.

    Args:
        path: The file.
        resolve_base: Gives the notes of a base; without it the key `base` is not allowed.

    Raises:
        InputError: For a file that cannot be read, and for whatever is wrong in a key.
    """
    data = read_toml(path)
    if "base" in data and resolve_base is not None:
        file = validated(DerivedSystemFile, data, where=str(path))
        base = resolve_base(file.base)
        sections = [name for name in ("price", "power") if getattr(file, name) is not None]
        changes = {**dict.fromkeys([*file.set, *sections], file.source), **file.sources}
        source = "; ".join(filter(None, [file.source, f"the rest as {file.base}: {base.source}"]))
        return dataclasses.replace(
            base.changed(changes), description=file.description or base.description, source=source
        )
    full = validated(SystemFile, data, where=str(path))
    return Notes(description=full.description, source=full.source, sources=full.sources)


def system_from_dict(data: dict[str, Any], *, where: str, resolve_base: Callable[..., System] | None = None) -> System:
    """The system that the content of a file describes.

    Args:
        data: As TOML gives it.
        where: Names the file in messages.
        resolve_base: Called as `resolve_base(name, where=...)` for the key `base`; without it that key is not allowed.

    Raises:
        InputError: For whatever is wrong in `data`.
    """
    if "base" in data and resolve_base is not None:
        return derived_system(validated(DerivedSystemFile, data, where=where), where=where, resolve_base=resolve_base)
    return system_from_file(validated(SystemFile, data, where=where), where=where)


def system_from_file(file: SystemFile, *, where: str) -> System:
    """The system of a checked file.

    Raises:
        InputError: Where the engines have different datatypes, a processor draws less when busy, or a source is of
            something that is not there.
    """
    if unpaired := set(file.matrix) ^ set(file.vector):
        word = min(unpaired)
        engine, other = ("matrix", "vector") if word in file.vector else ("vector", "matrix")
        raise InputError(f"{at(where, engine, word)}: missing", f"{other} has it, and both need the same datatypes")
    system = System(
        name=file.name,
        matrix={word: _engine(engine) for word, engine in file.matrix.items()},
        vector={word: _engine(engine) for word, engine in file.vector.items()},
        memory_tier1=_memory_tier(file.memory_tier1),
        memory_tier2=_memory_tier(file.memory_tier2),
        roofline=file.processing == "roofline",
        network_tiers=tuple(_network_tier(tier) for tier in file.network_tiers),
        memory_overheads=_memory_overheads(file.memory_overheads),
        fused_attention=_fused_attention(file.fused_attention),
        launch=file.launch,
        power=_power(file.power, where=where),
    )
    system = dataclasses.replace(system, price=_price(file.price, system, where=where))
    check_sources(file.sources, system, where=at(where, "sources"))
    return system


def derived_system(file: DerivedSystemFile, *, where: str, resolve_base: Callable[..., System]) -> System:
    """The system of a checked file that starts from another one.

    Raises:
        InputError: For an unknown base, an unknown path in `set` or `sources`, or a value that it may not have.
    """
    system = resolve_base(file.base, where=at(where, "base"))
    system = dataclasses.replace(
        system,
        name=file.name or system.name,
        price=_price(file.price, system, where=where) or system.price,
        power=_power(file.power, where=where) or system.power,
    )
    place = at(where, "set")
    values = {
        path: parameter_kind(system, path, where=place).parse(value, where=f"{place}.{path}")
        for path, value in file.set.items()
    }
    system = with_parameters(system, values, where=place)
    check_sources(file.sources, system, where=at(where, "sources"))
    return system


def system_to_toml(system: System, notes: Notes | None = None) -> str:
    """A file that `read_system` reads back to an equal system, and `read_notes` to equal notes."""
    data: dict[str, Any] = {
        "name": system.name,
        **({} if notes is None else _notes_table(notes)),
        "processing": "roofline" if system.roofline else "no_overlap",
        "matrix": {word: _engine_table(engine) for word, engine in system.matrix.items()},
        "vector": {word: _engine_table(engine) for word, engine in system.vector.items()},
        "memory_tier1": _memory_table(system.memory_tier1),
        "memory_tier2": _memory_table(system.memory_tier2),
        "network_tiers": [_network_table(tier) for tier in system.network_tiers],
    }
    if system.fused_attention is not None:
        data["fused_attention"] = _numbers(system.fused_attention)
    if system.launch:
        data["launch"] = format_quantity(system.launch, "s", 17)
    if system.memory_overheads.any:
        data["memory_overheads"] = _numbers(system.memory_overheads)
    if system.price is not None:
        data["price"] = _price_table(system.price)
    if system.power is not None:
        data["power"] = _numbers(system.power)
    return tomli_w.dumps(data)


def _engine(file: EngineFile) -> Engine:
    return Engine(peak=file.peak, efficiency=file.efficiency)


def _memory_tier(file: MemoryTierFile) -> MemoryTier:
    return MemoryTier(capacity=file.capacity, bandwidth=file.bandwidth, efficiency=file.efficiency)


def _memory_overheads(file: MemoryOverheadsFile) -> MemoryOverheads:
    return MemoryOverheads(**{name: getattr(file, name) for name in MemoryOverheadsFile.model_fields})


def _fused_attention(file: FusedAttentionFile | None) -> FusedAttention | None:
    if file is None:
        return None
    return FusedAttention(**{name: getattr(file, name) for name in FusedAttentionFile.model_fields})


def _network_tier(file: NetworkTierFile) -> NetworkTier:
    numbers: dict[str, Any] = {
        name: getattr(file, name) for name in NetworkTierFile.model_fields if name != "collectives"
    }
    costs: dict[str, Any] = {name: _collective(getattr(file.collectives, name)) for name in _COLLECTIVES}
    return NetworkTier(**numbers, **costs)


def _collective(file: CollectiveFile) -> CollectiveCost:
    return CollectiveCost(scalar=file.scalar, offset=file.offset)


def _price(file: PriceFile | None, system: System, *, where: str) -> Price | None:
    if file is None:
        return None
    values: dict[str, Any] = {name: getattr(file, name) for name in PriceFile.model_fields}
    place = at(where, "price", "parameters")
    values["parameters"] = {
        path: parse_price_curve(points, where=f"{place}.{path}", kind=parameter_kind(system, path, where=place))
        for path, points in file.parameters.items()
    }
    return Price(**values)


def _power(file: PowerFile | None, *, where: str) -> Power | None:
    if file is None:
        return None
    if file.busy < file.idle:
        place = at(where, "power", "busy")
        raise InputError(f"{place}: {format_quantity(file.busy, 'W')} is below idle", "are they swapped?")
    return Power(busy=file.busy, idle=file.idle)


def _notes_table(notes: Notes) -> dict[str, Any]:
    table = {"description": notes.description, "source": notes.source, "sources": dict(notes.sources)}
    return {key: words for key, words in table.items() if words}


def _numbers(node: Any) -> dict[str, Any]:
    """The numbers of one dataclass as a file has them."""
    table = {}
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if field.name in KINDS and isinstance(value, int | float):
            unit = KINDS[field.name].unit
            table[field.name] = value if unit == "1" else format_quantity(value, unit, 17)
    return table


def _engine_table(engine: Engine) -> dict[str, Any]:
    return {**_numbers(engine), "efficiency": _curve_list(engine.efficiency, "flop")}


def _memory_table(tier: MemoryTier) -> dict[str, Any]:
    return {**_numbers(tier), "efficiency": _curve_list(tier.efficiency, "B")}


def _network_table(tier: NetworkTier) -> dict[str, Any]:
    collectives = {name: _numbers(getattr(tier, name)) for name in _COLLECTIVES}
    return {**_numbers(tier), "must_be_filled": tier.must_be_filled, "collectives": collectives}


def _price_table(price: Price) -> dict[str, Any]:
    curves = {name: getattr(price, name) for name in ("memory_tier1", "memory_tier2")}
    table = {name: _price_list(curve, "B") for name, curve in curves.items() if curve is not None}
    by_path = {
        path: _price_list(curve, KINDS[path.rpartition(".")[2]].unit) for path, curve in price.parameters.items()
    }
    return {**_numbers(price), **table, **({"parameters": by_path} if by_path else {})}


def _curve_list(curve: EfficiencyCurve, unit: str) -> list[list[Any]]:
    pairs = zip(curve.thresholds, curve.efficiencies, strict=True)
    return [[format_quantity(threshold, unit, 17), efficiency] for threshold, efficiency in pairs]


def _price_list(curve: PriceCurve, unit: str) -> list[list[Any]]:
    pairs = zip(curve.points, curve.prices, strict=True)
    return [
        [point if unit == "1" else format_quantity(point, unit, 17), format_quantity(price, "$", 17)]
        for point, price in pairs
    ]
