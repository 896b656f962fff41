"""The rows that parameters are fitted to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from codesign_opt.validation.mapping import MappedRun
from codesign_opt.workloads.flops import flops_per_token

LEAST_UTILIZATION = 0.15
"""Model flop utilisation below which a run is not fitted to: what holds it up is no property of the processor.

Published sweeps hold runs that are up to twenty times slower than any cause that a model of the machine has.
"""

TIERS = ("A", "B", None)
"""Completeness of rows that are fitted to; see `catalog/measurements/README.md`."""


def utilization(run: MappedRun) -> float:
    """Model flop utilisation of a timed run: with full attention, against the peak of the format of its products."""
    if run.measured_seconds is None:
        return float("nan")
    word = "float8" if run.strategy.product_precision.value == "float8" else run.strategy.datatype.value
    flops = flops_per_token(run.workload) * run.workload.sequence_length * run.strategy.batch
    return flops / (run.measured_seconds * run.strategy.processors * run.system.matrix[word].peak)


def fitted_rows(runs: Iterable[MappedRun]) -> list[MappedRun]:
    """The timed runs that are fitted to."""
    return [run for run in runs if run.run.tier in TIERS and utilization(run) >= LEAST_UTILIZATION]


def thinned(runs: Sequence[MappedRun], most: int) -> list[MappedRun]:
    """At most `most` runs of each family, evenly from the order of their step times."""
    chosen: list[int] = []
    for family in dict.fromkeys(run.run.family for run in runs):
        members = [place for place, run in enumerate(runs) if run.run.family == family]
        members.sort(key=lambda place: (runs[place].measured_seconds or 0.0, runs[place].run.row_id))
        picks = np.unique(np.linspace(0, len(members) - 1, min(most, len(members))).round().astype(int))
        chosen += [members[pick] for pick in picks]
    return [runs[place] for place in sorted(chosen)]
