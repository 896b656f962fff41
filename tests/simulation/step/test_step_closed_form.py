"""The closed form of a step: the estimate's total, from the pieces of the step's work."""

from __future__ import annotations

import pytest
from step_cases import step_cases

from codesign_opt.errors import InputError
from codesign_opt.graphs.step import StepOptions, step_graph
from codesign_opt.simulation.step import simulate_step
from codesign_opt.simulation.step.closed_form import closed_form_seconds


def test_without_offload_it_is_the_estimate() -> None:
    for case in step_cases(31, 30):
        assert closed_form_seconds(case.work) == pytest.approx(case.seconds, rel=1e-12), str(case)


def test_it_is_what_gpipe_takes() -> None:
    for number, case in enumerate(step_cases(32, 25, offload=True, most_microbatches=4, most_pp=5)):
        bucket = (None, 2.5, 1e9)[number % 3]
        options = StepOptions(
            messages="serial", bucket_bytes=None if bucket is None else bucket * case.work.gradient_bytes
        )
        step = step_graph(case.work, schedule="gpipe", granularity="chunk", options=options)
        events = simulate_step(step, contention=False)
        formula = simulate_step(step, engine="closed-form")
        assert formula.seconds == pytest.approx(events.seconds, rel=1e-9), str(case)
        assert formula.stages["end"].tolist() == [formula.seconds] * case.strategy.pp
        assert formula.simulation is None


def test_uneven_stages_and_overlapped_exchange_are_refused() -> None:
    [uneven] = step_cases(33, 1, even=False, uneven=True)
    with pytest.raises(InputError, match="equal stages"):
        closed_form_seconds(uneven.work)
    overlapped = next(case for case in step_cases(34, 40, dp_overlap=True, least_dp=2) if case.strategy.dp_overlap)
    with pytest.raises(InputError, match="overlapped gradient exchange"):
        closed_form_seconds(overlapped.work)
