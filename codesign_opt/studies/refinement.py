"""Refinement: the best candidates of a study, scored again by simulating their steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import numpy as np

from codesign_opt.analytical import estimate, parse_errata
from codesign_opt.db import CandidateRecord, Database, RefinementRecord
from codesign_opt.errors import InfeasibleError, InputError
from codesign_opt.graphs.step import step_graph, step_work
from codesign_opt.objectives import available_metrics
from codesign_opt.simulation.step import simulate_beside
from codesign_opt.simulation.version import SIMULATOR_VERSION
from codesign_opt.strategies import StrategyTable
from codesign_opt.strategies.table import strategy_of_words
from codesign_opt.studies.exact.question import with_fitted
from codesign_opt.studies.points import Point, fitted_capacities, machine
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.studies.study import Study
from codesign_opt.studies.workers import mapping
from codesign_opt.systems import System

NOTABLE: Final = 0.05
"""Share of the step time from which on a difference between estimate and simulation is explained."""

_NEGLIGIBLE: Final = 0.005

_LISTED: Final = 10
"""Numbers that a hint lists, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinementProgress:
    """How many of the candidates to simulate have been."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Simulated:
    """What simulating a candidate says: every metric, and notes for the database."""

    metrics: dict[str, float]
    notes: dict[str, Any]


def refine_study(
    study: Study,
    database: Database,
    *,
    top: int,
    workers: int = 1,
    progress: Callable[[RefinementProgress], None] | None = None,
) -> None:
    """Simulate the best candidates and those of the front, and store what that says beside their estimates.

    What this version of the simulator said of a candidate before is kept, so that an interrupted refinement goes on
    where it ended. Each result is stored as it comes.

    Args:
        study: The study as it is stored.
        database: Where it is stored.
        top: How many of the best by the first objective.
        workers: Processes; results do not depend on their number.
        progress: Called after every candidate.

    Raises:
        InfeasibleError: Where the study has no candidates.
        StorageError: Where it was deleted meanwhile.
    """
    _require_candidates(study)
    wanted = [candidate for candidate in chosen_candidates(study, top) if candidate.id not in study.refinements]
    points = _points(study)
    tasks = [(points[candidate.trial or 0], candidate.strategy) for candidate in wanted]
    with mapping(min(workers, max(1, len(tasks)))) as of_all:
        results = of_all(partial(_simulate_task, study.specification), tasks)
        for done, (candidate, result) in enumerate(zip(wanted, results, strict=True), start=1):
            assert candidate.id is not None
            record = RefinementRecord(
                candidate_id=candidate.id,
                simulator_version=SIMULATOR_VERSION,
                metrics=result.metrics,
                notes=result.notes,
                created=datetime.now(UTC),
            )
            database.write_refinements([record])
            if progress is not None:
                progress(RefinementProgress(done=done, total=len(wanted)))


def chosen_candidates(study: Study, top: int) -> list[CandidateRecord]:
    """The best candidates by the first objective, best first, then those of the front that are not among them."""
    best = _best_candidates(study, top)
    return list({candidate.id: candidate for candidate in [*best, *study.front_candidates]}.values())


def find_candidate(study: Study, *, trial: int | None = None, rank: int | None = None) -> CandidateRecord:
    """A candidate of a study.

    Args:
        study: The study.
        trial: Of the candidate; that of the best one by the first objective if None.
        rank: Within its trial; if None the first, or that of the best one where no trial is named.

    Raises:
        InfeasibleError: Where the study has no candidates at all.
        InputError: Where it has no such candidate.
    """
    _require_candidates(study)
    best = _best_candidates(study, 1)[0]
    if trial is None:
        trial, rank = best.trial, best.rank if rank is None else rank
    of_trial = {candidate.rank: candidate for candidate in study.stored_candidates if candidate.trial == trial}
    if not of_trial:
        known = sorted({candidate.trial or 0 for candidate in study.stored_candidates})
        raise InputError(
            f"trial {trial} of study '{study.name}' has no strategies", f"trials that have some: {_listed(known)}"
        )
    if (rank or 0) not in of_trial:
        raise InputError(
            f"trial {trial} of study '{study.name}' has no strategy of rank {rank}",
            f"ranks: {_listed(sorted(of_trial))}",
        )
    return of_trial[rank or 0]


def candidate_system(study: Study, candidate: CandidateRecord) -> System:
    """The machine of a candidate's trial; capacities that fit each strategy are the largest."""
    return machine(study.specification, _points(study)[candidate.trial or 0])[0]


