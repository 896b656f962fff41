"""All engines, and both forms of the event engine's inner loop, give the same times where they do the same."""

from __future__ import annotations

import importlib.util
import math
from itertools import pairwise

import numpy as np
import pytest
from execution_cases import NO_LIMITS, TICKING, Sketch, all_reduce_programs, mesh, random_programs
from execution_plain_engine import PlainEngine
from hypothesis import event, given
from hypothesis import strategies as st

from codesign_opt.errors import InputError, MissingExtraError
from codesign_opt.simulation import acceleration
from codesign_opt.simulation.collective_levels import collective_ends
from codesign_opt.simulation.collectives import closed_form, collective_schedule
from codesign_opt.simulation.events import Simulation, simulate
from codesign_opt.simulation.levels import simulate_levels
from codesign_opt.simulation.longest_path import longest_path
from codesign_opt.simulation.networks import FifoNetwork, LatencyBandwidthNetwork
from codesign_opt.simulation.program import Program
from codesign_opt.simulation.streams import Streams
from codesign_opt.simulation.topologies import Link, Topology, full_mesh, ring, switch, torus

LATENCY, BANDWIDTH = 2e-6, 5e9
LINK = Link(bandwidth=BANDWIDTH, latency=LATENCY)
MODELS = ("flows", "fifo", "latency-bandwidth")
EXACT = {"rtol": 1e-12, "atol": 1e-18}

needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is not installed")


def all_makespans(programs: list[Program], topology: Topology, *, streams: Streams | None = None) -> list[float]:
    """Of the event engine with all network models, recorded and not, and of the level engine."""
    seconds = [
        simulate(programs, topology, model=model, record=record, streams=streams).makespan  # type: ignore[arg-type]
        for model in MODELS
        for record in (False, True)
    ]
    return [*seconds, simulate_levels(programs, topology, streams=streams).makespan]


@pytest.mark.parametrize("members", [2, 3, 8, 24])
def test_ring_all_reduce_is_its_closed_form_in_all_engines(members: int) -> None:
    """2 (n − 1) steps of α + S / (n B)."""
    size = 3e6
    expected = 2 * (members - 1) * (LATENCY + size / (members * BANDWIDTH))
    topology = ring(members, LINK) if members > 2 else full_mesh(2, LINK)
    seconds = all_makespans(all_reduce_programs(members, size), topology)
    schedule = collective_schedule("all-reduce", "unidir-ring", range(members), size)
    seconds += collective_ends(schedule, topology).tolist()
    seconds.append(
        closed_form("all-reduce", "unidir-ring", members=members, size=size, latency=LATENCY, bandwidth=BANDWIDTH)
    )
    np.testing.assert_allclose(seconds, expected, rtol=1e-9)


def test_bidirectional_ring_uses_both_directions() -> None:
    members, size = 6, 6e6
    expected = 2 * (members - 1) * (LATENCY + size / (2 * members * BANDWIDTH))
    programs = all_reduce_programs(members, size, algorithm="bidir-ring")
    np.testing.assert_allclose(all_makespans(programs, ring(members, LINK), streams=NO_LIMITS), expected, rtol=1e-9)


