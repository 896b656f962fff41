"""Estimates of strategies for one workload on one system."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.errata import NONE, Erratum
from codesign_opt.analytical.memory import MemoryNeeds
from codesign_opt.analytical.model import Model, StepTimes, model
from codesign_opt.systems import System
from codesign_opt.workloads import Workload


@dataclass(frozen=True, slots=True)
class Estimate:
    """The model's results for strategies of one workload on one system, from which all metrics are computed.

    All arrays broadcast against each other; none need have the full shape.
    """

    workload: Workload
    system: System
    model: Model

    @property
    def strategies(self) -> Mapping[str, NDArray[Any]]:
        """Strategy columns; columns of words hold codes."""
        return self.model.inputs.strategies

    @property
    def times(self) -> StepTimes:
        """Seconds of a step."""
        return self.model.times

    @property
    def memory_capacity(self) -> NDArray[Any]:
        """Bytes of memory tier 1 a processor has; differs by strategy where capacities are chosen to fit it."""
        return self.model.inputs.hardware.memory_capacity

    @property
    def offload_capacity(self) -> NDArray[Any]:
        """Bytes of memory tier 2, likewise."""
        return self.model.inputs.hardware.offload_capacity

    @property
    def memory(self) -> MemoryNeeds:
        """Bytes a processor."""
        return self.model.memory


def estimate(
    workload: Workload, system: System, strategies: Mapping[str, NDArray[Any]], *, reproduce: Set[Erratum] = NONE
) -> Estimate:
    """Estimate every row of a strategy table.

    Rows must be legal (`strategies.legality`); whether they fit in memory is for the caller to compare.

    Raises:
        ValueError: There are no rows.
    """
    if not len(strategies["tp"]):
        raise ValueError("there are no strategies to estimate")
    single = np.zeros(len(strategies["tp"]), dtype=np.int64)
    return Estimate(
        workload,
        system,
        model([workload], [system], strategies, workload=single, system=single, reproduce=reproduce),
    )