def simulate_candidate(specification: StudySpecification, point: Point, strategy: Mapping[str, Any]) -> Simulated:
    """Simulate a step of a candidate on the machine of its point.

    Returns:
        Metrics as of the estimate, with the simulated times. Notes: `schedule`, `granularity`, the `parts` of the step
        of the busiest `stage` (estimate and simulated seconds), `contention` (seconds that sharing ports costs), and
        `because` (in words, what makes up a difference of more than `NOTABLE`).
    """
    system, _ = machine(specification, point)
    chosen = strategy_of_words(strategy)
    reproduce = parse_errata(specification.reproduce)
    table = StrategyTable.from_strategies([chosen])
    estimated = estimate(specification.workload, system, table, reproduce=reproduce)
    step = step_graph(step_work(specification.workload, system, chosen, reproduce=reproduce))
    opinion = simulate_beside(estimated, step)
    assert opinion.simulated is not None
    assert opinion.parts is not None
    parts = list(opinion.parts.to_dicts())
    priced = with_fitted(opinion.simulated, fitted_capacities(specification))
    metrics = {
        metric.name: float(np.asarray(metric.evaluate(priced)).reshape(-1)[0]) for metric in available_metrics(system)
    }
    notes = {
        "schedule": step.schedule,
        "granularity": step.options.granularity,
        "stage": opinion.stage,
        "parts": {row["part"]: [row["estimate"], row["simulated"]] for row in parts},
        "contention": opinion.contention,
        "because": because(parts, opinion.contention),
    }
    return Simulated(metrics={name: value for name, value in metrics.items() if np.isfinite(value)}, notes=notes)


def because(parts: Sequence[Mapping[str, Any]], contention: float) -> str:
    """In words what makes up the difference of a step time, where it is notable; else "".

    Args:
        parts: Rows of `simulation.step.compare`, the total last.
        contention: Seconds of the simulated step that sharing ports costs.
    """
    *rows, total = parts
    if abs(total["share"]) < NOTABLE:
        return ""
    told = [(row["part"].replace("_", " "), row["share"]) for row in rows if abs(row["share"]) >= _NEGLIGIBLE]
    rest = total["share"] - sum(share for _, share in told)
    if abs(rest) >= _NEGLIGIBLE:
        told.append(("others", rest))
    if contention >= _NEGLIGIBLE * total["estimate"]:
        told.append(("of that contention", contention / total["estimate"]))
    return ", ".join(f"{part} {share:+.1%}" for part, share in told)


def _best_candidates(study: Study, top: int) -> list[CandidateRecord]:
    objective = study.objectives[0]
    candidates = study.stored_candidates
    values = np.array([candidate.metrics[objective.metric] for candidate in candidates])
    return [candidates[place] for place in np.argsort(objective.minimized(values), kind="stable")[:top].tolist()]


def _require_candidates(study: Study) -> None:
    if not study.stored_candidates:
        raise InfeasibleError(
            f"study '{study.name}' has no feasible trial, so nothing can be simulated",
            "run it further, or loosen its constraints",
        )


def _points(study: Study) -> dict[int, Point]:
    return {evaluation.number: evaluation.point for evaluation in study.evaluations}


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:_LISTED])) + (", …" if len(numbers) > _LISTED else "")


def _simulate_task(specification: StudySpecification, task: tuple[Point, Mapping[str, Any]]) -> Simulated:
    return simulate_candidate(specification, *task)
