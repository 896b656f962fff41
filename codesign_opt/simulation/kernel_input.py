"""The columns with which the event engine's inner loop begins."""

from __future__ import annotations

from array import array
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.kernel_columns import Code, Column, State, Wires
from codesign_opt.simulation.machine import Machine
from codesign_opt.simulation.program import Kind

Array = NDArray[Any]
_Columns = TypeVar("_Columns", Code, Wires)


def code_columns(machine: Machine, executed: Array, *, compiled: bool) -> Code:
    """What runs of a machine: the instructions in `executed`, numbered anew in that order."""
    number = np.full(len(machine) + 1, -1, dtype=np.int64)
    number[executed] = np.arange(len(executed))
    users = _last_first(_renumbered(machine.users, number))
    sources = _last_first(_renumbered(machine.sources, number))
    caller = number[machine.caller]
    caller[machine.entries] = -1 - np.arange(len(machine.entries))
    over_instructions = ("kind", "stream", "priority", "seconds", "bytes", "needs", "subroutine", "first")
    columns = Code(
        **{name: getattr(machine, name)[executed] for name in (*over_instructions, "sends", "asks", "pair")},
        **{name: getattr(machine, name) for name in ("entries", "size", "following", "repeats")},
        bonded=number[machine.bonded[executed]],
        users_from=np.append(users.offsets[executed], users.offsets[-1]),
        users=users.values,
        sources_from=sources.offsets,
        sources=sources.values,
        caller=caller,
        draws=machine.draws.values,
        ranked=bool(np.ptp(machine.priority[executed])) if len(executed) else False,
    )
    return as_columns(columns, compiled=compiled)


def as_columns(columns: _Columns, *, compiled: bool) -> _Columns:
    """Arrays for numba, lists for Python."""
    if compiled:
        return columns
    return type(columns)(*(value.tolist() if isinstance(value, np.ndarray) else value for value in columns))


def first_state(machine: Machine, executed: Array, wires: Wires, *, record: bool, compiled: bool) -> State:
    """Everything as it stands before the start."""
    lengths = {
        "streams": len(machine.free),
        "instructions": len(executed),
        "channels": machine.channels,
        "messages": machine.messages,
        "timed": int(machine.executions[machine.kind == Kind.TIMED].sum()),
        "rows": int(machine.executions.sum()) if record else 0,
        "servers": int(wires.server_from[-1]),
        "links": len(wires.server_from) - 1,
        "programs": len(machine.programs),
    }
    lengths["events"] = lengths["instructions"] + 3 * lengths["messages"]
    columns = {
        name: np.full(lengths[over], value, dtype=np.float64 if isinstance(value, float) else np.int64)
        for name, (over, value) in _FIRST.items()
    }
    first_draw = np.where(np.diff(machine.draws.offsets) > 0, machine.draws.offsets[:-1], -1)
    columns["free"], columns["waiting"] = machine.free.copy(), machine.needs[executed]
    columns["running"], columns["turns"] = machine.size.copy(), machine.repeats.copy()
    columns["drawn"] = first_draw[executed]
    if compiled:
        return State(**columns)
    return State(**{name: _python_column(values, compact=name in _ONLY_WRITTEN) for name, values in columns.items()})


_FIRST: Final[dict[str, tuple[str, float]]] = {
    **dict.fromkeys(("head", "tail", "released"), ("streams", -1)),
    "server_free": ("servers", 0.0),
    **dict.fromkeys(("next", "asked_next", "cause", "message"), ("instructions", -1)),
    "blocked": ("instructions", 0),
    **dict.fromkeys(("ready", "started", "clock"), ("instructions", 0.0)),
    **dict.fromkeys(("asked", "asked_last", "sent_first", "sent_last"), ("channels", -1)),
    "chain": ("events", -1),
    **dict.fromkeys(("message_next", "message_row", "hop", "sender", "receiver"), ("messages", -1)),
    **dict.fromkeys(("posted", "left", "arrived"), ("messages", -1.0)),
    "timed": ("timed", -1),
    "timed_started": ("timed", -1.0),
    **dict.fromkeys(("row_instruction", "row_cause", "row_message"), ("rows", -1)),
    **dict.fromkeys(("row_ready", "row_started", "row_finished", "row_clock"), ("rows", -1.0)),
    **dict.fromkeys(("link_bytes", "link_busy"), ("links", 0.0)),
    "ended": ("programs", -1.0),
}
"""What a column of `State` is over, and what stands in it first."""

_ONLY_WRITTEN: Final = ("posted", "timed", "timed_started", *(name for name in State._fields if name[:4] == "row_"))


def _python_column(values: Array, *, compact: bool) -> Column:
    """A list, or an array of machine numbers, which is slower to read and takes a quarter of the memory."""
    return array("d" if values.dtype == np.float64 else "q", values.tobytes()) if compact else values.tolist()


def _last_first(lists: Ragged) -> Ragged:
    """The same lists, each in reverse."""
    lengths = np.diff(lists.offsets)
    place = np.arange(len(lists.values)) - np.repeat(lists.offsets[:-1], lengths)
    return Ragged(lists.offsets, lists.values[np.repeat(lists.offsets[1:] - 1, lengths) - place])


def _renumbered(lists: Ragged, number: Array) -> Ragged:
    """The lists without what has no number."""
    values = number[lists.values]
    kept = values >= 0
    return Ragged(np.concatenate([[0], np.cumsum(kept)])[lists.offsets], values[kept])
