"""All executions of a machine's instructions at once: loops written out, branches chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError
from codesign_opt.graphs.graph import Ragged
from codesign_opt.simulation.branches import subroutine_layers
from codesign_opt.simulation.machine import Machine
from codesign_opt.simulation.program import Kind

Array = NDArray[Any]

MAX_EXECUTIONS: Final = 100_000_000
"""More than this are refused: they would not fit into memory."""


@dataclass(frozen=True, kw_only=True)
class Unrolled:
    """Executions of instructions, and runs of subroutines, each numbered from 0.

    Attributes:
        instruction: Of each execution.
        position: Order of the executions of one program, as written with all loops unrolled; numbers may be left out.
        run: That an execution belongs to.
        subroutine: Of each run.
        first: Execution of each run's first instruction; the others follow.
        caller: Execution that a run was called by; -1 for the entries.
        turn: Order of the runs that one execution calls.
        place: Of an instruction among those of its subroutine.
    """

    instruction: Array
    position: Array
    run: Array
    subroutine: Array
    first: Array
    caller: Array
    turn: Array
    place: Array

    def beside(self, executions: Array, instructions: Array) -> Array:
        """Executions, in the same runs, of other instructions of the same subroutines."""
        return self.first[self.run[executions]] + self.place[instructions]


def unroll(machine: Machine) -> Unrolled:
    """The executions of a machine.

    Raises:
        InputError: More than `MAX_EXECUTIONS`.
    """
    executions = int(machine.executions.sum())
    if executions > MAX_EXECUTIONS:
        raise InputError(
            f"{executions} executions of instructions are too many to unroll",
            f"at most {MAX_EXECUTIONS}; the event engine keeps loops as counters",
        )
    calls = _Calls(machine)
    members = Ragged.grouped(machine.subroutine, len(machine.size))
    place = np.empty(len(machine), dtype=np.int64)
    place[members.values] = np.arange(len(machine)) - np.repeat(members.offsets[:-1], machine.size)

    runs = _Runs(machine.entries, len(machine.size))
    for layer in calls.layers[1:]:
        runs.add(calls, layer[machine.kind[machine.caller[layer]] == Kind.CALLER])
    size = machine.size[runs.subroutine]
    first = np.concatenate([[0], np.cumsum(size)])
    run = np.repeat(np.arange(len(size)), size)
    instruction = members.values[members.offsets[runs.subroutine][run] + np.arange(len(run)) - first[run]]
    called = runs.parent >= 0
    caller = np.full(len(size), -1, dtype=np.int64)
    caller[called] = first[runs.parent[called]] + place[machine.caller[runs.subroutine[called]]]
    return Unrolled(
        instruction=instruction,
        position=runs.position[run] + calls.offset[instruction],
        run=run,
        subroutine=runs.subroutine,
        first=first[:-1],
        caller=caller,
        turn=runs.turn,
        place=place,
    )


class _Calls:
    """How far apart the executions of a program stand.

    Attributes:
        layers: Subroutines by depth.
        draws: As in `Machine`.
        iterations: Of each caller.
        stride: Positions that one iteration of a caller takes.
        offset: Position of an instruction from the start of its run.
        shift: Position of a run from the start of its iteration.
        turn, turns: Order of a subroutine in its iteration, and how many there are.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.layers = subroutine_layers(machine.caller, machine.subroutine)
        inner = machine.caller >= 0
        self.iterations = np.ones(len(machine), dtype=np.int64)
        np.maximum.at(self.iterations, machine.caller[inner], machine.repeats[inner])
        self.stride = np.zeros(len(machine), dtype=np.int64)
        self.offset = np.zeros(len(machine), dtype=np.int64)
        self.shift = np.zeros(len(machine.size), dtype=np.int64)
        self.turn = np.zeros(len(machine.size), dtype=np.int64)
        self.turns = np.bincount(machine.caller[inner], minlength=len(machine))
        depth = np.empty(len(machine.size), dtype=np.int64)
        for number, layer in enumerate(self.layers):
            depth[layer] = number
        by_depth = Ragged.grouped(depth[machine.subroutine], len(self.layers))
        for number in reversed(range(len(self.layers))):
            self._place(by_depth[number], self.layers[number])

    def _place(self, instructions: Array, layer: Array) -> None:
        """Place the instructions of one layer, given what they call; then the layer in its callers' iterations."""
        machine = self.machine
        span = 1 + self.iterations[instructions] * self.stride[instructions]
        by_subroutine = np.argsort(machine.subroutine[instructions], kind="stable")
        total = np.zeros(len(machine.size), dtype=np.int64)
        self.offset[instructions[by_subroutine]] = _sums_before(
            machine.subroutine[instructions[by_subroutine]], span[by_subroutine]
        )
        np.add.at(total, machine.subroutine[instructions], span)
        called = layer[machine.caller[layer] >= 0]
        by_caller = called[np.argsort(machine.caller[called], kind="stable")]
        caller = machine.caller[by_caller]
        self.shift[by_caller] = _sums_before(caller, total[by_caller])
        self.turn[by_caller] = _sums_before(caller, np.ones(len(caller), dtype=np.int64))
        np.add.at(self.stride, caller, total[by_caller])


class _Runs:
    """Runs of subroutines, layer after layer; those of one subroutine follow each other in the order of time."""

    def __init__(self, entries: Array, subroutines: int) -> None:
        self.subroutine = entries
        self.parent = np.full(len(entries), -1, dtype=np.int64)
        self.position = np.zeros(len(entries), dtype=np.int64)
        self.turn = np.zeros(len(entries), dtype=np.int64)
        self._first = np.zeros(subroutines, dtype=np.int64)
        self._count = np.zeros(subroutines, dtype=np.int64)
        self._first[entries], self._count[entries] = np.arange(len(entries)), 1

    def add(self, calls: _Calls, layer: Array) -> None:
        """The runs of the subroutines of a layer."""
        machine = calls.machine
        caller = machine.caller[layer]
        outer, iterations = machine.subroutine[caller], calls.iterations[caller]
        count = self._count[outer] * iterations
        draws = np.diff(machine.draws.offsets)[caller] > 0
        drawn = [np.flatnonzero(machine.draws[caller[i]] == layer[i]) for i in np.flatnonzero(draws)]
        count[draws] = [len(picks) for picks in drawn]
        self._first[layer] = len(self.subroutine) + np.cumsum(count) - count
        self._count[layer] = count

        number = np.repeat(np.arange(len(layer)), count)
        place = np.arange(len(number)) - np.repeat(np.cumsum(count) - count, count)
        outer_run, iteration = place // iterations[number], place % iterations[number]
        if drawn:
            outer_run[draws[number]] = np.concatenate(drawn)
        parent = self._first[outer][number] + outer_run
        caller = caller[number]
        position = self.position[parent] + calls.offset[caller] + 1
        position += iteration * calls.stride[caller] + calls.shift[layer][number]
        self.subroutine = np.concatenate([self.subroutine, layer[number]])
        self.parent = np.concatenate([self.parent, parent])
        self.position = np.concatenate([self.position, position])
        self.turn = np.concatenate([self.turn, iteration * calls.turns[caller] + calls.turn[layer][number]])


def _sums_before(group: Array, values: Array) -> Array:
    """The sum of the values that stand before each one in its group; groups stand together."""
    before = np.cumsum(values) - values
    starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]])) if len(group) else group
    sums: Array = before - np.repeat(before[starts], np.diff(np.append(starts, len(group))))
    return sums
