"""Shipped calibrations and calibrated systems: of the shipped runs, by the rules, and as their programs make them."""

from __future__ import annotations

import tomllib
from importlib import resources

import pytest

from codesign_opt.catalog import resolve_system, system_notes, text
from codesign_opt.systems.notes import values
from codesign_opt.validation import MappedRun
from codesign_opt.validation.calibration.catalogue import CALIBRATED, calibrated_systems
from codesign_opt.validation.calibration.fitting import LEAST_ROWS
from codesign_opt.validation.calibration.generations import GENERATIONS, generation_of
from codesign_opt.validation.calibration.parameters import PARAMETERS
from codesign_opt.validation.calibration.procedure import calibrate
from codesign_opt.validation.calibration.rows import fitted_rows
from codesign_opt.validation.calibration.shipped import data_hash, shipped_calibration, shipped_calibrations

every_generation = pytest.mark.parametrize("generation", GENERATIONS)


@every_generation
def test_a_calibration_is_of_the_shipped_runs(generation: str) -> None:
    file = resources.files("codesign_opt.catalog").joinpath("calibrations", f"{generation}.toml")
    assert tomllib.loads(file.read_text(encoding="utf-8"))["data_sha256"] == data_hash()


@every_generation
def test_nothing_is_fitted_to_few_rows_or_to_one_family_of_several(generation: str) -> None:
    calibration = shipped_calibration(generation)
    assert list(calibration.parameters) == [parameter.name for parameter in PARAMETERS]
    for parameter in PARAMETERS:
        fitted = calibration.parameters[parameter.name]
        if fitted.held:
            assert fitted.value == fitted.prior
        else:
            assert fitted.rows >= LEAST_ROWS
            assert fitted.families > 1 or len(calibration.families) == 1
            assert 0 < fitted.error < parameter.between
        assert parameter.low <= fitted.value <= parameter.high
    assert set(calibration.without) == set(calibration.families)


def test_what_is_left_out_is_what_a_family_is_judged_by(mapped: dict[str, MappedRun]) -> None:
    run = mapped["llm_foundry_mpt-0001"]
    calibrations = shipped_calibrations()
    left_out = calibrations.without("llm_foundry_mpt").system_for(run)
    assert left_out != calibrations.system_for(run)
    assert calibrations.without("bigscience_v100").system_for(run) == calibrations.system_for(run)
    wanted = shipped_calibration("hopper").without["llm_foundry_mpt"]
    assert left_out.launch == wanted["launch"]
    assert left_out.network_tiers[-1].efficiency == wanted["network_efficiency"]
    assert left_out.network_tiers[-1].bandwidth == run.system.network_tiers[-1].bandwidth


@pytest.mark.parametrize("base", CALIBRATED)
def test_calibrated_systems_are_what_their_program_makes(base: str) -> None:
    name = f"{base}-calibrated"
    assert text("systems", name) == calibrated_systems()[name]
    system, before, notes = resolve_system(name), resolve_system(base), system_notes(name)
    assert system.name == name
    assert {word: engine.peak for word, engine in system.matrix.items()} == {
        word: engine.peak for word, engine in before.matrix.items()
    }
    assert [path for path in values(system) if notes.own_source(path) is None] == []
    for path in ("matrix.bfloat16.efficiency", "memory_tier1.efficiency", "launch", "network_tiers.0.latency"):
        if path in values(system):
            assert notes.source_of(path).startswith("calibrated: ")


@pytest.mark.slow
def test_shipped_calibrations_are_what_calibrate_makes_of_the_shipped_runs(mapped: dict[str, MappedRun]) -> None:
    made = calibrate(list(mapped.values()), held_out=False)
    used = fitted_rows(mapped.values())
    for calibration in made:
        shipped = shipped_calibration(calibration.generation)
        assert calibration.values == pytest.approx(shipped.values, rel=1e-3)
        assert {name for name, one in calibration.parameters.items() if one.held} == {
            name for name, one in shipped.parameters.items() if one.held
        }
        families = {run.run.family for run in used if generation_of(run) == calibration.generation}
        assert set(shipped.families) == families
