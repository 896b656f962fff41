"""Predictions by calibrated systems, with calibrations made up for the purpose."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from codesign_opt.systems import System
from codesign_opt.validation import MappedRun, predict
from codesign_opt.validation.held_out import held_out_predictions, in_sample_predictions


@dataclass(frozen=True)
class Slower:
    """All engines, memories and networks at a share of their rate; at the full one for a family that is left out."""

    share: float
    families: frozenset[str] = frozenset()

    def system_for(self, run: MappedRun) -> System:
        return run.system if run.run.family in self.families else slowed(run.system, self.share)

    def without(self, family: str) -> Slower:
        return replace(self, families=self.families | {family})


def slowed(system: System, share: float) -> System:
    def engines(of: object) -> dict[str, object]:
        return {name: replace(engine, peak=share * engine.peak) for name, engine in of.items()}  # type: ignore[attr-defined]

    memory = system.memory_tier1
    return replace(
        system,
        matrix=engines(system.matrix),
        vector=engines(system.vector),
        memory_tier1=replace(memory, bandwidth=share * memory.bandwidth),
        network_tiers=tuple(
            replace(tier, bandwidth=share * tier.bandwidth, latency=tier.latency / share)
            for tier in system.network_tiers
        ),
    )


@pytest.fixture(scope="module")
def some(mapped: dict[str, MappedRun]) -> list[MappedRun]:
    """Runs of several families, mixed."""
    return list(mapped.values())[::41]


def test_in_sample_systems_are_the_calibrated_ones(some: list[MappedRun]) -> None:
    catalogue = predict(some)
    assert in_sample_predictions(some, None).seconds.tolist() == catalogue.seconds.tolist()
    half = in_sample_predictions(some, Slower(0.5))
    assert half.seconds == pytest.approx(2 * catalogue.seconds, rel=1e-6)
    assert half.memory.tolist() == catalogue.memory.tolist()


def test_held_out_predictions_have_not_seen_the_family_and_keep_the_order(some: list[MappedRun]) -> None:
    catalogue = predict(some)
    # Every run's own family is left out, so nothing is slowed; in order, though families are mixed.
    held_out = held_out_predictions(some, Slower(0.5))
    assert held_out.seconds == pytest.approx(catalogue.seconds, rel=1e-12)
    mixed = some[::2] + some[1::2]
    again = held_out_predictions(mixed, Slower(0.5))
    assert again.seconds == pytest.approx(np.concatenate([catalogue.seconds[::2], catalogue.seconds[1::2]]), rel=1e-12)
