"""Certificates against brute force and dense sampling."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from priced_machines import CAPACITY, CHOICES, LATENCY, MEMORY, NETWORK, PEAK, RANGES, SIZE, random_study, study

from codesign_opt.catalog import study_path
from codesign_opt.errors import InfeasibleError, InputError
from codesign_opt.studies.bilevel import evaluate_machine
from codesign_opt.studies.certify import Certificate, CertifyProgress, certify
from codesign_opt.studies.certify.box import least_price, root_boxes
from codesign_opt.studies.points import Dimension, all_points, hardware_dimensions
from codesign_opt.studies.specification import StudySpecification, read_study
from codesign_opt.systems import PriceCurve

COST = "cost_per_million_tokens"
RATE = "sample_rate >= 30 samples/s"


def feasible_values(specification: StudySpecification) -> list[float]:
    """The objective at every point of a study of choices, where something is feasible."""
    outcomes = [evaluate_machine(specification, point) for point in all_points(hardware_dimensions(specification))]
    (objective,) = specification.objectives
    return [outcome.values[objective.metric] for outcome in outcomes if outcome.state == "complete"]


def best_of(specification: StudySpecification, values: list[float]) -> float:
    """The best of some values of the objective."""
    return min(values) if specification.objectives[0].direction == "minimize" else max(values)


def optimum(specification: StudySpecification) -> float:
    """The best value at any point."""
    return best_of(specification, feasible_values(specification))


def assert_consistent(certificate: Certificate, specification: StudySpecification) -> None:
    """The best value is that of the point and the candidate, and the gap that between it and the bound."""
    assert certificate.best is not None
    assert certificate.candidate is not None
    (objective,) = specification.objectives
    assert evaluate_machine(specification, certificate.point).values == {objective.metric: certificate.best}
    assert certificate.candidate.metrics[objective.metric] == certificate.best
    gap = abs(certificate.best - certificate.bound) / certificate.best
    assert certificate.gap == pytest.approx(gap, abs=1e-12)
    better = certificate.bound - certificate.best
    assert (better <= 0) if objective.direction == "minimize" else (better >= 0)


class TestAgainstBruteForce:
    """Where all dimensions are choices, a certificate without a gap is the optimum over all points."""

    @pytest.mark.parametrize(
        ("objective", "changes"),
        [
            (COST, {"constraints": [RATE, "memory_tier1_used <= 300 kB"]}),
            ("price_performance", {"constraints": ["system_price <= 12000 $"]}),
            ("sample_rate", {"constraints": ["processor_price <= 4000 $"]}),
            ("step_time", {"constraints": ["cost_per_million_tokens <= 0.1 $", RATE]}),
            ("token_rate_per_processor", {"constraints": ["system_price <= 15000 $", "processors >= 2"]}),
            ("system_price", {"constraints": [RATE], "processors": [2, 4]}),
            ("processor_price", {"constraints": ["step_time <= 200 ms", "activation_memory <= 100 kB"]}),
            ("processors", {"constraints": [RATE], "processors": [2, 4]}),
        ],
    )
    def test_every_kind_of_objective(self, objective: str, changes: dict[str, Any]) -> None:
        specification = study(CHOICES, objectives=objective, **changes)
        values = feasible_values(specification)
        assert 0 < len(values) < (16 if changes else 9)
        certificate = certify(specification, gap=0.0)
        assert certificate.best == best_of(specification, values)
        assert (certificate.gap, certificate.closed, certificate.reason) == (0.0, True, "gap")
        assert_consistent(certificate, specification)

    @pytest.mark.parametrize("seed", range(2))
    def test_random_prices_that_rise_and_fall(self, seed: int) -> None:
        specification = random_study(seed, choices=True)
        certificate = certify(specification, gap=0.0)
        assert certificate.best == optimum(specification)
        assert certificate.gap == 0.0

    def test_one_machine(self) -> None:
        certificate = certify(study({}), gap=0.0)
        assert (certificate.best, certificate.point) == (evaluate_machine(study({}), {}).values[COST], {})
        assert (certificate.gap, certificate.boxes, certificate.searches) == (0.0, 1, 1)

    def test_sizes_of_a_network_that_groups_must_fill(self) -> None:
        """More is not better here, so that every size is looked at by itself."""
        specification = study(
            {SIZE: {"choices": [2, 3, 4]}, PEAK: CHOICES[PEAK]},
            objectives="sample_rate",
            strategies={"tp": 2, "tp_tier": 0},
        )
        certificate = certify(specification, gap=0.0)
        assert certificate.best == optimum(specification)
        assert certificate.point[SIZE] in (2, 4)

    @pytest.mark.parametrize("method", ["auto", "exact"])
    def test_capacities_fitted_to_each_strategy_or_searched(self, method: str) -> None:
        free = {CAPACITY: {"choices": ["150 kB", "250 kB", "1 MB"]}, MEMORY: CHOICES[MEMORY]}
        specification = study(free, method=method)
        price = replace(specification.system.price, memory_tier1=PriceCurve((1e5, 1e6), (0.0, 5000.0)))  # type: ignore[type-var]
        specification = replace(specification, system=replace(specification.system, price=price))
        certificate = certify(specification, gap=0.0)
        assert certificate.best == optimum(specification)
        assert (CAPACITY in certificate.point) == (method == "exact")

    @pytest.mark.parametrize("objective", ["step_time", "sample_rate"])
    def test_a_batch_that_depends_on_the_strategy(self, objective: str) -> None:
        """Then the step time and the sample rate rank strategies differently."""
        specification = study({PEAK: CHOICES[PEAK]}, objectives=objective, processors=[2, 4], batch=7)
        assert certify(specification, gap=0.0).best == optimum(specification)


class TestRanges:
    """Bounds hold, and the gap closes, where parameters may be anything in a range."""

    @settings(max_examples=2)
    @given(
        seed=st.integers(0, 1000),
        objective=st.sampled_from([COST, "price_performance", "sample_rate"]),
    )
    def test_no_sampled_machine_is_beyond_the_bound(self, seed: int, objective: str) -> None:
        specification = random_study(seed, choices=False, objective=objective)
        certificate = certify(specification, gap=0.25)
        assert certificate.closed
        assert certificate.gap <= 0.25
        assert_consistent(certificate, specification)
        rng = np.random.default_rng(seed)
        dimensions = hardware_dimensions(specification)
        for _ in range(12):
            point = {dimension.name: dimension.at(rng.choice([0.0, rng.random(), 1.0])) for dimension in dimensions}
            value = evaluate_machine(specification, point).values[objective]
            if specification.objectives[0].direction == "minimize":
                assert value >= certificate.bound
            else:
                assert value <= certificate.bound

    def test_more_dimensions_than_are_cut_into_cells(self) -> None:
        free = {**RANGES, LATENCY: {"low": "0 us", "high": "100 us"}}
        free["network_tiers.0.efficiency"] = {"low": 0.3, "high": 1.0}
        certificate = certify(study(free), gap=0.5)
        assert certificate.closed
        assert certificate.point[LATENCY] == 0.0
        assert certificate.point["network_tiers.0.efficiency"] == 1.0

    def test_nothing_costs_anything(self) -> None:
        """Then the fastest machine is the best, and one look at it proves that."""
        certificate = certify(study(prices={}), gap=1e-6)
        assert certificate.point == root_boxes(study())[0].best_end == {MEMORY: 4e8, NETWORK: 4e7, PEAK: 8e8}
        assert (certificate.boxes, certificate.searches) == (1, 1)
        assert certificate.gap < 1e-6

    def test_free_terms_of_the_price(self) -> None:
        free = {
            "price.processor": {"low": "1000 $", "high": "2000 $"},
            "price.amortisation_hours": {"low": "1 years", "high": "4 years"},
        }
        certificate = certify(study(free), gap=1e-6)
        assert certificate.point == {"price.processor": 1000.0, "price.amortisation_hours": 4 * 31557600 / 3600}


class TestLimits:
    """A certificate that is not closed is honest about it."""

    def test_evaluations(self) -> None:
        certificate = certify(study(), gap=0.001, evaluations=100)
        assert (certificate.closed, certificate.reason) == (False, "evaluations")
        assert 100 <= certificate.evaluations < 300
        assert certificate.gap > 0.001
        assert_consistent(certificate, study())

    def test_seconds(self) -> None:
        certificate = certify(study(), gap=0.001, seconds=0.0)
        assert (certificate.closed, certificate.reason, certificate.boxes) == (False, "seconds", 0)
        assert (certificate.best, certificate.candidate, certificate.gap) == (None, None, math.inf)

    def test_a_start_is_the_best_until_there_is_a_better_one(self) -> None:
        start = {MEMORY: 1e8, NETWORK: 1e7, PEAK: 4e8}
        certificate = certify(study(), gap=0.001, seconds=0.0, start=start)
        assert certificate.point == start
        assert certificate.best == evaluate_machine(study(), start).values[COST]
        assert certificate.gap == math.inf

    def test_progress_never_goes_back(self) -> None:
        seen: list[CertifyProgress] = []
        certificate = certify(study(), gap=0.3, progress=seen.append)
        assert len(seen) > 2
        assert seen[-1].boxes == certificate.boxes
        for before, after in pairwise(seen):
            assert after.bound >= before.bound
            assert after.boxes > before.boxes
            assert before.best is None or (after.best or 0) <= before.best

    def test_the_number_of_workers_does_not_matter(self) -> None:
        one, two = (certify(study(), gap=0.5, workers=workers) for workers in (1, 2))
        assert replace(one, seconds=0) == replace(two, seconds=0)


class TestRefused:
    """What has no bound is refused in words."""

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"objectives": ["sample_rate", "system_price"]}, "one objective, not for sample_rate, system_price"),
            ({"objectives": "bubble_share"}, "nothing says how 'bubble_share' changes"),
            ({"objectives": "maximize step_time"}, "a better machine makes it worse"),
            ({"constraints": ["mfu >= 30 %"]}, "constraint 'mfu >= 0.3' has no bound"),
            ({"constraints": ["sample_rate <= 30 samples/s"]}, "a better machine may break it"),
            ({"processors": {"budget": "20000 $"}}, "system_price <= "),
            ({"reproduce": ["E7"]}, "reproduces E7"),
            ({"method": "exact", "objectives": "memory_tier1_capacity", "free": {CAPACITY: {"choices": ["1 MB"]}}},
             "memory_tier1.capacity is free and searched"),
        ],
    )  # fmt: skip
    def test_studies(self, changes: dict[str, Any], words: str) -> None:
        with pytest.raises(InputError) as caught:
            certify(study(**changes))
        assert words in str(caught.value)

    @pytest.mark.parametrize(
        ("free", "gap"), [(RANGES, 0.0), (RANGES, 1e-7), (CHOICES, -0.1), (CHOICES, math.nan), (CHOICES, math.inf)]
    )
    def test_gaps(self, free: dict[str, Any], gap: float) -> None:
        with pytest.raises(InputError, match="cannot be proven"):
            certify(study(free), gap=gap)

    @pytest.mark.parametrize(
        ("start", "words"),
        [
            ({MEMORY: 1e8, NETWORK: 1e7}, "the start has no 'matrix.float16.peak'"),
            ({MEMORY: 1e8, NETWORK: 1e9, PEAK: 2e8}, "not among the machines"),
        ],
    )
    def test_starts(self, start: dict[str, float], words: str) -> None:
        with pytest.raises(InputError, match=words):
            certify(study(), start=start)

    def test_nothing_feasible(self) -> None:
        with pytest.raises(InfeasibleError, match="no machine has a feasible strategy") as caught:
            certify(study(constraints=["step_time <= 1 us"]))
        assert "step_time" in caught.value.hint


curves: st.SearchStrategy[PriceCurve] = st.lists(
    st.tuples(st.integers(1, 100), st.integers(0, 1000)), min_size=1, max_size=6, unique_by=lambda pair: pair[0]
).map(lambda pairs: PriceCurve(*(tuple(map(float, column)) for column in zip(*sorted(pairs), strict=True))))


@given(curve=curves, ends=st.tuples(st.floats(0.5, 120), st.floats(0.5, 120)))
def test_least_price_of_an_interval(curve: PriceCurve, ends: tuple[float, float]) -> None:
    low, high = sorted(ends)
    least = least_price(curve, Dimension(name=MEMORY, low=low, high=high))
    within = [low, high, *np.linspace(low, high, 200), *(x for x in curve.points if low <= x <= high)]
    prices = curve.at(np.clip(within, low, high))
    assert least == prices.min()


@given(curve=curves, choices=st.lists(st.floats(0.5, 120), min_size=1, max_size=5))
def test_least_price_of_choices(curve: PriceCurve, choices: list[float]) -> None:
    least = least_price(curve, Dimension(name=MEMORY, choices=tuple(sorted(choices))))
    assert least == min(float(curve.at(choice)) for choice in choices)


@pytest.mark.slow
def test_the_shipped_study_is_certified_to_one_percent() -> None:
    specification = read_study(study_path("cost-optimum"))
    certificate = certify(specification, gap=0.01, seconds=1800)
    assert certificate.closed
    assert len(certificate.point) == 3
    rng = np.random.default_rng(0)
    for _ in range(20):
        point = {dimension.name: dimension.at(rng.random()) for dimension in hardware_dimensions(specification)}
        assert evaluate_machine(specification, point).values[COST] >= certificate.bound
