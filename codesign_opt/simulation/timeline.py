"""A run as a timeline in Chrome's trace-event format, which ui.perfetto.dev and chrome://tracing show."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codesign_opt.graphs.opcodes import OPCODES
from codesign_opt.partial_files import whole_file
from codesign_opt.simulation.program import Stream
from codesign_opt.simulation.result import Simulation

Array = NDArray[Any]
Event = dict[str, Any]

_MICROSECONDS: Final = 1e6
"""The unit of the format."""

_LANES: Final = 1000
"""Tracks of one stream of a processor, at most: things that go on at once stand on tracks of their own."""


def write_timeline(path: Path, simulation: Simulation, *, labels: Mapping[int, str] | None = None) -> None:
    """Put a run into a JSON file: a track for each processor and stream, and an arrow for each message.

    A message stands on the sender's track until it has left, and on the receiver's for as long, until it has arrived.

    Args:
        path: To write to.
        simulation: The run.
        labels: Of processors, such as their roles; others are called by their number.

    Raises:
        InputError: A place that cannot be written to.
    """
    with whole_file(path) as file:
        file.write(b'{"displayTimeUnit": "ns", "traceEvents": [')
        for number, event in enumerate(timeline_events(simulation, labels=labels)):
            file.write((",\n" if number else "\n").encode() + json.dumps(event, ensure_ascii=False).encode())
        file.write(b"\n]}\n")


def timeline_events(simulation: Simulation, *, labels: Mapping[int, str] | None = None) -> Iterator[Event]:
    """The trace events: names of tracks first, then slices and arrows."""
    tracks = _Tracks()
    slices = list(_slices(simulation, tracks))
    yield from tracks.names(simulation, labels or {})
    yield from slices


def _slices(simulation: Simulation, tracks: _Tracks) -> Iterator[Event]:
    machine, messages = simulation.machine, simulation.messages
    place = machine.place[simulation.timed]
    timed = zip(
        simulation.timed.tolist(),
        machine.processors[place].tolist(),
        (machine.stream[simulation.timed] - place * machine.stream_classes).tolist(),
        simulation.timed_started.tolist(),
        machine.seconds[simulation.timed].tolist(),
        strict=True,
    )
    for instruction, processor, stream, start, seconds in timed:
        if seconds > 0:
            track = tracks.free_at(processor, stream, start, start + seconds)
            opcode = OPCODES[machine.opcodes[instruction]]
            yield _slice(processor, track, start, start + seconds, machine.names[instruction], opcode)
    entering = np.maximum(messages.posted, messages.arrived - (messages.left - messages.posted))
    on_the_wire = zip(
        *(getattr(messages, name).tolist() for name in ("source", "destination", "tag", "bytes", "sender")),
        *(times.tolist() for times in (messages.posted, messages.left, entering, messages.arrived)),
        strict=True,
    )
    arrivals = []
    for number, (source, destination, tag, size, sender, posted, left, enters, arrived) in enumerate(on_the_wire):
        name, details = machine.names[sender], {"to": destination, "from": source, "tag": tag, "bytes": size}
        track = tracks.free_at(source, Stream.SEND, posted, left)
        yield _slice(source, track, posted, left, name, "message", details)
        yield {**_arrow(source, track, posted, number), "ph": "s"}
        arrivals.append((enters, arrived, number, destination, name, details))
    for enters, arrived, number, destination, name, details in sorted(arrivals, key=lambda arrival: arrival[:3]):
        track = tracks.free_at(destination, Stream.RECEIVE, enters, arrived)
        yield _slice(destination, track, enters, arrived, name, "message", details)
        yield {**_arrow(destination, track, enters, number), "ph": "f", "bp": "e"}


class _Tracks:
    """Tracks of streams, as many as things go on at once."""

    def __init__(self) -> None:
        self._until: dict[tuple[int, int], list[float]] = {}

    def free_at(self, processor: int, stream: int, start: float, end: float) -> int:
        """The track of a stream that is free at `start`, and now taken until `end`. Ask in the order of starting."""
        until = self._until.setdefault((processor, stream), [])
        lane = next((lane for lane, taken in enumerate(until) if taken <= start), len(until))
        until[lane : lane + 1] = [end]
        return stream * _LANES + lane

    def names(self, simulation: Simulation, labels: Mapping[int, str]) -> Iterator[Event]:
        """The events that name processors and tracks."""
        for number, processor in enumerate(simulation.machine.processors.tolist()):
            label = labels.get(processor, f"processor {processor}")
            yield {"ph": "M", "pid": processor, "name": "process_name", "args": {"name": label}}
            yield {"ph": "M", "pid": processor, "name": "process_sort_index", "args": {"sort_index": number}}
        for (processor, stream), until in sorted(self._until.items()):
            name = Stream(stream).name.lower() if stream < len(Stream) else f"stream {stream}"
            for lane in range(len(until)):
                track = {"pid": processor, "tid": stream * _LANES + lane}
                shown = name if lane == 0 else f"{name} {lane + 1}"
                yield {"ph": "M", **track, "name": "thread_name", "args": {"name": shown}}
                yield {"ph": "M", **track, "name": "thread_sort_index", "args": {"sort_index": track["tid"]}}


def _slice(
    processor: int, track: int, start: float, end: float, name: str, category: str, details: Event | None = None
) -> Event:
    event: Event = {
        "ph": "X",
        "pid": processor,
        "tid": track,
        "ts": start * _MICROSECONDS,
        "dur": (end - start) * _MICROSECONDS,
        "name": name,
        "cat": category,
    }
    return {**event, "args": details} if details else event


def _arrow(processor: int, track: int, time: float, number: int) -> Event:
    moment = time * _MICROSECONDS
    return {"id": number, "pid": processor, "tid": track, "ts": moment, "name": "message", "cat": "message"}
