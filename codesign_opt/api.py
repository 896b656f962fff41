"""The Python interface, with the same words as the command line."""

from __future__ import annotations

import dataclasses
import os
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codesign_opt.analytical.errata import Erratum, parse_errata
from codesign_opt.analytical.estimate import Estimate
from codesign_opt.analytical.estimate import estimate as analytical_estimate
from codesign_opt.analytical.feasibility import overflowing_tier
from codesign_opt.catalog import resolve_system, resolve_workload, study_path
from codesign_opt.configuration import read_toml, validated
from codesign_opt.db import Database, open_database
from codesign_opt.errors import InfeasibleError, InputError
from codesign_opt.interop.calculon import read_execution
from codesign_opt.objectives import Metric, available_metrics
from codesign_opt.strategies import Strategy, StrategyTable
from codesign_opt.strategies.files import read_strategy, strategy_from_dict
from codesign_opt.strategies.legality import RULES, Facts, check, first_broken
from codesign_opt.studies import optuna_export
from codesign_opt.studies import study as stored
from codesign_opt.studies.exact import ExactAnswer, ExactQuestion, question_of, solve
from codesign_opt.studies.points import hardware_dimensions, machine
from codesign_opt.studies.runner import Progress, run_study
from codesign_opt.studies.schema import StudyFile
from codesign_opt.studies.specification import StudySpecification, study_from_dict
from codesign_opt.studies.study import Study
from codesign_opt.systems import System
from codesign_opt.systems.files import system_to_toml
from codesign_opt.tables import Table
from codesign_opt.units import format_quantity
from codesign_opt.workloads import Workload

DEFAULT_DATABASE = "sqlite:///codesign-opt.db"
"""Where studies are stored, unless an argument or the environment variable `CODESIGN_OPT_DB` says otherwise."""

DEFAULT_STUDY = "default"
"""The study that is run where none is named."""

StrategyInput = Strategy | StrategyTable | Sequence[Strategy] | Mapping[str, Any] | str | Path
StudyInput = StudySpecification | Mapping[str, Any] | str | Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """The best strategies of a space.

    Attributes:
        table: Best first: rank, on_front, strategy columns, all available metrics.
        considered: Strategies covered, counted as the published search counts them.
        legal: Those that the legality rules allow.
        feasible: Those that fit in memory and keep every constraint.
        excluded: Reason to number of strategies.
        seconds: Time taken.
    """

    table: Table
    considered: int
    legal: int
    feasible: int
    excluded: Mapping[str, int]
    seconds: float


def estimate(
    workload: Workload | str | Path,
    system: System | str | Path,
    strategies: StrategyInput,
    *,
    reproduce: str | Sequence[str] = "none",
) -> Table:
    """Estimate strategies on a system.

    Args:
        workload: A workload, a catalogue name, or a file (TOML, or the published tool's JSON).
        system: Likewise.
        strategies: One or several strategies, or a dict or file with the keys of a strategy file.
        reproduce: Errata of the published tool to reproduce: "none", "all", or names.

    Returns:
        One row a strategy: `status` (empty, or the reason code of what forbids it), strategy columns, and all available
        metrics, NaN where a rule forbids the strategy.

    Raises:
        StrategyError: Where a single strategy is given and a legality rule forbids it.
        InputError: For anything that cannot be read.
    """
    shape, machine_ = _workload(workload), _system(system)
    table = _strategies(strategies, machine_)
    if table.rows == 1:
        check(table.strategy(0), shape, machine_)
    broken = first_broken(Facts(table, [shape], [machine_]))
    legal = np.flatnonzero(broken < 0)
    errata = parse_errata(reproduce)
    status = np.array(["", *(rule.code for rule in RULES)], dtype=object)[broken + 1]
    metrics = {metric.name: np.full(table.rows, np.nan) for metric in _extra_metrics(machine_, table)}
    if len(legal):
        estimated = analytical_estimate(shape, machine_, table.take(legal), reproduce=errata)
        status[legal] = overflowing_tier(estimated.model)
        for name, values in _metrics(estimated, len(legal)).items():
            metrics[name][legal] = values
    return Table({"status": status.astype(str), **table.words(), **metrics}, _units(machine_))


