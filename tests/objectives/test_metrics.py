from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from codesign_opt.errors import InputError
from codesign_opt.objectives import METRICS, available_metrics, metric
from codesign_opt.objectives.intervals import published_intervals
from codesign_opt.strategies import Datatype, ProductPrecision
from codesign_opt.strategies.table import OPTION_CODES
from codesign_opt.systems import EfficiencyCurve, Engine, Price, PriceCurve
from codesign_opt.systems.pricing import processor_hour_price, processor_price
from codesign_opt.units import format_quantity, parse_quantity

Make = Callable[..., Any]

# Three blocks of 2·8·32 + 4·8·8 weights and 8 + 32 + 24 + 8 + 32 biases and norms, 51,200 words and 100 positions of 8.
PARAMETERS = 3 * (512 + 256 + 104) + 51_300 * 8
MODEL_FLOPS_PER_TOKEN = 6 * PARAMETERS + 12 * 3 * 8 * 100

UPPER = next(
    one.upper
    for one in published_intervals()
    if (one.generation, one.parallelism, one.calibrated) == ("any", "data", False)
)
"""Of a system whose name says no generation, and a strategy of data parallelism alone."""

PACES = {
    "step_time": 8.0 * UPPER,
    "sample_rate": 16 / 8 / UPPER,
    "token_rate": 16 * 100 / 8 / UPPER,
    "sample_rate_per_processor": 16 / 8 / 4 / UPPER,
    "token_rate_per_processor": 16 * 100 / 8 / 4 / UPPER,
}

BY_HAND = {
    "step_time": 8.0,
    "sample_rate": 16 / 8,
    "token_rate": 16 * 100 / 8,
    "sample_rate_per_processor": 16 / 8 / 4,
    "token_rate_per_processor": 16 * 100 / 8 / 4,
    **{f"{name}_pessimistic": value for name, value in PACES.items()},
    "mfu": MODEL_FLOPS_PER_TOKEN * 200 / (4 * 1e6),
    "mfu_causal": (6 * PARAMETERS + 6 * 3 * 8 * 100) * 200 / (4 * 1e6),
    "forward_time": 1.0,
    "backward_time": 2.0,
    "optimizer_time": 0.5,
    "compute_time": 3.5,
    "recompute_time": 0.25,
    "recompute_communication_time": 0.125,
    "tp_communication_time": 0.375,
    "cp_communication_time": 0.0,
    "ep_communication_time": 0.0,
    "pp_communication_time": 0.25,
    "dp_communication_time": 0.5,
    "exposed_communication_time": 1.25,
    "forward_offload_time": 0.75,
    "backward_offload_time": 1.25,
    "bubble_time": 1.0,
    "bubble_share": 0.125,
    "memory_tier1_used": 64.0,
    "memory_tier1_share": 0.8,
    "memory_tier1_free": 16.0,
    "memory_tier2_used": 125.0,
    "memory_tier2_share": 0.25,
    "memory_tier2_free": 375.0,
    "weight_memory": 10.0,
    "activation_memory": 20.0,
    "weight_gradient_memory": 11.0,
    "activation_gradient_memory": 3.0,
    "overhead_memory": 0.0,
    "optimizer_memory": 20.0,
    "memory_tier1_capacity": 80.0,
    "memory_tier2_capacity": 500.0,
    "processors": 4.0,
    "processor_price": 29_000.0,
    "system_price": 116_000.0,
    # 116,000 $ over 35,064 h is 3.30823 $/h; a million tokens at 200 tokens/s take 5,000 s.
    "cost_per_million_tokens": 116_000 / 35_064 * 5_000 / 3_600,
    "price_performance": 2 / 116_000,
    # 3.75 s of computing, recompute included, and 4.25 s of waiting.
    "energy_per_step": 4 * (700 * 3.75 + 100 * 4.25),
    "energy_per_token": 4 * (700 * 3.75 + 100 * 4.25) / 1600,
    "power_average": 4 * (700 * 3.75 + 100 * 4.25) / 8,
}


