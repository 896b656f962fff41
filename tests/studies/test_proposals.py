"""What samplers propose, and what they are told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
import pytest

from codesign_opt.errors import InputError, MissingExtraError, StorageError
from codesign_opt.objectives import Objective
from codesign_opt.studies.outcome import Outcome
from codesign_opt.studies.points import Dimension, Point, point_key
from codesign_opt.studies.proposals import BATCH, WARM_START, OptunaProposer, Trial, proposer

LINEAR = Dimension(name="linear", low=-2.0, high=5.0)
LOGARITHMIC = Dimension(name="logarithmic", low=1e-3, high=1e3, logarithmic=True)
SIZES = Dimension(name="sizes", choices=(8, 72, 576))
CAPACITIES = Dimension(name="capacities", choices=(1.5e9, 2.0e10))
DIMENSIONS = (LINEAR, LOGARITHMIC, SIZES, CAPACITIES)

ONE = (Objective("step_time", "minimize"),)
TWO = (Objective("sample_rate", "maximize"), Objective("system_price", "minimize"))


def outcome(point: Point) -> Outcome:
    """Bad at the ends of `linear`, infeasible where `logarithmic` is large, failed for one of the sizes."""
    if point["sizes"] == 576 and float(point["linear"]) > 4:
        return Outcome(state="failed", reason="NaN", values={}, constraints={})
    missing = math.log10(float(point["logarithmic"])) - 1
    values = {"step_time": float(point["linear"]) ** 2 - missing}
    values |= {"sample_rate": 3 - values["step_time"], "system_price": 1 + float(point["capacities"])}
    state: Any = "infeasible" if missing > 0 else "complete"
    return Outcome(state=state, values=values, constraints={"memory_tier1": missing, "mfu >= 0.1": -0.5})


def judged(points: Sequence[Point]) -> list[Trial]:
    return [Trial(key=point_key(point), point=point, outcome=outcome(point)) for point in points]


def run(sampler: str, batches: int, *, seed: int = 1, dimensions: tuple[Dimension, ...] = DIMENSIONS) -> list[Trial]:
    """The trials of some whole batches."""
    if sampler == "cmaes":
        pytest.importorskip("cmaes")
    proposing = proposer(sampler, dimensions, ONE if sampler == "cmaes" else TWO, seed)
    trials: list[Trial] = []
    for _ in range(batches):
        batch = judged(proposing.propose(proposing.batch))
        proposing.record(batch)
        trials += batch
    return trials


@pytest.mark.parametrize("sampler", ["auto", "random", "qmc", "tpe", "nsga2", "cmaes"])
def test_every_point_is_inside_its_dimensions(sampler: str) -> None:
    trials = run(sampler, 4)
    for trial in trials:
        point = trial.point
        assert list(point) == ["linear", "logarithmic", "sizes", "capacities"]
        assert isinstance(point["linear"], float)
        assert LINEAR.low <= point["linear"] <= LINEAR.high
        assert isinstance(point["logarithmic"], float)
        assert LOGARITHMIC.low <= point["logarithmic"] <= LOGARITHMIC.high
        assert (type(point["sizes"]), type(point["capacities"])) == (int, float)
        assert point["sizes"] in SIZES.choices
        assert point["capacities"] in CAPACITIES.choices
    assert len({trial.key for trial in trials}) > 0.9 * len(trials)
    for name in ("sizes", "capacities"):
        assert len({trial.point[name] for trial in trials}) > 1


@pytest.mark.parametrize("sampler", ["random", "qmc"])
def test_a_logarithmic_range_is_sampled_evenly_in_the_logarithm(sampler: str) -> None:
    trials = run(sampler, 32)
    decades = np.log10([float(trial.point["logarithmic"]) for trial in trials])
    counts, _ = np.histogram(decades, bins=6, range=(-3, 3))
    # 512 points over six decades: 85 each; a standard deviation of √(512 · 1/6 · 5/6) = 8.4 if they are independent.
    assert abs(counts - 512 / 6).max() < 4 * 8.4
    linear = [float(trial.point["linear"]) for trial in trials]
    counts, _ = np.histogram(linear, bins=7, range=(-2, 5))
    assert abs(counts - 512 / 7).max() < 4 * 7.9


def test_a_low_discrepancy_sequence_leaves_no_gaps() -> None:
    shares = [(float(trial.point["linear"]) + 2) / 7 for trial in run("qmc", 4)]
    # Of 64 points of a scrambled Sobol sequence exactly one lies in every 64th of a dimension.
    assert sorted(int(share * 64) for share in shares) == list(range(64))


@pytest.mark.parametrize("sampler", ["auto", "random", "qmc", "tpe", "nsga2", "cmaes"])
def test_the_seed_decides_the_points(sampler: str) -> None:
    assert [trial.key for trial in run(sampler, 3)] == [trial.key for trial in run(sampler, 3)]
    assert [trial.key for trial in run(sampler, 3)] != [trial.key for trial in run(sampler, 3, seed=2)]


def test_enumeration_covers_every_point_once_the_last_dimension_fastest() -> None:
    proposing = proposer("exact", (SIZES, CAPACITIES), TWO, 1)
    points = proposing.propose(4)
    proposing.record(judged([{"linear": 0.0, "logarithmic": 1.0, **point} for point in points]))
    points += proposing.propose(16)
    assert [tuple(point.values()) for point in points] == [
        (8, 1.5e9), (8, 2.0e10), (72, 1.5e9), (72, 2.0e10), (576, 1.5e9), (576, 2.0e10),
    ]  # fmt: skip


def test_auto_warms_up_and_then_learns() -> None:
    proposing = proposer("auto", DIMENSIONS, TWO, 1)
    names = []
    for _ in range(3):
        names.append((proposing.name, proposing.batch))
        proposing.record(judged(proposing.propose(proposing.batch)))
    assert names == [("qmc", WARM_START), ("tpe", BATCH["tpe"]), ("tpe", BATCH["tpe"])]


def test_a_smaller_first_batch_does_not_end_the_warm_up() -> None:
    whole = [trial.key for trial in run("qmc", 1)]
    proposing = proposer("auto", DIMENSIONS, TWO, 1)
    first = judged(proposing.propose(5))
    proposing.record(first)
    assert (proposing.name, proposing.batch) == ("qmc", WARM_START - 5)
    second = judged(proposing.propose(proposing.batch))
    assert [trial.key for trial in [*first, *second]] == whole


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_every_constraint_of_every_trial_reaches_optuna(sampler: str) -> None:
    proposing = OptunaProposer(sampler, DIMENSIONS, TWO, 1)
    trials = []
    for _ in range(4):
        batch = judged(proposing.propose(proposing.batch))
        proposing.record(batch)
        trials += batch
    known = proposing._study.get_trials()
    assert {trial.outcome.state for trial in trials} == {"complete", "infeasible", "failed"}
    for ours, theirs in zip(trials, known, strict=True):
        if ours.outcome.state == "failed":
            assert theirs.state == optuna.trial.TrialState.FAIL
            assert theirs.values is None
            continue
        assert theirs.state == optuna.trial.TrialState.COMPLETE
        assert theirs.constraints == ours.outcome.constraints
        assert theirs.values == [ours.outcome.values["sample_rate"], ours.outcome.values["system_price"]]
        assert np.isfinite([*theirs.constraints.values(), *theirs.values]).all()


def test_a_sampler_that_knows_no_constraints_never_sees_an_infeasible_trial() -> None:
    pytest.importorskip("cmaes")
    proposing = OptunaProposer("cmaes", DIMENSIONS, ONE, 1)
    trials = []
    for _ in range(4):
        batch = judged(proposing.propose(proposing.batch))
        proposing.record(batch)
        trials += batch
    known = proposing._study.get_trials()
    assert [trial.outcome.state == "complete" for trial in trials] == [
        trial.state == optuna.trial.TrialState.COMPLETE for trial in known
    ]


@pytest.mark.parametrize("sampler", ["auto", "random", "qmc", "tpe", "nsga2", "cmaes"])
def test_a_restored_proposer_goes_on_as_the_first_one(sampler: str) -> None:
    if sampler == "cmaes":
        pytest.importorskip("cmaes")
    objectives = ONE if sampler == "cmaes" else TWO
    first = proposer(sampler, DIMENSIONS, objectives, 1)
    batches: list[list[Trial]] = []
    for _ in range(4):
        resumed = proposer(sampler, DIMENSIONS, objectives, 1)
        resumed.restore(batches)
        assert (resumed.name, resumed.batch) == (first.name, first.batch)
        points = first.propose(first.batch)
        assert resumed.propose(resumed.batch) == points
        batches.append(judged(points))
        first.record(batches[-1])


def test_a_sampler_that_does_not_repeat_itself_is_reported() -> None:
    proposing = proposer("nsga2", DIMENSIONS, TWO, 1)
    batch = judged(proposing.propose(20))
    with pytest.raises(StorageError, match="nsga2 sampler does not repeat the stored trials") as caught:
        proposer("nsga2", DIMENSIONS, TWO, 2).restore([batch])
    assert optuna.__version__ in caught.value.hint


def test_only_the_first_trials_of_a_batch_may_be_recorded() -> None:
    proposing = OptunaProposer("tpe", DIMENSIONS, TWO, 1)
    proposing.record(judged(proposing.propose(8)[:3]))
    states = [trial.state.is_finished() for trial in proposing._study.get_trials()]
    assert states == [True] * 3 + [False] * 5


@pytest.mark.parametrize("sampler", ["random", "qmc", "tpe", "auto"])
def test_no_dimension_is_one_point(sampler: str) -> None:
    proposing = proposer(sampler, (), TWO, 1)
    assert proposing.propose(4) == [{}] * 4


def test_a_cmaes_study_may_have_one_dimension() -> None:
    pytest.importorskip("cmaes")
    proposing = OptunaProposer("cmaes", (LINEAR,), ONE, 1)
    fixed = {"logarithmic": 1.0, "sizes": 8, "capacities": 1.5e9}
    points: list[Point] = []
    for _ in range(5):
        batch = proposing.propose(proposing.batch)
        trials = [Trial(key=point_key(p), point=p, outcome=outcome({**p, **fixed})) for p in batch]
        proposing.record(trials)
        points += batch
    # The objective is the square of the only dimension.
    assert abs(np.mean([float(point["linear"]) for point in points[-8:]])) < 0.5


@pytest.mark.parametrize(
    ("sampler", "objectives", "dimensions", "message"),
    [
        ("exact", TWO, DIMENSIONS, "exact method cannot try every value of linear"),
        ("cmaes", TWO, DIMENSIONS, "cmaes takes one objective, not 2"),
    ],
)
def test_what_a_sampler_cannot_do_is_said(
    sampler: str, objectives: tuple[Objective, ...], dimensions: tuple[Dimension, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        proposer(sampler, dimensions, objectives, 1)


@pytest.mark.parametrize(("sampler", "package"), [("gp", "torch"), ("cmaes", "cmaes")])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, sampler: str, package: str) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=f"needs the package '{package}'") as caught:
        proposer(sampler, DIMENSIONS, ONE, 1)
    assert caught.value.hint == f"pip install 'codesign-opt[{sampler}]', or choose tpe"
