"""A stored study: its trials, candidates and Pareto front as tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codesign_opt.db import CandidateRecord, Database, EvaluationRecord, StudyRecord
from codesign_opt.errors import InputError, nearest
from codesign_opt.objectives import METRICS, Objective, pareto_front
from codesign_opt.studies.canonical import specification_from_dict
from codesign_opt.studies.points import PROCESSORS, Point, fitted_paths
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.tables import Table


@dataclass(frozen=True, slots=True)
class Study:
    """What the database holds of a study.

    Attributes:
        record: Name, versions and counters.
        specification: The study, rebuilt from the database.
        evaluations: Its trials.
        stored_candidates: The best strategies of each trial.
        finished: Why the run that returned this ended: "budget", "exhausted", "interrupted"; "" where it was loaded.
    """

    record: StudyRecord
    specification: StudySpecification
    evaluations: Sequence[EvaluationRecord]
    stored_candidates: Sequence[CandidateRecord]
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
        complete = [row for row in self.evaluations if row.state == "complete"]
        best = min(
            complete, key=lambda row: float(objective.minimized(np.array(row.values[objective.metric]))), default=None
        )
        return None if best is None else best.point

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
        members = [candidate for candidate in self.stored_candidates if candidate.on_front]
        values = np.array([[_value(candidate, objective) for objective in self.objectives] for candidate in members])
        values = values.reshape(len(members), len(self.objectives))
        front = pareto_front(values)
        distinct, first, count = np.unique(values[front], axis=0, return_index=True, return_counts=True)
        order = np.lexsort(distinct.T[::-1])
        table = self._candidate_table([members[front[first[index]]] for index in order])
        columns = {"trial": table["trial"], "ties": count[order] - 1}
        columns |= {name: table[name] for name in table if name not in ("trial", "rank", "on_front")}
        return Table(columns, self._units)

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
        units |= {parameter.path: parameter.unit for parameter in self.specification.free}
        return {name: "" if unit == "1" else unit for name, unit in units.items()}

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
        for name in [*first, *(name for name in METRICS if name in present and name not in first)]:
            columns[name] = [row.metrics.get(name, np.nan) for row in rows]
        for name in dict.fromkeys(name for row in rows for name in row.strategy):
            columns[name] = [row.strategy.get(name) for row in rows]
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
        finished=finished,
    )


def _value(candidate: CandidateRecord, objective: Objective) -> float:
    return float(objective.minimized(np.array(candidate.metrics[objective.metric])))


def _dimension_order(name: str) -> tuple[bool, bool, str]:
    return name.startswith("strategy."), name == PROCESSORS, name
