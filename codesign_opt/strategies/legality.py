"""Which strategies are refused: under which reason code, in which words, and what would be legal instead.

The first rule that a strategy breaks gives its code. What depends on the memory that a strategy needs is judged after
the estimate (`analytical.feasibility`); what a framework demands beyond these rules, in `strategies.targets`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import StrategyError
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.rules import degrees, experts, pipeline, placement, precision, sharding
from codesign_opt.strategies.rules import words as option_words
from codesign_opt.strategies.rules.published import PUBLISHED
from codesign_opt.strategies.rules.rule import Rule, Violation, nearest_divisors
from codesign_opt.strategies.rules.sentences import explain
from codesign_opt.strategies.strategy import Strategy
from codesign_opt.strategies.table import StrategyTable
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

__all__ = [
    "PUBLISHED",
    "RULES",
    "Rule",
    "Violation",
    "check",
    "explain",
    "first_broken",
    "nearest_divisors",
    "violations",
]

RULES: tuple[Rule, ...] = (
    *PUBLISHED,
    *option_words.RULES,
    *degrees.RULES,
    *experts.RULES,
    *pipeline.RULES,
    *sharding.RULES,
    *placement.RULES,
    *precision.RULES,
)
"""All general rules: the published ones, then those of columns that the published tool does not have."""


def first_broken(facts: Facts, rules: Sequence[Rule] = RULES) -> NDArray[Any]:
    """For each row the index in `rules` of the first broken rule, or -1 for a legal strategy."""
    result: NDArray[Any] = np.full(np.shape(facts["tp"]), -1)
    for index in range(len(rules) - 1, -1, -1):
        result = np.where(rules[index].broken(facts), index, result)
    return result


def violations(
    strategy: Strategy, workload: Workload, system: System, rules: Sequence[Rule] = RULES, *, layout: bool = False
) -> list[Violation]:
    """Every rule that the strategy breaks, in order; empty for a legal one. `layout` is that of `Facts`."""
    facts = Facts(StrategyTable.from_strategies([strategy]), [workload], [system], layout=layout)
    return [explain(rule, facts, 0) for rule in rules if rule.broken(facts)[0]]


def check(strategy: Strategy, workload: Workload, system: System) -> None:
    """Raise a StrategyError that names every broken rule, if there is any; its code is that of the first."""
    found = violations(strategy, workload, system)
    if found:
        raise StrategyError(
            "; ".join(violation.sentence for violation in found),
            "; ".join(dict.fromkeys(violation.nearest for violation in found if violation.nearest)),
            found[0].code,
        )
