"""How much a study may try."""

from __future__ import annotations

from dataclasses import dataclass

from codesign_opt.configuration import shown
from codesign_opt.errors import InputError
from codesign_opt.units import parse_duration

_HINT = "write a number of trials such as 200, or a time such as '10m'"
_LONGEST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Total of a study, over all its runs; one of the two is None.

    Attributes:
        trials: Number of trials.
        seconds: Wall time.
    """

    trials: int | None = None
    seconds: float | None = None


def parse_budget(value: object, *, where: str) -> Budget:
    """The budget that 200, "200", "10m" or "1.5 h" says.

    Raises:
        InputError: For anything else, and for 0.
    """
    is_long = isinstance(value, str) and len(value) > _LONGEST
    if isinstance(value, bool) or not isinstance(value, int | str) or is_long:
        raise InputError(f"{where}: {shown(value)} is not a budget", _HINT)
    if isinstance(value, str) and not value.strip().lstrip("+-").isdecimal():
        seconds = parse_duration(value, where=where)
        if seconds <= 0:
            raise InputError(f"{where}: {value!r} is no time at all", _HINT)
        return Budget(seconds=seconds)
    trials = int(value)
    if not 1 <= trials <= 1_000_000_000:
        raise InputError(f"{where}: {value!r} is not a number of trials from 1 to 1,000,000,000", _HINT)
    return Budget(trials=trials)
