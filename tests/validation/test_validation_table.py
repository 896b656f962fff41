"""The tables of a validation, from predictions made up for the purpose."""

from __future__ import annotations

import math

import numpy as np
import pytest

from codesign_opt.validation import MappedRun, Predictions, Skipped, comparable_groups
from codesign_opt.validation.table import ALL, family_table, group_table, row_table, skip_table, verdict_table

Outcomes = list[MappedRun | Skipped]


@pytest.fixture(scope="module")
def in_order(mapped: dict[str, MappedRun]) -> list[MappedRun]:
    return list(mapped.values())


def scaled(runs: list[MappedRun], factor: float, *, fits: bool = True) -> Predictions:
    """Times and memory that are the measured ones times a factor."""
    seconds = np.array([math.nan if run.measured_seconds is None else run.measured_seconds for run in runs])
    memory = np.array([math.nan if run.peak_memory is None else run.peak_memory for run in runs])
    return Predictions(seconds=factor * seconds, memory=factor * memory, fits=np.full(len(runs), fits))


def test_families_in_sample_and_held_out(outcomes: Outcomes, in_order: list[MappedRun]) -> None:
    table = family_table(outcomes, scaled(in_order, 1.1), scaled(in_order, 0.5))
    rows = {row["family"]: row for row in table.to_dicts()}
    assert [*rows][-1] == ALL
    nanotron = rows["nanotron_ultrascale"]
    assert (nanotron["rows"], nanotron["used"], nanotron["timed"], nanotron["memory_rows"]) == (384, 384, 265, 265)
    for row in rows.values():
        if row["timed"]:
            assert [row["median"], row["percentile90"], row["mean"]] == pytest.approx([0.1] * 3)
            assert row["bias"] == pytest.approx(math.log(1.1))
            assert row["held_out_median"] == pytest.approx(0.5)
            assert row["held_out_bias"] == pytest.approx(math.log(0.5))
    assert nanotron["memory_median"] == pytest.approx(0.1)
    # All are predicted to fit, but 119 of 384 did not.
    assert nanotron["verdict_accuracy"] == pytest.approx(265 / 384)
    everything = rows[ALL]
    assert everything["rows"] == 1572
    assert everything["used"] == sum(row["used"] for name, row in rows.items() if name != ALL) == 1473
    assert rows["nemo_launcher_a100"]["used"] == 0
    assert math.isnan(rows["nemo_launcher_a100"]["median"])


def test_in_sample_alone(outcomes: Outcomes, in_order: list[MappedRun]) -> None:
    table = family_table(outcomes, scaled(in_order, 1.0))
    assert [name for name in table if name.startswith("held_out")] == []


def test_reasons_of_skipped_rows(outcomes: Outcomes) -> None:
    table = skip_table(outcomes)
    assert table.rows == 18
    assert table["rows"].sum() == 99
    assert table.to_dicts()[0] == {"family": "megatron_bridge", "reason": "number-format", "rows": 18}
    assert skip_table([]).rows == 0


def test_verdicts_of_families_with_failures(in_order: list[MappedRun]) -> None:
    never = verdict_table(in_order, scaled(in_order, 1.0, fits=False))
    assert never["family"].tolist() == ["nanotron_ultrascale", "megatron_sc21", "bigscience_v100", ALL]
    assert never.row(0) == {
        "family": "nanotron_ultrascale",
        "rows": 384,
        "failed_as_predicted": 119,
        "ran_as_predicted": 0,
        "ran_against_prediction": 265,
        "failed_against_prediction": 0,
        "accuracy": pytest.approx(119 / 384),
    }
    # Families without failures are not in the sum: 384 + 35 + 75.
    assert never.row(3)["rows"] == 494
    right = np.array([not run.out_of_memory for run in in_order])
    perfect = Predictions(seconds=right.astype(float), memory=right.astype(float), fits=right)
    assert verdict_table(in_order, perfect)["accuracy"].tolist() == [1.0] * 4


def test_groups_with_rank_correlation_and_regret(in_order: list[MappedRun]) -> None:
    groups = comparable_groups(in_order, minimum=15)
    right = scaled(in_order, 2.0)
    reversed_order = Predictions(seconds=1 / right.seconds, memory=right.memory, fits=right.fits)
    table = group_table(groups, in_order, right, reversed_order)
    assert table["rank_correlation"].tolist() == pytest.approx([1.0] * len(groups))
    assert table["regret"].tolist() == [0.0] * len(groups)
    assert table["held_out_rank_correlation"].tolist() == pytest.approx([-1.0] * len(groups))
    for group, row in zip(groups, table.to_dicts(), strict=True):
        times = [in_order[index].measured_seconds or 0.0 for index in group.rows]
        assert row["best"] == min(times)
        assert row["held_out_regret"] == pytest.approx(max(times) / min(times) - 1)
    assert table.units["best"] == "s"


def test_rows_begin_with_the_worst(in_order: list[MappedRun]) -> None:
    few = in_order[:3]
    measured = [run.measured_seconds or 0.0 for run in few]
    factors = np.array([1.1, 3.0, math.nan])
    predictions = Predictions(seconds=factors * measured, memory=factors, fits=np.ones(3, dtype=bool))
    suspects, shares = ["forward", "bubble", "bubble"], np.array([0.5, 0.2, 0.1])
    table = row_table(few, predictions, suspects=suspects, shares=shares)
    assert table["row_id"].tolist() == [few[1].run.row_id, few[0].run.row_id]
    assert table["error"].tolist() == pytest.approx([2.0, 0.1])
    assert table["measured"].tolist() == [measured[1], measured[0]]
    assert table["suspect"].tolist() == ["bubble", "forward"]
    assert table["share"].tolist() == [0.2, 0.5]


def test_tables_without_rows_are_empty() -> None:
    nothing = Predictions(seconds=np.empty(0), memory=np.empty(0), fits=np.empty(0, dtype=bool))
    assert family_table([], nothing)["family"].tolist() == [ALL]
    assert group_table([], [], nothing).rows == 0
    assert row_table([], nothing, suspects=[], shares=np.empty(0)).rows == 0
    assert verdict_table([], nothing)["rows"].tolist() == [0]
