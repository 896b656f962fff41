"""What a study is: everything that decides its result, checked and in SI units."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from codesign_opt.analytical.errata import Erratum, parse_errata
from codesign_opt.catalog import resolve_system, resolve_workload
from codesign_opt.configuration import at, read_toml, validated
from codesign_opt.errors import InputError
from codesign_opt.objectives import METRICS, Constraint, Objective, parse_constraints, parse_objectives
from codesign_opt.strategies import Datatype
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.studies.budget import Budget
from codesign_opt.studies.free_parameters import FreeParameter, free_parameters
from codesign_opt.studies.processors import ProcessorBudget, ProcessorChoice, processor_choice
from codesign_opt.studies.schema import (
    Method,
    Sampler,
    StrategiesFile,
    StudyDerivedSystemFile,
    StudyFile,
    StudySystemFile,
)
from codesign_opt.systems import System
from codesign_opt.systems.files import derived_system, system_from_file
from codesign_opt.systems.pricing import processor_price
from codesign_opt.units import format_quantity
from codesign_opt.workloads import Workload
from codesign_opt.workloads.files import WorkloadFile, workload_from_file

_SPACE_SWITCHES = ("uneven_stages", "all_divisors", "target")


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySpecification:
    """A study.

    Attributes:
        name: What the database calls it.
        workload: What is computed.
        system: The machine; its free parameters have the base's values here.
        free: The parameters of the machine that the study chooses.
        processors: Counts to choose from, or what a budget buys.
        batch: Largest global batch, sequences; a strategy uses dp · floor(batch / dp).
        datatype: Number format.
        strategies: The strategies tried.
        objectives: What is better.
        constraints: What must hold.
        method: How the search is organised.
        sampler: What proposes machines.
        seed: Of the sampler.
        budget: Total over all runs.
        top_k: Strategies kept of every trial.
        reproduce: Names of the errata to reproduce.
    """

    name: str
    workload: Workload
    system: System
    free: tuple[FreeParameter, ...]
    processors: ProcessorChoice
    batch: int
    datatype: Datatype
    strategies: StrategySpace
    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...]
    method: Method
    sampler: Sampler
    seed: int
    budget: Budget
    top_k: int
    reproduce: tuple[str, ...]

    @property
    def hardware_is_free(self) -> bool:
        """Whether there is more than one machine to choose from."""
        return _several_machines(self.free, self.processors)


def read_study(path: str | Path) -> StudySpecification:
    """The study that a TOML file describes; paths in it are relative to its folder.

    Raises:
        InputError: For a file that cannot be read, and for whatever is wrong in it.
    """
    data = read_toml(path)
    return study_from_dict({"name": Path(path).stem, **data}, where=str(path), folder=Path(path).parent)


def study_from_dict(data: dict[str, Any], *, where: str, folder: Path | None = None) -> StudySpecification:
    """The study that the content of a file describes.

    Args:
        data: As TOML gives it.
        where: Names the file in messages.
        folder: What relative paths in `data` are relative to; else the current directory.

    Raises:
        InputError: For whatever is wrong in `data`.
    """
    file = validated(StudyFile, data, where=where)
    system = _system(file.system, where=at(where, "system"), folder=folder)
    free = _free(file.system, system, where=at(where, "system"))
    processors = processor_choice(file.processors, where=at(where, "processors"))
    specification = StudySpecification(
        name=file.name,
        workload=_workload(file.workload, where=at(where, "workload"), folder=folder),
        system=system,
        free=free,
        processors=processors,
        batch=file.batch,
        datatype=file.datatype,
        strategies=strategy_space(file.strategies),
        objectives=parse_objectives(
            file.objectives or _default_objectives(system, _several_machines(free, processors)),
            where=at(where, "objectives"),
        ),
        constraints=parse_constraints(file.constraints, where=at(where, "constraints")),
        method=file.method,
        sampler=file.sampler,
        seed=file.seed,
        budget=file.budget,
        top_k=file.top_k,
        reproduce=_errata(file.reproduce, where=at(where, "reproduce")),
    )
    check_specification(specification, where=where)
    return specification


def strategy_space(file: StrategiesFile) -> StrategySpace:
    """The strategies that a study's table `[strategies]` allows."""
    given = {name: getattr(file, name) for name in StrategiesFile.model_fields if name not in _SPACE_SWITCHES}
    limits = {name: tuple(dict.fromkeys(values)) for name, values in given.items() if values is not None}
    return StrategySpace(
        limits=limits, uneven_stages=file.uneven_stages, all_divisors=file.all_divisors, target=file.target
    )


def _workload(file: str | WorkloadFile, *, where: str, folder: Path | None) -> Workload:
    if isinstance(file, WorkloadFile):
        return workload_from_file(file)
    return resolve_workload(_located(file, folder), where=where)