def test_reductions_take_their_share_between_the_steps() -> None:
    members, size, reduction = 5, 5e6, 1e-3
    expected = 2 * (members - 1) * (LATENCY + size / (members * BANDWIDTH)) + (members - 1) * reduction / members
    programs = all_reduce_programs(members, size, seconds=reduction)
    np.testing.assert_allclose(all_makespans(programs, ring(members, LINK)), expected, rtol=1e-9)
    schedule = collective_schedule("all-reduce", "unidir-ring", range(members), size)
    ends = collective_ends(schedule, ring(members, LINK), reduction_seconds=reduction)
    np.testing.assert_allclose(ends, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("opcode", "algorithm", "members", "options"),
    [
        ("all-reduce", "unidir-ring", 5, {}),
        ("all-reduce", "bidir-ring", 6, {}),
        ("all-gather", "mesh-1d", 5, {}),
        ("all-reduce", "torus-2d", 6, {"dimension_widths": [3, 2]}),
        ("all-reduce", "dissemination", 8, {}),
        ("all-reduce", "halving-doubling", 8, {}),
        ("all-to-all", "direct", 5, {}),
        ("broadcast", "binomial", 7, {}),
    ],
)
def test_schedules_run_the_same_level_by_level_and_event_by_event(
    opcode: str, algorithm: str, members: int, options: dict[str, object]
) -> None:
    """A schedule as programs of sends, receives and delays, without limits on a network that is not shared."""
    schedule = collective_schedule(opcode, algorithm, range(members), 1e6, options=options)
    sketches = [Sketch(member) for member in range(members)]
    finals: dict[int, list[int]] = {}
    for row in range(len(schedule)):
        sketch = sketches[schedule.rank[row]]
        after = [final for operand in schedule.operands[row].tolist() for final in finals[operand]]
        parts = []
        if schedule.to[row] >= 0:
            parts.append(sketch.send(int(schedule.to[row]), float(schedule.bytes_out[row]), tag=row, after=after))
        if schedule.source[row] >= 0:
            tag = int(schedule.sender[row])
            parts.append(sketch.receive(int(schedule.source[row]), float(schedule.bytes_in[row]), tag=tag, after=after))
        finals[row] = parts or [sketch.delay(float(schedule.scale[row]) * 1e-3, after=after)]
    for sketch in sketches:
        sketch.null()
    topology = torus([3, 3], [LINK, LINK])
    run = simulate([sketch.program() for sketch in sketches], topology, model="latency-bandwidth", streams=NO_LIMITS)
    ends = collective_ends(schedule, topology, reduction_seconds=1e-3)
    np.testing.assert_allclose(run.ended, ends, **EXACT)


def test_members_that_start_late() -> None:
    """Two steps of a ring of three; the messages of rank 1, which starts at 1 s, pass through all others in turn."""
    schedule = collective_schedule("all-gather", "unidir-ring", range(3), 3e6)
    ends = collective_ends(schedule, ring(3, LINK), start=[0.0, 1.0, 0.0])
    wire = 1e6 / BANDWIDTH
    np.testing.assert_allclose(ends, [1 + 2 * (wire + LATENCY), 1 + 2 * wire, 1 + 2 * wire + LATENCY], rtol=1e-12)


@given(random_programs())
def test_without_limits_levels_and_events_agree(programs: list[Program]) -> None:
    topology = full_mesh(4, TICKING)
    levels = simulate_levels(programs, topology, streams=NO_LIMITS)
    assert levels.exact
    assert levels.executions <= sum(int(program.executions.sum()) for program in programs)
    for record in (False, True):
        run = simulate(programs, topology, model="latency-bandwidth", streams=NO_LIMITS, record=record)
        np.testing.assert_allclose(run.ended, levels.ended, **EXACT)


@given(random_programs(), st.integers(1, 2), st.integers(1, 2), st.integers(1, 2))
def test_limited_streams_against_a_plain_engine(programs: list[Program], compute: int, send: int, receive: int) -> None:
    streams = Streams(compute=compute, send=send, receive=receive)
    plain = PlainEngine(programs, latency=TICKING.latency, bandwidth=TICKING.bandwidth, streams=streams).run()
    run = simulate(programs, full_mesh(4, TICKING), model="latency-bandwidth", streams=streams)
    np.testing.assert_array_equal(run.ended, plain)


@given(random_programs(in_order=True), st.sampled_from([1, 2]))
def test_levels_and_events_agree_where_levels_say_so(programs: list[Program], count: int) -> None:
    streams = Streams(compute=count, send=count, receive=count)
    topology = full_mesh(4, TICKING)
    levels = simulate_levels(programs, topology, streams=streams)
    event(f"exact: {levels.exact}")
    run = simulate(programs, topology, model="latency-bandwidth", streams=streams)
    if levels.exact:
        np.testing.assert_allclose(run.ended, levels.ended, **EXACT)


def pipeline(stages: int, microbatches: int) -> list[Program]:
    """Every stage works 3 µs on each microbatch, and passes 2 kB on."""
    sketches = [Sketch(number) for number in range(stages)]
    for number, sketch in enumerate(sketches):
        work: list[int] = []
        sent: list[int] = []
        for tag in range(microbatches):
            got = [sketch.receive(number - 1, 2000.0, tag=tag)] if number else []
            work = [sketch.delay(3e-6, after=[*work, *got])]
            if number < stages - 1:
                sent = [sketch.send(number + 1, 2000.0, tag=tag, after=[*work, *sent])]
    return [sketch.program() for sketch in sketches]


