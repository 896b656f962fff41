from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from codesign_opt.errors import InputError
from codesign_opt.objectives import Objective, objective_values, parse_objective, parse_objectives

Make = Callable[..., Any]

WHERE = "my.toml: objectives"


@pytest.mark.parametrize(
    ("given", "metric", "direction"),
    [
        ("step_time", "step_time", "minimize"),
        ("sample_rate", "sample_rate", "maximize"),
        ("  sample_rate ", "sample_rate", "maximize"),
        ("maximize sample_rate", "sample_rate", "maximize"),
        ("maximise  sample_rate", "sample_rate", "maximize"),
        ("max memory_tier1_used", "memory_tier1_used", "maximize"),
        ("min price", "system_price", "minimize"),
        ("Minimise step_time", "step_time", "minimize"),
        ({"metric": "mfu"}, "mfu", "maximize"),
        ({"metric": "mfu", "direction": "MIN"}, "mfu", "minimize"),
    ],
)
def test_parses(given: Any, metric: str, direction: str) -> None:
    objective = parse_objective(given, where=WHERE)
    assert (objective.metric, objective.direction) == (metric, direction)
    assert parse_objective(str(objective), where=WHERE) == objective


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("step_tmie", "unknown metric 'step_tmie' (did you mean 'step_time'"),
        ("minimze step_time", "unknown direction 'minimze' (did you mean 'minimize'"),
        ("smallest step_time", "unknown direction 'smallest'"),
        ("", "'' is not an objective (write for instance 'minimize step_time')"),
        ("min step_time max mfu", "is not an objective"),
        (3, "3 is not an objective"),
        ({"direction": "minimize"}, "an objective has no 'metric'"),
        ({"metric": "mfu", "directon": "max"}, "unknown key 'directon' (did you mean 'direction'?)"),
        ({"metric": "mfu", "direction": "up"}, "unknown direction 'up'"),
    ],
)
def test_refuses(given: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_objective(given, where=WHERE)
    assert str(caught.value).startswith(f"{WHERE}: ")
    assert message in str(caught.value)


def test_several_objectives_keep_their_order() -> None:
    objectives = parse_objectives(["sample_rate", {"metric": "price"}], where=WHERE)
    assert objectives == (Objective("sample_rate", "maximize"), Objective("system_price", "minimize"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no objective"),
        (["step_time", "mfu", "step_time"], "metric 'step_time' is the objective more than once"),
        (["min mfu", "max mfu"], "metric 'mfu' is the objective more than once"),
        (["price", "system_price"], "metric 'system_price' is the objective more than once"),
    ],
)
def test_refuses_none_and_duplicates(given: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_objectives(given, where=WHERE)


def test_values_are_to_be_minimized_and_have_the_shape_of_the_grid(make_estimate: Make) -> None:
    grid = make_estimate(processors=np.array([[4], [8]]), times={"total": np.array([8.0, 16.0, 32.0])})
    values = objective_values(grid, parse_objectives(["sample_rate", "price", "step_time"], where=WHERE))
    assert values.shape == (2, 3, 3)
    assert values[..., 0].tolist() == [[-2.0, -1.0, -0.5]] * 2
    assert values[..., 1].tolist() == [[116_000.0] * 3, [232_000.0] * 3]
    assert values[..., 2].tolist() == [[8.0, 16.0, 32.0]] * 2


def test_values_have_the_full_shape_even_where_no_objective_depends_on_an_axis(make_estimate: Make) -> None:
    grid = make_estimate(processors=np.array([[4], [8]]), batch=np.array([16, 32, 64]))
    assert objective_values(grid, [Objective("system_price", "minimize")]).shape == (2, 3, 1)


def test_changing_the_sign_twice_gives_the_values() -> None:
    values = np.array([1.0, -2.0])
    for objective in (Objective("mfu", "maximize"), Objective("step_time", "minimize")):
        assert objective.minimized(objective.minimized(values)).tolist() == [1.0, -2.0]
