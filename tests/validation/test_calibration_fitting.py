"""Fits of calibration find what made the times, leave alone what no time depends on, and evaluate as the model does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from codesign_opt.analytical.hardware import Curves
from codesign_opt.validation import MappedRun, predict
from codesign_opt.validation.calibration.fitting import LEAST_ROWS, Prior, TimedRows, fit
from codesign_opt.validation.calibration.generations import GENERATIONS, generation_of, generation_of_system
from codesign_opt.validation.calibration.machines import calibrated_system, efficiency_curve
from codesign_opt.validation.calibration.parameters import MEMORY_PARAMETERS, PARAMETERS, priors
from codesign_opt.validation.calibration.prepared import PreparedRows
from codesign_opt.validation.calibration.rows import LEAST_UTILIZATION, fitted_rows, thinned, utilization
from codesign_opt.validation.machines import SYSTEMS

FREE = [parameter for parameter in PARAMETERS if parameter.name in ("matrix_efficiency", "node_efficiency", "launch")]
SPREADS = {parameter.name: parameter.spread for parameter in PARAMETERS}


@pytest.fixture(scope="module")
def ampere(mapped: dict[str, MappedRun]) -> list[MappedRun]:
    """Thirty runs each of two families on A100."""
    families = ("llm_foundry_mpt", "vtrain_a100")
    runs = [run for run in fitted_rows(mapped.values()) if run.run.family in families]
    return thinned([run for run in runs if generation_of(run) == "ampere"], 30)


def on(values: Mapping[str, float], runs: list[MappedRun]) -> list[MappedRun]:
    """The runs with the step times that systems of some parameters have."""
    machines = [replace(run, system=calibrated_system(run.system, values)) for run in runs]
    seconds = predict(machines).seconds.tolist()
    return [replace(run, measured_seconds=time) for run, time in zip(runs, seconds, strict=True)]


def test_what_is_kept_between_evaluations_changes_no_result(mapped: dict[str, MappedRun]) -> None:
    runs = list(mapped.values())[::13]
    rows = PreparedRows(runs)
    for efficiency in (0.6, 0.8):
        values = priors() | {"matrix_efficiency": efficiency}
        systems = [calibrated_system(system, values) for system in rows.systems]
        alone = predict([replace(run, system=systems[place]) for run, place in zip(runs, rows.system, strict=True)])
        assert np.array_equal(rows.seconds(systems), alone.seconds)


def test_a_fit_finds_the_parameters_that_made_the_times(ampere: list[MappedRun]) -> None:
    true = priors() | {"matrix_efficiency": 0.62, "node_efficiency": 0.5}
    rows = TimedRows(on(true, ampere))
    assert np.abs(rows.errors(true)).max() < 1e-12
    assert np.abs(rows.errors(priors())).max() > 0.1
    found = fit(rows, FREE, Prior(values=priors(), spreads=SPREADS))
    assert found["matrix_efficiency"].held == ""
    assert found["matrix_efficiency"].value == pytest.approx(0.62, rel=0.01)
    assert found["matrix_efficiency"].prior == 0.75
    assert 0 < found["matrix_efficiency"].error < SPREADS["matrix_efficiency"] / 2


def test_outliers_hardly_move_a_fit(ampere: list[MappedRun]) -> None:
    true = priors() | {"matrix_efficiency": 0.62}
    runs = on(true, ampere)
    for place in (0, 20, 40):
        seconds = runs[place].measured_seconds
        assert seconds is not None
        runs[place] = replace(runs[place], measured_seconds=5 * seconds)
    found = fit(TimedRows(runs), FREE, Prior(values=priors(), spreads=SPREADS))
    assert found["matrix_efficiency"].value == pytest.approx(0.62, rel=0.03)


def test_what_no_time_depends_on_stays_at_its_prior(ampere: list[MappedRun]) -> None:
    eight_bits = [parameter for parameter in PARAMETERS if parameter.name.startswith("eight_bit")]
    found = fit(TimedRows(on(priors(), ampere)), eight_bits, Prior(values=priors(), spreads=SPREADS))
    for parameter in eight_bits:
        assert found[parameter.name].value == parameter.prior
        assert found[parameter.name].held == f"fewer than {LEAST_ROWS} rows depend on it"
        assert (found[parameter.name].rows, found[parameter.name].families) == (0, 0)


def test_one_family_alone_fits_nothing_where_there_are_others(ampere: list[MappedRun]) -> None:
    true = priors() | {"matrix_efficiency": 0.62}
    runs = on(true, ampere)
    prior = Prior(values=priors(), spreads=SPREADS)
    others = [run for run in runs if run.run.family == "vtrain_a100"][:1]
    lonely = [run for run in runs if run.run.family == "llm_foundry_mpt"]
    assert fit(TimedRows(lonely), FREE[:1], prior)["matrix_efficiency"].held == ""
    both = TimedRows([*lonely, *others])
    assert fit(both, FREE[:1], prior, without="llm_foundry_mpt")["matrix_efficiency"].held.startswith("fewer than")
    assert fit(both, FREE[:1], prior, without="llm_foundry_mpt", least_rows=1)["matrix_efficiency"].rows == 1


def test_a_family_that_is_left_out_has_no_say(ampere: list[MappedRun]) -> None:
    slow = on(priors() | {"matrix_efficiency": 0.4}, [run for run in ampere if run.run.family == "vtrain_a100"])
    fast = on(priors() | {"matrix_efficiency": 0.7}, [run for run in ampere if run.run.family == "llm_foundry_mpt"])
    prior = Prior(values=priors(), spreads=SPREADS)
    found = fit(TimedRows([*slow, *fast]), FREE[:1], prior, without="vtrain_a100")
    assert found["matrix_efficiency"].value == pytest.approx(0.7, rel=0.02)


def test_curves_have_the_efficiency_of_their_formula_and_never_shorten_a_larger_operation() -> None:
    steps = tuple(4.0**power for power in range(24, 9, -1))
    curve = efficiency_curve(0.8, 1e9, steps=steps)
    assert curve.thresholds == (*steps, 0.0)
    # The step from 4^16 holds at 2 * 4^16 exactly.
    assert curve.efficiencies[steps.index(4.0**16)] == pytest.approx(0.8 / (1 + 1e9 / (2 * 4.0**16)))
    columns = Curves(np.array(curve.thresholds)[:, None], np.array(curve.efficiencies)[:, None], step_shaped=False)
    sizes = np.geomspace(1e3, 1e15, 2000)[:, None]
    times = sizes / columns.at(sizes)
    assert np.all(np.diff(times[:, 0]) >= -1e-9 * times[1:, 0])
    exact = (sizes + 1e9) / 0.8
    assert np.abs(np.log(times / exact))[sizes > 1e7].max() < 0.75
    assert np.abs(np.log(times / exact))[sizes > 1e11].max() < 0.02


def test_looking_a_step_up_is_the_same_as_going_through_all() -> None:
    curve = efficiency_curve(0.8, 1e9, steps=tuple(4.0**power for power in range(24, 9, -1)))
    thresholds = np.stack([curve.thresholds, curve.thresholds], axis=1)
    efficiencies = np.stack([curve.efficiencies, np.array(curve.efficiencies) / 2], axis=1)
    sizes = np.stack([np.geomspace(1e2, 1e16, 500), np.geomspace(1e16, 1e2, 500)], axis=1)
    together = Curves(thresholds, efficiencies, step_shaped=False).at(sizes)
    # Thresholds that differ are not looked up.
    other = np.concatenate([thresholds, thresholds[:, :1] * 2], axis=1)
    slow = Curves(other, np.concatenate([efficiencies, efficiencies[:, :1]], axis=1), step_shaped=False)
    assert np.array_equal(together, slow.at(np.concatenate([sizes, sizes[:, :1]], axis=1))[:, :2])


def test_parameters_are_within_their_bounds_and_have_a_source() -> None:
    for parameter in (*PARAMETERS, *MEMORY_PARAMETERS):
        assert parameter.low < parameter.prior < parameter.high
        assert parameter.source
        assert 0 < parameter.between <= parameter.spread
        for value in (parameter.low, parameter.prior, parameter.high):
            assert parameter.off_scale(parameter.on_scale(value)) == pytest.approx(value)


def test_every_processor_is_of_one_generation() -> None:
    members = [processor for processors in GENERATIONS.values() for processor in processors]
    assert sorted(members) == sorted(SYSTEMS)
    assert generation_of_system("h100-sxm") == "hopper"
    assert generation_of_system("gb200-nvl72") == "blackwell"
    assert generation_of_system("a100-80g") is None


def test_rows_that_are_fitted_to(mapped: dict[str, MappedRun]) -> None:
    chosen = fitted_rows(mapped.values())
    assert 900 < len(chosen) < 1100
    assert {run.run.tier for run in chosen} == {"A", "B"}
    assert all(utilization(run) >= LEAST_UTILIZATION for run in chosen)
    # Megatron-LM's own figure for 175B: 141 of 312 Tflop/s, with full recompute and without it in the model's flop.
    assert utilization(mapped["korthikanti_2205_05198-0004"]) == pytest.approx(0.514, abs=0.02)
    few = thinned(chosen, 10)
    assert few == thinned(chosen, 10)
    assert max(sum(run.run.family == family for run in few) for family in {run.run.family for run in few}) == 10
    assert thinned(chosen, 10_000) == chosen
