from __future__ import annotations

import dataclasses

import pytest

from codesign_opt.catalog import resolve_system
from codesign_opt.errors import InputError
from codesign_opt.systems import Power
from codesign_opt.systems.parameters import parameters, with_parameters

GIB = 1024**3


def test_parameters_have_values_and_units() -> None:
    system = dataclasses.replace(resolve_system("h100-price-study"), power=Power(busy=700.0, idle=100.0))
    known = parameters(system)
    assert known["memory_tier1.capacity"] == (80 * GIB, "B")
    assert known["memory_tier2.bandwidth"] == (100e9, "B/s")
    assert known["matrix.float8.peak"] == (2000e12, "flop/s")
    assert known["network_tiers.0.size"] == (8, "1")
    assert known["network_tiers.1.latency"] == (2e-5, "s")
    assert known["network_tiers.0.all_reduce.offset"] == (1.0, "1")
    assert known["price.processor"] == (20000.0, "$")
    assert known["power.busy"] == (700.0, "W")
    # four engines; two memory tiers of two; two network tiers of six and four collectives of two; price; power;
    # overheads; launch
    assert len(known) == 4 + 2 * 2 + 2 * (6 + 4 * 2) + 2 + 2 + 4 + 1


def test_setting_what_is_there_changes_nothing() -> None:
    system = resolve_system("a100-80g")
    assert with_parameters(system, {path: value for path, (value, _) in parameters(system).items()}) == system


def test_each_parameter_can_be_set_alone() -> None:
    system = resolve_system("a100-80g")
    before = parameters(system)
    for path, (value, _) in before.items():
        halves = ("efficiency", "processor_usage", "fragmentation")
        other = 0.5 if path.rpartition(".")[2] in halves else value * 2 + 3
        after = parameters(with_parameters(system, {path: other}))
        assert {name for name in before if before[name] != after[name]} == {path}
        assert after[path][0] == other


def test_a_size_stays_a_whole_number() -> None:
    changed = with_parameters(resolve_system("a100-80g"), {"network_tiers.0.size": 16.0})
    assert changed.network_tiers[0].size == 16
    assert isinstance(changed.network_tiers[0].size, int)


@pytest.mark.parametrize(
    ("path", "value", "parts"),
    [
        ("memory_tier1.capacty", 1.0, ["no parameter 'memory_tier1.capacty'", "'memory_tier1.capacity'"]),
        ("network_tiers.2.bandwidth", 1.0, ["no parameter", "network_tiers.1.bandwidth"]),
        ("memory_tier1.efficiency", 1.0, ["no parameter"]),
        ("price.processor", 1.0, ["'a100-80g' has no parameter 'price.processor'"]),
        ("memory_tier1", 1.0, ["no parameter"]),
        ("", 1.0, ["no parameter"]),
        ("memory_tier1.capacity", -1.0, ["memory_tier1.capacity: -1 B is not allowed", "at least 0 B"]),
        ("memory_tier1.bandwidth", 0.0, ["memory_tier1.bandwidth: 0 B/s is not allowed", "above 0 B/s"]),
        ("memory_tier1.bandwidth", float("nan"), ["nan B/s is not allowed"]),
        ("memory_tier1.bandwidth", float("inf"), ["inf B/s is not allowed"]),
        ("network_tiers.0.efficiency", 1.5, ["1.5 is not allowed", "above 0 and at most 1"]),
        ("network_tiers.0.processor_usage", 1.0, ["1 is not allowed", "at least 0 and below 1"]),
        ("network_tiers.0.size", 8.5, ["8.5 is not allowed", "a whole number"]),
    ],
)
def test_wrong_paths_and_values_are_named(path: str, value: float, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        with_parameters(resolve_system("a100-80g"), {path: value}, where="s.toml: system.set")
    for part in ("s.toml: system.set: ", *parts):
        assert part in str(caught.value)
