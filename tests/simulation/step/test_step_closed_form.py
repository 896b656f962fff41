"""The closed form of a step: the estimate's total, from the pieces of the step's work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from step_cases import step_cases
from step_works import handmade_work

from codesign_opt.errors import InputError
from codesign_opt.graphs.step import StepOptions, StepWork, step_graph
from codesign_opt.simulation.step import simulate_step
from codesign_opt.simulation.step.closed_form import closed_form_ends


def closed_form_seconds(work: StepWork, schedule: str = "gpipe") -> float:
    return max(closed_form_ends(step_graph(work, schedule=schedule, granularity="chunk")))


def test_without_offload_it_is_the_estimate() -> None:
    for case in step_cases(31, 30):
        assert closed_form_seconds(case.work) == pytest.approx(case.seconds, rel=1e-12), str(case)


def test_it_is_what_gpipe_takes() -> None:
    for number, case in enumerate(step_cases(32, 25, offload=True, most_microbatches=4, most_pp=5)):
        bucket = (None, 2.5, 1e9)[number % 3]
        options = StepOptions(
            messages="serial", bucket_bytes=None if bucket is None else bucket * case.work.kinds[0].gradient_bytes
        )
        step = step_graph(case.work, schedule="gpipe", granularity="chunk", options=options)
        events = simulate_step(step, contention=False)
        formula = simulate_step(step, engine="closed-form")
        assert formula.seconds == pytest.approx(events.seconds, rel=1e-9), str(case)
        if case.strategy.vpp == 1:
            assert formula.stages["end"] == pytest.approx(events.stages["end"], rel=1e-9), str(case)
        assert formula.simulation is None


def random_works(count: int) -> Iterator[StepWork]:
    """Stages of any number of blocks, with what is exchanged and streamed."""
    random = Random(17)
    for _ in range(count):
        stages = random.randint(1, 5)
        gradients = random.choice([0.0, random.uniform(0.1, 3.0)])
        yield handmade_work(
            tuple(random.randint(1, 4) for _ in range(stages)),
            microbatches=random.randint(1, 6),
            training=random.random() < 0.8,
            forward=random.uniform(0.1, 2.0),
            backward=random.uniform(0.1, 3.0),
            offload=random.choice([(0.0, 0.0, 0.0), (0.5, 1.5, 4.0)]),
            message=random.uniform(0.0, 1.0),
            gradients=gradients,
            gather=random.choice([None, 0.5]) if gradients else None,
            optimizer=random.uniform(0.0, 1.0),
            reduced_each=random.random() < 0.4,
        )


def test_stages_that_differ_one_way_and_back() -> None:
    for work in random_works(60):
        step = step_graph(work, schedule="gpipe", options=StepOptions(messages="serial"))
        events = simulate_step(step, contention=False)
        assert closed_form_ends(step) == pytest.approx(events.stages["end"].tolist(), rel=1e-12)


@pytest.mark.parametrize("schedule", ["zb_1p", "zb_v", "dualpipe"])
def test_schedules_that_split_backward_passes(schedule: str) -> None:
    random = Random(18)
    for _ in range(40):
        stages = 2 * random.randint(1, 3)
        forward, backward, weight = sorted((random.uniform(0.2, 3.0) for _ in range(3)), reverse=True)
        if schedule == "zb_1p":
            forward, weight = random.choice([(forward, weight), (weight, forward)])
        work = handmade_work(
            (2,) * stages,
            microbatches=2 * random.randint(stages, 2 * stages) if schedule != "zb_1p" else random.randint(1, 9),
            forward=forward,
            backward=backward,
            weight_gradient=weight,
            # A message that makes its passes longer leaves what the formulas compare as it was.
            message=random.choice([0.0, 0.1]) if schedule != "dualpipe" else 0.0,
            optimizer=0.5,
        )
        step = step_graph(work, schedule=schedule, options=StepOptions(messages="serial"))
        events = simulate_step(step, contention=False)
        assert max(closed_form_ends(step)) == pytest.approx(events.seconds, rel=1e-12)


def test_what_has_no_closed_form_is_refused() -> None:
    [uneven] = step_cases(33, 1, even=False, uneven=True, least_pp=2)
    other = "1f1b" if uneven.strategy.vpp == 1 else "interleaved"
    equal_rounds = replace(uneven.work, microbatches=uneven.strategy.pp)
    with pytest.raises(InputError, match="stages or chunks that differ"):
        closed_form_seconds(equal_rounds, other)
    overlapped = next(case for case in step_cases(34, 40, dp_overlap=True, least_dp=2) if case.strategy.dp_overlap)
    with pytest.raises(InputError, match="overlapped gradient exchange"):
        closed_form_seconds(overlapped.work)
    each = handmade_work((1, 1), microbatches=2, gradients=1.0, reduced_each=True)
    with pytest.raises(InputError, match="exchanged in every microbatch"):
        closed_form_seconds(each, "1f1b")


@pytest.mark.parametrize(
    ("schedule", "times", "microbatches", "message"),
    [
        ("zb_v", (1.0, 1.0, 1.5), 8, "weight gradients that are longer"),
        ("zb_v", (1.0, 1.0, 1.0), 6, "fewer than 2 · pp - 1"),
        ("dualpipe", (1.0, 1.5, 0.5), 8, "forward passes are longest"),
    ],
)
def test_where_passes_are_of_the_wrong_length(
    schedule: str, times: tuple[float, float, float], microbatches: int, message: str
) -> None:
    forward, backward, weight = times
    work = handmade_work(
        (2,) * 4, microbatches=microbatches, forward=forward, backward=backward, weight_gradient=weight
    )
    with pytest.raises(InputError, match=message):
        closed_form_seconds(work, schedule)


def test_offloaded_optimizer_state_and_split_passes() -> None:
    with pytest.raises(InputError, match="offloaded optimizer state"):
        closed_form_seconds(handmade_work((1, 1), microbatches=2, offload=(0.0, 0.0, 9.0)), "zb_1p")
