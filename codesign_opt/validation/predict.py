"""What the analytical model says of measured runs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.errata import NONE
from codesign_opt.analytical.feasibility import overflowing_tier
from codesign_opt.analytical.model import StepTimes, model
from codesign_opt.strategies import StrategyTable
from codesign_opt.validation.mapping import MappedRun

Array = NDArray[Any]
Thing = TypeVar("Thing")

PARTS = tuple(part.name for part in fields(StepTimes) if part.name != "total")
"""Parts of a step, which add up to its time."""

_ROWS = 4096
"""Rows evaluated at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """Predictions for a sequence of mapped runs, one entry each.

    Attributes:
        seconds: Time of a step; NaN where none was predicted.
        memory: Most bytes in use at once on one processor; NaN where none was predicted.
        fits: Whether that is no more than the processor has.
        parts: Seconds of each of `PARTS`; empty where they are not known.
    """

    seconds: Array
    memory: Array
    fits: Array
    parts: Mapping[str, Array] = field(default_factory=dict)

    def take(self, index: Any) -> Predictions:
        """The entries at `index`, in that order."""
        return Predictions(
            seconds=self.seconds[index],
            memory=self.memory[index],
            fits=self.fits[index],
            parts={name: values[index] for name, values in self.parts.items()},
        )


def predict(mapped: Sequence[MappedRun]) -> Predictions:
    """Step time with its parts, peak memory, and whether that fits, of every run on its own system."""
    return joined(_predicted(mapped[start : start + _ROWS]) for start in range(0, len(mapped), _ROWS))


def joined(predictions: Iterable[Predictions]) -> Predictions:
    """The entries of all, one after another."""
    every = list(predictions)
    if not every:
        nothing = np.empty(0)
        parts = dict.fromkeys(PARTS, nothing)
        return Predictions(seconds=nothing, memory=nothing, fits=np.empty(0, dtype=np.bool_), parts=parts)
    return Predictions(
        seconds=np.concatenate([one.seconds for one in every]),
        memory=np.concatenate([one.memory for one in every]),
        fits=np.concatenate([one.fits for one in every]),
        parts={name: np.concatenate([one.parts[name] for one in every]) for name in every[0].parts},
    )


def _predicted(mapped: Sequence[MappedRun]) -> Predictions:
    workloads, workload = _distinct([run.workload for run in mapped])
    systems, system = _distinct([run.system for run in mapped])
    result = model(
        workloads,
        systems,
        StrategyTable.from_strategies(run.strategy for run in mapped),
        workload=workload,
        system=system,
        reproduce=NONE,
    )

    def whole(values: Any) -> Array:
        return np.broadcast_to(values, (len(mapped),)).copy()

    return Predictions(
        seconds=whole(result.times.total),
        memory=whole(result.memory.tier1),
        fits=whole(overflowing_tier(result) == ""),
        parts={name: whole(getattr(result.times, name)) for name in PARTS},
    )


def _distinct(things: Sequence[Thing]) -> tuple[list[Thing], Array]:
    """The different ones, and for each its index among them; systems hold mappings and cannot be hashed."""
    kinds: list[Thing] = []
    index = np.empty(len(things), dtype=np.int64)
    known: dict[Hashable, int] = {}
    for place, thing in enumerate(things):
        if id(thing) not in known:
            if thing not in kinds:
                kinds.append(thing)
            known[id(thing)] = kinds.index(thing)
        index[place] = known[id(thing)]
    return kinds, index
