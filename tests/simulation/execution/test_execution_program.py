"""Graphs made ready for execution: what is refused, and which branches are taken."""

from __future__ import annotations

import numpy as np
import pytest
from execution_cases import Sketch

from codesign_opt.errors import InputError
from codesign_opt.graphs import GraphBuilder
from codesign_opt.simulation import kernel
from codesign_opt.simulation.processor import simulate_processor
from codesign_opt.simulation.program import Kind, compile_program
from codesign_opt.simulation.streams import Streams


def alone(opcode: str, **attributes: object) -> GraphBuilder:
    """A graph of processor 0 with one instruction."""
    builder = GraphBuilder("g", 0)
    builder.instruction(builder.subroutine("main"), "x", opcode, **attributes)  # type: ignore[arg-type]
    return builder


@pytest.mark.parametrize(
    ("opcode", "attributes", "message"),
    [
        ("sendrecv", {"groups": [[1, 1]]}, "sendrecv 'x' is not translated"),
        ("call", {}, "call 'x' has no subroutine"),
        ("all-reduce", {"groups": [[0, 1]], "bytes_out": 8.0}, "not translated and has no seconds"),
        ("send-start", {"groups": [[0, 1], [1, 2]], "bonded": 1}, "not one peer"),
        ("send-start", {"groups": [[1]], "bonded": 7}, "bonded to instruction 7"),
    ],
)
def test_instructions_that_cannot_be_executed(opcode: str, attributes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compile_program(alone(opcode, **attributes).build())


@pytest.mark.parametrize(("opcode", "subroutines"), [("while", 1), ("while", 3), ("send", 2)])
def test_wrong_numbers_of_subroutines(opcode: str, subroutines: int) -> None:
    sketch = Sketch()
    caller = sketch.called(opcode)
    for _ in range(subroutines):
        sketch.inside(caller)
        sketch.null()
    with pytest.raises(InputError, match="subroutine"):
        sketch.program()


def test_halves_of_a_message_stand_in_one_subroutine() -> None:
    sketch = Sketch()
    call = sketch.called("call")
    sketch.send(1, 8.0)
    sketch.inside(call)
    sketch.null()
    graph = sketch.graph()
    subroutine = graph.subroutine.copy()
    subroutine[graph.names.index("send-done_3")] = 1
    object.__setattr__(graph, "subroutine", subroutine)
    with pytest.raises(InputError, match="of the same subroutine must name each other"):
        compile_program(graph)


@pytest.mark.parametrize(
    ("options", "message"), [({"branches": "expect"}, "did you mean 'expected'"), ({"seed": -1}, "not negative")]
)
def test_options_are_checked(options: dict[str, object], message: str) -> None:
    sketch = Sketch()
    sketch.null()
    with pytest.raises(InputError, match=message):
        sketch.program(**options)


def test_the_inner_loop_knows_the_kinds() -> None:
    assert {kind.name: getattr(kernel, f"_{kind.name}") for kind in Kind} == {kind.name: int(kind) for kind in Kind}


def test_streams_are_checked() -> None:
    with pytest.raises(InputError, match="streams: send: 0"):
        Streams(send=0)
    with pytest.raises(InputError, match=r"streams: further: 1\.5"):
        Streams(further=(1.5,))


def conditional_in_loop(turns: int, *, communicates: bool = False) -> Sketch:
    """A branch of 3 s with weight 0.25, or one of 1 s, in each turn."""
    sketch = Sketch()
    sketch.loop(turns)
    choice = sketch.called("conditional", name="choice")
    sketch.inside(choice, probability=0.25)
    sketch.delay(3.0, name="long")
    if communicates:
        sketch.send(1, 8.0)
    sketch.inside(choice, probability=0.75)
    sketch.delay(1.0, name="short")
    return sketch


def test_branches_are_drawn_once_an_execution_with_their_weights() -> None:
    program = conditional_in_loop(4000).program(seed=3)
    runs = {name: int(count) for name, count in zip(program.graph.names, program.executions, strict=True)}
    assert runs["long"] + runs["short"] == 4000
    # 1000 expected; the standard deviation is 27.
    assert abs(runs["long"] - 1000) < 110
    run = simulate_processor(program, network_bandwidth=1.0)
    assert run.processor == pytest.approx(3.0 * runs["long"] + runs["short"])


def test_draws_are_those_of_the_documented_generator() -> None:
    program = conditional_in_loop(5).program(seed=3)
    uniform = np.random.Generator(np.random.PCG64(np.random.SeedSequence((3, 0)))).random(5)
    choice = program.graph.names.index("choice")
    names = [program.graph.names[program.graph.root[subroutine]] for subroutine in program.draws[choice]]
    assert names == ["long" if number < 0.25 else "short" for number in uniform]


def test_a_branch_without_weight_is_never_taken() -> None:
    sketch = Sketch()
    sketch.loop(100)
    choice = sketch.called("conditional")
    for weight, name in ((1.0, "always"), (0.0, "never")):
        sketch.inside(choice, probability=weight)
        sketch.delay(1.0, name=name)
    program = sketch.program()
    assert program.executions[program.graph.names.index("never")] == 0


def test_branches_without_any_weight_are_refused() -> None:
    sketch = Sketch()
    choice = sketch.called("conditional")
    for _ in range(2):
        sketch.inside(choice, probability=0.0)
        sketch.null()
    with pytest.raises(InputError, match="they must sum to 1"):
        sketch.program()


def test_expected_branches_take_their_weighted_seconds() -> None:
    """0.25 · 3 s + 0.75 · 1 s = 1.5 s in each of four turns."""
    program = conditional_in_loop(4).program(branches="expected")
    run = simulate_processor(program, network_bandwidth=1.0)
    assert run.processor == pytest.approx(6.0)
    assert program.kind[program.graph.names.index("choice")] == Kind.TIMED
    assert program.executions[program.graph.names.index("long")] == 0


def test_expected_seconds_count_inner_loops() -> None:
    """0.5 · (3 turns · (1 + 0.5) s) + 0.5 · 1 s = 2.75 s."""
    sketch = Sketch()
    choice = sketch.called("conditional")
    sketch.inside(choice, probability=0.5)
    loop = sketch.called("while")
    sketch.inside(loop, count=3)
    sketch.delay(1.0)
    sketch.inside(loop, count=3)
    sketch.delay(0.5)
    sketch.inside(choice, probability=0.5)
    sketch.delay(1.0)
    run = simulate_processor(sketch.program(branches="expected"), network_bandwidth=1.0)
    assert run.processor == pytest.approx(2.75)


def test_communication_has_no_expected_seconds() -> None:
    with pytest.raises(InputError, match="conditional 'choice' communicates"):
        conditional_in_loop(1, communicates=True).program(branches="expected")
