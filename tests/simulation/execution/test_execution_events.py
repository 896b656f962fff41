"""The event engine by hand: streams, messages, loops, deadlocks, and what it says about a run."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from execution_cases import NO_LIMITS, Sketch, all_reduce_programs, mesh

from codesign_opt.errors import InputError
from codesign_opt.simulation.events import Simulation, simulate
from codesign_opt.simulation.networks import FlowNetwork
from codesign_opt.simulation.program import Program, Stream
from codesign_opt.simulation.streams import Streams
from codesign_opt.simulation.topologies import Link, ring, switch

MS = 1e-3
MB = 1e6
"""On the links of 1 GB/s that `mesh` has, 1 ms."""


def run_alone(sketch: Sketch, streams: Streams | None = None) -> Simulation:
    return simulate([sketch.program()], mesh(1), streams=streams, record=True)


def spans(simulation: Simulation) -> dict[str, tuple[float, float]]:
    """Start and end of each instruction, in milliseconds to 9 digits; of several executions the last."""
    assert simulation.log is not None
    rows = simulation.log.table().to_dicts()
    return {row["instruction_name"]: (round(row["started"] / MS, 9), round(row["finished"] / MS, 9)) for row in rows}


def sender_and_receiver(work: float, *, sequential: bool = False) -> list[Program]:
    """Processor 0 computes and sends 2 MB, at once or one after the other; processor 1 receives."""
    sender, receiver = Sketch(0), Sketch(1)
    computed = sender.delay(work)
    sender.send(1, 2 * MB, after=[computed] if sequential else [])
    receiver.receive(0, 2 * MB)
    return [sender.program(), receiver.program()]


@pytest.mark.parametrize("model", ["flows", "fifo", "latency-bandwidth"])
class TestOverlap:
    def test_compute_beside_communication_takes_the_longer_one(self, model: str) -> None:
        for work, expected in ((1 * MS, 2 * MS), (5 * MS, 5 * MS)):
            run = simulate(sender_and_receiver(work), mesh(2, latency=0.0), model=model)  # type: ignore[arg-type]
            assert run.makespan == pytest.approx(expected, rel=1e-12)

    def test_one_after_the_other_takes_the_sum(self, model: str) -> None:
        programs = sender_and_receiver(3 * MS, sequential=True)
        run = simulate(programs, mesh(2, latency=0.5 * MS), model=model)  # type: ignore[arg-type]
        assert run.makespan == pytest.approx(3 * MS + 2 * MS + 0.5 * MS, rel=1e-12)

    def test_occupation(self, model: str) -> None:
        """Processor 0 computes 0-3 ms and sends 3-5 ms; the message is on its way until 5.5 ms."""
        programs = sender_and_receiver(3 * MS, sequential=True)
        run = simulate(programs, mesh(2, latency=0.5 * MS), model=model)  # type: ignore[arg-type]
        table = run.processors()
        expected = {
            "compute": [3, 0],
            "communication": [2, 2.5],
            "exposed": [2, 2.5],
            "idle": [0.5, 3],
            "end": [5, 5.5],
        }
        for name, values in expected.items():
            np.testing.assert_allclose(table[name], np.array(values) * MS, atol=1e-15, err_msg=name)


def test_partly_dependent_graph_runs_as_drawn_by_hand() -> None:
    """Processor 0: a (2 ms), then b (3 ms) and a message of 2 MB at once, then c (1 ms) that needs b alone, and d
    (2 ms) that needs c and 1 MB from processor 1. Processor 1: e (4 ms) from the start, f (1 ms) that needs what comes,
    and g (1 ms) that needs f and e; it sends 1 MB after g. A message takes 0.5 ms more to arrive.

        processor 0   a 0-2   b 2-5   c 5-6                d 8-10
        to 1          2-4, arrives at 4.5
        processor 1   e 0-4   f 4.5-5.5   g 5.5-6.5
        to 0          6.5-7.5, arrives at 8
    """
    zero, one = Sketch(0), Sketch(1)
    a = zero.delay(2 * MS, name="a")
    b = zero.delay(3 * MS, after=[a], name="b")
    zero.send(1, 2 * MB, after=[a], name="m")
    c = zero.delay(1 * MS, after=[b], name="c")
    n = zero.receive(1, 1 * MB, name="n")
    zero.delay(2 * MS, after=[c, n], name="d")
    e = one.delay(4 * MS, name="e")
    m = one.receive(0, 2 * MB)
    f = one.delay(1 * MS, after=[m], name="f")
    g = one.delay(1 * MS, after=[f, e], name="g")
    one.send(0, 1 * MB, after=[g])
    run = simulate([zero.program(), one.program()], mesh(2, latency=0.5 * MS), record=True)
    expected = {"a": (0, 2), "b": (2, 5), "c": (5, 6), "e": (0, 4), "f": (4.5, 5.5), "g": (5.5, 6.5), "d": (8, 10)}
    assert {name: spans(run)[name] for name in expected} == expected
    assert run.makespan == pytest.approx(10 * MS)
    path = [(step.name, step.processor, step.destination, round(step.end / MS, 9)) for step in run.critical_path()]
    assert path == [
        ("a", 0, None, 2), ("m_start", 0, 1, 4.5), ("f", 1, None, 5.5), ("g", 1, None, 6.5),
        ("send-start_6", 1, 0, 8), ("d", 0, None, 10),
    ]  # fmt: skip


class TestStreams:
    @pytest.mark.parametrize(("streams", "milliseconds"), [(1, 6), (2, 4), (3, 3), (math.inf, 3)])
    def test_so_much_is_computed_at_once(self, streams: float, milliseconds: float) -> None:
        """1, 2 and 3 ms: on two streams the 3 ms begin when the 1 ms ends."""
        sketch = Sketch()
        for length in (1, 2, 3):
            sketch.delay(length * MS)
        assert run_alone(sketch, Streams(compute=streams)).makespan == pytest.approx(milliseconds * MS)

    def test_the_first_to_be_ready_goes_first(self) -> None:
        """While `long` runs, `late` becomes ready 2 ms after `early`, though it stands before it."""
        sketch = Sketch()
        first = sketch.delay(1 * MS, opcode="infeed", name="first")
        second = sketch.delay(2 * MS, opcode="infeed", after=[first], name="second")
        sketch.delay(5 * MS, name="long")
        sketch.delay(1 * MS, after=[second], name="late")
        sketch.delay(1 * MS, after=[first], name="early")
        assert {name: spans(run_alone(sketch, Streams(host=1)))[name] for name in ("early", "late")} == {
            "early": (5, 6),
            "late": (6, 7),
        }

    def test_of_those_ready_at_once_the_first_written_goes_first(self) -> None:
        """`a` and `b` become ready at 1 ms through different events, the later one first."""
        sketch = Sketch()
        slow = sketch.delay(1 * MS, opcode="infeed", name="slow")
        quick = sketch.delay(1 * MS, name="quick")
        sketch.delay(1 * MS, after=[quick], name="a")
        sketch.delay(1 * MS, after=[slow], name="b")
        assert spans(run_alone(sketch, Streams(host=1)))["a"] == (1, 2)

    def test_priority_goes_before_time(self) -> None:
        sketch = Sketch()
        for name in ("first", "second", "third"):
            sketch.delay(1 * MS, name=name)
        program = sketch.program()
        urgent = replace(program, priority=np.array([0, 0, -1]))
        run = simulate([urgent], mesh(1), record=True)
        assert [spans(run)[name][0] for name in ("first", "second", "third")] == [1, 2, 0]

    def test_infeed_takes_a_compute_stream_unless_there_is_a_host_stream(self) -> None:
        sketch = Sketch()
        sketch.delay(1 * MS, opcode="infeed")
        sketch.delay(1 * MS)
        assert run_alone(sketch).makespan == pytest.approx(2 * MS)
        assert run_alone(sketch, Streams(host=1)).makespan == pytest.approx(1 * MS)

    def test_a_collective_with_seconds_runs_beside_compute(self) -> None:
        sketch = Sketch()
        for _ in range(2):
            sketch.delay(1 * MS)
            sketch.builder.instruction(0, "ar", "all-reduce", groups=[[0, 1]], bytes_out=8.0, seconds=3 * MS)
        run = run_alone(sketch)
        assert run.makespan == pytest.approx(6 * MS)
        assert run.processors().row(0)["exposed"] == pytest.approx(4 * MS)

    def test_further_streams(self) -> None:
        sketch = Sketch()
        for _ in range(2):
            sketch.delay(1 * MS)
        program = replace(sketch.program(), stream=np.array([Stream.COMPUTE, len(Stream)]))
        assert simulate([program], mesh(1), streams=Streams(further=(1,))).makespan == pytest.approx(1 * MS)
        with pytest.raises(InputError, match="number 5 is occupied, but there are 5"):
            simulate([program], mesh(1))

    @pytest.mark.parametrize(("streams", "milliseconds"), [(1, 3), (2, 2)])
    def test_so_many_messages_leave_at_once(self, streams: int, milliseconds: float) -> None:
        """Two messages of 1 MB to different processors, the second of them to go on for 1 ms of work."""
        zero, one, two = Sketch(0), Sketch(1), Sketch(2)
        zero.send(1, MB)
        zero.send(2, MB)
        one.receive(0, MB)
        two.delay(1 * MS, after=[two.receive(0, MB)])
        programs = [sketch.program() for sketch in (zero, one, two)]
        run = simulate(
            programs, mesh(3, latency=0.0), model="latency-bandwidth", streams=Streams(send=streams), record=True
        )
        assert run.makespan == pytest.approx(milliseconds * MS)
        steps = run.critical_path()
        assert steps[0].start == 0
        assert steps[-1].end == run.makespan
        assert all(first.end == second.start for first, second in pairwise(steps))

    @pytest.mark.parametrize(("streams", "milliseconds"), [(1, 3.5), (2, 2.5), (3, 1.5), (math.inf, 1.5)])
    def test_so_many_messages_enter_at_once(self, streams: float, milliseconds: float) -> None:
        """Three processors send 1 MB to one at the same time; two streams take the third when one of them is free."""
        receiver = Sketch(0)
        senders = [Sketch(number) for number in (1, 2, 3)]
        for number, sender in enumerate(senders, 1):
            sender.send(0, MB)
            receiver.receive(number, MB)
        programs = [sketch.program() for sketch in (receiver, *senders)]
        run = simulate(programs, mesh(4, latency=0.5 * MS), model="latency-bandwidth", streams=Streams(receive=streams))
        assert run.makespan == pytest.approx(milliseconds * MS)


class TestNetworks:
    def test_links_are_shared_or_taken_in_turn(self) -> None:
        """Two messages of 1 MB into one port of a switch: fair sharing ends both at 2 ms, turns one of them at 1 ms.
        Store and forward pays the 1 ms on the way up as well."""
        receiver, first, second = Sketch(0), Sketch(1), Sketch(2)
        for number, sender in ((1, first), (2, second)):
            sender.send(0, MB)
            receiver.receive(number, MB)
        programs = [sketch.program() for sketch in (receiver, first, second)]
        topology = switch(3, Link(bandwidth=1e9, latency=0.0))
        fair = simulate(programs, topology, model="flows")
        turns = simulate(programs, topology, model="fifo")
        np.testing.assert_allclose(fair.messages.arrived / MS, [2, 2])
        np.testing.assert_allclose(turns.messages.arrived / MS, [2, 3])

    @pytest.mark.parametrize("model", ["flows", "fifo", "latency-bandwidth"])
    def test_links_are_counted(self, model: str) -> None:
        programs = sender_and_receiver(0.0)
        run = simulate(programs, ring(4, Link(bandwidth=1e9, latency=1e-6)), model=model)  # type: ignore[arg-type]
        table = run.link_table()
        used = [row for row in table.to_dicts() if row["bytes"]]
        assert [row["link"] for row in used] == ["0 → 1"]
        assert used[0]["bytes"] == 2 * MB
        assert used[0]["busy"] == pytest.approx(2 * MS)
        assert used[0]["mean_utilisation"] == pytest.approx(2 * MS / run.makespan)
        assert used[0]["peak_utilisation"] == pytest.approx(1.0)

    def test_a_network_of_ones_own(self) -> None:
        topology = mesh(2, latency=0.0)
        network = FlowNetwork(topology, send_overhead=1 * MS)
        run = simulate(sender_and_receiver(0.0), topology, model=network)
        assert run.makespan == pytest.approx(3 * MS)
        assert run.links.bytes.sum() == 2 * MB

    def test_a_message_of_no_bytes_takes_the_latency(self) -> None:
        zero, one = Sketch(0), Sketch(1)
        zero.send(1, 0.0)
        one.receive(0, 0.0)
        for model in ("flows", "fifo", "latency-bandwidth"):
            run = simulate([zero.program(), one.program()], mesh(2), model=model)  # type: ignore[arg-type]
            assert run.makespan == pytest.approx(1e-6)

    def test_unknown_model(self) -> None:
        with pytest.raises(InputError, match="did you mean 'fifo'"):
            simulate(sender_and_receiver(0.0), mesh(2), model="fifos")  # type: ignore[arg-type]

    def test_processors_are_those_of_the_topology(self) -> None:
        sender, receiver = Sketch(0), Sketch(4)
        sender.send(4, MB)
        receiver.receive(0, MB)
        with pytest.raises(InputError, match="no processor 4"):
            simulate([sender.program(), receiver.program()], mesh(3))


class TestMessages:
    def test_a_loop_may_send_with_one_tag_while_its_partner_is_behind(self) -> None:
        """The sender is three turns ahead; the receiver takes 2 ms a turn and gets the messages in their order."""
        sender, receiver = Sketch(0), Sketch(1)
        end = sender.loop(4)
        sender.send(1, MB, tag=5, after=[sender.delay(0.1 * MS)])
        sender.inside(None)
        sender.null(after=[end])
        receiver.loop(4)
        receiver.delay(2 * MS, after=[receiver.receive(0, MB, tag=5)])
        programs = [sender.program(), receiver.program()]
        run = simulate(programs, mesh(2, latency=0.0), record=True)
        np.testing.assert_allclose(run.messages.arrived / MS, [1.1, 2.2, 3.3, 4.4])
        # First message at 1.1 ms, then four times 2 ms.
        assert run.makespan == pytest.approx(9.1 * MS)

    def test_messages_of_one_tag_are_received_in_the_order_of_sending(self) -> None:
        """The second message is smaller and overtakes the first, but the first receive waits for the first message."""
        sender, receiver = Sketch(0), Sketch(1)
        first = sender.send(1, 3 * MB)
        sender.send(1, 1 * MB)
        got = receiver.receive(0, 3 * MB, name="one")
        receiver.receive(0, 1 * MB, name="two")
        receiver.delay(1 * MS, after=[got])
        assert first
        programs = [sender.program(), receiver.program()]
        run = simulate(programs, mesh(2, latency=0.0), model="latency-bandwidth", streams=NO_LIMITS, record=True)
        assert spans(run)["two_done"][1] == 1
        assert spans(run)["one_done"][1] == 3
        assert run.makespan == pytest.approx(4 * MS)

    def test_a_message_need_not_be_asked_for_to_arrive(self) -> None:
        sender, receiver = Sketch(0), Sketch(1)
        sender.send(1, MB)
        receiver.receive(0, MB, after=[receiver.delay(5 * MS)])
        run = simulate([sender.program(), receiver.program()], mesh(2))
        assert run.makespan == pytest.approx(5 * MS)


class TestDeadlock:
    def circle(self) -> list[Program]:
        """Each of three processors sends on only after it has received."""
        sketches = [Sketch(number) for number in range(3)]
        for number, sketch in enumerate(sketches):
            got = sketch.receive((number - 1) % 3, MB, tag=7, name="in")
            sketch.send((number + 1) % 3, MB, tag=7, after=[got])
        return [sketch.program() for sketch in sketches]

    @pytest.mark.parametrize("model", ["flows", "fifo"])
    @pytest.mark.parametrize("record", [False, True])
    def test_who_waits_for_what(self, model: str, record: bool) -> None:
        with pytest.raises(InputError) as error:
            simulate(self.circle(), mesh(3), model=model, record=record)  # type: ignore[arg-type]
        message = error.value.message
        assert message.startswith("deadlock: 0 of 3 programs are over")
        for number in range(3):
            assert f"processor {number}: recv-done 'in_done' for tag 7 from processor {(number - 1) % 3}" in message

    def test_long_lists_are_cut(self) -> None:
        sketches = [Sketch(number) for number in range(8)]
        for number, sketch in enumerate(sketches):
            sketch.send((number + 1) % 8, MB, after=[sketch.receive((number - 1) % 8, MB)])
        with pytest.raises(InputError, match="and 4 more"):
            simulate([sketch.program() for sketch in sketches], mesh(8))

    def test_messages_without_a_receive_are_refused(self) -> None:
        sender, receiver = Sketch(0), Sketch(1)
        sender.send(1, MB, tag=3, name="out")
        receiver.delay(1.0)
        with pytest.raises(InputError, match=r"processor 0 to processor 1, tag 3: 1 messages are sent and 0 received"):
            simulate([sender.program(), receiver.program()], mesh(2))

    def test_receives_without_a_message_are_refused(self) -> None:
        sender, receiver = Sketch(0), Sketch(1)
        sender.delay(1.0)
        receiver.loop(2)
        receiver.receive(0, MB, tag=3, name="in")
        with pytest.raises(InputError, match=r"0 messages are sent and 2 received.*'in_start' of processor 1"):
            simulate([sender.program(), receiver.program()], mesh(2))

    def test_peers_without_a_program(self) -> None:
        sender = Sketch(0)
        sender.send(4, MB)
        with pytest.raises(InputError, match="communicates with processor 4, which has no program"):
            simulate([sender.program()], mesh(5))

    def test_two_programs_for_one_processor(self) -> None:
        programs = [Sketch(0), Sketch(0)]
        for sketch in programs:
            sketch.null()
        with pytest.raises(InputError, match="processor 0 has two programs"):
            simulate([sketch.program() for sketch in programs], mesh(2))

    def test_nothing_to_run(self) -> None:
        with pytest.raises(InputError, match="no program"):
            simulate([], mesh(2))

    def test_a_circle_of_instructions(self) -> None:
        sketch = Sketch()
        first = sketch.delay(1.0)
        sketch.builder.depend(first, [sketch.delay(1.0, after=[first])])
        with pytest.raises(InputError, match="graph 'program_0': instructions wait for one another in a circle"):
            simulate([sketch.program()], mesh(1))


def test_the_critical_path_needs_a_record() -> None:
    with pytest.raises(InputError, match="simulate with record=True"):
        simulate(sender_and_receiver(0.0), mesh(2)).critical_path()


def test_callers_take_the_time_of_what_they_call() -> None:
    run = simulate(all_reduce_programs(4, 4 * MB, seconds=4 * MS), mesh(4, latency=0.0), record=True)
    assert run.log is not None
    rows = {row["instruction_name"]: row for row in run.log.table(run.log.rows(processor=2)).to_dicts()}
    # Three times 1 MB and 1 ms of adding, then three times 1 MB.
    assert rows["ar"]["wall"] == pytest.approx(9 * MS)
    assert rows["ar_unidir-ring_reduce-scatter"]["finished"] == pytest.approx(6 * MS)
    np.testing.assert_allclose(run.occupation.compute, [3 * MS] * 4)


def test_a_deep_graph_needs_no_recursion() -> None:
    sketch = Sketch()
    caller = sketch.called("call")
    for _ in range(2000):
        sketch.inside(caller)
        caller = sketch.called("call")
    sketch.inside(caller)
    place = sketch.null()
    for _ in range(5000):
        place = sketch.null(after=[place])
    sketch.delay(1.0, after=[place])
    assert simulate([sketch.program()], mesh(1), record=True).makespan == 1.0
