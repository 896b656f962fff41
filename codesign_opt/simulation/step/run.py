"""Run a step: every stage's program, its messages, and the ports that they share."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError, nearest
from codesign_opt.graphs.step import StageGraph, StepGraph
from codesign_opt.graphs.step.instructions import Aside
from codesign_opt.graphs.step.pieces import PARTS
from codesign_opt.simulation.events import Simulation, simulate
from codesign_opt.simulation.levels import simulate_levels
from codesign_opt.simulation.program import Kind, Program, Stream, compile_program
from codesign_opt.simulation.step.breakdown import BREAKDOWN, Activities, breakdown
from codesign_opt.simulation.step.closed_form import closed_form_ends
from codesign_opt.simulation.step.ports import PortNetwork, TransferKind
from codesign_opt.simulation.streams import Streams
from codesign_opt.simulation.topologies import Link, Topology, full_mesh
from codesign_opt.tables import Table

Array = NDArray[Any]
ENGINES: Final = ("events", "levels", "closed-form")

_COLLECTIVE_TAGS = 1 << 32
"""Above those of messages between stages."""

_DIMENSIONS: Final = ("tp", "cp", "ep", "pp", "dp")

_DIMENSION: Final = np.array(
    [next((number for number, of in enumerate(_DIMENSIONS) if name == f"{of}_communication"), 0) for name in PARTS]
)
"""For each of `PARTS` the parallel dimension whose transfers count as it; those that are repeated count as tp."""

_NO_LIMIT: Final = 1e300
"""Bytes/s that are as good as infinitely many."""

_WIDTHS: Final = {Aside.PASSES: 1, Aside.PRODUCT: math.inf, Aside.BLOCKS: 1}
"""Transfers that go at once on the stream of each `Aside`: gradients and weights take turns."""

_STREAMS: Final = Streams(host=1, receive=math.inf, further=tuple(_WIDTHS[aside] for aside in sorted(_WIDTHS)))


@dataclass(frozen=True, kw_only=True, eq=False)
class StepSimulation:
    """A step as it ran.

    Attributes:
        step: What ran.
        contention: Whether transfers shared the ports of their processors.
        seconds: Of the step.
        stages: A row a stage: seconds by what they count as (`breakdown.BREAKDOWN`), and the `end` of its program.
        ports: A row a port that is used: stage, tier, direction, seconds filled, and that as a share of the step.
        simulation: What the event engine says besides; None from the others.
    """

    step: StepGraph
    contention: bool
    seconds: float
    stages: Table
    ports: Table
    simulation: Simulation | None


def simulate_step(
    step: StepGraph, *, engine: str = "events", contention: bool = True, record: bool = False
) -> StepSimulation:
    """Run a step.

    Args:
        step: From `graphs.step.step_graph`.
        engine: `events`; `levels`: longest paths, where nothing shares a port; or `closed-form`: what the schedule
            takes where every pass pays for a message. The latter two say when each stage ends, and no more.
        contention: Whether what a processor sends or receives on one network tier shares its port there, by max-min
            fair rates; with the event engine only. Where no port carries two transfers at once it changes nothing.
        record: Keep what the critical path and the timeline need.

    Raises:
        InputError: For an unknown engine, and one that cannot do what is asked.
    """
    if engine not in ENGINES:
        raise InputError(f"engine '{engine}' is not known", nearest(engine, ENGINES))
    if engine != "events" and record:
        raise InputError(f"the engine '{engine}' keeps no timeline", "use the engine 'events'")
    if engine == "closed-form":
        return _ended(step, np.array(closed_form_ends(step)))
    if engine == "levels":
        programs = [_program(stage) for stage in step.stages]
        return _ended(step, simulate_levels(programs, _between_stages(step), streams=_STREAMS).ended)
    contention = contention and shares_ports(step)
    simulation = _on_shared_ports(step, record) if contention else _alone(step, record)
    return StepSimulation(
        step=step,
        contention=contention,
        seconds=simulation.makespan,
        stages=_stage_table(step, simulation),
        ports=_port_table(step, simulation.makespan),
        simulation=simulation,
    )


def _ended(step: StepGraph, ends: Array) -> StepSimulation:
    """A step of which no more is known than when its stages end."""
    seconds = float(ends.max())
    return StepSimulation(
        step=step,
        contention=False,
        seconds=seconds,
        stages=Table({"stage": np.arange(len(ends)), "end": ends}, {"end": "s"}),
        ports=_port_table(step, seconds),
        simulation=None,
    )


def shares_ports(step: StepGraph) -> bool:
    """Whether a port may be filled by two transfers at the same time."""
    if _messages_meet(step):
        return True
    beside = {int(tier) for stage in step.stages for tier in stage.tier[(stage.aside > 0) & (stage.tier >= 0)]}
    if step.work.message is not None:
        # It arrives beside whatever its receiver does.
        beside.add(step.work.message.tier)
    users = Counter(tier for tier, *_ in _users(step))
    return any(users[tier] > 1 for tier in beside)


def _users(step: StepGraph) -> set[tuple[int, ...]]:
    """Network tiers and who uses them: a parallel dimension, or what goes beside neighbouring blocks."""
    columns = (
        np.stack([stage.tier, _DIMENSION[stage.part], stage.aside == Aside.BLOCKS], axis=1)[stage.tier >= 0]
        for stage in step.stages
    )
    return {tuple(row) for rows in columns for row in np.unique(rows, axis=0).tolist()}


def _messages_meet(step: StepGraph) -> bool:
    """Whether a stage may get messages of both its neighbours at once: all but GPipe mix the directions.

    In DualPipe passes go beside each other, with what they send.
    """
    several = step.work.stages > 2 or step.schedule == "dualpipe"
    return step.work.training and several and step.schedule != "gpipe"


def _alone(step: StepGraph, record: bool) -> Simulation:
    """Every transfer takes the time that it takes alone."""
    programs = [_program(stage) for stage in step.stages]
    return simulate(programs, _between_stages(step), model="latency-bandwidth", streams=_STREAMS, record=record)


def _on_shared_ports(step: StepGraph, record: bool) -> Simulation:
    """Transfers fill ports. A collective is an exchange of a stage with itself: all its processors do the same."""
    tiers = 1 + max(int(stage.tier.max()) for stage in step.stages)
    kinds: dict[TransferKind, int] = {}
    serial = step.options.messages == "serial"
    programs = [_port_program(stage, place, tiers, kinds, serial=serial) for place, stage in enumerate(step.stages)]
    network = PortNetwork(list(kinds), 2 * tiers * len(step.stages))
    return simulate(programs, _between_stages(step), model=network, streams=_STREAMS, record=record)


def _port_program(
    stage: StageGraph, place: int, tiers: int, kinds: dict[TransferKind, int], *, serial: bool
) -> Program:
    program = _program(stage)
    graph = program.graph
    collective = (stage.tier >= 0) & (program.kind == Kind.TIMED)
    route = np.full(len(graph), -1, dtype=np.int64)
    for number in np.flatnonzero(stage.tier >= 0).tolist():
        peer = graph.groups[number][0][0]
        size = float(graph.bytes_out[number] if collective[number] else graph.bytes_in[number])
        sending, receiving = (2 * (at * tiers + int(stage.tier[number])) for at in (place, peer))
        kind = TransferKind(
            ports=(sending, receiving + 1),
            pace=stage.wire[number] / size,
            latency=float(stage.latency[number]),
            held=serial or bool(collective[number]),
        )
        route[number] = kinds.setdefault(kind, len(kinds))
    return replace(
        program,
        # What a collective sends is what it gets, so those of different streams go by different tags.
        graph=replace(graph, tag=np.where(collective, _COLLECTIVE_TAGS + program.stream, graph.tag).astype(np.uint64)),
        kind=np.where(collective, Kind.EXCHANGE, program.kind),
        bytes=np.where(collective, graph.bytes_out, program.bytes),
        bonded=np.where(collective, np.arange(len(graph)), program.bonded),
        peer=np.where(collective, place, program.peer),
        route=route,
    )


def _between_stages(step: StepGraph) -> Topology:
    """A network on which a message between stages takes the time that it takes alone.

    A serial message holds its sender until it has arrived; another leaves as soon as its bytes are on the wire.
    """
    message = step.work.message
    if message is None:
        return full_mesh(2, Link(bandwidth=_NO_LIMIT, latency=0.0))
    serial = step.options.messages == "serial"
    seconds = message.seconds if serial else message.wire
    latency = 0.0 if serial else message.latency
    bandwidth = message.size / seconds if seconds else _NO_LIMIT
    return full_mesh(step.work.stages, Link(bandwidth=bandwidth, latency=latency))


def _program(stage: StageGraph) -> Program:
    program = compile_program(stage.graph)
    return replace(program, stream=np.where(stage.aside > 0, len(Stream) + stage.aside - 1, program.stream))


def _stage_table(step: StepGraph, simulation: Simulation) -> Table:
    machine, messages = simulation.machine, simulation.messages
    part = np.concatenate([stage.part for stage in step.stages])
    counts_as = np.array([BREAKDOWN.index(name) if name in BREAKDOWN else 0 for name in PARTS])
    timed = simulation.timed
    sent_as = counts_as[part[messages.sender]]
    activities = Activities(
        stage=np.concatenate([machine.place[timed], messages.source, messages.destination]),
        part=np.concatenate([counts_as[part[timed]], sent_as, sent_as]),
        start=np.concatenate([simulation.timed_started, messages.posted, messages.posted]),
        end=np.concatenate([simulation.timed_started + machine.seconds[timed], messages.left, messages.arrived]),
    )
    columns = breakdown(activities, stages=step.work.stages, seconds=simulation.makespan)
    columns = {"stage": np.arange(step.work.stages), **columns, "end": simulation.ended}
    return Table(columns, dict.fromkeys(list(columns)[1:], "s"))


def _port_table(step: StepGraph, seconds: float) -> Table:
    """From what is sent and received in all: a port is filled by each transfer for its seconds on the wire."""
    tiers = 1 + max(int(stage.tier.max()) for stage in step.stages)
    filled, used = np.zeros((step.work.stages, tiers, 2)), np.zeros((step.work.stages, tiers, 2), dtype=np.bool_)
    for place, stage in enumerate(step.stages):
        transfers = np.flatnonzero(stage.tier >= 0)
        tier = stage.tier[transfers]
        wire = (stage.wire * stage.executions)[transfers]
        # The group of a collective is its own stage, that of a message the receiver.
        receiver = np.array([stage.graph.groups[number][0][0] for number in transfers.tolist()], dtype=np.int64)
        for direction, at in enumerate((receiver, np.full(len(transfers), place))):
            np.add.at(filled[..., direction], (at, tier), wire)
            used[at, tier, direction] = True
    stages, tiers_used, directions = np.nonzero(used)
    seconds_filled = filled[used]
    return Table(
        {
            "stage": stages,
            "tier": tiers_used,
            "direction": np.array(["in", "out"])[directions],
            "filled": seconds_filled,
            "share": seconds_filled / seconds if seconds else seconds_filled,
        },
        {"filled": "s"},
    )
