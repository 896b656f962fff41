"""The exact solver against the published search, and against brute force over small random spaces."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brute_force import BruteForce, constrained, on_ideal_machine, plain, random_question

from codesign_opt.analytical import ALL, NONE, Erratum, estimate
from codesign_opt.errors import InfeasibleError
from codesign_opt.interop.calculon import read_application, read_system, write_execution
from codesign_opt.objectives import Constraint, Objective
from codesign_opt.strategies import Datatype, StrategyTable, TpOverlap
from codesign_opt.strategies.space import StrategySpace
from codesign_opt.studies.exact import ExactAnswer, ExactQuestion, solve

DATA = Path(__file__).parents[1] / "data" / "calculon"

STEP_TIME = Objective("step_time", "minimize")
MEMORY = Objective("memory_tier1_used", "minimize")
BUBBLE = Objective("bubble_share", "minimize")


@pytest.fixture(scope="module")
def search() -> dict[str, Any]:
    """What the published tool found."""
    return json.loads((DATA / "search_golden.json").read_text())


@pytest.fixture(scope="module")
def answer(search: dict[str, Any]) -> ExactAnswer:
    """What the solver finds."""
    return solve(
        ExactQuestion(
            workload=read_application(DATA / "models" / f"{search['model']}.json"),
            system=read_system(DATA / "systems" / f"{search['system']}.json"),
            processors=search["num_procs"],
            batch=search["max_batch_size"],
            top=10,
            reproduce=ALL,
        )
    )


class TestPublishedSearch:
    """A complete search by the published tool: counts, and the ten best in order."""

    def test_counts(self, search: dict[str, Any], answer: ExactAnswer) -> None:
        assert (answer.considered, answer.feasible) == (search["raw"], search["feasible"])
        assert answer.considered - answer.feasible == search["infeasible"]
        assert answer.legal - answer.feasible == answer.excluded["memory_tier1"]

    def test_ten_best_in_order(self, search: dict[str, Any], answer: ExactAnswer) -> None:
        found = [write_execution(strategy) for strategy in answer.strategies.strategies()]
        assert found == [entry["execution"] for entry in search["top"]]

    def test_their_numbers(self, search: dict[str, Any], answer: ExactAnswer) -> None:
        assert answer.estimate is not None
        expected = [entry["stats"] for entry in search["top"]]
        for name, values in (
            ("total_time", answer.estimate.times.total),
            ("proc_mem_tier1_cap_req", answer.estimate.memory.tier1),
            ("proc_mem_tier2_cap_req", answer.estimate.memory.tier2),
        ):
            np.testing.assert_allclose(values, [stats[name] for stats in expected], rtol=1e-9)


SEEDS = range(12)


class TestAgainstBruteForce:
    """Small random workloads and systems: every strategy estimated on its own row."""

    @pytest.mark.parametrize("seed", range(18))
    def test_best_in_order(self, seed: int) -> None:
        objectives = [
            STEP_TIME,
            Objective("sample_rate", "maximize"),
            Objective("token_rate_per_processor", "maximize"),
        ]
        reproduce = [NONE, ALL][seed % 2]
        question = random_question(seed, top=25, objectives=[objectives[seed % 3]], reproduce=reproduce)
        brute, answer = BruteForce(question), solve(question)
        best = brute.ranking[: question.top]
        assert len(best)
        assert answer.estimate is not None
        np.testing.assert_allclose(answer.estimate.times.total, brute.metric("step_time")[best], rtol=1e-12)
        assert plain(answer.strategies) == plain(brute.rows[0], best)
        assert answer.on_front.tolist() == [True] + [False] * (len(best) - 1)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_best_in_order_where_bounds_are_tight(self, seed: int) -> None:
        question = on_ideal_machine(
            random_question(seed, top=25, objectives=[STEP_TIME], reproduce=[NONE, ALL][seed % 2])
        )
        brute, answer = BruteForce(question), solve(question)
        assert plain(answer.strategies) == plain(brute.rows[0], brute.ranking[: question.top])

    @pytest.mark.parametrize("seed", SEEDS)
    def test_counts(self, seed: int) -> None:
        question = constrained(random_question(seed, top=1, objectives=[STEP_TIME]), seed)
        brute, answer = BruteForce(question), solve(question)
        reasons = Counter(brute.reason)
        assert answer.feasible == reasons.pop("", 0)
        assert answer.excluded == reasons
        assert answer.legal == len(brute.reason) - reasons["network"]
        assert sum(answer.excluded.values()) + answer.feasible == len(brute.reason)

    @pytest.mark.parametrize("seed", SEEDS[::2])
    @pytest.mark.parametrize(
        "objectives",
        [[STEP_TIME, MEMORY], [Objective("sample_rate", "maximize"), Objective("memory_tier1_free", "maximize")]],
        ids=["minimized", "maximized"],
    )
    def test_front(self, seed: int, objectives: list[Objective]) -> None:
        question = constrained(random_question(seed, top=5, objectives=objectives, reproduce=ALL), seed)
        brute, answer = BruteForce(question), solve(question)
        top = plain(brute.rows[0], brute.ranking[: question.top])
        front = plain(brute.rows[0], brute.front)
        assert plain(answer.strategies) == top + [row for row in front if row not in top]
        assert [row for row, on in zip(plain(answer.strategies), answer.on_front, strict=True) if on] == front

    def test_random_questions_have_what_the_tests_need(self) -> None:
        """Ties, several members on the front, and every reason of exclusion occur among the seeds."""
        tied, longest_front, reasons = 0, 0, set()
        for seed in SEEDS:
            question = constrained(random_question(seed, top=5, objectives=[STEP_TIME, MEMORY]), seed)
            brute = BruteForce(question)
            best = brute.values[brute.ranking[:25]]
            tied += len(best) - len(np.unique(best, axis=0))
            longest_front = max(longest_front, len(brute.front))
            reasons |= {reason.split()[0] for reason in brute.reason if reason}
        assert tied > 20
        assert longest_front > 4
        assert reasons == {"network", "memory_tier1", "memory_tier2", "step_time", "exposed_communication_time"}

    def test_one_strategy_at_a_time(self) -> None:
        question = random_question(3, top=10, objectives=[STEP_TIME])
        off = ("gather_redo", "optimizer_sharding", "dp_overlap", "activation_offload", "optimizer_offload")
        limits = {"tp_overlap": (TpOverlap.NONE,), "microbatch": (1,), **dict.fromkeys(off, (False,))}
        space = StrategySpace(limits=limits)
        question = replace(question, space=space)
        brute, answer = BruteForce(question), solve(question)
        alone = []
        for row in brute.ranking:
            strategy = StrategyTable.from_strategies([brute.rows[0].strategy(int(row))])
            alone.append(estimate(question.workload, question.system, strategy).times.total.item())
        assert 20 < len(alone) < 150
        assert answer.estimate is not None
        np.testing.assert_allclose(answer.estimate.times.total, sorted(alone)[:10], rtol=1e-12)

    @pytest.mark.parametrize("seed", SEEDS[4:6])
    @pytest.mark.parametrize("objectives", [[STEP_TIME], [STEP_TIME, BUBBLE]], ids=["one objective", "two objectives"])
    def test_how_the_space_is_covered_does_not_matter(
        self, seed: int, objectives: list[Objective], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither leaving out what cannot win, nor cutting the space into parts of one layout each."""
        question = random_question(seed, top=8, objectives=objectives)
        answers = [solve(question), solve(question, reduced=False)]
        monkeypatch.setattr("codesign_opt.studies.exact.solver.PART_STRATEGIES", 1)
        answers += [solve(question), solve(question, reduced=False)]
        for answer in answers[1:]:
            assert plain(answer.strategies) == plain(answers[0].strategies)
            assert answer.on_front.tolist() == answers[0].on_front.tolist()
            assert (answer.feasible, dict(answer.excluded)) == (answers[0].feasible, dict(answers[0].excluded))

    @pytest.mark.parametrize("seed", SEEDS[1::2])
    def test_equal_values(self, seed: int) -> None:
        """Without pipelines all strategies share a bubble of 0; the one with the least memory is the front."""
        objectives = [Objective("bubble_time", "minimize"), Objective("pp_communication_time", "minimize")]
        question = random_question(seed, top=3, objectives=objectives)
        brute, answer = BruteForce(question), solve(question)
        assert (brute.values[brute.ranking[:2]] == 0).all()
        assert plain(answer.strategies) == plain(brute.rows[0], brute.ranking[:3])
        assert answer.on_front.tolist() == [True, False, False]

    def test_more_asked_than_there_is(self) -> None:
        question = random_question(0, top=10**6, objectives=[STEP_TIME])
        answer = solve(question)
        assert answer.strategies.rows == answer.feasible


