"""Rules for number formats."""

from __future__ import annotations

from codesign_opt.strategies.options import Datatype, ProductPrecision
from codesign_opt.strategies.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        "product_precision_missing", True,
        lambda f: f.is_word("product_precision", ProductPrecision.FLOAT8)
        & ~f.of_system(lambda machine: Datatype.FLOAT8.value in machine.matrix),
        "product_precision 'float8', but {system} has no float8 matrix engine",
        lambda v: f"product_precision must be same, which computes in {v['datatype']}",
    ),
)  # fmt: skip
"""In the order in which they are judged."""
