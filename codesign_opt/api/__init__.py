"""The Python interface, with the same words as the command line; each module is loaded when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codesign_opt.api.calibrating import calibrate
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
    from codesign_opt.api.simulating import refine, simulate_graph, simulate_strategy
    from codesign_opt.api.validating import validate
    from codesign_opt.simulation.step import SimulatedStep
    from codesign_opt.validation.scoring import Validation

_MODULES = {
    **dict.fromkeys(("SweepResult", "estimate", "nothing_feasible", "sweep", "sweep_all"), "evaluation"),
    **dict.fromkeys(("SimulatedStep", "refine", "simulate_graph", "simulate_strategy"), "simulating"),
    **dict.fromkeys(("Validation", "validate"), "validating"),
    "calibrate": "calibrating",
}

__all__ = [
    "DEFAULT_DATABASE",
    "DEFAULT_STUDY",
    "SimulatedStep",
    "SweepResult",
    "Validation",
    "calibrate",
    "certify",
    "delete_study",
    "estimate",
    "export_optuna",
    "list_studies",
    "load_study",
    "nothing_feasible",
    "pareto_front",
    "refine",
    "search",
    "simulate_graph",
    "simulate_strategy",
    "study_specification",
    "sweep",
    "sweep_all",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'codesign_opt.api' has no attribute '{name}'")
    from importlib import import_module

    module = _MODULES.get(name, "searching")
    return getattr(import_module(f"codesign_opt.api.{module}"), name)