class TestNothingFeasible:
    """The answer says what excluded the strategies, and which comes nearest."""

    @staticmethod
    def nearest_by_hand(brute: BruteForce) -> tuple[str, float, float, set[tuple[int, ...]]]:
        """Reason, what is missing and its share of the bound, and the strategies that miss no more.

        Where memory holds some strategies, the constraints decide among those; else memory among all that the network
        takes. A strategy misses by the worst of what excludes it.
        """
        placed = brute.rows[1]
        memory, constraints = brute.missing[:2], brute.missing[2:]
        held = placed & np.all([missing <= 0 for _, missing, _ in memory], axis=0)
        judged, rows = (constraints, held) if held.any() else (memory, placed)
        shares = np.array([np.maximum(missing, 0) / (bound or 1) for _, missing, bound in judged])
        worst = np.where(rows, shares.max(axis=0), np.inf)
        row = int(worst.argmin())
        reason, missing, _ = judged[int(shares[:, row].argmax())]
        return reason, float(missing[row]), float(worst[row]), set(plain(brute.rows[0], worst == worst[row]))

    @pytest.mark.parametrize("seed", SEEDS[1::3])
    @pytest.mark.parametrize(
        "shrunk",
        [{"memory_tier1": 1e-3}, {"memory_tier1": 0.05, "memory_tier2": 0.05}, {"memory_tier2": 1e-9}, {}],
        ids=["no memory", "little memory", "no memory tier 2", "memory"],
    )
    def test_nearest_miss(self, seed: int, shrunk: dict[str, float]) -> None:
        question = random_question(seed, top=5, objectives=[STEP_TIME])
        fastest = BruteForce(question).metric("step_time").min()
        system = question.system
        for tier, factor in shrunk.items():
            memory = getattr(system, tier)
            system = replace(system, **{tier: replace(memory, capacity=memory.capacity * factor)})
        question = replace(question, system=system, constraints=(Constraint("step_time", "<=", 0.9 * float(fastest)),))
        brute, answer = BruteForce(question), solve(question)
        assert answer.feasible == 0
        assert (answer.strategies.rows, answer.estimate, answer.on_front.tolist()) == (0, None, [])
        assert sum(answer.excluded.values()) == len(brute.reason)
        assert answer.nearest is not None
        reason, missing, share, rows = self.nearest_by_hand(brute)
        assert answer.nearest.reason == reason
        assert answer.nearest.missing == pytest.approx(missing, rel=1e-9)
        assert answer.nearest.share == pytest.approx(share, rel=1e-9)
        assert plain(answer.nearest.strategies)[0] in rows

    def test_network_too_small_for_anything(self) -> None:
        question = random_question(1, top=5, objectives=[STEP_TIME])
        tiers = tuple(replace(tier, size=1, must_be_filled=False) for tier in question.system.network_tiers)
        answer = solve(replace(question, system=replace(question.system, network_tiers=tiers)))
        assert (answer.feasible, answer.legal, answer.nearest) == (0, 0, None)
        assert set(answer.excluded) == {"network"}

    def test_empty_space(self) -> None:
        question = random_question(1, top=5, objectives=[STEP_TIME])
        with pytest.raises(InfeasibleError):
            solve(replace(question, space=StrategySpace(limits={"tp": (999,)})))


