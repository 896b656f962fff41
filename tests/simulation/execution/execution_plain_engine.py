"""The event engine once more, as plainly as possible: objects, lists and a search for the next moment.

It has the rules of `Scheduler` for what becomes available, streams, and messages without sharing but at their ends.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

from codesign_opt.simulation.program import Kind, Program, Stream
from codesign_opt.simulation.scheduler import Scheduler
from codesign_opt.simulation.streams import Streams

Key = tuple[int, int, int]


@dataclass
class Message:
    sender: tuple[int, int]
    destination: int
    wire: float
    head: float
    left: float
    enters: float | None = None
    arrived: float | None = None
    is_gone: bool = False


class PlainEngine:
    """One run of programs for the processors 0, 1, …; every message has the same latency and bandwidth."""

    def __init__(self, programs: list[Program], *, latency: float, bandwidth: float, streams: Streams) -> None:
        self.programs = programs
        self.latency, self.bandwidth, self.streams = latency, bandwidth, streams
        self.schedulers = [Scheduler(program) for program in programs]
        self.free = {(p, s): count for p in range(len(programs)) for s, count in enumerate(streams.counts)}
        self.queue: dict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
        self.running: list[tuple[float, float, int, int]] = []
        self.messages: list[Message] = []
        self.entering: dict[int, deque[Message]] = defaultdict(deque)
        self.sent: dict[Key, deque[Message]] = defaultdict(deque)
        self.asked: dict[Key, deque[tuple[int, int]]] = defaultdict(deque)
        self.of_send: dict[tuple[int, int], Message] = {}
        self.of_receive: dict[tuple[int, int], Message] = {}
        self.waiting: list[tuple[int, int, float]] = []
        self.ended = [0.0] * len(programs)
        self.now = 0.0

    def run(self) -> list[float]:
        """Seconds at which each program is over."""
        for processor, scheduler in enumerate(self.schedulers):
            self.available(processor, scheduler.begin())
        while True:
            while self.end_what_ends_now():
                pass
            if self.fill_streams():
                continue
            moments = [end for _, end, *_ in self.running]
            for message in self.messages:
                moments += [message.left, message.head]
                moments += [message.enters + message.wire] if message.enters is not None else []
            later = [moment for moment in moments if moment > self.now]
            if not later:
                assert all(scheduler.over for scheduler in self.schedulers)
                return self.ended
            self.now = min(later)

    def available(self, processor: int, instructions: list[int]) -> None:
        program = self.programs[processor]
        for instruction in instructions:
            kind = program.kind[instruction]
            if kind in (Kind.TIMED, Kind.SEND_START):
                stream = int(program.stream[instruction])
                stream = int(self.streams.host_stream) if stream == Stream.HOST else stream
                self.queue[processor, stream].append((self.now, instruction))
            elif kind == Kind.RECEIVE_START:
                key = (int(program.peer[instruction]), processor, int(program.graph.tag[instruction]))
                self.asked[key].append((processor, int(program.bonded[instruction])))
                self.match(key)
                self.finish(processor, instruction, self.now)
            else:
                self.waiting.append((processor, instruction, self.now))

    def match(self, key: Key) -> None:
        while self.asked[key] and self.sent[key]:
            self.of_receive[self.asked[key].popleft()] = self.sent[key].popleft()

    def finish(self, processor: int, instruction: int, started: float) -> None:
        following = self.schedulers[processor].finish(instruction, started=started, finished=self.now)
        if self.schedulers[processor].over:
            self.ended[processor] = self.now
        self.available(processor, following)

    def end_what_ends_now(self) -> bool:
        """Whether anything did."""
        for entry in self.running:
            started, end, processor, instruction = entry
            if end <= self.now:
                self.running.remove(entry)
                self.free[processor, self.stream_of(processor, instruction)] += 1
                self.finish(processor, instruction, started)
                return True
        for message in self.messages:
            if message.left <= self.now and not message.is_gone:
                message.is_gone = True
                self.free[message.sender[0], Stream.SEND] += 1
                return True
            if (
                message.head <= self.now
                and message.enters is None
                and message not in self.entering[message.destination]
            ):
                self.entering[message.destination].append(message)
                return True
            if message.enters is not None and message.arrived is None and message.enters + message.wire <= self.now:
                message.arrived = self.now
                self.free[message.destination, Stream.RECEIVE] += 1
                return True
        for destination, queue in self.entering.items():
            if queue and self.free[destination, Stream.RECEIVE] > 0:
                self.free[destination, Stream.RECEIVE] -= 1
                queue.popleft().enters = self.now
                return True
        for entry in self.waiting:
            processor, instruction, since = entry
            if self.is_through(processor, instruction):
                self.waiting.remove(entry)
                self.finish(processor, instruction, since)
                return True
        return False

    def is_through(self, processor: int, instruction: int) -> bool:
        if self.programs[processor].kind[instruction] == Kind.SEND_DONE:
            return self.of_send[processor, instruction].is_gone
        message = self.of_receive.get((processor, instruction))
        if message is None or message.arrived is None:
            return False
        del self.of_receive[processor, instruction]
        return True

    def stream_of(self, processor: int, instruction: int) -> int:
        stream = int(self.programs[processor].stream[instruction])
        return int(self.streams.host_stream) if stream == Stream.HOST else stream

    def fill_streams(self) -> bool:
        """Whether anything started."""
        started = False
        for (processor, stream), queue in sorted(self.queue.items()):
            queue.sort()
            while queue and self.free[processor, stream] > 0:
                instruction = queue.pop(0)[1]
                self.free[processor, stream] -= 1
                started = True
                self.start(processor, instruction)
        return started

    def start(self, processor: int, instruction: int) -> None:
        program = self.programs[processor]
        if program.kind[instruction] == Kind.TIMED:
            self.running.append((self.now, self.now + float(program.seconds[instruction]), processor, instruction))
            return
        wire = float(program.bytes[instruction]) / self.bandwidth
        peer = int(program.peer[instruction])
        done = int(program.bonded[instruction])
        message = Message((processor, done), peer, wire, self.now + self.latency, self.now + wire)
        self.messages.append(message)
        self.of_send[processor, done] = message
        key = (processor, peer, int(program.graph.tag[instruction]))
        self.sent[key].append(message)
        self.match(key)
        self.finish(processor, instruction, self.now)
