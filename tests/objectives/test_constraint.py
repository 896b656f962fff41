from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign_opt.errors import InputError
from codesign_opt.objectives import METRICS, Constraint, constraint_violations, parse_constraint, parse_constraints

Make = Callable[..., Any]

WHERE = "my.toml: constraints"


@pytest.mark.parametrize(
    ("text", "metric", "sense", "bound"),
    [
        ("memory_tier1_used <= 70 GiB", "memory_tier1_used", "<=", 70 * 2**30),
        ("memory_tier1_used<=70GiB", "memory_tier1_used", "<=", 70 * 2**30),
        ("token_rate >= 1e6 tokens/s", "token_rate", ">=", 1e6),
        ("price <= 125 M$", "system_price", "<=", 125e6),
        ("mfu >= 40 %", "mfu", ">=", 0.4),
        ("processors <= 512", "processors", "<=", 512),
        ("power_average <= 1.2 MW", "power_average", "<=", 1.2e6),
        ("cost_per_million_tokens <= 0.7 $", "cost_per_million_tokens", "<=", 0.7),
        ("memory_tier1_free >= -5 GiB", "memory_tier1_free", ">=", -5 * 2**30),
        ("bubble_time <= 0 s", "bubble_time", "<=", 0),
    ],
)
def test_parses(text: str, metric: str, sense: str, bound: float) -> None:
    constraint = parse_constraint(text, where=WHERE)
    assert (constraint.metric, constraint.sense) == (metric, sense)
    assert constraint.bound == pytest.approx(bound, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory_teir1_used <= 70 GiB", "unknown metric 'memory_teir1_used' (did you mean 'memory_tier1_used'"),
        ("memory_tier1_used <= 70", "memory_tier1_used: '70' has no unit (write for instance '70 GiB')"),
        ("memory_tier1_used <= 70 s", "'70 s' is not a quantity in 'B'"),
        ("memory_tier1_used <= 70 gb", "did you mean '70 GB' or '70 GiB'?"),
        ("step_time <= nan s", "'nan s' is not a finite number"),
        ("step_time <= inf s", "'inf s' is not a finite number"),
        ("step_time < 1 s", "unknown operator '<' in 'step_time < 1 s' (allowed: <= and >=)"),
        ("step_time == 1 s", "unknown operator '==' in 'step_time == 1 s' (allowed: <= and >=)"),
        ("step_time =< 1 s", "allowed: <= and >="),
        ("step_time != 1 s", "allowed: <= and >="),
        ("step_time ≤ 1 s", "allowed: <= and >="),
        ("70 GiB >= memory_tier1_used", "'70 GiB' in '70 GiB >= memory_tier1_used' is not a metric (the metric comes"),
        ("1 s <= step_time <= 2 s", "is not a constraint (write one metric, '<=' or '>=', and one bound"),
        ("step_time", "'step_time' is not a constraint"),
        ("step_time <=", "'step_time <=' is not a constraint"),
        ("<= 1 s", "'<= 1 s' is not a constraint"),
        ("", "'' is not a constraint"),
        ("step_time <= -1 s", "no strategy can satisfy 'step_time <= -1 s' (step_time is never below 0 s)"),
        ("memory_tier1_used <= -1 B", "no strategy can satisfy"),
        ("mfu >= 150 %", "no strategy can satisfy 'mfu >= 150 %' (mfu is never above 1)"),
    ],
)
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_constraint(text, where=WHERE)
    assert str(caught.value).startswith(f"{WHERE}: ")
    assert message in str(caught.value)


def test_refuses_what_is_no_text() -> None:
    with pytest.raises(InputError, match="3 is not a constraint"):
        parse_constraint(3, where=WHERE)  # type: ignore[arg-type]


def test_constraints_that_contradict_each_other_are_refused() -> None:
    kept = parse_constraints(["step_time >= 1 s", "step_time <= 1 s", "mfu >= 0.4"], where=WHERE)
    assert [str(constraint) for constraint in kept] == ["step_time >= 1 s", "step_time <= 1 s", "mfu >= 0.4"]
    with pytest.raises(InputError, match="satisfy both 'step_time <= 1 s' and 'step_time >= 2 s'"):
        parse_constraints(["step_time >= 2 s", "step_time <= 1 s"], where=WHERE)
    assert parse_constraints([], where=WHERE) == ()


def test_text_has_units() -> None:
    assert str(Constraint("memory_tier1_used", "<=", 70 * 2**30)) == "memory_tier1_used <= 70 GiB"
    assert str(Constraint("processors", ">=", 64)) == "processors >= 64"


@settings(deadline=None)
@given(st.sampled_from(sorted(METRICS)), st.sampled_from(["<=", ">="]), st.floats(min_value=0, max_value=1))
def test_text_parses_to_the_same_constraint(name: str, sense: str, bound: float) -> None:
    constraint = Constraint(name, "<=" if sense == "<=" else ">=", bound)
    assert parse_constraint(str(constraint), where=WHERE) == constraint


def test_violation_is_what_is_missing() -> None:
    at_most, at_least = Constraint("step_time", "<=", 5.0), Constraint("step_time", ">=", 5.0)
    values = np.array([[4.0, 5.0, 7.5]])
    assert at_most.violation(values).tolist() == [[-1.0, 0.0, 2.5]]
    assert at_least.violation(values).tolist() == [[1.0, 0.0, -2.5]]


def test_violations_of_a_grid(make_estimate: Make) -> None:
    grid = make_estimate(processors=np.array([[4], [8]]), times={"total": np.array([8.0, 16.0, 32.0])})
    constraints = parse_constraints(["step_time <= 16 s", "price <= 200 k$", "memory_tier1_free >= 20 B"], where=WHERE)
    violations = constraint_violations(grid, constraints)
    assert violations.shape == (2, 3, 3)
    assert violations[..., 0].tolist() == [[-8.0, 0.0, 16.0]] * 2
    assert violations[..., 1].tolist() == [[-84_000.0] * 3, [32_000.0] * 3]
    assert violations[..., 2].tolist() == [[4.0] * 3] * 2
    assert constraint_violations(grid, []).shape == (2, 3, 0)