class TestQuestions:
    """What decides the ranking."""

    def test_objectives_of_the_system_do_not_rank(self) -> None:
        question = random_question(2, top=3, objectives=[STEP_TIME])
        by_processors = replace(question, objectives=(Objective("processors", "minimize"),))
        assert plain(solve(by_processors).strategies) == plain(solve(question).strategies)

    def test_constraint_on_a_metric(self) -> None:
        question = random_question(4, top=10**6, objectives=[STEP_TIME])
        memory = BruteForce(question).metric("memory_tier1_used")
        bound = float(np.median(memory))
        answer = solve(replace(question, constraints=(Constraint("memory_tier1_used", "<=", bound),)))
        assert answer.estimate is not None
        assert 0 < answer.feasible < solve(question).feasible
        assert answer.estimate.memory.tier1.max() <= bound

    def test_constraint_that_all_satisfy_changes_nothing(self) -> None:
        question = random_question(5, top=5, objectives=[STEP_TIME])
        loose = replace(question, constraints=(Constraint("step_time", "<=", 1e30),))
        assert plain(solve(loose).strategies) == plain(solve(question).strategies)
        assert solve(loose).excluded == solve(question).excluded

    def test_errata_change_the_answer(self) -> None:
        question = random_question(6, top=1, objectives=[STEP_TIME])
        times = []
        for reproduce in (NONE, ALL, frozenset({Erratum.E2})):
            answer = solve(replace(question, reproduce=reproduce))
            assert answer.estimate is not None
            times.append(answer.estimate.times.total.item())
        assert times[0] != times[1]

    def test_datatype(self) -> None:
        question = random_question(7, top=1, objectives=[STEP_TIME])
        engine = dict.fromkeys(("float16", "float32"), question.system.matrix["float16"])
        system = replace(question.system, matrix=engine, vector=engine)
        answer = solve(replace(question, system=system, datatype=Datatype.FLOAT32, top=1))
        assert {strategy.datatype for strategy in answer.strategies.strategies()} <= {Datatype.FLOAT32}
