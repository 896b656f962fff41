"""What a run of the event engine took."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError
from codesign_opt.simulation.busy import Intervals, Occupation, occupation
from codesign_opt.simulation.critical_path import Causes, CriticalStep, critical_path
from codesign_opt.simulation.log import Log
from codesign_opt.simulation.machine import Machine
from codesign_opt.simulation.messages import Messages
from codesign_opt.simulation.networks import LinkStatistics
from codesign_opt.simulation.program import Stream
from codesign_opt.simulation.topologies import Topology
from codesign_opt.tables import Table

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation:
    """What a run took.

    Attributes:
        machine: What ran.
        topology: Where.
        ended: Seconds at which each program is over, in the order of `machine.processors`.
        messages: In the order of sending.
        timed: Instructions that held a stream for their seconds, one entry an execution; `timed_started` says when.
        links: What each link did; with "latency-bandwidth" what it would have to carry, and for how long, if it were
            shared; zeros for a network of one's own that keeps no count.
        log: Every execution; None where it was not recorded.
        events: How many things happened: ends of instructions with seconds, and steps of messages.
    """

    machine: Machine
    topology: Topology
    ended: Array
    messages: Messages
    timed: Array
    timed_started: Array
    links: LinkStatistics
    log: Log | None
    causes: Causes | None
    events: int

    @property
    def makespan(self) -> float:
        """Seconds from the start until the last program is over."""
        return float(self.ended.max())

    @cached_property
    def occupation(self) -> Occupation:
        """Seconds that each processor computes and communicates.

        Communication is a message on its way from or to the processor, and what holds a stream that is not for compute.
        """
        machine, messages = self.machine, self.messages
        place = machine.place[self.timed]
        stream = machine.stream[self.timed] - place * machine.stream_classes
        timed = Intervals(place, self.timed_started, self.timed_started + machine.seconds[self.timed])
        computes = stream == Stream.COMPUTE
        others = Intervals(*(column[~computes] for column in timed))
        source = np.searchsorted(machine.processors, messages.source)
        destination = np.searchsorted(machine.processors, messages.destination)
        return occupation(
            Intervals(*(column[computes] for column in timed)),
            Intervals(
                np.concatenate([others.place, source, destination]),
                np.concatenate([others.start, messages.posted, messages.posted]),
                np.concatenate([others.end, messages.left, messages.arrived]),
            ),
            places=len(machine.programs),
        )

    def processors(self) -> Table:
        """A row for each processor: seconds of compute, communication, exposed communication and idle, and its end.

        Exposed is communication while nothing computes, idle is neither, until the last program is over.
        """
        busy = self.occupation
        columns = {
            "processor": self.machine.processors,
            "compute": busy.compute,
            "communication": busy.communication,
            "exposed": busy.exposed,
            # Sums of many intervals: what is not idle at all must not come out below 0.
            "idle": np.maximum(self.makespan - busy.compute - busy.exposed, 0.0),
            "end": self.ended,
        }
        return Table(columns, dict.fromkeys(list(columns)[1:], "s"))

    def link_table(self) -> Table:
        """A row for each link: bytes, busy seconds, mean and peak share of its capacity that was used."""
        numbers = np.arange(self.topology.links)
        capacity = self.topology.capacity
        return Table(
            {
                "link": [self.topology.link_name(int(link)) for link in numbers],
                "bytes": self.links.bytes,
                "busy": self.links.busy,
                "mean_utilisation": self.links.bytes / (capacity * self.makespan) if self.makespan else numbers * 0.0,
                "peak_utilisation": self.links.peak / capacity,
            },
            {"bytes": "B", "busy": "s"},
        )

    def critical_path(self) -> list[CriticalStep]:
        """The chain of instructions and messages that ends last.

        Raises:
            InputError: Where the run was not recorded.
        """
        if self.causes is None:
            raise InputError("the run was not recorded, so its critical path is not known", "simulate with record=True")
        return critical_path(self.machine, self.causes, self.messages)
