"""Rules for options that are none of the known words, as only columns from elsewhere can hold them."""

from __future__ import annotations

from codesign_opt.strategies.rules.rule import Rule, constant, words
from codesign_opt.strategies.table import OPTION_COLUMNS

_COLUMNS = (
    "product_precision", "gradient_precision", "attention_kernel", "cp_exchange", "schedule", "placement",
)  # fmt: skip


def _known(column: str) -> Rule:
    return Rule(
        "bad_enum", True,
        lambda f: f[column] < 0,
        f"{column} is not a known word",
        constant(words(OPTION_COLUMNS[column])),
    )  # fmt: skip


RULES: tuple[Rule, ...] = tuple(_known(column) for column in _COLUMNS)
"""One for each column that the published tool does not have."""
