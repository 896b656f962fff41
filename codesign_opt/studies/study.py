"""A stored study: its trials, candidates and Pareto front as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.db import CandidateRecord, Database, EvaluationRecord, RefinementRecord, StudyRecord
from codesign_opt.errors import InputError, nearest
from codesign_opt.objectives import METRICS, Objective, pareto_front
from codesign_opt.simulation.version import SIMULATOR_VERSION
from codesign_opt.strategies.table import DEFAULT_WORDS
from codesign_opt.studies.canonical import specification_from_dict
from codesign_opt.studies.points import PROCESSORS, Point, fitted_paths
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.tables import Table

SIMULATED = "_simulated"
"""What follows the name of a metric in that of the column with its simulated values."""

CHANGE = "_change"
"""What follows it in that of the column with their difference from the estimate, as a share of that."""


@dataclass(frozen=True, slots=True)
class Study:
    """What the database holds of a study.

    Attributes:
        record: Name, versions and counters.
        specification: The study, rebuilt from the database.
        evaluations: Its trials.
        stored_candidates: The best strategies of each trial.
        refinements: Identifier of a candidate to what this version of the simulator says of it.
        finished: Why the run that returned this ended: "budget", "exhausted", "interrupted"; "" where it was loaded.
    """

    record: StudyRecord
    specification: StudySpecification
    evaluations: Sequence[EvaluationRecord]
    stored_candidates: Sequence[CandidateRecord]
    refinements: Mapping[int, RefinementRecord] = field(default_factory=dict)
    finished: str = ""

    @property
    def name(self) -> str:
        """Name in the database."""
        return self.record.name

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What the study optimises."""
        return self.specification.objectives

    @property
    def best_point(self) -> Point | None:
        """The machine of the best trial by the first objective; None where no trial is feasible."""
        objective = self.objectives[0]
        rated = [
            (float(objective.minimized(np.array(value))), row)
            for row in self.evaluations
            if row.state == "complete" and (value := row.values.get(objective.metric)) is not None
        ]
        return min(rated, key=lambda entry: entry[0])[1].point if rated else None

    @property
    def trials(self) -> Table:
        """One row a trial: trial, state, reason, repeat_of (-1 for none), the point, and the objectives."""
        rows = self.evaluations
        columns: dict[str, Any] = {
            "trial": [row.number for row in rows],
            "state": [row.state for row in rows],
            "reason": [row.reason for row in rows],
            "repeat_of": [-1 if row.repeat_of is None else row.repeat_of for row in rows],
        }
        for name in self._dimensions:
            columns[name] = [row.point.get(name) for row in rows]
        for objective in self.objectives:
            values = [row.values.get(objective.metric) for row in rows]
            columns[objective.metric] = [np.nan if value is None else value for value in values]
        return Table(columns, self._units)

    @property
    def candidates(self) -> Table:
        """One row a candidate: trial, rank, on_front, the point, the objectives, other metrics, and the strategy."""
        return self._candidate_table(self.stored_candidates)

    @property
    def front(self) -> Table:
        """The Pareto front over all candidates, the best first by the first objective.

        Candidates with equal objectives stand in one row, that of the earliest trial; `ties` says how many others
        there are.
        """
        places, ties = self._front()
        table = self._candidate_table([self.stored_candidates[place] for place in places])
        columns = {"trial": table["trial"], "ties": ties}
        columns |= {name: table[name] for name in table if name not in ("trial", "rank", "on_front")}
        return Table(columns, self._units)

    @property
    def front_candidates(self) -> list[CandidateRecord]:
        """The candidates of `front`, in its order."""
        return [self.stored_candidates[place] for place in self._front()[0]]

    def _front(self) -> tuple[list[int], NDArray[np.int64]]:
        """Positions in `stored_candidates`, and how many others each stands for."""
        members = [place for place, candidate in enumerate(self.stored_candidates) if candidate.on_front]
        values = np.array(
            [[_value(self.stored_candidates[place], objective) for objective in self.objectives] for place in members]
        ).reshape(len(members), len(self.objectives))
        front = pareto_front(values)
        distinct, first, count = np.unique(values[front], axis=0, return_index=True, return_counts=True)
        order = np.lexsort(distinct.T[::-1])
        return [members[front[first[index]]] for index in order], count[order] - 1

    @property
    def refined(self) -> Table:
        """A row a simulated candidate, best first by the simulated first objective.

        Columns: trial, rank, and `estimated_place` among these candidates, the same for equal estimates; for each
        objective, and the step time, the estimate, the simulated value and their difference as a share of the estimate;
        `because`: what makes up a notable difference; the point; and the strategy.
        """
        rows = [row for row in self.stored_candidates if row.id in self.refinements]
        table = self._candidate_table(rows)
        first = self.objectives[0]
        columns: dict[str, Any] = {name: table[name] for name in ("trial", "rank")}
        columns["estimated_place"] = _places(first.minimized(self._estimated(rows, first.metric)))
        for name in dict.fromkeys([*(objective.metric for objective in self.objectives), "step_time"]):
            estimated, simulated = self._estimated(rows, name), self._simulated(rows, name)
            columns |= {name: estimated, f"{name}{SIMULATED}": simulated}
            columns[f"{name}{CHANGE}"] = _change(estimated, simulated)
        columns["because"] = [self.refinements[row.id or 0].notes["because"] for row in rows]
        columns |= {name: table[name] for name in table if name not in columns and name not in METRICS}
        order = np.argsort(first.minimized(columns[f"{first.metric}{SIMULATED}"]), kind="stable")
        return Table(columns, self._units).take(order)

    def best_by(self, names: Sequence[str]) -> Table:
        """The best candidate, by the first objective, for each combination of values of some columns.

        Args:
            names: Columns of `candidates`, such as "memory_tier1.capacity" or "processors".

        Returns:
            Rows sorted by these columns, which come first, then the objectives and everything else.

        Raises:
            InputError: For an unknown column, with the near ones.
        """
        table = self.candidates
        keys = np.array([table[name] for name in names], dtype=object).T
        values = self.objectives[0].minimized(table[self.objectives[0].metric])
        best: dict[tuple[Any, ...], int] = {}
        for row in np.argsort(values, kind="stable").tolist():
            best.setdefault(tuple(keys[row]), row)
        rows = table.take([best[key] for key in sorted(best)])
        shown = [name for name in rows if name not in names and name not in ("rank", "on_front")]
        return rows.select([*names, *shown])

    @property
    def _dimensions(self) -> list[str]:
        return sorted({name for row in self.evaluations for name in row.point}, key=_dimension_order)

    @property
    def _units(self) -> dict[str, str]:
        units = {name: metric.unit for name, metric in METRICS.items()}
        units |= {f"{name}{SIMULATED}": metric.unit for name, metric in METRICS.items()}
        units |= {parameter.path: parameter.unit for parameter in self.specification.free}
        return {name: "" if unit == "1" else unit for name, unit in units.items()}

    def _estimated(self, rows: Sequence[CandidateRecord], metric: str) -> NDArray[Any]:
        return np.array([row.metrics.get(metric, np.nan) for row in rows])

    def _simulated(self, rows: Sequence[CandidateRecord], metric: str) -> NDArray[Any]:
        """NaN where this version of the simulator has said nothing."""
        refined = [self.refinements.get(row.id or 0) for row in rows]
        return np.array([np.nan if one is None else one.metrics.get(metric, np.nan) for one in refined])

    def _candidate_table(self, rows: Sequence[CandidateRecord]) -> Table:
        points = {row.number: row.point for row in self.evaluations}
        columns: dict[str, Any] = {
            "trial": [row.trial for row in rows],
            "rank": [row.rank for row in rows],
            "on_front": [row.on_front for row in rows],
        }
        for path in fitted_paths(self.specification):
            columns[path] = [row.metrics.get(path.replace(".", "_")) for row in rows]
        for name in self._dimensions:
            columns[name] = [points[row.trial or 0].get(name) for row in rows]
        first = [objective.metric for objective in self.objectives]
        present = {name for row in rows for name in row.metrics}
        for name in first:
            columns[name] = self._estimated(rows, name)
            if self.refinements:
                columns[f"{name}{SIMULATED}"] = self._simulated(rows, name)
        for name in METRICS:
            if name in present and name not in first:
                columns[name] = self._estimated(rows, name)
        for name in dict.fromkeys(name for row in rows for name in row.strategy):
            columns[name] = [row.strategy.get(name, DEFAULT_WORDS.get(name)) for row in rows]
        return Table(columns, self._units)


