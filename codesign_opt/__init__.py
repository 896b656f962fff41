"""Finds the best pair of training strategy and hardware for large models.

import codesign_opt
result = codesign_opt.sweep("gpt3-175b", "a100-80g", processors=512, batch=512)
study = codesign_opt.search("price-study", budget=20)
front = codesign_opt.pareto_front(study)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codesign_opt.api import (
        SimulatedStep,
        SweepResult,
        Validation,
        calibrate,
        certify,
        delete_study,
        estimate,
        export_optuna,
        list_studies,
        load_study,
        pareto_front,
        refine,
        search,
        simulate_graph,
        simulate_strategy,
        sweep,
        sweep_all,
        validate,
    )
    from codesign_opt.errors import CodesignError
    from codesign_opt.strategies import Strategy
    from codesign_opt.studies.study import Study
    from codesign_opt.systems import System
    from codesign_opt.tables import Table
    from codesign_opt.workloads import Workload

__version__ = "0.1.0"

__all__ = [
    "CodesignError",
    "SimulatedStep",
    "Strategy",
    "Study",
    "SweepResult",
    "System",
    "Table",
    "Validation",
    "Workload",
    "calibrate",
    "certify",
    "delete_study",
    "estimate",
    "export_optuna",
    "list_studies",
    "load_study",
    "pareto_front",
    "refine",
    "search",
    "simulate_graph",
    "simulate_strategy",
    "sweep",
    "sweep_all",
    "validate",
]

_ELSEWHERE = {
    "CodesignError": "codesign_opt.errors",
    "Strategy": "codesign_opt.strategies",
    "Study": "codesign_opt.studies.study",
    "System": "codesign_opt.systems",
    "Table": "codesign_opt.tables",
    "Workload": "codesign_opt.workloads",
}


def __getattr__(name: str) -> Any:
    # Names are loaded when asked for: the command line starts without numpy.
    if name not in __all__:
        raise AttributeError(f"module 'codesign_opt' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_ELSEWHERE.get(name, "codesign_opt.api")), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