def _system(file: str | StudySystemFile | StudyDerivedSystemFile, *, where: str, folder: Path | None) -> System:
    if isinstance(file, StudySystemFile):
        return system_from_file(file, where=where)
    if isinstance(file, StudyDerivedSystemFile):
        return derived_system(file, where=where, resolve_base=partial(_resolve_located_system, folder=folder))
    return _resolve_located_system(file, where=where, folder=folder)


def _resolve_located_system(name_or_path: str, *, where: str, folder: Path | None) -> System:
    return resolve_system(_located(name_or_path, folder), where=where)


def _located(name_or_path: str, folder: Path | None) -> str:
    is_file = Path(name_or_path).suffix in (".toml", ".json")
    return str(folder / name_or_path) if folder is not None and is_file else name_or_path


def _free(
    file: str | StudySystemFile | StudyDerivedSystemFile, system: System, *, where: str
) -> tuple[FreeParameter, ...]:
    if isinstance(file, str):
        return ()
    if isinstance(file, StudyDerivedSystemFile) and (both := file.set.keys() & file.free.keys()):
        place = f"{where}.free.{min(both)}"
        raise InputError(f"{place}: is in [system.set] too", "a parameter is either set or free")
    return free_parameters(file.free, system, where=f"{where}.free")


def _several_machines(free: tuple[FreeParameter, ...], processors: ProcessorChoice) -> bool:
    counts = len(processors) if isinstance(processors, tuple) else processors.counts
    return bool(free) or counts > 1


def _default_objectives(system: System, several_machines: bool) -> list[str]:
    priced = several_machines and system.price is not None
    return ["sample_rate", "system_price"] if priced else ["step_time"]


def _errata(words: list[str], *, where: str) -> tuple[str, ...]:
    chosen = parse_errata(",".join(words), where=where)
    return tuple(erratum.name for erratum in Erratum if erratum in chosen)


def check_specification(specification: StudySpecification, *, where: str) -> None:
    """Refuse what no single key shows to be wrong.

    Raises:
        InputError: A datatype or network tier that the system lacks, a metric that needs what it lacks, a budget that
            buys nothing, or a method or sampler that cannot serve such a study.
    """
    _check_datatype(specification, where)
    _check_tiers(specification, where)
    _check_metrics(specification, where)
    _check_processors(specification, where)
    _check_search(specification, where)


def _check_datatype(specification: StudySpecification, where: str) -> None:
    system, datatype = specification.system, specification.datatype.value
    if datatype not in system.matrix:
        place = at(where, "datatype")
        raise InputError(f"{place}: '{system.name}' has no engine for {datatype}", f"it has {', '.join(system.matrix)}")


def _check_tiers(specification: StudySpecification, where: str) -> None:
    tiers = len(specification.system.network_tiers)
    for name in ("tp_tier", "pp_tier", "dp_tier"):
        for tier in specification.strategies.limits.get(name, ()):
            if tier >= tiers:
                place = at(where, "strategies", name)
                raise InputError(
                    f"{place}: '{specification.system.name}' has no network tier {tier}", f"0 to {tiers - 1}"
                )


def _check_metrics(specification: StudySpecification, where: str) -> None:
    chosen = [("objectives", objective.metric) for objective in specification.objectives]
    chosen += [("constraints", constraint.metric) for constraint in specification.constraints]
    free_capacity = any(parameter.path == "memory_tier2.capacity" for parameter in specification.free)
    for key, name in chosen:
        metric = METRICS[name]
        if not metric.available(specification.system) and not (metric.needs == "memory_tier2" and free_capacity):
            message = f"{at(where, key)}: '{name}' needs {metric.needs}, which '{specification.system.name}' lacks"
            raise InputError(message, f"add [system.{metric.needs}], or name another metric")


def _check_processors(specification: StudySpecification, where: str) -> None:
    processors, system = specification.processors, specification.system
    if not isinstance(processors, ProcessorBudget):
        return
    if system.price is None:
        place = at(where, "processors", "budget")
        raise InputError(f"{place}: '{system.name}' has no price", "add [system.price], or give a number of processors")
    if not specification.free and processors.count(system) == 0:
        price = format_quantity(float(processor_price(system)), "$")
        place = at(where, "processors", "budget")
        bought = f"{format_quantity(processors.budget, '$')} does not buy {processors.lowest} processors of {price}"
        raise InputError(f"{place}: {bought}", "raise the budget, or lower `multiple` and `lowest`")


def _check_search(specification: StudySpecification, where: str) -> None:
    ranges = [parameter.path for parameter in specification.free if not parameter.choices]
    if specification.method == "exact" and ranges:
        message = f"{at(where, 'method')}: 'exact' cannot try every value of {ranges[0]}"
        raise InputError(message, 'give it choices, or use method = "bilevel"')
    if specification.sampler == "cmaes" and len(specification.objectives) > 1:
        message = f"{at(where, 'sampler')}: 'cmaes' takes one objective, not {len(specification.objectives)}"
        raise InputError(message, 'use "nsga2", "tpe" or "gp"')
