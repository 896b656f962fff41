"""What a target is: a framework, or none, with the rules that it adds to the general ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from codesign_opt.strategies.rules.rule import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A framework that is to run strategies.

    Attributes:
        name: What users call it.
        version: The version that the rules were written for.
        rules: What it demands beyond the general rules, in the order in which it is judged.
        choices: What dimensions of a strategy may be where a space for it does not limit them, if that is not what
            `strategies.defaults` says.
        expert_tp_follows_tp: Whether experts are split like the rest (`etp` is `tp`) where nothing is said about them.
    """

    name: str
    version: str
    rules: tuple[Rule, ...]
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    expert_tp_follows_tp: bool = False