def test_a_pipeline_is_exact_and_has_its_closed_form() -> None:
    """Stages and microbatches less one of 3 µs, and three messages of 2 µs + 1 µs."""
    programs = pipeline(4, 6)
    levels = simulate_levels(programs, mesh(4))
    assert levels.exact
    assert levels.makespan == pytest.approx((4 + 6 - 1) * 3e-6 + 3 * 3e-6, rel=1e-12)
    run = simulate(programs, mesh(4), model="latency-bandwidth")
    np.testing.assert_allclose(run.ended, levels.ended, **EXACT)


def test_levels_say_where_streams_do_not_run_in_program_order() -> None:
    """The second to be written is ready first; in program order it waits."""
    sketch = Sketch()
    first = sketch.delay(1.0, opcode="infeed")
    sketch.delay(1.0, after=[first])
    sketch.delay(5.0)
    streams = Streams(host=1)
    levels = simulate_levels([sketch.program()], mesh(1), streams=streams)
    assert (levels.makespan, levels.exact) == (7.0, False)
    assert simulate([sketch.program()], mesh(1), streams=streams).makespan == 6.0


def test_levels_say_where_there_are_too_few_streams() -> None:
    sketch = Sketch()
    for _ in range(3):
        sketch.delay(1.0)
    levels = simulate_levels([sketch.program()], mesh(1), streams=Streams(compute=2))
    assert (levels.makespan, levels.exact) == (1.0, False)
    receiver = Sketch(0)
    senders = [Sketch(1), Sketch(2)]
    for number, sender in enumerate(senders, 1):
        sender.send(0, 1e6)
        receiver.receive(number, 1e6)
    programs = [each.program() for each in (receiver, *senders)]
    assert not simulate_levels(programs, mesh(3)).exact
    assert simulate_levels(programs, mesh(3), streams=Streams(receive=2)).exact


def test_levels_refuse_circles() -> None:
    sketches = [Sketch(0), Sketch(1)]
    for number, sketch in enumerate(sketches):
        sketch.send(1 - number, 8.0, after=[sketch.receive(1 - number, 8.0)])
    with pytest.raises(InputError, match="in a circle"):
        simulate_levels([sketch.program() for sketch in sketches], mesh(2))


def test_levels_refuse_what_is_too_long() -> None:
    sketch = Sketch()
    sketch.loop(200_000_000)
    sketch.null()
    with pytest.raises(InputError, match="too many to unroll"):
        simulate_levels([sketch.program()], mesh(1))


def test_levels_draw_the_same_branches() -> None:
    sketch = Sketch()
    sketch.loop(40)
    choice = sketch.called("conditional")
    for seconds in (1.0, 2.0):
        sketch.inside(choice, probability=0.5)
        sketch.delay(seconds)
    for seed in range(5):
        program = sketch.program(seed=seed)
        levels = simulate_levels([program], mesh(1))
        assert 40 < levels.makespan < 80
        assert levels.makespan == pytest.approx(simulate([program], mesh(1)).makespan, rel=1e-12)


def test_longest_path() -> None:
    """0 → 1 → 3 takes 5, 0 → 2 → 3 takes 4; 4 stands alone."""
    edges = np.array([[0, 1, 2], [0, 2, 3], [1, 3, 3], [2, 3, 1]])
    assert longest_path(5, *edges.T).tolist() == [0, 2, 3, 5, 0]


@given(random_programs(waits_for_sends=False), st.sampled_from(["fifo", "latency-bandwidth"]))
def test_networks_give_the_same_driven_from_outside(programs: list[Program], model: str) -> None:
    """The loop's own networks against those of `networks`, which are written without it.

    Theirs say only later when a message has left, so nothing waits for that.
    """
    for topology in (switch(4, LINK), ring(4, LINK)):
        network = FifoNetwork(topology) if model == "fifo" else LatencyBandwidthNetwork(topology)
        streams = Streams(send=math.inf, receive=math.inf)
        inside = simulate(programs, topology, model=model, streams=streams)  # type: ignore[arg-type]
        outside = simulate(programs, topology, model=network, streams=streams)
        np.testing.assert_array_equal(outside.messages.sender, inside.messages.sender)
        np.testing.assert_allclose(outside.messages.arrived, inside.messages.arrived, **EXACT)
        if model == "fifo":
            np.testing.assert_allclose(outside.links.bytes, inside.links.bytes)
            np.testing.assert_allclose(outside.links.busy, inside.links.busy)


