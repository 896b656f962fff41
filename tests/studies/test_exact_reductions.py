"""What the exact solver leaves out changes nothing: the same answers as estimating everything."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from brute_force import plain
from varied_questions import varied_question

from codesign_opt.analytical import ALL
from codesign_opt.objectives import METRICS
from codesign_opt.studies.exact import ExactAnswer, NearestMiss, solve
from codesign_opt.studies.exact.bounds import bound_applies

QUESTIONS = range(304)
MANY_MORE_QUESTIONS = range(304, 1000)


@pytest.mark.parametrize("seed", QUESTIONS)
def test_same_answer(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_same_answer(seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY_MORE_QUESTIONS)
def test_same_answer_to_many_more_questions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_same_answer(seed, monkeypatch)


def check_same_answer(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With reductions and without, in parts of one layout, of a few, or of all."""
    strategies = random.Random(seed).choice([1, 1000, 1000, 100_000, 100_000])
    monkeypatch.setattr("codesign_opt.studies.exact.solver.PART_STRATEGIES", strategies)
    question = varied_question(seed)
    reduced, full = solve(question, reduced=True), solve(question, reduced=False)
    assert plain(reduced.strategies) == plain(full.strategies)
    assert reduced.on_front.tolist() == full.on_front.tolist()
    assert counts(reduced) == counts(full)
    assert as_plain(reduced.nearest) == as_plain(full.nearest)


def counts(answer: ExactAnswer) -> tuple[int, int, int, dict[str, int]]:
    return answer.considered, answer.legal, answer.feasible, dict(answer.excluded)


def as_plain(miss: NearestMiss | None) -> tuple[object, ...] | None:
    return None if miss is None else (miss.reason, miss.missing, miss.share, plain(miss.strategies))


def test_questions_are_varied() -> None:
    """Every kind of question occurs, and every kind of answer: ties, fronts, and nothing feasible for every reason."""
    seen: Counter[str] = Counter()
    for seed in QUESTIONS[::8]:
        question = varied_question(seed)
        answer = solve(question)
        system, limits = question.system, question.space.limits
        values = np.empty(0)
        if answer.estimate is not None:
            values = np.broadcast_to(
                METRICS[question.ranked[0].metric].evaluate(answer.estimate), answer.strategies.rows
            )
        kinds = {
            "bounded": bound_applies(question),
            "bounded front": bound_applies(question) and len(question.ranked) > 1,
            "unbounded front": not bound_applies(question) and len(question.ranked) > 1,
            "three objectives": len(question.ranked) > 2,
            "constraints": bool(question.constraints),
            "fitted capacities": bool(question.fitted),
            "no memory tier 2": not system.memory_tier2.capacity,
            "three network tiers": len(system.network_tiers) == 3,
            "equal network tiers": len(set(system.network_tiers)) < len(system.network_tiers),
            "efficiency of a single step": len(system.matrix["float16"].efficiency.thresholds) == 1,
            "no overlap of compute and memory": not system.roofline,
            "inference": False in limits.get("training", ()),
            "multiquery": "attention" in limits,
            "uneven stages": question.space.uneven_stages,
            "all divisors": question.space.all_divisors,
            "64 processors": question.processors == 64,
            "no errata": not question.reproduce,
            "some errata": bool(question.reproduce) and question.reproduce != ALL,
            "all errata": question.reproduce == ALL,
            "ties": len(np.unique(values)) < len(values),
            "front of several": int(answer.on_front.sum()) > 1,
            "front beyond the best": answer.strategies.rows > question.top,
            "nothing feasible for memory": answer.nearest is not None and " " not in answer.nearest.reason,
            "nothing feasible for constraints": answer.nearest is not None and " " in answer.nearest.reason,
            "nothing that the network takes": answer.legal == 0,
        }
        seen.update({name: int(holds) for name, holds in kinds.items()})
    assert not {name: count for name, count in seen.items() if not count}