def test_every_metric_has_a_value_worked_out_by_hand() -> None:
    assert list(BY_HAND) == list(METRICS)


@pytest.mark.parametrize(("name", "expected"), BY_HAND.items())
def test_value(make_estimate: Make, name: str, expected: float) -> None:
    values = METRICS[name].evaluate(make_estimate())
    assert values.dtype == np.float64
    assert values.shape == ()
    assert float(values) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("entry", METRICS.values(), ids=list(METRICS))
def test_units_are_known_and_descriptions_are_one_line(entry: Any) -> None:
    assert parse_quantity(format_quantity(1.5, entry.unit, 17), entry.unit, where=entry.name) == 1.5
    assert entry.description
    assert "\n" not in entry.description


@pytest.mark.parametrize("entry", METRICS.values(), ids=list(METRICS))
def test_values_broadcast_like_the_columns(make_estimate: Make, entry: Any) -> None:
    processors = np.array([[1], [2], [4], [8]])
    total = np.array([8.0, 9.0, 10.0])
    grid = make_estimate(processors=processors, times={"total": total})
    values = np.broadcast_to(entry.evaluate(grid), (4, 3))
    for row, column in np.ndindex(4, 3):
        one = make_estimate(processors=processors[row, 0], times={"total": total[column]})
        assert values[row, column] == pytest.approx(float(entry.evaluate(one)), rel=1e-14)


def test_rate_metrics_have_the_shape_of_the_grid(make_estimate: Make) -> None:
    grid = make_estimate(processors=np.ones((4, 1), int), times={"total": np.ones((1, 3))})
    for name in ("token_rate_per_processor", "mfu", "energy_per_step", "cost_per_million_tokens"):
        assert METRICS[name].evaluate(grid).shape == (4, 3)


def test_mfu_is_measured_against_the_peak_of_each_datatype(make_estimate: Make) -> None:
    codes = np.array([OPTION_CODES[word] for word in (Datatype.FLOAT16, Datatype.FLOAT32)], dtype=np.int8)
    half, single = METRICS["mfu"].evaluate(make_estimate(datatype=codes))
    assert single == pytest.approx(4 * half)


def test_mfu_of_a_forward_pass_counts_a_third_of_the_training_flop(make_estimate: Make) -> None:
    training, inference = METRICS["mfu"].evaluate(make_estimate(training=np.array([True, False])))
    forward = 2 * PARAMETERS + 4 * 3 * 8 * 100
    assert inference == pytest.approx(forward * 200 / 4e6, rel=1e-12)
    assert training == pytest.approx(3 * inference, rel=1e-12)


def test_case_g3_model_flops_utilization_of_a_published_run() -> None:
    flop = 6 * 6_658_859_008 + 12 * 32 * 4096 * 2048
    assert flop / 1e9 == pytest.approx(43.17, abs=0.005)
    assert flop * 10_643 / 1e12 == pytest.approx(459.5, abs=0.05)
    engine = Engine(peak=989.4e12, efficiency=EfficiencyCurve((0.0,), (1.0,)))
    run: Any = SimpleNamespace(
        workload=SimpleNamespace(model_flops_per_token=flop, sequence_length=2048),
        system=SimpleNamespace(matrix={"bfloat16": engine}),
        strategies={
            "processors": np.array(8),
            "batch": np.array(8 * 10_643),
            "datatype": np.array(OPTION_CODES[Datatype.BFLOAT16]),
            "training": np.array(True),
            "product_precision": np.array(OPTION_CODES[ProductPrecision.SAME]),
        },
        times=SimpleNamespace(total=np.array(2048.0)),
    )
    assert float(METRICS["token_rate_per_processor"].evaluate(run)) == pytest.approx(10_643)
    assert float(METRICS["mfu"].evaluate(run)) == pytest.approx(0.4644, abs=5e-5)