def load_study(database: Database, name: str, *, finished: str = "") -> Study:
    """The stored study of that name.

    Raises:
        InputError: There is none; the hint names the near ones.
    """
    record = database.find_study(name)
    if record is None:
        known = [study.name for study in database.list_studies()]
        raise InputError(f"no study '{name}' in the database", nearest(name, known) if known else "it holds none")
    return Study(
        record=record,
        specification=specification_from_dict(json.loads(record.specification), where=f"study '{name}'"),
        evaluations=database.read_evaluations(name),
        stored_candidates=database.read_candidates(name),
        refinements={
            refined.candidate_id: refined
            for refined in database.read_refinements(name)
            if refined.simulator_version == SIMULATOR_VERSION
        },
        finished=finished,
    )


def _value(candidate: CandidateRecord, objective: Objective) -> float:
    return float(objective.minimized(np.array(candidate.metrics[objective.metric])))


def _places(values: NDArray[Any]) -> NDArray[np.int64]:
    """Places from 1, the smallest value first; equal values share one."""
    return np.searchsorted(np.sort(values), values) + 1


def _change(before: NDArray[Any], after: NDArray[Any]) -> NDArray[np.float64]:
    """The difference as a share of what was before; 0 where there is none, also from 0 to 0."""
    change = np.zeros(len(before))
    with np.errstate(divide="ignore"):
        np.divide(after - before, before, out=change, where=after != before)
    return change


def _dimension_order(name: str) -> tuple[bool, bool, str]:
    return name.startswith("strategy."), name == PROCESSORS, name
