"""A training or inference step as program graphs: schedules, passes, messages, gradient exchange."""

from codesign_opt.graphs.step.from_model import step_work
from codesign_opt.graphs.step.orders import SCHEDULES
from codesign_opt.graphs.step.pass_writer import GRANULARITIES, MESSAGES, StepOptions
from codesign_opt.graphs.step.stage_graph import StageGraph
from codesign_opt.graphs.step.step import StepGraph, step_graph
from codesign_opt.graphs.step.work import StepWork, Transfer

__all__ = [
    "GRANULARITIES",
    "MESSAGES",
    "SCHEDULES",
    "StageGraph",
    "StepGraph",
    "StepOptions",
    "StepWork",
    "Transfer",
    "step_graph",
    "step_work",
]
