"""Targets: the frameworks that may run a strategy, each with rules of its own beyond the general ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError, StrategyError, nearest
from codesign_opt.strategies.facts import Facts
from codesign_opt.strategies.legality import RULES, check, violations
from codesign_opt.strategies.rules.rule import Rule, Violation
from codesign_opt.strategies.strategy import Strategy
from codesign_opt.strategies.targets.deepspeed import DEEPSPEED
from codesign_opt.strategies.targets.free import FREE
from codesign_opt.strategies.targets.megatron_lm import MEGATRON_LM
from codesign_opt.strategies.targets.nanotron import NANOTRON
from codesign_opt.strategies.targets.target import Target
from codesign_opt.strategies.targets.torchtitan import TORCHTITAN
from codesign_opt.systems import System
from codesign_opt.workloads import Workload

__all__ = [
    "TARGETS",
    "Target",
    "check_target",
    "find_target",
    "refused_by",
    "rules_of",
    "target_violations",
    "with_defaults",
]

TARGETS: Mapping[str, Target] = {target.name: target for target in (FREE, MEGATRON_LM, TORCHTITAN, DEEPSPEED, NANOTRON)}
"""All targets by name."""


def find_target(name: str, *, where: str = "target") -> Target:
    """The target of that name.

    Raises:
        InputError: There is none; the hint names the nearest.
    """
    if name not in TARGETS:
        raise InputError(f"{where}: '{name}' is not known", nearest(name, TARGETS))
    return TARGETS[name]


def rules_of(target: str) -> tuple[Rule, ...]:
    """The general rules, then those of the target.

    Raises:
        InputError: For an unknown target.
    """
    return (*RULES, *find_target(target).rules)


def target_violations(
    strategy: Strategy, workload: Workload, system: System, target: str, *, layout: bool = False
) -> list[Violation]:
    """Every rule that the strategy breaks, the general ones first.

    Args:
        strategy, workload, system: What is judged.
        target: Name of the target.
        layout: Whether the framework is told the blocks of every stage, so that they need not be even.

    Raises:
        InputError: For an unknown target.
    """
    return violations(strategy, workload, system, rules_of(target), layout=layout)


def check_target(strategy: Strategy, workload: Workload, system: System, target: str, *, layout: bool = False) -> None:
    """Raise a StrategyError that names every broken rule on a line of its own; its code is that of the first.

    Raises:
        InputError: For an unknown target.
    """
    chosen = find_target(target)
    if chosen is FREE:
        check(strategy, workload, system)
        return
    found = target_violations(strategy, workload, system, target, layout=layout)
    if found:
        lines = [f"{chosen.name} ({chosen.version}) refuses the strategy:", *map(str, found)]
        raise StrategyError("\n  ".join(lines), code=found[0].code)


def refused_by(
    target: str, strategies: Mapping[str, NDArray[Any]], workload: Workload, system: System
) -> NDArray[np.bool_] | None:
    """Which strategies break a rule of the target's own, of the shape that the columns broadcast to; None for no rules.

    Raises:
        InputError: For an unknown target.
    """
    rules = find_target(target).rules
    if not rules:
        return None
    facts = Facts(strategies, [workload], [system])
    refused: NDArray[np.bool_] = np.zeros((), dtype=np.bool_)
    for rule in rules:
        refused = refused | rule.broken(facts)
    return refused


def with_defaults(keys: Mapping[str, Any], workload: Workload, target: str) -> dict[str, Any]:
    """The keys of a strategy with what the target assumes where nothing is said.

    Raises:
        InputError: For an unknown target.
    """
    follows = find_target(target).expert_tp_follows_tp and workload.experts is not None
    return {**({"etp": keys.get("tp", 1)} if follows else {}), **keys}