@given(random_programs(), st.sampled_from(MODELS))
def test_recording_changes_no_time(programs: list[Program], model: str) -> None:
    for streams in (Streams(), None):
        first, second = (
            simulate(programs, ring(4, TICKING), model=model, streams=streams, record=record)  # type: ignore[arg-type]
            for record in (False, True)
        )
        np.testing.assert_array_equal(first.ended, second.ended)
        np.testing.assert_array_equal(first.messages.arrived, second.messages.arrived)


@given(random_programs(), st.sampled_from(MODELS))
def test_the_critical_path_is_as_long_as_the_run(programs: list[Program], model: str) -> None:
    """It has no gap, and no run is shorter than what its program takes with nothing to wait for but itself."""
    run = simulate(programs, ring(4, TICKING), model=model, streams=Streams(), record=True)  # type: ignore[arg-type]
    steps = run.critical_path()
    assert all(first.end == second.start for first, second in pairwise(steps))
    assert (steps[0].start, steps[-1].end) == (0.0, run.makespan)
    assert run.makespan >= simulate_levels(programs, ring(4, TICKING), streams=NO_LIMITS).makespan * (1 - 1e-12)


@given(random_programs(), st.sampled_from(MODELS))
def test_a_run_keeps_what_goes_in(programs: list[Program], model: str) -> None:
    run: Simulation = simulate(programs, ring(4, TICKING), model=model, record=True)  # type: ignore[arg-type]
    assert run.log is not None
    assert len(run.log) == sum(int(program.executions.sum()) for program in programs)
    assert (np.diff(run.log.finished) >= 0).all()
    assert (run.log.ready <= run.log.started).all()
    assert (run.log.started <= run.log.finished).all()
    messages = run.messages
    assert (messages.posted <= messages.left).all()
    assert (messages.left < messages.arrived).all()
    table = run.processors()
    np.testing.assert_allclose(table["compute"] + table["exposed"] + table["idle"], run.makespan, rtol=1e-12)
    work = [float((program.seconds * program.executions).sum()) for program in programs]
    np.testing.assert_allclose(table["compute"], work, rtol=1e-9, atol=1e-18)
    topology_routes = ring(4, TICKING).routes(messages.source, messages.destination)
    crossed = np.bincount(
        topology_routes.values, np.repeat(messages.bytes, np.diff(topology_routes.offsets)), minlength=8
    )
    np.testing.assert_allclose(run.links.bytes, crossed, rtol=1e-9, atol=1e-6)


@needs_numba
@pytest.mark.slow
@given(random_programs(), st.sampled_from(["fifo", "latency-bandwidth"]), st.booleans())
def test_the_compiled_loop_gives_the_same_bits(programs: list[Program], model: str, record: bool) -> None:
    plain, compiled = (
        simulate(programs, switch(4, TICKING), model=model, streams=Streams(), record=record, compiled=compiled)  # type: ignore[arg-type]
        for compiled in (False, True)
    )
    np.testing.assert_array_equal(plain.ended, compiled.ended)
    np.testing.assert_array_equal(plain.messages.arrived, compiled.messages.arrived)
    np.testing.assert_array_equal(plain.links.busy, compiled.links.busy)
    assert plain.events == compiled.events
    if record:
        assert plain.critical_path() == compiled.critical_path()


def test_the_compiled_loop_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceleration, "has_numba", lambda: False)
    acceleration.compiled_run.cache_clear()
    with pytest.raises(MissingExtraError, match=r"needs numba \(pip install 'codesign-opt\[fast\]'\)"):
        simulate(pipeline(2, 2), mesh(2), model="fifo", compiled=True)
    with pytest.raises(InputError, match="no compiled loop"):
        simulate(pipeline(2, 2), mesh(2), model="flows", compiled=True)
