from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign_opt.errors import InputError
from codesign_opt.interop.calculon import read_system as read_foreign_system
from codesign_opt.strategies import Datatype
from codesign_opt.systems import (
    CollectiveCost,
    EfficiencyCurve,
    Engine,
    MemoryTier,
    NetworkTier,
    Power,
    Price,
    PriceCurve,
    System,
)
from codesign_opt.systems.files import read_system, system_from_dict, system_to_toml
from codesign_opt.systems.schema import DatatypeWord

DATA = Path(__file__).parents[1] / "data" / "calculon" / "systems"

GOOD = """
name = "small"
processing = "roofline"

[matrix.float16]
peak = "312 Tflop/s"
efficiency = [["128 Gflop", 0.95], ["1 Gflop", 0.6], ["0 flop", 0.1]]

[vector.float16]
peak = "78 Tflop/s"
efficiency = [["0 flop", 0.5]]

[memory_tier1]
capacity = "80 GiB"
bandwidth = "2048 GB/s"
efficiency = [["100 MB", 0.9], ["0 B", 0.3]]

[memory_tier2]
capacity = "0 B"
bandwidth = "32 GB/s"
efficiency = [["0 B", 0.9]]

[[network_tiers]]
bandwidth = "300 GB/s"
efficiency = 0.65
size = 8
must_be_filled = true
latency = "10 us"
processor_usage = 0.15
[network_tiers.collectives]
p2p = { scalar = 1.0 }
reduce_scatter = { scalar = 1.5, offset = -1.0 }
all_gather = { scalar = 1.5, offset = -1.0 }
all_reduce = { scalar = 2.0, offset = -1.0 }

[price]
processor = "20 k$"
memory_tier1 = [["20 GiB", "2250 $"], ["40 GiB", "5000 $"]]
hourly = "2.5 $/h"
amortisation_hours = "4 years"

[power]
busy = "700 W"
idle = "0.1 kW"
"""


def test_every_key_arrives_in_si_units() -> None:
    system = system_from_dict(tomllib.loads(GOOD), where="s.toml")
    assert system == System(
        name="small",
        matrix={"float16": Engine(peak=312e12, efficiency=EfficiencyCurve((128e9, 1e9, 0.0), (0.95, 0.6, 0.1)))},
        vector={"float16": Engine(peak=78e12, efficiency=EfficiencyCurve((0.0,), (0.5,)))},
        memory_tier1=MemoryTier(
            capacity=80 * 1024**3, bandwidth=2048e9, efficiency=EfficiencyCurve((100e6, 0.0), (0.9, 0.3))
        ),
        memory_tier2=MemoryTier(capacity=0.0, bandwidth=32e9, efficiency=EfficiencyCurve((0.0,), (0.9,))),
        roofline=True,
        network_tiers=(
            NetworkTier(
                bandwidth=300e9,
                efficiency=0.65,
                size=8,
                must_be_filled=True,
                latency=1e-5,
                processor_usage=0.15,
                p2p=CollectiveCost(scalar=1.0, offset=0.0),
                reduce_scatter=CollectiveCost(scalar=1.5, offset=-1.0),
                all_gather=CollectiveCost(scalar=1.5, offset=-1.0),
                all_reduce=CollectiveCost(scalar=2.0, offset=-1.0),
            ),
        ),
        price=Price(
            processor=20000.0,
            memory_tier1=PriceCurve((20 * 1024**3, 40 * 1024**3), (2250.0, 5000.0)),
            hourly=2.5,
            amortisation_hours=35064.0,
        ),
        power=Power(busy=700.0, idle=100.0),
    )
    assert isinstance(system.network_tiers[0].size, int)


def test_price_power_and_filling_may_be_left_out() -> None:
    text = GOOD[: GOOD.index("[price]")].replace("must_be_filled = true\n", "")
    system = system_from_dict(tomllib.loads(text), where="s.toml")
    assert system.price is None
    assert system.power is None
    assert system.network_tiers[0].must_be_filled is False


