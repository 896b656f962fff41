"""Measured training runs: reading them, what they stand for, and how far predictions are from them."""

from codesign_opt.validation.groups import Group, comparable_groups
from codesign_opt.validation.mapping import MappedRun, Skipped, map_run, map_runs
from codesign_opt.validation.predict import Predictions, predict
from codesign_opt.validation.runs import MeasuredRun, read_runs, shipped_runs

__all__ = [
    "Group",
    "MappedRun",
    "MeasuredRun",
    "Predictions",
    "Skipped",
    "comparable_groups",
    "map_run",
    "map_runs",
    "predict",
    "read_runs",
    "shipped_runs",
]