def sweep(
    workload: Workload | str | Path,
    system: System | str | Path,
    *,
    processors: int,
    batch: int,
    datatype: str = "float16",
    limits: Mapping[str, Any] | None = None,
    uneven_stages: bool = False,
    all_divisors: bool = False,
    objectives: str | Sequence[str] = "step_time",
    constraints: str | Sequence[str] = (),
    top: int = 10,
    reproduce: str | Sequence[str] = "none",
) -> SweepResult:
    """The best strategies of a whole space, exactly.

    Args:
        workload: As for `estimate`.
        system: As for `estimate`.
        processors: All processors.
        batch: The largest global batch; a strategy uses dp · floor(batch / dp).
        datatype: Number format.
        limits: Dimension to the value or values that it may take; everything legal where it is missing.
        uneven_stages: Also stages with different numbers of blocks.
        all_divisors: Also what is legal but seldom worth trying (see `strategies.space`).
        objectives: Metrics; strategies are ranked by the first that depends on the strategy.
        constraints: Texts such as "memory_tier1_used <= 70 GiB".
        top: How many strategies to return.
        reproduce: As for `estimate`.

    Raises:
        InfeasibleError: Where nothing satisfies everything; the message counts the reasons and names the nearest miss.
        InputError: For anything that cannot be read.
    """
    start = time.perf_counter()
    switches = {"uneven_stages": uneven_stages, "all_divisors": all_divisors}
    data = {
        "workload": _as_data(workload),
        "system": _as_data(system),
        "processors": processors,
        "batch": batch,
        "datatype": datatype,
        "strategies": {**(limits or {}), **switches},
        "objectives": _listed(objectives),
        "constraints": _listed(constraints),
        "top_k": top,
        "reproduce": _listed(reproduce),
    }
    specification = study_from_dict(data, where="sweep")
    if hardware_dimensions(specification):
        raise InputError(f"sweep: processors: {processors} is not one number", "`search` tries several")
    system_, count = machine(specification, {})
    question = question_of(specification, system_, count, specification.constraints)
    answer = solve(question)
    if answer.estimate is None:
        raise nothing_feasible(question, answer)
    rows = answer.strategies.rows
    return SweepResult(
        table=Table(
            {
                "rank": np.arange(1, rows + 1),
                "on_front": answer.on_front,
                **answer.strategies.words(),
                **_metrics(answer.estimate, rows),
            },
            _units(system_),
        ),
        considered=answer.considered,
        legal=answer.legal,
        feasible=answer.feasible,
        excluded=dict(answer.excluded),
        seconds=time.perf_counter() - start,
    )