def test_datatypes_of_files_are_those_of_strategies() -> None:
    assert list(get_args(DatatypeWord)) == [word.value for word in Datatype]


positive = st.floats(1e-6, 1e24)
not_negative = st.just(0.0) | positive
share = st.floats(0.001, 1.0)


def efficiency_curves() -> st.SearchStrategy[EfficiencyCurve]:
    thresholds = st.lists(positive, max_size=4, unique=True)
    return thresholds.flatmap(
        lambda above: st.builds(
            EfficiencyCurve,
            st.just((*sorted(above, reverse=True), 0.0)),
            st.tuples(*[share] * (len(above) + 1)),
        )
    )


def price_curves() -> st.SearchStrategy[PriceCurve]:
    capacities = st.lists(not_negative, min_size=1, max_size=4, unique=True)
    return capacities.flatmap(
        lambda values: st.builds(PriceCurve, st.just(tuple(sorted(values))), st.tuples(*[not_negative] * len(values)))
    )


engines = st.builds(Engine, peak=positive, efficiency=efficiency_curves())
memory_tiers = st.builds(MemoryTier, capacity=not_negative, bandwidth=positive, efficiency=efficiency_curves())
costs = st.builds(CollectiveCost, scalar=not_negative, offset=st.floats(-1.0, 10.0))
network_tiers = st.builds(
    NetworkTier,
    bandwidth=positive,
    efficiency=share,
    size=st.integers(1, 10**9),
    must_be_filled=st.booleans(),
    latency=not_negative,
    processor_usage=st.floats(0.0, 0.999),
    p2p=costs,
    reduce_scatter=costs,
    all_gather=costs,
    all_reduce=costs,
)
prices = st.builds(
    Price,
    processor=not_negative,
    memory_tier1=st.none() | price_curves(),
    memory_tier2=st.none() | price_curves(),
    hourly=st.none() | not_negative,
    amortisation_hours=positive,
)
powers = st.tuples(not_negative, not_negative).map(lambda pair: Power(busy=max(pair), idle=min(pair)))


@st.composite
def systems(draw: Callable[[st.SearchStrategy[Any]], Any]) -> System:
    words = draw(st.lists(st.sampled_from([word.value for word in Datatype]), min_size=1, unique=True))
    return System(
        name=draw(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=100)),
        matrix={word: draw(engines) for word in words},
        vector={word: draw(engines) for word in words},
        memory_tier1=draw(memory_tiers),
        memory_tier2=draw(memory_tiers),
        roofline=draw(st.booleans()),
        network_tiers=tuple(draw(st.lists(network_tiers, min_size=1, max_size=3))),
        price=draw(st.none() | prices),
        power=draw(st.none() | powers),
    )


@settings(max_examples=50, deadline=None)
@given(systems())
def test_a_written_system_reads_back_equal(system: System) -> None:
    assert system_from_dict(tomllib.loads(system_to_toml(system)), where="x.toml") == system


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.stem)
def test_systems_of_the_reference_tool_survive_our_format(path: Path, tmp_path: Path) -> None:
    system = read_foreign_system(path)
    (tmp_path / "s.toml").write_text(system_to_toml(system))
    assert read_system(tmp_path / "s.toml") == system


def test_a_derived_system_changes_only_what_it_says() -> None:
    base = system_from_dict(tomllib.loads(GOOD), where="base.toml")
    asked = []

    def resolve(name: str, *, where: str) -> System:
        asked.append((name, where))
        return base

    text = """
    base = "other"
    name = "changed"
    set.memory_tier1.capacity = "96 GiB"
    set."network_tiers.0.size" = 16
    power = { busy = "500 W", idle = "50 W" }
    """
    system = system_from_dict(tomllib.loads(text), where="s.toml", resolve_base=resolve)
    assert asked == [("other", "s.toml: base")]
    assert system.name == "changed"
    assert system.memory_tier1.capacity == 96 * 1024**3
    assert system.network_tiers[0].size == 16
    assert system.power == Power(busy=500.0, idle=50.0)
    restored = dataclasses.replace(
        system,
        name=base.name,
        memory_tier1=base.memory_tier1,
        power=base.power,
        network_tiers=(dataclasses.replace(system.network_tiers[0], size=8),),
    )
    assert restored == base


