from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from codesign_opt.errors import InputError
from codesign_opt.studies import evaluator
from codesign_opt.studies.specification import StudySpecification

POINT = {"memory_tier1.bandwidth": 1e12, "network_tiers.0.bandwidth": 1e11}


def raising(error: Exception) -> Callable[..., Any]:
    def evaluate(*_: Any) -> Any:
        raise error

    return evaluate


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("NaN"), "NaN"),
        (ZeroDivisionError("division by zero"), "division by zero"),
        (InputError("a value that the parameter may not have", "at least 1"), "parameter may not have (at least 1)"),
    ],
)
@pytest.mark.parametrize("method", ["exact", "bilevel", "flat"])
def test_what_cannot_be_evaluated_is_a_failed_trial_with_the_reason(
    tiny: Callable[..., StudySpecification], monkeypatch: pytest.MonkeyPatch, method: str, error: Exception, reason: str
) -> None:
    monkeypatch.setattr(evaluator, "evaluate_machine", raising(error))
    monkeypatch.setattr(evaluator, "evaluate_strategy", raising(error))
    outcome = evaluator.evaluate_point(tiny(), method, POINT)
    assert outcome.state == "failed"
    assert outcome.reason.endswith(reason)
    assert (outcome.values, outcome.constraints, outcome.candidates) == ({}, {}, ())


def test_a_defect_of_the_program_is_no_failed_trial(
    tiny: Callable[..., StudySpecification], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluator, "evaluate_machine", raising(TypeError("a defect")))
    with pytest.raises(TypeError):
        evaluator.evaluate_point(tiny(), "exact", POINT)


def test_one_worker_evaluates_when_asked(
    tiny: Callable[..., StudySpecification], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(evaluator, "evaluate_point", lambda specification, method, point: seen.append(point) or point)
    with evaluator.evaluator(tiny(), "exact", 1) as evaluate:
        outcomes = evaluate(["first", "second"])
        assert seen == []
        assert next(outcomes) == "first"
        assert seen == ["first"]
