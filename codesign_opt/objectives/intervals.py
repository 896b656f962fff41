"""Prediction intervals: how far published runs of the same kind were from their estimates."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from codesign_opt.analytical import Estimate
    from codesign_opt.systems import System
    from codesign_opt.workloads import Workload

SHARE = 0.8
"""Share of comparable runs that an interval holds."""

FEWEST = 20
"""Runs that a kind must have; with fewer, a wider kind answers."""

ANY = "any"
"""Stands for all generations, or all classes of parallelism."""

PARALLELISMS = ("data", "tensor", "pipeline", "experts")
"""Classes of parallelism, the more demanding the later; a run is of the last one that it uses."""

_GENERATIONS = (
    (r"v100", "volta"),
    (r"a100", "ampere"),
    (r"g?h[12]00", "hopper"),
    (r"g?b[23]00", "blackwell"),
    (r"mi\d", "instinct"),
    (r"tpu", "tpu"),
    (r"trainium", "trainium"),
    (r"gaudi", "gaudi"),
)
"""How the name of a system begins, and the generation of its processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """What `SHARE` of comparable runs took, as multiples of the estimate.

    Attributes:
        generation, parallelism: The kind of the runs; `ANY` where all of them count.
        runs: How many they are.
        families: From how many collections.
        calibrated: Whether it is for estimates on calibrated systems.
        lower, upper: Measured time divided by the estimate.
    """

    generation: str
    parallelism: str
    runs: int
    families: int
    lower: float
    upper: float
    calibrated: bool = False


def generation_of(system: System) -> str:
    """The generation of a system's processor, by the system's name; `ANY` for a name that says none."""
    for beginning, generation in _GENERATIONS:
        if re.match(beginning, system.name, re.IGNORECASE):
            return generation
    return ANY


def parallelism_of(workload: Workload, strategies: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    """For each strategy its class, an index of `PARALLELISMS`: experts where the workload has any, else pipeline, else
    tensor (context parallelism among it), else data.
    """
    if workload.experts is not None:
        return np.full(np.shape(strategies["tp"]), PARALLELISMS.index("experts"))
    inside = (strategies["tp"] > 1) | (strategies["cp"] > 1)
    return np.where(strategies["pp"] > 1, PARALLELISMS.index("pipeline"), inside.astype(np.int64))


def kinds(generation: str, parallelism: str) -> list[tuple[str, str]]:
    """The kinds of a run as (generation, parallelism), the nearest first, each wider than the one before."""
    nearest_first = [(generation, parallelism), (generation, ANY), (ANY, parallelism), (ANY, ANY)]
    return list(dict.fromkeys(nearest_first))


def nearest_interval(intervals: Iterable[Interval], generation: str, parallelism: str) -> Interval | None:
    """The interval of the nearest kind; None where not even the widest has one."""
    by_kind = {(one.generation, one.parallelism): one for one in intervals}
    return next((by_kind[kind] for kind in kinds(generation, parallelism) if kind in by_kind), None)


@cache
def published_intervals() -> tuple[Interval, ...]:
    """The intervals that come with the package, from runs that the estimates were not fitted to."""
    file = resources.files("codesign_opt.catalog").joinpath("measurements", "residuals.toml")
    return tuple(Interval(**entry) for entry in tomllib.loads(file.read_text("utf-8"))["interval"])


def pessimistic_factor(estimate: Estimate) -> NDArray[Any]:
    """The upper end of each strategy's published interval, as a multiple of the estimated step time."""
    nearest_ones = _of_classes(estimate.system)
    upper = np.array([1.0 if one is None else one.upper for one in nearest_ones])
    return np.asarray(upper[parallelism_of(estimate.workload, estimate.strategies)])


def intervals_for(workload: Workload, system: System, strategies: Mapping[str, NDArray[Any]]) -> list[Interval | None]:
    """For each strategy the published interval of the nearest kind."""
    of_class = _of_classes(system)
    return [of_class[index] for index in parallelism_of(workload, strategies)]


def _of_classes(system: System) -> list[Interval | None]:
    """For each class of parallelism the published interval of the nearest kind, of systems calibrated or not."""
    # A calibration says how fast fused attention is; nothing else does.
    calibrated = system.fused_attention is not None
    fitting = [one for one in published_intervals() if one.calibrated == calibrated]
    return [nearest_interval(fitting, generation_of(system), word) for word in PARALLELISMS]