BROKEN = [
    ("[matrix.float16]", "[matrix.float61]", ["matrix.float61: 'float61' is not allowed", "did you mean 'float16'"]),
    ("[matrix.float16]", "[matrix.bfloat16]", ["vector.bfloat16: missing", "matrix has it"]),
    ("[vector.float16]", "[vectors.float16]", ["vectors: unknown key", "did you mean 'vector'"]),
    ('peak = "78 Tflop/s"', 'peak = "78"', ["vector.float16.peak: '78' has no unit", "78 Tflop/s"]),
    ('peak = "78 Tflop/s"', "peak = 78", ["vector.float16.peak: 78 has no unit"]),
    ('peak = "78 Tflop/s"', 'peak = "0 flop/s"', ["vector.float16.peak: 0 flop/s is not allowed", "above 0 flop/s"]),
    ('peak = "78 Tflop/s"', 'peak = "78 TB/s"', ["vector.float16.peak: '78 TB/s' is not a quantity in 'flop/s'"]),
    ('peak = "78 Tflop/s"', 'peek = "78 Tflop/s"', ["vector.float16.peek: unknown key", "did you mean 'peak'"]),
    ('"80 GiB"', '"80 gib"', ["memory_tier1.capacity: unknown unit 'gib'", "80 GiB"]),
    ('"80 GiB"', '"-80 GiB"', ["memory_tier1.capacity: -80 GiB is not allowed", "at least 0 B"]),
    ('"80 GiB"', '"nan GiB"', ["memory_tier1.capacity: 'nan GiB' is not a finite number"]),
    ('"80 GiB"', '"80 GX"', ["memory_tier1.capacity: unknown unit 'GX'"]),
    ('"80 GiB"', "inf", ["memory_tier1.capacity: inf is not a finite number"]),
    ('"80 GiB"', "[80]", ["memory_tier1.capacity: [80] is not a number"]),
    ('"2048 GB/s"', '"2048 GB"', ["memory_tier1.bandwidth: '2048 GB' is not a quantity in 'B/s'", "450 GB/s"]),
    ('[["0 flop", 0.5]]', "[]", ["vector.float16.efficiency: [] is not a list of pairs"]),
    ('[["0 flop", 0.5]]', "0.5", ["vector.float16.efficiency: 0.5 is not a list of pairs", '[["0 flop", 0.9]]']),
    ('[["0 flop", 0.5]]', '[["0 flop"]]', ["vector.float16.efficiency.0: ['0 flop'] is not a pair"]),
    (
        '[["0 flop", 0.5]]',
        '[["1 flop", 0.5]]',
        ["vector.float16.efficiency: the last threshold is '1 flop'", "end with"],
    ),
    (
        '[["0 flop", 0.5]]',
        '[["0 flop", 0]]',
        ["vector.float16.efficiency.0.1: 0 is not allowed", "above 0 and at most 1"],
    ),
    ('[["0 flop", 0.5]]', '[["0 flop", 1.01]]', ["vector.float16.efficiency.0.1: 1.01 is not allowed"]),
    ('[["0 flop", 0.5]]', "[[0, 0.5]]", ["vector.float16.efficiency.0.0: 0 has no unit"]),
    ('["1 Gflop", 0.6]', '["128 Gflop", 0.6]', ["matrix.float16.efficiency", "thresholds must fall"]),
    ("efficiency = 0.65", "efficiency = 1.5", ["network_tiers.0.efficiency: 1.5 is not allowed", "at most 1"]),
    ("efficiency = 0.65", "efficiency = nan", ["network_tiers.0.efficiency: nan is not a finite number"]),
    ("size = 8", "size = 0", ["network_tiers.0.size: 0 is not allowed", "a whole number, at least 1"]),
    ("size = 8", "size = 8.5", ["network_tiers.0.size: 8.5 is not allowed", "a whole number"]),
    ("must_be_filled = true", "must_be_filled = 1", ["network_tiers.0.must_be_filled: 1", "true or false"]),
    ("processor_usage = 0.15", "processor_usage = 1", ["network_tiers.0.processor_usage: 1", "below 1"]),
    ('latency = "10 us"', 'latency = "10 us/s"', ["network_tiers.0.latency"]),
    ('latency = "10 us"', "", ["network_tiers.0.latency: missing", 'latency = "10 us"']),
    ("p2p = { scalar = 1.0 }", "", ["network_tiers.0.collectives.p2p: missing"]),
    ("p2p = { scalar = 1.0 }", "p2p = 1.0", ["network_tiers.0.collectives.p2p: 1.0", "a table"]),
    ("p2p = { scalar = 1.0 }", "p2p = { scalar = -1.0 }", ["network_tiers.0.collectives.p2p.scalar: -1"]),
    ("p2p = { scalar = 1.0 }", "p2p = { scalar = 1.0, offset = -2 }", ["network_tiers.0.collectives.p2p.offset: -2"]),
    ('"20 k$"', '"-1 $"', ["price.processor: -1 $ is not allowed", "at least 0 $"]),
    ('["40 GiB", "5000 $"]', '["10 GiB", "5000 $"]', ["price.memory_tier1", "the first of each pair must rise"]),
    ('idle = "0.1 kW"', 'idle = "800 W"', ["power.busy: 700 W is below idle"]),
    ('"roofline"', '"rooflin"', ["processing: 'rooflin' is not allowed", "did you mean 'roofline'"]),
    ('name = "small"', "name = 7", ["name: 7 is not allowed", "text in quotes"]),
    ('name = "small"', 'name = "small"\nbase = "other"', ["base: unknown key"]),
]


