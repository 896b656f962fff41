"""Points, and the machines that they stand for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign_opt.studies.points import (
    Dimension,
    all_points,
    hardware_dimensions,
    machine,
    number_of_points,
    point_key,
)
from codesign_opt.studies.runner import search_method
from codesign_opt.studies.specification import StudySpecification

Tiny = Callable[..., StudySpecification]
GIB = 1024**3
MEMORY, NETWORK = "memory_tier1.bandwidth", "network_tiers.0.bandwidth"


def free(**parameters: Any) -> dict[str, Any]:
    return {"base": "h100-price-study", "free": {name.replace("__", "."): value for name, value in parameters.items()}}


@given(low=st.floats(1e-9, 1e12), factor=st.floats(1.001, 1e9), share=st.floats(0, 1))
def test_a_share_lies_inside_its_range(low: float, factor: float, share: float) -> None:
    for logarithmic in (False, True):
        dimension = Dimension(name="x", low=low, high=low * factor, logarithmic=logarithmic)
        assert low <= dimension.at(share) <= low * factor
        assert dimension.at(0.0) == low


def test_the_middle_of_a_range_and_of_choices() -> None:
    assert Dimension(name="x", low=2.0, high=8.0).at(0.5) == 5.0
    assert Dimension(name="x", low=2.0, high=8.0, logarithmic=True).at(0.5) == pytest.approx(4.0)
    sizes = Dimension(name="x", choices=(8, 16, 64))
    assert [sizes.at(share) for share in (0.0, 0.33, 0.34, 0.66, 0.67, 1.0)] == [8, 8, 16, 16, 64, 64]


def test_free_parameters_come_first_and_several_processor_counts_last(tiny: Tiny) -> None:
    dimensions = hardware_dimensions(tiny(processors=[8, 4]))
    assert [dimension.name for dimension in dimensions] == [MEMORY, NETWORK, "processors"]
    assert (dimensions[0].low, dimensions[0].high, dimensions[0].logarithmic) == (1e11, 3e12, True)
    assert (dimensions[1].low, dimensions[1].high, dimensions[1].logarithmic) == (1e10, 9e11, False)
    assert dimensions[2].choices == (4, 8)
    assert [dimension.name for dimension in hardware_dimensions(tiny())] == [MEMORY, NETWORK]


def test_choices_rise_and_keep_their_kind_of_number(tiny: Tiny) -> None:
    choices = {"network_tiers__0__size": [64, 8], "memory_tier1__bandwidth": ["2 TB/s", "1 TB/s"]}
    system = free(**{name: {"choices": values} for name, values in choices.items()})
    size, bandwidth = hardware_dimensions(tiny(system=system))
    assert (size.choices, {type(choice) for choice in size.choices}) == ((8, 64), {int})
    assert (bandwidth.choices, {type(choice) for choice in bandwidth.choices}) == ((1e12, 2e12), {float})


def test_the_machine_of_a_point(tiny: Tiny) -> None:
    study = tiny(processors=[8, 4])
    system, processors = machine(study, {MEMORY: 2e12, NETWORK: 3e11, "processors": 4})
    assert (system.memory_tier1.bandwidth, system.network_tiers[0].bandwidth, processors) == (2e12, 3e11, 4)
    assert system.memory_tier1.capacity == study.system.memory_tier1.capacity
    assert machine(tiny(system="h100-price-study"), {}) == (study.system, 8)


def test_a_budget_buys_whole_multiples(tiny: Tiny) -> None:
    study = tiny(system=free(memory_tier1__capacity={"low": "20 GiB", "high": "80 GiB"}), processors={"budget": "1 M$"})
    # 20,000 $ a processor, 10,000 $ for 80 GiB of HBM, 10,000 $ for its 512 GiB of DDR.
    _, processors = machine(study, {"memory_tier1.capacity": 80 * GIB})
    assert processors == 1_000_000 // 40_000
    _, processors = machine(study, {"memory_tier1.capacity": 20 * GIB})
    assert processors == 1_000_000 // 32_250


def test_a_budget_may_be_left_unspent_step_by_step(tiny: Tiny) -> None:
    budget = {"budget": "1 M$", "multiple": 4, "counts": 3}
    study = tiny(system="h100-price-study", processors=budget)
    (steps,) = hardware_dimensions(study)
    assert steps.choices == (0, 1, 2)
    # 40,000 $ each: 25 of them, in fours.
    assert [machine(study, {steps.name: step})[1] for step in steps.choices] == [24, 20, 16]


@pytest.mark.parametrize(
    ("changes", "points", "method"),
    [
        ({"system": "h100-price-study"}, 1, "exact"),
        ({"system": "h100-price-study", "processors": [4, 8]}, 2, "exact"),
        ({"system": free(memory_tier1__bandwidth={"choices": ["1 TB/s", "2 TB/s"]}), "processors": [4, 8]}, 4, "exact"),
        ({"system": "h100-price-study", "processors": {"low": 1, "high": 1000, "step": 1}}, 1000, "exact"),
        ({"system": "h100-price-study", "processors": {"low": 1, "high": 1001, "step": 1}}, 1001, "bilevel"),
        ({}, math.inf, "bilevel"),
        ({"method": "flat"}, math.inf, "flat"),
    ],
)
def test_few_machines_are_enumerated(tiny: Tiny, changes: dict[str, Any], points: float, method: str) -> None:
    study = tiny(**changes)
    assert number_of_points(hardware_dimensions(study)) == points
    assert search_method(study) == method


def test_all_points_are_the_product() -> None:
    dimensions = (Dimension(name="a", choices=(1, 2)), Dimension(name="b", choices=("x", "y", "z")))
    assert [tuple(point.values()) for point in all_points(dimensions)] == [
        (1, "x"), (1, "y"), (1, "z"), (2, "x"), (2, "y"), (2, "z"),
    ]  # fmt: skip
    assert list(all_points(())) == [{}]


@given(st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False) | st.integers()))
def test_equal_points_have_equal_keys(point: dict[str, float]) -> None:
    turned = dict(reversed(point.items()))
    assert point_key(point) == point_key(turned)
    assert json.loads(point_key(point)) == point


def test_different_points_have_different_keys() -> None:
    assert point_key({"a": 0.1}) != point_key({"a": 0.1 + 2**-55})
