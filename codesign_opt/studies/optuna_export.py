"""A copy of a study as an Optuna storage, for optuna-dashboard and everything else that reads one."""

from __future__ import annotations

import warnings
from typing import Any

import optuna

from codesign_opt.db import EvaluationRecord
from codesign_opt.db.failures import storage_errors
from codesign_opt.db.files import require_usable
from codesign_opt.db.urls import describe, file_path, parse_url
from codesign_opt.errors import MissingExtraError, StorageError
from codesign_opt.studies.flat import strategy_dimensions
from codesign_opt.studies.points import Dimension, hardware_dimensions
from codesign_opt.studies.runner import search_method
from codesign_opt.studies.study import Study


def export_optuna(study: Study, output: str) -> int:
    """Write the study's trials into an Optuna storage; returns how many.

    Args:
        study: The study.
        output: Path or URL of an SQLite file to create, or URL of a PostgreSQL database.

    Raises:
        StorageError: The file exists, the storage cannot be written, or it holds a study of that name.
        MissingExtraError: PostgreSQL without psycopg.
    """
    address = parse_url(output)
    path = file_path(address)
    with storage_errors(address):
        if path is not None and path.is_file():
            raise StorageError(f"{path} exists already", "choose another file")
        if path is not None:
            require_usable(path, create=True)
        try:
            return _write(study, address.render_as_string(hide_password=False))
        except optuna.exceptions.DuplicatedStudyError:
            message = f"{describe(address)} holds an Optuna study named '{study.name}' already"
            raise StorageError(message, "choose another database") from None
        except (optuna.exceptions.StorageInternalError, RuntimeError) as error:
            raise StorageError(f"{describe(address)}: {error}", "choose another database") from None
        except ImportError:
            raise MissingExtraError(
                "a PostgreSQL database needs the package psycopg", "pip install 'codesign-opt[postgres]'"
            ) from None


def _write(study: Study, url: str) -> int:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    copy = optuna.create_study(storage=url, study_name=study.name, directions=[o.direction for o in study.objectives])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        copy.set_metric_names([objective.metric for objective in study.objectives])
    copy.set_user_attr("specification_hash", study.record.specification_hash)
    trials = _trials(study)
    copy.add_trials(trials)
    return len(trials)


def _trials(study: Study) -> list[optuna.trial.FrozenTrial]:
    dimensions = hardware_dimensions(study.specification)
    if search_method(study.specification) == "flat":
        dimensions = (*dimensions, *strategy_dimensions())
    distributions = {dimension.name: _distribution(dimension) for dimension in dimensions}
    best = {row.trial: row for row in study.stored_candidates if row.rank == 0}
    trials = []
    for row in study.evaluations:
        failed = row.state == "failed"
        attributes: dict[str, Any] = {"reason": row.reason} if row.reason else {}
        if row.number in best:
            attributes |= dict(best[row.number].strategy)
        trials.append(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState.FAIL if failed else optuna.trial.TrialState.COMPLETE,
                values=None if failed else _values(study, row),
                params={dimension.name: row.point[dimension.name] for dimension in dimensions},
                distributions=distributions,
                constraints=None if failed else dict(row.constraints),
                user_attrs=attributes,
            )
        )
    return trials


def _values(study: Study, row: EvaluationRecord) -> list[float]:
    return [value for o in study.objectives if (value := row.values[o.metric]) is not None]


def _distribution(dimension: Dimension) -> optuna.distributions.BaseDistribution:
    if dimension.choices:
        return optuna.distributions.CategoricalDistribution(dimension.choices)
    return optuna.distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.logarithmic)
