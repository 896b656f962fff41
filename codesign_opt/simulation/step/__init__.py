"""A step simulated: its stages' programs, the network between and below them, and what the estimate leaves out."""

from codesign_opt.simulation.step.comparison import SimulatedStep, compare, simulate_beside, simulated_estimate
from codesign_opt.simulation.step.processor_groups import PLACEMENTS
from codesign_opt.simulation.step.run import ENGINES, StepSimulation, simulate_step
from codesign_opt.simulation.step.topology_times import on_topology

__all__ = [
    "ENGINES",
    "PLACEMENTS",
    "SimulatedStep",
    "StepSimulation",
    "compare",
    "on_topology",
    "simulate_beside",
    "simulate_step",
    "simulated_estimate",
]
