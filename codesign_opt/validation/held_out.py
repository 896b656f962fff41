"""Predictions by calibrated systems: those that have seen all families, and those that have not seen the run's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from codesign_opt.systems import System
from codesign_opt.validation.mapping import MappedRun
from codesign_opt.validation.predict import Predictions, joined, predict


class Calibrations(Protocol):
    """Parameters of systems that were fitted to measured runs."""

    def system_for(self, run: MappedRun) -> System:
        """The run's system with fitted parameters; the system itself where none were fitted for it."""

    def without(self, family: str) -> Calibrations:
        """What is fitted when the runs of a family are left out."""


def in_sample_predictions(mapped: Sequence[MappedRun], calibrations: Calibrations | None) -> Predictions:
    """Predictions by calibrations that have seen every run; by the catalogue's systems where there are none."""
    if calibrations is None:
        return predict(mapped)
    return predict([replace(run, system=calibrations.system_for(run)) for run in mapped])


def held_out_predictions(mapped: Sequence[MappedRun], calibrations: Calibrations) -> Predictions:
    """Predictions for each run by calibrations that have not seen its family."""
    families = [run.run.family for run in mapped]
    blocks, places = [], []
    for family in dict.fromkeys(families):
        index = [place for place, name in enumerate(families) if name == family]
        blocks.append(in_sample_predictions([mapped[place] for place in index], calibrations.without(family)))
        places += index
    return joined(blocks).take(np.argsort(places))