@pytest.mark.parametrize(("old", "new", "parts"), BROKEN, ids=[new or old for old, new, _ in BROKEN])
def test_whatever_is_wrong_is_named(old: str, new: str, parts: list[str], tmp_path: Path) -> None:
    assert old in GOOD
    path = tmp_path / "s.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        read_system(path)
    for part in (f"{path}: ", *parts):
        assert part in str(caught.value)


def test_a_system_needs_a_network() -> None:
    data = {**tomllib.loads(GOOD), "network_tiers": []}
    with pytest.raises(InputError, match=r"s\.toml: network_tiers: \[\] is not allowed \(at least one value\)"):
        system_from_dict(data, where="s.toml")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('set."memory_tier1.capacty" = "1 GiB"', ["s.toml: set: 'small' has no parameter", "memory_tier1.capacity"]),
        ('set."memory_tier1.capacity" = 3', ["s.toml: set.memory_tier1.capacity: 3 has no unit"]),
        ('set."network_tiers.1.size" = 8', ["s.toml: set: 'small' has no parameter 'network_tiers.1.size'"]),
        ('set."network_tiers.0.size" = 8.5', ["s.toml: set.network_tiers.0.size: 8.5 is not allowed"]),
        ("set = 3", ["s.toml: set: 3 is not allowed"]),
        ('processing = "roofline"', ["s.toml: processing: unknown key"]),
    ],
)
def test_wrong_changes_of_a_base_are_named(text: str, parts: list[str]) -> None:
    base = system_from_dict(tomllib.loads(GOOD), where="base.toml")
    with pytest.raises(InputError) as caught:
        system_from_dict(
            tomllib.loads(f'base = "small"\n{text}'), where="s.toml", resolve_base=lambda name, *, where: base
        )
    for part in parts:
        assert part in str(caught.value)
