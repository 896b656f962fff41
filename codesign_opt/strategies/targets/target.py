"""What a target is: a framework, or none, with the rules that it adds to the general ones."""

from __future__ import annotations

from dataclasses import dataclass

from codesign_opt.strategies.rules.rule import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A framework that is to run strategies.

    Attributes:
        name: What users call it.
        version: The version that the rules were written for.
        rules: What it demands beyond the general rules, in the order in which it is judged.
        expert_tp_follows_tp: Whether experts are split like the rest (`etp` is `tp`) where nothing is said about them.
    """

    name: str
    version: str
    rules: tuple[Rule, ...]
    expert_tp_follows_tp: bool = False
