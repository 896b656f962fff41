"""When each instruction ran: columns, and their CSV file (spec graph-simulation 2.3 and 6)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs.opcodes import OPCODES
from codesign_opt.partial_files import whole_file
from codesign_opt.tables import Table

Array = NDArray[Any]

TIMES: Final = ("ready", "started", "finished", "clock", "wall")
"""Columns of seconds."""

_HEADER: Final = ("processor_id", "instruction_name", "opcode", *TIMES)


@dataclass(frozen=True, kw_only=True)
class Log:
    """One row an execution, in the order of finishing: inner instructions before their caller, a loop itself once.

    Attributes:
        names, opcodes, processors: Of each instruction; the opcode as an index into `opcodes.OPCODES`.
        instruction: That a row is about, an index into the former.
        ready, started, finished: Seconds since the start of the run.
        clock: Busy seconds: finished − started, or the sum over all that an instruction called.
    """

    names: Sequence[str]
    opcodes: Array
    processors: Array
    instruction: Array
    ready: Array
    started: Array
    finished: Array
    clock: Array

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.instruction)

    @cached_property
    def wall(self) -> Array:
        """Elapsed seconds, finished − started."""
        return self.finished - self.started

    def rows(self, *, processor: int | None = None, skip_zeros: bool = False) -> Array:
        """Indices of the rows of one processor, or of all; without those of clock 0 on request."""
        wanted = np.ones(len(self), dtype=bool)
        if processor is not None:
            wanted &= self.processors[self.instruction] == processor
        if skip_zeros:
            wanted &= self.clock != 0
        return np.flatnonzero(wanted)

    def table(self, rows: Array | None = None) -> Table:
        """The rows with names and opcodes in words."""
        instruction = self.instruction if rows is None else self.instruction[rows]
        columns: dict[str, Any] = {
            "processor_id": self.processors[instruction],
            "instruction_name": [self.names[number] for number in instruction],
            "opcode": [OPCODES[code] for code in self.opcodes[instruction]],
        }
        for name in TIMES:
            values = getattr(self, name)
            columns[name] = values if rows is None else values[rows]
        return Table(columns, dict.fromkeys(TIMES, "s"))


def write_csv(path: Path, log: Log, *, processor: int | None = None, skip_zeros: bool = True) -> None:
    """Put the rows of one processor, or of all, into a CSV file; times in seconds with 12 decimals.

    Raises:
        InputError: A place that cannot be written to.
    """
    table = log.table(log.rows(processor=processor, skip_zeros=skip_zeros))
    with whole_file(path) as file:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(_HEADER)
        times = ([f"{seconds:.12f}" for seconds in table[name]] for name in TIMES)
        writer.writerows(zip(*(table[name] for name in _HEADER[:3]), *times, strict=True))
        text.detach()
