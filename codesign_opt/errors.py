"""The exception tree.

    CodesignError
    ├── InputError          a file, key, value, unit or option that cannot be used
    │   └── StrategyError   a strategy that is illegal or does not fit; `code` says which rule
    ├── InfeasibleError     the question is well formed, but nothing satisfies it
    ├── StorageError        the study database
    └── MissingExtraError   an optional package that is not installed

Every error carries a `message` that names what is wrong, and a `hint` that says what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CodesignError(Exception):
    """Base of all errors raised on purpose.

    Args:
        message: What is wrong, naming file, key and value where there are any.
        hint: What is allowed, or what to do about it. May be empty.
        code: A stable word for programs, such as a legality rule's reason code. May be empty.
    """

    exit_status = 2

    def __init__(self, message: str, hint: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[type[CodesignError], tuple[str, str, str]]:
        return type(self), (self.message, self.hint, self.code)


class InputError(CodesignError):
    """A file, key, value, unit or option that cannot be used."""


class StrategyError(InputError):
    """A strategy that breaks a legality rule or does not fit; `code` names the rule."""


class InfeasibleError(CodesignError):
    """Nothing satisfies the constraints."""

    exit_status = 1


class StorageError(CodesignError):
    """The study database cannot be used as asked."""


class MissingExtraError(CodesignError):
    """A feature needs an optional package that is not installed."""


def nearest(word: str, allowed: Iterable[str]) -> str:
    """A hint that names the nearest allowed words, or all of them where none is near."""
    known = list(allowed)
    near = difflib.get_close_matches(word.lower(), known, n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(f"'{name}'" for name in near) + "?"
    return "allowed: " + ", ".join(known)
