"""The Python interface, with the same words as the command line; each half is loaded when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codesign_opt.api.evaluation import SweepResult, estimate, nothing_feasible, sweep, sweep_all
    from codesign_opt.api.searching import (
        DEFAULT_DATABASE,
        DEFAULT_STUDY,
        certify,
        delete_study,
        export_optuna,
        list_studies,
        load_study,
        pareto_front,
        search,
        study_specification,
    )

_EVALUATION = ("SweepResult", "estimate", "nothing_feasible", "sweep", "sweep_all")

__all__ = [
    "DEFAULT_DATABASE",
    "DEFAULT_STUDY",
    "SweepResult",
    "certify",
    "delete_study",
    "estimate",
    "export_optuna",
    "list_studies",
    "load_study",
    "nothing_feasible",
    "pareto_front",
    "search",
    "study_specification",
    "sweep",
    "sweep_all",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'codesign_opt.api' has no attribute '{name}'")
    from importlib import import_module

    half = "evaluation" if name in _EVALUATION else "searching"
    return getattr(import_module(f"codesign_opt.api.{half}"), name)
