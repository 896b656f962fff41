"""How many processors a study may use."""

from __future__ import annotations

import math
from dataclasses import dataclass

from codesign_opt.errors import InputError
from codesign_opt.studies.schema import ProcessorBudgetFile, ProcessorRangeFile
from codesign_opt.systems import System
from codesign_opt.systems.pricing import processor_price

MAX_COUNTS = 10_000
"""A longer list of processor counts is refused."""

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorBudget:
    """As many processors as the money buys.

    Attributes:
        budget: $ for all processors with their memory.
        multiple: The number of processors is a multiple of this.
        lowest: Fewer than this are no machine.
        counts: How many counts there are to choose from: the largest that the budget buys and the next smaller ones.
    """

    budget: float
    multiple: int
    lowest: int
    counts: int = 1

    def count(self, system: System, below: int = 0) -> int:
        """The multiple that is `below` steps below the largest that the budget buys at the price of `system`; 0 where
        that is below `lowest`.

        The system must have a price.
        """
        price = float(processor_price(system))
        if price <= 0:
            return 0
        groups = self.budget / price / self.multiple
        # A price between two points of a curve is rounded, which must not cost a group of processors.
        count = (math.floor(groups * (1 + _ROUNDING)) - below) * self.multiple
        return count if count >= self.lowest else 0


ProcessorChoice = tuple[int, ...] | ProcessorBudget
"""The counts to choose from, rising; or what a budget buys."""


def processor_choice(
    file: int | list[int] | ProcessorRangeFile | ProcessorBudgetFile, *, where: str
) -> ProcessorChoice:
    """What a study's key `processors` says.

    Raises:
        InputError: For an empty range, or one of more than `MAX_COUNTS` counts.
    """
    if isinstance(file, int):
        return (file,)
    if isinstance(file, list):
        return tuple(sorted(set(file)))
    if isinstance(file, ProcessorBudgetFile):
        lowest = file.multiple if file.lowest is None else file.lowest
        return ProcessorBudget(budget=file.budget, multiple=file.multiple, lowest=lowest, counts=file.counts)
    if file.low > file.high:
        raise InputError(f"{where}.low: {file.low} is above high, {file.high}", "swap them?")
    counts = range(file.low, file.high + 1, file.step)
    if len(counts) > MAX_COUNTS:
        raise InputError(f"{where}.step: {len(counts)} counts from a step of {file.step}", f"at most {MAX_COUNTS}")
    return tuple(counts)
