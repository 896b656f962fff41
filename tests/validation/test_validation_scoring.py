"""A validation as a whole: which rows are used, and what its tables hold."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from codesign_opt.errors import InputError
from codesign_opt.validation import MappedRun, MeasuredRun, Skipped, predict
from codesign_opt.validation.scoring import measured_utilization, validate
from codesign_opt.validation.table import ALL

Runs = dict[str, MeasuredRun]


def test_rows_are_chosen_by_family_and_tier(runs: Runs) -> None:
    chosen = validate(list(runs.values()), families=["internevo_a100", "megatron_sc21"])
    assert {one.run.tier for one in chosen.outcomes} == {"A"}
    assert len(chosen.outcomes) == 54 + 13
    every = validate(list(runs.values()), families=["megatron_sc21"], tiers=("A", "B", "C"))
    assert len(every.outcomes) == 35
    untold = dataclasses.replace(runs["internevo_a100-0001"], tier=None)
    assert len(validate([untold], tiers=("C",)).outcomes) == 1


def test_every_row_is_used_or_counted_with_its_reason(runs: Runs) -> None:
    validation = validate(list(runs.values()), tiers=("A", "B", "C"))
    everything = validation.families().to_dicts()[-1]
    assert everything["family"] == ALL
    assert everything["rows"] == 1572
    assert everything["used"] + validation.skipped()["rows"].sum() == 1572
    tier_a = [one for one in validation.outcomes if one.run.tier == "A"]
    used = sum(isinstance(one, MappedRun) for one in tier_a)
    assert used / len(tier_a) > 0.85


def test_slow_runs_are_judged_by_their_memory(runs: Runs) -> None:
    family = [run for run in runs.values() if run.family == "nanotron_ultrascale"]
    whole, fast = validate(family), validate(family, mfu_above=0.2)
    assert whole.slow == 0
    utilization = np.array([measured_utilization(run) for run in whole.mapped])
    assert fast.slow == int(np.sum(utilization <= 0.2))
    assert fast.families().row(0)["timed"] == int(np.sum(utilization > 0.2))
    assert fast.families().row(0)["memory_rows"] == whole.families().row(0)["memory_rows"] == 265
    assert fast.verdicts().row(0) == whole.verdicts().row(0)


def test_measured_utilization_is_that_of_the_source(mapped: dict[str, MappedRun]) -> None:
    # 6 · 6.66 G parameters and full attention are 43.17 GFLOP a token: 459.5 of 989.4 TFLOP/s at 10,643 tokens/s.
    run = mapped["llm_foundry_mpt-0039"]
    assert measured_utilization(run) == pytest.approx(0.4644, abs=1e-3)
    assert np.isnan(measured_utilization(dataclasses.replace(run, measured_seconds=None)))


def test_without_calibrations_the_catalogue_predicts(runs: Runs) -> None:
    family = [run for run in runs.values() if run.family == "korthikanti_2205_05198"]
    validation = validate(family)
    assert validation.held_out is None
    assert validation.judged is validation.in_sample
    assert validation.in_sample.seconds.tolist() == predict(validation.mapped).seconds.tolist()
    rows = validation.rows()
    assert rows.rows == 8
    assert np.all(np.diff(rows["error"]) <= 0)
    assert set(rows["suspect"].tolist()) <= set(validation.in_sample.parts)


def test_groups_of_comparable_runs(runs: Runs) -> None:
    family = [run for run in runs.values() if run.family == "nanotron_ultrascale"]
    groups = validate(family).groups()
    assert groups["rows"].min() >= 15
    assert set(groups) == {"group", "rows", "best", "rank_correlation", "regret"}


@pytest.mark.parametrize(
    ("choice", "message", "hint"),
    [
        ({"families": ["nanotron"]}, "no row of the family 'nanotron'", "nanotron_ultrascale"),
        ({"tiers": ["D"]}, "unknown tier 'D'", "A, B, C"),
        ({"families": ["vtrain_a100"]}, "no rows are left", "tier B"),
    ],
)
def test_selections_that_cannot_be(runs: Runs, choice: dict[str, list[str]], message: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        validate(list(runs.values()), **choice)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_row_that_cannot_be_mapped_is_told(runs: Runs) -> None:
    validation = validate([dataclasses.replace(runs["internevo_a100-0001"], layers=None), runs["internevo_a100-0002"]])
    assert isinstance(validation.outcomes[0], Skipped)
    assert validation.skipped().to_dicts() == [{"family": "internevo_a100", "reason": "no-shape", "rows": 1}]
