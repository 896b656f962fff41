"""What proposes the points of a study: a grid, random numbers, a low-discrepancy sequence, or an Optuna sampler.

Proposals depend on the study's seed and on the trials so far alone. A killed and resumed study therefore goes on with
exactly the points of an uninterrupted one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
import optuna
from numpy.typing import NDArray

from codesign_opt.errors import InputError, MissingExtraError, StorageError
from codesign_opt.objectives import Objective
from codesign_opt.studies.outcome import Outcome
from codesign_opt.studies.points import Dimension, Point, all_points, point_key

WARM_START = 16
"""Points of the low-discrepancy sequence with which `auto` begins."""

BATCH = {"exact": 16, "random": 16, "qmc": 16, "tpe": 8, "nsga2": 20, "gp": 4, "cmaes": 8}
"""Points proposed together, before any of them is evaluated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A point, its key, and what became of it."""

    key: str
    point: Point
    outcome: Outcome


class Proposer(Protocol):
    """Proposes points, batch by batch."""

    @property
    def name(self) -> str:
        """What the database records as the proposer of a batch."""

    @property
    def batch(self) -> int:
        """Points to propose together."""

    def propose(self, count: int) -> list[Point]:
        """The next points, at most `count`; none where nothing is left."""

    def record(self, trials: Sequence[Trial]) -> None:
        """Take note of what became of the proposed points, in the order proposed; the last ones may be missing."""

    def restore(self, batches: Sequence[Sequence[Trial]]) -> None:
        """Take note of all batches of an earlier run."""


def proposer(sampler: str, dimensions: tuple[Dimension, ...], objectives: Sequence[Objective], seed: int) -> Proposer:
    """The proposer of that name (`exact` enumerates finite dimensions; `auto` is a warm start and then TPE).

    Raises:
        InputError: For a sampler that cannot be used with such dimensions or objectives.
        MissingExtraError: For a sampler whose optional package is not installed.
    """
    ranges = [dimension.name for dimension in dimensions if not dimension.choices]
    if sampler == "exact" and ranges:
        raise InputError(f"the exact method cannot try every value of {ranges[0]}", "give it choices")
    if sampler == "cmaes" and len(objectives) > 1:
        raise InputError(f"cmaes takes one objective, not {len(objectives)}", "choose nsga2 or tpe")
    if sampler == "exact":
        return Enumeration(dimensions)
    if sampler == "random":
        return Uniform(dimensions, seed)
    if sampler == "qmc":
        return LowDiscrepancy(dimensions, seed)
    if sampler == "auto":
        return WarmStarted(LowDiscrepancy(dimensions, seed), OptunaProposer("tpe", dimensions, objectives, seed))
    return OptunaProposer(sampler, dimensions, objectives, seed)


class Enumeration:
    """Every point of finite dimensions, once."""

    name = "exact"
    batch = BATCH["exact"]

    def __init__(self, dimensions: tuple[Dimension, ...]) -> None:
        self._dimensions = dimensions
        self._done = 0

    def propose(self, count: int) -> list[Point]:
        return list(islice(all_points(self._dimensions), self._done, self._done + count))

    def record(self, trials: Sequence[Trial]) -> None:
        self._done += len(trials)

    def restore(self, batches: Sequence[Sequence[Trial]]) -> None:
        self._done = sum(len(batch) for batch in batches)


class Uniform:
    """Independent points, uniform along every dimension."""

    name = "random"
    batch = BATCH["random"]

    def __init__(self, dimensions: tuple[Dimension, ...], seed: int) -> None:
        self._dimensions = dimensions
        self._seed = seed
        self._done = 0

    def propose(self, count: int) -> list[Point]:
        shares = np.random.default_rng(_seed(self._seed, self._done)).random((count, len(self._dimensions)))
        return _points(self._dimensions, shares)

    def record(self, trials: Sequence[Trial]) -> None:
        self._done += len(trials)

    def restore(self, batches: Sequence[Sequence[Trial]]) -> None:
        self._done = sum(len(batch) for batch in batches)


class LowDiscrepancy:
    """A scrambled Sobol sequence."""

    name = "qmc"
    batch = BATCH["qmc"]

    def __init__(self, dimensions: tuple[Dimension, ...], seed: int) -> None:
        self._dimensions = dimensions
        self._seed = seed
        self._done = 0
        self._sequence = np.empty((0, len(dimensions)))

    def propose(self, count: int) -> list[Point]:
        end = self._done + count
        if end > len(self._sequence):
            self._sequence = self._first((end - 1).bit_length())
        return _points(self._dimensions, self._sequence[self._done : end])

    def record(self, trials: Sequence[Trial]) -> None:
        self._done += len(trials)

    def restore(self, batches: Sequence[Sequence[Trial]]) -> None:
        self._done = sum(len(batch) for batch in batches)

    def _first(self, logarithm: int) -> NDArray[np.float64]:
        """The first 2^logarithm points of the sequence, which are the same however many there are."""
        from scipy.stats import qmc

        sequence = qmc.Sobol(len(self._dimensions), scramble=True, rng=_seed(self._seed, 0))
        return np.asarray(sequence.random_base2(logarithm))


class OptunaProposer:
    """An Optuna sampler over a study in memory; the sampler is fresh and seeded for each batch."""

    def __init__(
        self, sampler: str, dimensions: tuple[Dimension, ...], objectives: Sequence[Objective], seed: int
    ) -> None:
        self.name = sampler
        self.batch = BATCH[sampler]
        self._dimensions = dimensions
        self._distributions = {dimension.name: _distribution(dimension) for dimension in dimensions}
        self._objectives = tuple(objectives)
        self._seed = seed
        self._asked: list[optuna.Trial] = []
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._study = optuna.create_study(
            directions=[o.direction for o in objectives], sampler=_sampler(sampler, _seed(seed, 0))
        )

    def propose(self, count: int) -> list[Point]:
        trials = len(self._study.get_trials(deepcopy=False))
        self._study.sampler = _sampler(self.name, _seed(self._seed, trials))
        self._asked = [self._study.ask(self._distributions) for _ in range(count)]
        return [self._point(trial.params) for trial in self._asked]

    def record(self, trials: Sequence[Trial]) -> None:
        for asked, trial in zip(self._asked, trials, strict=False):
            if not self._is_told(trial.outcome):
                self._study.tell(asked, state=optuna.trial.TrialState.FAIL)
                continue
            for name, share in self._constraints(trial.outcome).items():
                asked.set_constraint(name, share)
            self._study.tell(asked, self._values(trial.outcome))
        self._asked = []

    def restore(self, batches: Sequence[Sequence[Trial]]) -> None:
        if self.name in _KEEP_STATE_IN_TRIALS:
            for batch in batches:
                self._replay(batch)
        else:
            self.add([trial for batch in batches for trial in batch])

    def add(self, trials: Sequence[Trial]) -> None:
        """Take note of trials that something else proposed."""
        self._study.add_trials([self._finished(trial) for trial in trials])

    def _replay(self, batch: Sequence[Trial]) -> None:
        proposed = self.propose(len(batch))
        if [point_key(point) for point in proposed] != [trial.key for trial in batch]:
            raise StorageError(
                f"the {self.name} sampler does not repeat the stored trials of this study",
                f"resume it with the version of Optuna that began it (this is {optuna.__version__})",
            )
        self.record(batch)

    def _point(self, params: dict[str, Any]) -> Point:
        return {
            dimension.name: dimension.choices[params[dimension.name]] if dimension.choices else params[dimension.name]
            for dimension in self._dimensions
        }

    def _is_told(self, outcome: Outcome) -> bool:
        """Whether the sampler is to learn from the values."""
        return outcome.state == "complete" or (outcome.state == "infeasible" and self.name not in _WITHOUT_CONSTRAINTS)

    def _constraints(self, outcome: Outcome) -> dict[str, float]:
        return {} if self.name in _WITHOUT_CONSTRAINTS else dict(outcome.constraints)

    def _values(self, outcome: Outcome) -> list[float]:
        return [outcome.values[objective.metric] for objective in self._objectives]

    def _finished(self, trial: Trial) -> optuna.trial.FrozenTrial:
        told = self._is_told(trial.outcome)
        return optuna.trial.create_trial(
            state=optuna.trial.TrialState.COMPLETE if told else optuna.trial.TrialState.FAIL,
            values=self._values(trial.outcome) if told else None,
            params={
                dimension.name: (
                    dimension.choices.index(trial.point[dimension.name])
                    if dimension.choices
                    else trial.point[dimension.name]
                )
                for dimension in self._dimensions
            },
            distributions=self._distributions,
            constraints=self._constraints(trial.outcome) if told else None,
        )


class WarmStarted:
    """A low-discrepancy sequence first, then an Optuna sampler that knows its results."""

    def __init__(self, first: LowDiscrepancy, then: OptunaProposer) -> None:
        self._first, self._then = first, then
        self._done = 0

    @property
    def name(self) -> str:
        return self._first.name if self._warming else self._then.name

    @property
    def batch(self) -> int:
        return min(self._first.batch, WARM_START - self._done) if self._warming else self._then.batch

    @property
    def _warming(self) -> bool:
        return self._done < WARM_START

    def propose(self, count: int) -> list[Point]:
        return self._first.propose(count) if self._warming else self._then.propose(count)

    def record(self, trials: Sequence[Trial]) -> None:
        if self._warming:
            self._first.record(trials)
            self._then.add(trials)
        else:
            self._then.record(trials)
        self._done += len(trials)

    def restore(self, batches: Sequence[Sequence[Trial]]) -> None:
        for batch in batches:
            if self._warming:
                self._first.record(batch)
            self._then.add(batch)
            self._done += len(batch)


_KEEP_STATE_IN_TRIALS = ("nsga2", "cmaes")

_WITHOUT_CONSTRAINTS = ("cmaes",)
"""Samplers that would take an infeasible trial for a good one; to them it is a failed one."""


def _points(dimensions: Sequence[Dimension], shares: NDArray[np.float64]) -> list[Point]:
    """The points at shares from 0 to 1 along the dimensions, (point, dimension)."""
    return [
        {dimension.name: dimension.at(share) for dimension, share in zip(dimensions, row, strict=True)}
        for row in shares.tolist()
    ]


def _seed(study_seed: int, trials: int) -> int:
    digest = hashlib.sha256(f"{study_seed}:{trials}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def _distribution(dimension: Dimension) -> optuna.distributions.BaseDistribution:
    if dimension.choices:
        return optuna.distributions.IntDistribution(0, len(dimension.choices) - 1)
    return optuna.distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.logarithmic)


def _sampler(name: str, seed: int) -> optuna.samplers.BaseSampler:
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=seed, multivariate=True)
    if name == "nsga2":
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=BATCH["nsga2"])
    if name == "cmaes":
        _require("cmaes", "cmaes")
        return optuna.samplers.CmaEsSampler(seed=seed, popsize=BATCH["cmaes"], warn_independent_sampling=False)
    _require("torch", "gp")
    return optuna.samplers.GPSampler(seed=seed)


def _require(module: str, extra: str) -> None:
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise MissingExtraError(
            f"this sampler needs the package '{module}'", f"pip install 'codesign-opt[{extra}]', or choose tpe"
        )