@pytest.mark.parametrize("processors", [8, 64, 4096])
def test_case_l3_cost_of_a_million_tokens_does_not_depend_on_the_number_of_processors(
    make_estimate: Make, make_system: Make, processors: int
) -> None:
    machine = make_system(price=Price(processor=30_000.0, hourly=2.5))
    # 1,000 tokens/s for each processor: ten sequences of 100 tokens in a second.
    run = make_estimate(machine=machine, processors=processors, batch=10 * processors, times={"total": np.array(1.0)})
    assert float(METRICS["token_rate_per_processor"].evaluate(run)) == pytest.approx(1000)
    assert float(METRICS["cost_per_million_tokens"].evaluate(run)) == pytest.approx(0.694, abs=5e-4)


def test_hourly_price_is_the_purchase_price_over_four_years_unless_given(make_system: Make) -> None:
    def hourly(**price: Any) -> float:
        return float(processor_hour_price(make_system(price=Price(**price))))

    assert hourly(processor=35_064.0) == pytest.approx(1.0, rel=1e-12)
    assert hourly(processor=35_064.0, amortisation_hours=17_532.0) == pytest.approx(2.0)
    assert hourly(processor=35_064.0, hourly=2.5) == 2.5
    memory = PriceCurve((0.0, 100.0), (0.0, 10_000.0))
    assert hourly(processor=21_000.0, memory_tier1=memory) == pytest.approx(29_000 / 35_064)


def test_any_parameter_may_have_a_price(make_system: Make) -> None:
    bandwidth = PriceCurve((500.0, 1500.0), (1_000.0, 3_000.0))
    machine = make_system(price=Price(processor=20_000.0, parameters={"memory_tier1.bandwidth": bandwidth}))
    assert float(processor_price(machine)) == pytest.approx(22_000.0)


def test_a_price_curve_goes_on_with_its_last_slope_and_takes_arrays() -> None:
    curve = PriceCurve((0.0, 10.0, 20.0), (0.0, 100.0, 300.0))
    assert curve.at(np.array([-1.0, 5.0, 15.0, 25.0])).tolist() == [0.0, 50.0, 200.0, 400.0]


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        *((name, "price") for name in METRICS if METRICS[name].needs == "price"),
        *((name, "power") for name in METRICS if METRICS[name].needs == "power"),
        ("memory_tier2_share", "memory_tier2"),
    ],
)
def test_a_metric_that_the_system_cannot_give_says_what_to_add(
    make_estimate: Make, make_system: Make, name: str, needs: str
) -> None:
    bare = make_system(price=None, power=None, tier2_capacity=0.0)
    with pytest.raises(InputError) as caught:
        METRICS[name].evaluate(make_estimate(machine=bare))
    assert caught.value.message == f"metric '{name}' needs '{needs}', which system 'desk' does not have"
    assert caught.value.hint.startswith(f"add '{needs}' to the system")


def test_available_metrics_can_all_be_evaluated(make_estimate: Make, make_system: Make) -> None:
    assert [entry.name for entry in available_metrics(make_system())] == list(METRICS)
    bare = make_system(price=None, power=None, tier2_capacity=0.0)
    names = [entry.name for entry in available_metrics(bare)]
    assert set(METRICS) - set(names) == {
        "memory_tier2_share",
        "processor_price",
        "system_price",
        "cost_per_million_tokens",
        "price_performance",
        "energy_per_step",
        "energy_per_token",
        "power_average",
    }
    for entry in available_metrics(bare):
        assert np.isfinite(entry.evaluate(make_estimate(machine=bare)))


def test_scope_system_is_what_does_not_depend_on_the_strategy() -> None:
    assert {name for name, entry in METRICS.items() if entry.scope == "system"} == {
        "memory_tier1_capacity",
        "memory_tier2_capacity",
        "processors",
        "processor_price",
        "system_price",
    }


def test_lookup() -> None:
    assert metric("mfu", where="my.toml: objectives") is METRICS["mfu"]
    assert metric("price", where="my.toml: objectives") is METRICS["system_price"]
    with pytest.raises(InputError) as caught:
        metric("steptime", where="my.toml: objectives")
    assert caught.value.message == "my.toml: objectives: unknown metric 'steptime'"
    assert "'step_time'" in caught.value.hint