def search(
    study: StudyInput = None,
    *,
    db: str | None = None,
    name: str | None = None,
    budget: int | str | None = None,
    seed: int | None = None,
    method: str | None = None,
    sampler: str | None = None,
    top_k: int | None = None,
    reproduce: str | Sequence[str] | None = None,
    workers: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> Study:
    """Run a study to its budget, or continue the stored one of that name.

    Args:
        study: Catalogue name, file, dict with the keys of a study file, or specification; the built-in one if None.
        db: URL of the database; `DEFAULT_DATABASE` if None.
        name, budget, seed, method, sampler, top_k, reproduce: Instead of what the study says.
        workers: Processes that evaluate; results do not depend on their number.
        progress: Called after every batch.

    Raises:
        StorageError: Where a study with another specification is stored under the name.
        InputError: For anything that cannot be read.
    """
    changes = {
        "name": name, "budget": budget, "seed": seed, "method": method, "sampler": sampler, "top_k": top_k,
        "reproduce": None if reproduce is None else _listed(reproduce),
    }  # fmt: skip
    specification = study_specification(study, {key: value for key, value in changes.items() if value is not None})
    if workers < 1:
        raise InputError(f"workers: {workers} is not a number of processes", "1 or more")
    with _database(db) as database:
        try:
            finished = str(run_study(specification, database, workers=workers, progress=progress))
        except KeyboardInterrupt:
            finished = "interrupted"
        return stored.load_study(database, specification.name, finished=finished)


def study_specification(study: StudyInput, changes: Mapping[str, Any] | None = None) -> StudySpecification:
    """The specification of a study, with some of its keys changed.

    Raises:
        InputError: For anything that cannot be read.
    """
    changes = dict(changes or {})
    if isinstance(study, StudySpecification):
        return dataclasses.replace(study, **_checked(changes))
    if isinstance(study, Mapping):
        return study_from_dict({**study, **changes}, where="study")
    path = study_path(str(study or DEFAULT_STUDY))
    return study_from_dict(
        {"name": path.stem, **read_toml(path), **changes}, where=str(study or path.name), folder=path.parent
    )


def load_study(name: str, *, db: str | None = None) -> Study:
    """The stored study of that name.

    Raises:
        InputError: Where there is none, with the near names.
    """
    with _database(db, create=False) as database:
        return stored.load_study(database, name)


def list_studies(*, db: str | None = None) -> Table:
    """One row a stored study, oldest first: name, created, trials, batches, seconds, seed, and its specification's hash.

    Raises:
        StorageError: Where there is no database, or none that can be read.
    """
    with _database(db, create=False) as database:
        records = database.list_studies()
    return Table(
        {
            "name": [record.name for record in records],
            "created": [record.created.isoformat(timespec="seconds") for record in records],
            "trials": [record.trials for record in records],
            "batches": [record.batches for record in records],
            "seconds": [record.seconds for record in records],
            "seed": [record.seed for record in records],
            "specification": [record.specification_hash[:12] for record in records],
        },
        {"seconds": "s"},
    )


def delete_study(name: str, *, db: str | None = None) -> bool:
    """Delete a stored study with all its trials; whether there was one."""
    with _database(db, create=False) as database:
        return database.delete_study(name)


def pareto_front(study: Study | str, *, db: str | None = None) -> Table:
    """The Pareto front of a study, the best first by the first objective; equal points stand in one row."""
    return (study if isinstance(study, Study) else load_study(study, db=db)).front


def export_optuna(study: Study | str, output: str, *, db: str | None = None) -> int:
    """Write a study's trials into a new Optuna storage (URL, or path of an SQLite file); returns how many."""
    return optuna_export.export_optuna(study if isinstance(study, Study) else load_study(study, db=db), output)


def nothing_feasible(question: ExactQuestion, answer: ExactAnswer) -> InfeasibleError:
    """The error that says why nothing is feasible: reasons with counts, and the nearest miss."""
    reasons = sorted(answer.excluded.items(), key=lambda item: -item[1])
    counts = ", ".join(f"{reason} {count:,}" for reason, count in reasons)
    message = f"none of {answer.considered:,} strategies is feasible: {counts}"
    if answer.nearest is None:
        return InfeasibleError(message, "use other tiers, or another number of processors", "infeasible")
    miss = answer.nearest
    strategy = miss.strategies.strategy(0)
    unit = "B" if miss.reason.startswith("memory_tier") and " " not in miss.reason else ""
    amount = format_quantity(miss.missing, unit) if unit else f"{miss.share:.3g} of the bound"
    return InfeasibleError(
        message,
        f"the nearest miss of {miss.reason} lacks {amount} ({miss.share:.1%}): tp {strategy.tp}, pp {strategy.pp}, "
        f"dp {strategy.dp}, microbatch {strategy.microbatch}, recompute {strategy.recompute.value}",
        "infeasible",
    )


def _database(url: str | None, *, create: bool = True) -> Database:
    return open_database(url or os.environ.get("CODESIGN_OPT_DB") or DEFAULT_DATABASE, create=create)


def _workload(given: Workload | str | Path) -> Workload:
    return given if isinstance(given, Workload) else resolve_workload(str(given), where="workload")


def _system(given: System | str | Path) -> System:
    return given if isinstance(given, System) else resolve_system(str(given), where="system")


def _checked(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a study file's keys as a specification holds them."""
    others = {"workload": "", "system": "", "processors": 1, "batch": 1}
    file = validated(StudyFile, {**others, **changes}, where="search")
    values = {key: getattr(file, key) for key in changes}
    if "reproduce" in changes:
        reproduced = parse_errata(",".join(file.reproduce), where="search: reproduce")
        values["reproduce"] = tuple(erratum.name for erratum in Erratum if erratum in reproduced)
    return values


def _as_data(given: Workload | System | str | Path) -> Any:
    """What a study file would hold."""
    if isinstance(given, Workload):
        return dataclasses.asdict(given)
    if isinstance(given, System):
        return tomllib.loads(system_to_toml(given))
    return str(given)


def _strategies(given: StrategyInput, system: System) -> StrategyTable:
    if isinstance(given, StrategyTable):
        return given
    if isinstance(given, Strategy):
        return StrategyTable.from_strategies([given])
    if isinstance(given, Mapping):
        return StrategyTable.from_strategies([strategy_from_dict(dict(given), system, where="strategy")])
    if isinstance(given, str | Path):
        is_published = Path(given).suffix == ".json"
        return StrategyTable.from_strategies([read_execution(given) if is_published else read_strategy(given, system)])
    if not given:
        raise InputError("strategies: none given", "give at least one")
    return StrategyTable.from_strategies(given)


def _listed(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _metrics(estimated: Estimate, rows: int) -> dict[str, Any]:
    return {
        metric.name: np.broadcast_to(metric.evaluate(estimated), (rows,))
        for metric in _extra_metrics(estimated.system, estimated.strategies)
    }


def _extra_metrics(system: System, strategies: Mapping[str, Any]) -> list[Metric]:
    """Available metrics that are no columns of the strategies already."""
    return [metric for metric in available_metrics(system) if metric.name not in strategies]


def _units(system: System) -> dict[str, str]:
    return {metric.name: "" if metric.unit == "1" else metric.unit for metric in available_metrics(system)}
