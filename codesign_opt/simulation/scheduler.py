"""In which order the instructions of one processor become available (spec graph-simulation 2.1 to 2.3)."""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np

from codesign_opt.errors import InputError, nearest
from codesign_opt.simulation.log import Log
from codesign_opt.simulation.program import Kind, Program

ReadyAt = Literal["latest", "last-reported"]

READY_AT: Final = ("latest", "last-reported")

_NULL: Final = int(Kind.NULL)
_CALLER: Final = int(Kind.CALLER)


class Scheduler:
    """One execution of a program. Whoever simulates takes what is handed out and reports when it has finished.

    Nulls and instructions with subroutines are never handed out. Of two things that a finish sets off, the first is
    followed to its end before the second: the enclosing subroutine, then the users in the order of their edges.

    Attributes:
        ready: Seconds at which each instruction that has been handed out became ready.

    Args:
        program: What to run.
        start: Seconds on the clock at which it starts.
        ready_at: When an instruction is ready: at the "latest" finish of its operands, in whichever order they were
            reported; or at the "last-reported" one, which may lie before others, as the published tool has it.
    """

    def __init__(self, program: Program, *, start: float = 0.0, ready_at: ReadyAt = "latest") -> None:
        if ready_at not in READY_AT:
            raise InputError(f"ready at '{ready_at}'", nearest(ready_at, READY_AT))
        self._program = program
        self._last_counts = ready_at == "last-reported"
        self._start = start
        count, subroutines = len(program), len(program.size)
        self.ready = [0.0] * count
        self._kind = program.kind.tolist()
        self._needs = program.needs.tolist()
        self._users = [users.tolist() for users in program.graph.users]
        self._subroutine = program.graph.subroutine.tolist()
        self._caller = program.graph.caller.tolist()
        self._sources = [sources.tolist() for sources in program.sources]
        self._size = program.size.tolist()
        self._first = program.first.tolist()
        self._following = program.following.tolist()
        self._repeats = program.repeats.tolist()
        drawing = np.flatnonzero(np.diff(program.draws.offsets)).tolist()
        self._draws = {number: iter(program.draws[number].tolist()) for number in drawing}

        self._waiting = list(self._needs)
        self._latest = [-math.inf] * count
        self._running = list(self._size)
        self._turns = list(self._repeats)
        self._ended = [-math.inf] * subroutines
        self._inner_started = [math.inf] * count
        self._inner_clock = [0.0] * count
        self._rows: list[tuple[int, float, float, float, float]] = []
        self._handed: list[int] = []
        self._stack: list[int] = []
        self._over = False

    @property
    def over(self) -> bool:
        """Whether all instructions have finished."""
        return self._over

    def begin(self) -> list[int]:
        """The instructions that are available from the start, in order."""
        self._enter(0, self._start)
        return self._follow()

    def finish(self, instruction: int, *, started: float, finished: float) -> list[int]:
        """The instructions that become available now that one of those handed out has finished, in order."""
        self._settle(instruction, started, finished, finished - started)
        return self._follow()

    def log(self) -> Log:
        """What has finished so far."""
        columns = np.array(self._rows, dtype=np.float64).reshape(-1, 5).T
        return Log(
            names=self._program.graph.names,
            opcodes=self._program.graph.opcode,
            processors=np.full(len(self._program), self._program.processor),
            instruction=columns[0].astype(np.int64),
            ready=columns[1],
            started=columns[2],
            finished=columns[3],
            clock=columns[4],
        )

    def _follow(self) -> list[int]:
        """Prepare what lies on the stack, the top first, and all that follows from it."""
        stack, handed = self._stack, self._handed
        while stack:
            instruction = stack.pop()
            kind = self._kind[instruction]
            if kind == _NULL:
                now = self.ready[instruction]
                self._settle(instruction, now, now, 0.0)
            elif kind == _CALLER:
                draws = self._draws.get(instruction)
                subroutine = self._first[instruction] if draws is None else next(draws)
                self._enter(subroutine, self.ready[instruction])
            else:
                handed.append(instruction)
        self._handed = []
        return handed

    def _enter(self, subroutine: int, now: float) -> None:
        """Start a subroutine: those of its instructions that need no other are ready."""
        sources = self._sources[subroutine]
        for instruction in sources:
            self.ready[instruction] = now
        self._stack.extend(reversed(sources))

    def _settle(self, instruction: int, started: float, finished: float, clock: float) -> None:
        """Note a finish; then start the subroutine that follows, or lay those users on the stack that are ready."""
        while True:
            self._rows.append((instruction, self.ready[instruction], started, finished, clock))
            subroutine = self._subroutine[instruction]
            caller = self._caller[subroutine]
            if caller >= 0:
                self._inner_clock[caller] += clock
                self._inner_started[caller] = min(self._inner_started[caller], started)
            if finished > self._ended[subroutine] or self._last_counts:
                self._ended[subroutine] = finished
            self._running[subroutine] -= 1
            if self._running[subroutine]:
                self._release_users(instruction, finished)
                return
            ended = self._ended[subroutine]
            self._running[subroutine], self._ended[subroutine] = self._size[subroutine], -math.inf
            if caller < 0:
                self._over = True
                return
            following = self._next(subroutine)
            if following >= 0:
                self._enter(following, ended)
                return
            instruction, finished = caller, ended
            started, clock = self._inner_started[caller], self._inner_clock[caller]
            self._inner_started[caller], self._inner_clock[caller] = math.inf, 0.0

    def _release_users(self, instruction: int, finished: float) -> None:
        released = []
        for user in self._users[instruction]:
            if finished > self._latest[user] or self._last_counts:
                self._latest[user] = finished
            self._waiting[user] -= 1
            if not self._waiting[user]:
                self._waiting[user] = self._needs[user]
                self.ready[user], self._latest[user] = self._latest[user], -math.inf
                released.append(user)
        self._stack.extend(reversed(released))

    def _next(self, subroutine: int) -> int:
        """The subroutine that runs after this one; -1 where the caller is finished."""
        if self._repeats[subroutine]:
            self._turns[subroutine] -= 1
            if not self._turns[subroutine]:
                self._turns[subroutine] = self._repeats[subroutine]
                return -1
        return int(self._following[subroutine])
