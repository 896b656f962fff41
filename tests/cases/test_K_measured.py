"""Cases from practice that concern measured time and the ranking of comparable runs.

Predictions are those of calibrations that have not seen the run's family, with the tolerance that each case names. A
case that the model does not reach is expected to fail, with what it says instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codesign_opt.validation import MappedRun, shipped_runs
from codesign_opt.validation.calibration.shipped import shipped_calibrations
from codesign_opt.validation.scoring import validate
from codesign_opt.validation.statistics import rank_correlation, regret

Found = dict[str, tuple[MappedRun, float]]


@pytest.fixture(scope="module")
def found() -> Found:
    """Every timed run by name, and its predicted seconds."""
    families = ("korthikanti_2205_05198", "nanotron_ultrascale", "llm_foundry_mpt", "primus_amd")
    calibrations = shipped_calibrations()
    validation = validate(shipped_runs(), families=families, tiers=("A", "B", "C"), calibrations=calibrations)
    seconds = validation.judged.seconds.tolist()
    pairs = zip(validation.mapped, seconds, strict=True)
    return {run.run.row_id: (run, second) for run, second in pairs if run.measured_seconds is not None}


def measured(run: MappedRun) -> float:
    assert run.measured_seconds is not None
    return run.measured_seconds


def rate(run: MappedRun, seconds: float) -> float:
    """Tokens a second of one processor."""
    return run.strategy.batch * run.workload.sequence_length / seconds / run.strategy.processors


def misses(why: str) -> Any:
    return pytest.mark.xfail(strict=True, reason=why)


LONG = "Held out, {} too slow: what stands between products is counted operation by operation, and was fused."


@pytest.mark.parametrize(
    ("row", "seconds"),
    [
        pytest.param("0001", 1.42, marks=misses(LONG.format("11.8 %"))),
        ("0002", 1.10),
        pytest.param("0003", 18.13, marks=misses(LONG.format("13.4 %"))),
        pytest.param("0004", 13.75, marks=misses(LONG.format("10.5 %"))),
        pytest.param("0005", 49.05, marks=misses(LONG.format("15.9 %"))),
        pytest.param("0006", 37.83, marks=misses(LONG.format("12.5 %"))),
        pytest.param("0007", 94.42, marks=misses(LONG.format("17.0 %"))),
        pytest.param("0008", 71.49, marks=misses(LONG.format("16.1 %"))),
    ],
)
def test_K1_K2_published_iterations(found: Found, row: str, seconds: float) -> None:
    run, predicted = found[f"korthikanti_2205_05198-{row}"]
    assert measured(run) == seconds
    assert predicted == pytest.approx(seconds, rel=0.10)


@misses("Predicted 36 % and 35 %.")
def test_K1_selective_recompute_is_faster_by_29_to_32_percent(found: Found) -> None:
    for full, selective in (("0001", "0002"), ("0003", "0004")):
        times = [found[f"korthikanti_2205_05198-{row}"][1] for row in (full, selective)]
        assert 0.29 <= times[0] / times[1] - 1 <= 0.32


def sweep(found: Found, *, layers: int, processors: int) -> tuple[list[MappedRun], np.ndarray, np.ndarray]:
    """Rows of the sweep with a batch of 256 sequences after pipelines were corrected: runs, measured, predicted."""
    rows = [
        (run, predicted)
        for run, predicted in found.values()
        if run.run.family == "nanotron_ultrascale"
        and (run.run.layers, run.run.processors, run.strategy.batch) == (layers, processors, 256)
        and "after_pp_fix=False" not in (run.run.notes or "")
    ]
    runs = [run for run, _ in rows]
    return runs, np.array([measured(run) for run in runs]), np.array([predicted for _, predicted in rows])


def best(runs: list[MappedRun], seconds: np.ndarray) -> MappedRun:
    return runs[int(np.argmin(seconds))]


def layout(run: MappedRun) -> tuple[int, int, int, int]:
    return run.strategy.dp, run.strategy.tp, run.strategy.pp, run.strategy.microbatch


def test_K3_sixteen_blocks_on_64_processors(found: Found) -> None:
    runs, times, predicted = sweep(found, layers=16, processors=64)
    assert layout(best(runs, times)) == (64, 1, 1, 1)
    assert rate(best(runs, times), times.min()) == pytest.approx(31_297, rel=1e-3)
    chosen = int(np.argmin(predicted))
    assert rate(runs[chosen], times[chosen]) >= 0.85 * rate(best(runs, times), times.min())
    # Of the 87 rows of the sweep seven are here; those beyond eight-way tensor parallelism are last.
    wide = np.array([run.strategy.tp > 8 for run in runs])
    assert wide.any()
    assert predicted[wide].min() > predicted[~wide].max()


def test_K4_thirty_two_blocks_on_128_processors(found: Found) -> None:
    _, times, predicted = sweep(found, layers=32, processors=128)
    assert regret(predicted, times) <= 0.15


@misses("Every block of a microbatch takes a time that does not shrink with tp, unlike predicted.")
def test_K4_ranks_of_thirty_two_blocks_on_128_processors(found: Found) -> None:
    _, times, predicted = sweep(found, layers=32, processors=128)
    assert rank_correlation(predicted, times) >= 0.7


@misses(
    "Held out, four layouts lie within 1.5 %, and the one that is predicted best, tp 8 and pp 4, ran 2.7 times as long."
)
def test_K5_deep_pipelines_beat_wide_tensor_parallelism(found: Found) -> None:
    runs, times, predicted = sweep(found, layers=80, processors=256)
    assert len(runs) == 19
    assert layout(best(runs, times)) == (4, 4, 16, 1)
    assert rate(best(runs, times), times.min()) == pytest.approx(594, rel=1e-3)
    wide = np.array([run.strategy.tp > 8 for run in runs])
    assert max(rate(run, time) for run, time in zip(runs, times, strict=True) if run.strategy.tp > 8) <= 415
    chosen = best(runs, predicted)
    assert chosen.strategy.tp <= 4
    assert chosen.strategy.pp >= 8
    assert regret(predicted, times) <= 0.15
    assert predicted[wide].min() > predicted[~wide].min()


def test_K6_twenty_eight_blocks_on_32_processors(found: Found) -> None:
    runs, times, predicted = sweep(found, layers=28, processors=32)
    assert layout(best(runs, times)) == (32, 1, 1, 2)
    assert rate(best(runs, times), times.min()) == pytest.approx(15_387, rel=1e-3)
    assert regret(predicted, times) <= 0.15


MPT_7B = {8: ("0039", 10_643), 128: ("0012", 10_475), 256: ("0011", 10_119), 512: ("0010", 9_670)}
"""Row and tokens a second of one processor, by processors."""


@misses("The exchange of weights hides behind the passes whatever the number of processors.")
def test_K7_loss_by_scale(found: Found) -> None:
    rates = []
    for row, tokens in MPT_7B.values():
        run, predicted = found[f"llm_foundry_mpt-{row}"]
        assert rate(run, measured(run)) == pytest.approx(tokens, rel=1e-3)
        rates.append(rate(run, predicted))
    assert np.all(np.diff(rates) < 0)
    assert 0.03 <= 1 - rates[-1] / rates[0] <= 0.20


def test_K8_memory_decides_the_microbatch_and_that_the_rate(found: Found) -> None:
    few, more = (found[f"llm_foundry_mpt-{row}"] for row in ("0020", "0019"))
    assert rate(few[0], measured(few[0])) == pytest.approx(882, rel=1e-3)
    assert rate(more[0], measured(more[0])) == pytest.approx(1039, rel=1e-3)
    assert (few[0].strategy.microbatch, more[0].strategy.microbatch) == (2, 8)
    assert rate(*few) < rate(*more)


@pytest.mark.parametrize(
    ("row", "tokens"),
    [
        ("0016", 16_186),
        pytest.param("0019", 1_174, marks=misses("Held out, 43 % too fast: FSDP in 16 bits.")),
        ("0020", 3_534),
    ],
)
def test_K9_eight_nodes(found: Found, row: str, tokens: float) -> None:
    run, predicted = found[f"primus_amd-{row}"]
    assert rate(run, measured(run)) == pytest.approx(tokens, rel=1e-3)
    assert rate(run, predicted) == pytest.approx(tokens, rel=0.20)


def test_K9_loss_from_one_node_to_eight(found: Found) -> None:
    one, eight = (rate(*found[f"primus_amd-{row}"]) for row in ("0015", "0016"))
    assert 1 - eight / one < 0.05
