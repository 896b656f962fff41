"""What "better" means: the catalogue of metrics, objectives, constraints, Pareto fronts and hypervolume."""

from codesign_opt.objectives.constraint import Constraint, constraint_violations, parse_constraint, parse_constraints
from codesign_opt.objectives.front import hypervolume, pareto_front, reference_point
from codesign_opt.objectives.metrics import METRICS, Metric, available_metrics, metric
from codesign_opt.objectives.objective import Objective, objective_values, parse_objective, parse_objectives, robust

__all__ = [
    "METRICS",
    "Constraint",
    "Metric",
    "Objective",
    "available_metrics",
    "constraint_violations",
    "hypervolume",
    "metric",
    "objective_values",
    "pareto_front",
    "parse_constraint",
    "parse_constraints",
    "parse_objective",
    "parse_objectives",
    "reference_point",
    "robust",
]
