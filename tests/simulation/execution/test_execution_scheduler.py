"""In which order instructions become available."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from execution_cases import GOLDEN, Sketch, golden_graph

from codesign_opt.errors import InputError
from codesign_opt.simulation.program import Program, compile_program
from codesign_opt.simulation.scheduler import Scheduler


def handed_out(program: Program) -> list[list[str]]:
    """What becomes available because of what, each leaf lasting its seconds, one after the other."""
    scheduler = Scheduler(program)
    names = program.graph.names
    queue = deque(scheduler.begin())
    batches = [["INIT", *(names[instruction] for instruction in queue)]]
    now = 0.0
    while queue:
        instruction = queue.popleft()
        started, now = now, now + float(program.seconds[instruction])
        following = scheduler.finish(instruction, started=started, finished=now)
        batches.append([names[instruction], *(names[other] for other in following)])
        queue.extend(following)
    assert scheduler.over
    return batches


@pytest.mark.parametrize("case", GOLDEN["scheduler_and_sim"], ids=lambda case: case["name"])
def test_order_is_that_of_the_reference(case: dict[str, Any]) -> None:
    assert handed_out(compile_program(golden_graph(case["graph"]))) == case["batches"]


def test_a_null_without_operands_lets_its_user_run_once() -> None:
    sketch = Sketch()
    source = sketch.null()
    sketch.delay(1.0, after=[source], name="user")
    sketch.delay(1.0, name="other")
    assert handed_out(sketch.program()) == [["INIT", "user", "other"], ["user"], ["other"]]


def test_a_user_freed_through_a_null_comes_before_later_users() -> None:
    sketch = Sketch()
    source = sketch.delay(1.0, name="source")
    null = sketch.null(after=[source])
    sketch.delay(1.0, after=[source], name="between")
    sketch.delay(1.0, after=[null, source], name="both")
    assert handed_out(sketch.program())[1] == ["source", "both", "between"]


@pytest.mark.parametrize(("body", "condition", "runs"), [(2, 3, 2), (3, 2, 2), (1, 1, 1), (0, 4, 0), (2, 0, 0)])
def test_a_loop_turns_as_often_as_the_lower_count_says(body: int, condition: int, runs: int) -> None:
    sketch = Sketch()
    loop = sketch.called("while", name="loop")
    sketch.inside(loop, count=body)
    sketch.delay(1.0, name="body")
    sketch.inside(loop, count=condition)
    sketch.delay(0.5, name="condition")
    sketch.inside(None)
    sketch.delay(1.0, after=[loop], name="end")
    batches = handed_out(sketch.program())
    assert [batch[0] for batch in batches] == ["INIT", *["body", "condition"] * runs, "end"]


def test_a_loop_in_a_loop_starts_anew_each_time() -> None:
    sketch = Sketch()
    outer = sketch.loop(3)
    inner = sketch.called("while")
    sketch.inside(inner, count=2)
    sketch.delay(1.0, name="work")
    sketch.inside(inner, count=2)
    sketch.null()
    sketch.inside(None)
    sketch.null(after=[outer])
    assert sum(batch[0] == "work" for batch in handed_out(sketch.program())) == 6


def test_a_conditional_runs_one_branch_for_every_seed() -> None:
    sketch = Sketch()
    choice = sketch.called("conditional", name="choice")
    for name in ("left", "right"):
        sketch.inside(choice, probability=0.5)
        sketch.delay(1.0, name=name)
    sketch.inside(None)
    sketch.delay(1.0, after=[choice], name="end")
    graph = sketch.graph()
    runs = [handed_out(compile_program(graph, seed=seed)) for seed in range(200)]
    assert all(len(batches) == 3 for batches in runs)
    assert 70 < sum(batches[0] == ["INIT", "left"] for batches in runs) < 130


def test_deep_and_long_graphs_need_no_recursion() -> None:
    sketch = Sketch()
    caller = sketch.called("call")
    for _ in range(3000):
        sketch.inside(caller)
        caller = sketch.called("call")
    sketch.inside(caller)
    place = sketch.null()
    for _ in range(20000):
        place = sketch.null(after=[place])
    sketch.delay(1.0, after=[place], name="last")
    assert handed_out(sketch.program()) == [["INIT", "last"], ["last"]]


def test_ready_rule_is_checked() -> None:
    sketch = Sketch()
    sketch.null()
    with pytest.raises(InputError, match="did you mean 'latest'"):
        Scheduler(sketch.program(), ready_at="latests")  # type: ignore[arg-type]
