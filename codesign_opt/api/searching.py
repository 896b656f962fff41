"""Studies: searched, stored, loaded and exported."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign_opt.analytical.errata import Erratum, parse_errata
from codesign_opt.catalog import study_path
from codesign_opt.configuration import read_toml, validated
from codesign_opt.db import Database, open_database
from codesign_opt.errors import InputError
from codesign_opt.studies import study as stored
from codesign_opt.studies.schema import StudyFile
from codesign_opt.studies.specification import StudySpecification, check_specification, study_from_dict
from codesign_opt.studies.study import Study
from codesign_opt.tables import Table

if TYPE_CHECKING:
    from codesign_opt.studies.certify import Certificate, CertifyProgress
    from codesign_opt.studies.study_run import Progress

DEFAULT_DATABASE = "sqlite:///codesign-opt.db"
"""Where studies are stored, unless an argument or the environment variable `CODESIGN_OPT_DB` says otherwise."""

DEFAULT_STUDY = "default"
"""The study that is run where none is named."""

StudyInput = StudySpecification | Mapping[str, Any] | str | Path | None


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
    polish: int = 0,
    workers: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> Study:
    """Run a study to its budget, or continue the stored one of that name.

    Args:
        study: Catalogue name, file, dict with the keys of a study file, or specification; the built-in one if None.
        db: URL of the database; `DEFAULT_DATABASE` if None.
        name, budget, seed, method, sampler, top_k, reproduce: Instead of what the study says.
        polish: Points to try around the best trial when the budget is spent, at most, where hardware is continuous.
        workers: Processes that evaluate; results do not depend on their number.
        progress: Called after every batch.

    Raises:
        StorageError: Where a study with another specification is stored under the name.
        InputError: For anything that cannot be read.
    """
    # The sampler's library is loaded by those who search, not by those who look at what is stored.
    from codesign_opt.studies.polish import check_polishable, polish_study
    from codesign_opt.studies.runner import run_study

    changes = {
        "name": name, "budget": budget, "seed": seed, "method": method, "sampler": sampler, "top_k": top_k,
        "reproduce": None if reproduce is None else _listed(reproduce),
    }  # fmt: skip
    specification = study_specification(study, {key: value for key, value in changes.items() if value is not None})
    if workers < 1:
        raise InputError(f"workers: {workers} is not a number of processes", "1 or more")
    if polish:
        check_polishable(specification)
    with open_studies(db) as database:
        try:
            finished = str(run_study(specification, database, workers=workers, progress=progress))
            if polish:
                polish_study(specification, database, evaluations=polish, progress=progress)
        except KeyboardInterrupt:
            if database.find_study(specification.name) is None:
                raise
            finished = "interrupted"
        return stored.load_study(database, specification.name, finished=finished)


def certify(
    study: Study | StudyInput = None,
    *,
    gap: float = 0.01,
    seconds: float | None = None,
    workers: int = 1,
    progress: Callable[[CertifyProgress], None] | None = None,
) -> Certificate:
    """Prove how near the best machine of a study with one objective is to the best there is, by branch and bound.

    Args:
        study: As for `search`; or a study that has run, whose best trial is a start that leaves less to prove.
        gap: Share of the best value that may stay unproven.
        seconds: Limit of wall time.
        workers: Processes; results do not depend on their number.
        progress: Called after every batch of boxes of machines.

    Raises:
        InputError: For a study that cannot be certified, in words.
        InfeasibleError: Where no machine has a feasible strategy.
    """
    from codesign_opt.studies.certify import certify as certified

    start = study.best_point if isinstance(study, Study) else None
    specification = study.specification if isinstance(study, Study) else study_specification(study)
    return certified(specification, gap=gap, seconds=seconds, start=start, workers=workers, progress=progress)


def study_specification(study: StudyInput, changes: Mapping[str, Any] | None = None) -> StudySpecification:
    """The specification of a study, with some of its keys changed.

    Raises:
        InputError: For anything that cannot be read.
    """
    changes = dict(changes or {})
    if isinstance(study, StudySpecification):
        changed = dataclasses.replace(study, **_checked(changes))
        check_specification(changed, where="study")
        return changed
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
    with open_studies(db, create=False) as database:
        return stored.load_study(database, name)


def list_studies(*, db: str | None = None) -> Table:
    """One row a stored study, oldest first: name, created, trials, batches, seconds, seed, hash of the specification.

    Raises:
        StorageError: Where there is no database, or none that can be read.
    """
    with open_studies(db, create=False) as database:
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
    with open_studies(db, create=False) as database:
        return database.delete_study(name)


def pareto_front(study: Study | str, *, db: str | None = None) -> Table:
    """The Pareto front of a study, the best first by the first objective; equal points stand in one row."""
    return (study if isinstance(study, Study) else load_study(study, db=db)).front


def export_optuna(study: Study | str, output: str, *, db: str | None = None) -> int:
    """Write a study's trials into a new Optuna storage (URL, or path of an SQLite file); returns how many."""
    from codesign_opt.studies import optuna_export

    return optuna_export.export_optuna(study if isinstance(study, Study) else load_study(study, db=db), output)


def open_studies(url: str | None, *, create: bool = True) -> Database:
    """The database at a URL, or at the usual place."""
    return open_database(url or os.environ.get("CODESIGN_OPT_DB") or DEFAULT_DATABASE, create=create)


def _listed(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _checked(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a study file's keys as a specification holds them."""
    others = {"workload": "", "system": "", "processors": 1, "batch": 1}
    file = validated(StudyFile, {**others, **changes}, where="search")
    values = {key: getattr(file, key) for key in changes}
    if "reproduce" in changes:
        reproduced = parse_errata(",".join(file.reproduce), where="search: reproduce")
        values["reproduce"] = tuple(erratum.name for erratum in Erratum if erratum in reproduced)
    return values
