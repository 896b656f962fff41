"""What became of one trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.estimate import Estimate
from codesign_opt.objectives import METRICS, Constraint, Objective, available_metrics
from codesign_opt.strategies import StrategyTable

State = Literal["complete", "infeasible", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One of the best strategies of a trial: option words, and every available metric."""

    on_front: bool
    strategy: Mapping[str, Any]
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one trial.

    Attributes:
        state: Whether something feasible was found, nothing was, or the trial could not be evaluated.
        reason: Why not, in words.
        values: Objective metric to value; of the nearest miss where nothing is feasible.
        constraints: Constraint to violation, as a share of its bound; at most 0 where it is satisfied.
        candidates: The best strategies, best first; none where nothing is feasible.
    """

    state: State
    reason: str = ""
    values: Mapping[str, float]
    constraints: Mapping[str, float]
    candidates: tuple[Candidate, ...] = ()


def candidates(strategies: StrategyTable, on_front: NDArray[np.bool_], estimate: Estimate) -> tuple[Candidate, ...]:
    """Candidates for the rows of an estimated table."""
    words = {name: column.tolist() for name, column in strategies.words().items()}
    metrics = {
        entry.name: np.broadcast_to(entry.evaluate(estimate), (strategies.rows,)).tolist()
        for entry in available_metrics(estimate.system)
    }
    return tuple(
        Candidate(
            on_front=bool(on_front[row]),
            strategy={name: column[row] for name, column in words.items()},
            metrics={name: column[row] for name, column in metrics.items() if np.isfinite(column[row])},
        )
        for row in range(strategies.rows)
    )


def objective_values(estimate: Estimate, objectives: Sequence[Objective], row: int) -> dict[str, float]:
    """The objectives of one estimated row, in their own units.

    Raises:
        ValueError: For a value that is not a finite number.
    """
    values = {}
    for objective in objectives:
        column = np.broadcast_to(METRICS[objective.metric].evaluate(estimate), estimate.strategies["tp"].shape)
        value = float(column[row])
        if not np.isfinite(value):
            raise ValueError(f"{objective.metric} is {value}")
        values[objective.metric] = value
    return values


def violations(estimate: Estimate, constraints: Sequence[Constraint], row: int) -> dict[str, float]:
    """Memory capacities and constraints of one estimated row: violation as a share of the bound.

    Raises:
        ValueError: For a violation that is not a finite number.
    """
    system, memory = estimate.system, estimate.memory
    shares = {}
    for name, need, capacity in (
        ("memory_tier1", memory.tier1, system.memory_tier1.capacity),
        ("memory_tier2", memory.tier2, system.memory_tier2.capacity),
    ):
        shares[name] = _share(float(need[row]) - capacity, capacity)
    for constraint in constraints:
        values = METRICS[constraint.metric].evaluate(estimate)
        missing = constraint.violation(np.broadcast_to(values, estimate.strategies["tp"].shape))
        shares[str(constraint)] = _share(float(missing[row]), constraint.bound)
    for name, share in shares.items():
        if not np.isfinite(share):
            raise ValueError(f"{name} is missed by {share}")
    return shares


def _share(missing: float, bound: float) -> float:
    return missing / abs(bound) if bound else missing
