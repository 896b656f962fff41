"""The closed-form model: operations → block → schedule and memory → estimate, over columns of strategies."""

from codesign_opt.analytical.errata import ALL, NONE, Erratum, parse_errata
from codesign_opt.analytical.estimate import Estimate, estimate
from codesign_opt.analytical.memory import MemoryNeeds
from codesign_opt.analytical.model import StepTimes
from codesign_opt.analytical.statistics import statistics

__all__ = ["ALL", "NONE", "Erratum", "Estimate", "MemoryNeeds", "StepTimes", "estimate", "parse_errata", "statistics"]
