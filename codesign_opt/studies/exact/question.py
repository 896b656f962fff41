"""What the exact solver is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from codesign_opt.analytical.errata import NONE, Erratum, parse_errata
from codesign_opt.analytical.estimate import Estimate, estimate
from codesign_opt.objectives import METRICS, Constraint, Objective
from codesign_opt.strategies import Datatype, StrategyTable
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.studies.exact.fitting import NOT_FITTED, FittedCapacities
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.systems import System
from codesign_opt.workloads import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactQuestion:
    """What is asked: the best strategies of a space on one system.

    Attributes:
        workload, system, processors, batch, datatype: What runs where; `batch` is the largest global batch.
        space: Which strategies may run.
        objectives: What "best" means. Strategies are ranked by the first one that depends on the strategy.
        constraints: What every answer satisfies, besides memory capacities.
        top: How many strategies to return.
        reproduce: Errata of the published tool to reproduce.
        fitted: Capacities that are chosen for each strategy by itself; `system` has the largest.
    """

    workload: Workload
    system: System
    processors: int
    batch: int
    datatype: Datatype = Datatype.FLOAT16
    space: StrategySpace = field(default_factory=StrategySpace)
    objectives: tuple[Objective, ...] = (Objective("step_time", "minimize"),)
    constraints: tuple[Constraint, ...] = ()
    top: int = 1
    reproduce: frozenset[Erratum] = NONE
    fitted: FittedCapacities = NOT_FITTED

    @property
    def ranked(self) -> tuple[Objective, ...]:
        """The objectives that depend on the strategy; the step time where there is none."""
        ranked = tuple(o for o in self.objectives if self._depends_on_strategy(o.metric))
        return ranked or (Objective("step_time", "minimize"),)

    def _depends_on_strategy(self, metric: str) -> bool:
        if METRICS[metric].scope == "strategy":
            return True
        # A capacity that fits the strategy makes the system's price the strategy's own.
        return bool(self.fitted) and metric != "processors"

    def estimate(self, strategies: StrategyTable) -> Estimate:
        """The estimate of some strategies on the question's system."""
        return with_fitted(estimate(self.workload, self.system, strategies, reproduce=self.reproduce), self.fitted)


@dataclass(frozen=True, slots=True)
class NearestMiss:
    """The strategy that comes nearest to satisfying what excluded it.

    Attributes:
        reason: Text of the constraint, or the reason code of a memory tier.
        missing: How much is missing, in the unit of what is bounded.
        share: The same as a share of the bound.
        strategies: A table of the one strategy.
    """

    reason: str
    missing: float
    share: float
    strategies: StrategyTable


@dataclass(frozen=True, slots=True)
class ExactAnswer:
    """The best strategies, and what became of all the others.

    Attributes:
        considered: Strategies covered, counted as the published search counts them.
        legal: Those that the legality rules allow, wherever they are placed.
        feasible: Those that satisfy everything.
        excluded: Reason to number of strategies, each counted once, under the first reason that applies.
        strategies: The best `top` strategies, best first, then those that are on the front only. Ties are broken by
            the smaller need of memory tier 1, then by the order of the space.
        on_front: Which of them are on the Pareto front of the objectives that depend on the strategy.
        estimate: Their estimate; None where nothing is feasible.
        nearest: Where nothing is feasible: the strategy that misses least, as a share of what bounds it.
    """

    considered: int
    legal: int
    feasible: int
    excluded: Mapping[str, int]
    strategies: StrategyTable
    on_front: NDArray[Any]
    estimate: Estimate | None
    nearest: NearestMiss | None


def with_fitted(estimated: Estimate, fitted: FittedCapacities) -> Estimate:
    """The estimate with capacities that fit each strategy's needs; its times do not change."""
    if not fitted:
        return estimated
    capacities: dict[str, Any] = {}
    if fitted.memory_tier1 is not None:
        capacities["memory_capacity"] = fitted.memory_tier1.fit(estimated.memory.tier1)
    if fitted.memory_tier2 is not None:
        capacities["offload_capacity"] = fitted.memory_tier2.fit(estimated.memory.tier2)
    hardware = replace(estimated.model.inputs.hardware, **capacities)
    inputs = replace(estimated.model.inputs, hardware=hardware)
    return replace(estimated, model=replace(estimated.model, inputs=inputs))


def question_of(
    specification: StudySpecification,
    system: System,
    processors: int,
    constraints: tuple[Constraint, ...],
    fitted: FittedCapacities = NOT_FITTED,
) -> ExactQuestion:
    """What a study asks on one of its systems, with these of its constraints and with fitted capacities."""
    return ExactQuestion(
        workload=specification.workload,
        system=system,
        processors=processors,
        batch=specification.batch,
        datatype=specification.datatype,
        space=specification.strategies,
        objectives=specification.objectives,
        constraints=constraints,
        top=specification.top_k,
        reproduce=parse_errata(specification.reproduce),
        fitted=fitted,
    )
