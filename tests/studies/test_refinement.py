"""Refinement: the best candidates are simulated, each once, whatever happens, and what that says is kept."""

from __future__ import annotations

import random
import re
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign_opt import api
from codesign_opt.db import RefinementRecord, open_database
from codesign_opt.errors import InfeasibleError, InputError, StorageError
from codesign_opt.simulation.version import SIMULATOR_VERSION
from codesign_opt.strategies.table import strategy_of_words
from codesign_opt.studies import refinement
from codesign_opt.studies.refinement import (
    NOTABLE,
    RefinementProgress,
    because,
    candidate_system,
    chosen_candidates,
    find_candidate,
    simulate_candidate,
)
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.studies.study import Study

Tiny = Callable[..., StudySpecification]
Place = tuple[int | None, int]

OBJECTIVES = ["sample_rate", "memory_tier1_used"]
SPACE = {
    "tp": [1, 2], "pp": [1, 2], "microbatch": 1, "recompute": "none", "tp_communication": "all_reduce",
    "tp_overlap": "none", "weight_offload": False, "activation_offload": False, "optimizer_offload": False,
    "tp_tier": 0, "pp_tier": 0, "dp_tier": 0,
}  # fmt: skip
PARTS = (
    "forward", "backward", "optimizer", "recompute", "recompute_communication", "tp_communication",
    "cp_communication", "ep_communication", "pp_communication", "dp_communication", "forward_offload",
    "backward_offload", "bubble",
)  # fmt: skip


@pytest.fixture(scope="module")
def searched(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a finished study, whose gradient exchange may overlap."""
    path = tmp_path_factory.mktemp("searched") / "studies.db"
    api.search(tiny(strategies=SPACE, objectives=OBJECTIVES, budget=3, top_k=3), db=str(path))
    return path


@pytest.fixture(scope="module")
def study(searched: Path) -> Study:
    """The study before anything is simulated."""
    return api.load_study("tiny", db=str(searched))


@pytest.fixture(scope="module")
def refined(searched: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The study with every candidate simulated."""
    return api.refine("tiny", top=1000, db=str(shutil.copy(searched, tmp_path_factory.mktemp("all") / "studies.db")))


@pytest.fixture
def url(searched: Path, tmp_path: Path) -> str:
    """A copy of it."""
    return str(shutil.copy(searched, tmp_path / "studies.db"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Strategies that have been simulated."""
    seen: list[Any] = []

    def counting(specification: Any, point: Any, strategy: Any) -> Any:
        seen.append(strategy)
        return simulate_candidate(specification, point, strategy)

    monkeypatch.setattr(refinement, "simulate_candidate", counting)
    return seen


def records(url: str) -> dict[tuple[int, str], RefinementRecord]:
    """All that is stored, by candidate and simulator version."""
    with open_database(url, create=False) as database:
        found = database.read_refinements("tiny")
    stored = {(record.candidate_id, record.simulator_version): record for record in found}
    assert len(stored) == len(found)
    return stored


def content(url: str) -> dict[tuple[int, str], tuple[Any, Any]]:
    """What two refinements must have in common: everything but the time of day."""
    return {key: (record.metrics, record.notes) for key, record in records(url).items()}


def places(study: Study) -> set[Place]:
    """Trial and rank of what has been simulated."""
    return {(row.trial, row.rank) for row in study.stored_candidates if row.id in study.refinements}


def expected_places(study: Study, top: int) -> set[Place]:
    """From the tables: the best by the first objective, and all that is on the front and not a tie."""
    table = study.candidates
    order = np.argsort(-table["sample_rate"], kind="stable")[:top]
    best = {(int(table["trial"][row]), int(table["rank"][row])) for row in order}
    front = set()
    for point in study.front.to_dicts():
        same = [
            row
            for row in table.to_dicts()
            if all(row[name] == point[name] for name in ("trial", *OBJECTIVES)) and row["on_front"]
        ]
        front.add((same[0]["trial"], same[0]["rank"]))
    return best | front


class TestWhatIsSimulated:
    def test_the_best_and_the_front_each_once(self, url: str, calls: list[Any]) -> None:
        before = api.load_study("tiny", db=url)
        study = api.refine("tiny", top=3, db=url)
        assert places(study) == expected_places(before, 3)
        assert 3 < len(calls) == len(study.refinements) < len(study.stored_candidates)
        assert [of.trial for of in chosen_candidates(before, 3)][:3] == before.candidates.take(
            np.argsort(-before.candidates["sample_rate"], kind="stable")[:3]
        )["trial"].tolist()

    def test_never_again_and_more_only_the_new_ones(self, url: str, calls: list[Any]) -> None:
        first = api.refine("tiny", top=3, db=url)
        stored, simulated = records(url), len(calls)
        again = api.refine("tiny", top=3, db=url)
        assert len(calls) == simulated
        assert records(url) == stored
        more = api.refine("tiny", top=1000, db=url)
        assert len(calls) == len(more.refinements) == len(more.stored_candidates) > simulated
        assert {key: records(url)[key] for key in stored} == stored
        assert first.refined.rows == again.refined.rows < more.refined.rows

    def test_progress_counts_what_is_left(self, url: str) -> None:
        seen: list[RefinementProgress] = []
        study = api.refine("tiny", top=1, db=url, progress=seen.append)
        total = len(study.refinements)
        assert [(step.done, step.total) for step in seen] == [(done, total) for done in range(1, total + 1)]
        seen.clear()
        more = api.refine("tiny", top=1000, db=url, progress=seen.append)
        assert {step.total for step in seen} == {len(more.refinements) - total}

    def test_candidates_and_front_stay_as_they_are(self, url: str) -> None:
        before = api.load_study("tiny", db=url)
        after = api.refine("tiny", top=5, db=url)
        assert list(after.stored_candidates) == list(before.stored_candidates)
        assert list(after.evaluations) == list(before.evaluations)
        for name in before.front:
            np.testing.assert_array_equal(after.front[name], before.front[name])
        assert not np.isnan(after.front["sample_rate_simulated"]).any()

    def test_another_version_simulates_again_and_keeps_the_old(
        self, url: str, calls: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = api.refine("tiny", top=2, db=url)
        stored, simulated = records(url), len(calls)
        for module in ("refinement", "study"):
            monkeypatch.setattr(f"codesign_opt.studies.{module}.SIMULATOR_VERSION", "next")
        assert api.load_study("tiny", db=url).refinements == {}
        new = api.refine("tiny", top=2, db=url)
        assert len(calls) == 2 * simulated
        assert {record.simulator_version for record in new.refinements.values()} == {"next"}
        assert set(records(url)) == {(key, version) for key, _ in stored for version in (SIMULATOR_VERSION, "next")}
        assert {key: records(url)[key] for key in stored} == stored
        assert new.refined.to_dicts() == old.refined.to_dicts()

    def test_numbers_that_make_no_sense(self, url: str) -> None:
        with pytest.raises(InputError, match="top: 0 is not"):
            api.refine("tiny", top=0, db=url)
        with pytest.raises(InputError, match="workers: 0 is not"):
            api.refine("tiny", workers=0, db=url)
        with pytest.raises(InputError, match=r"no study 'tinny'.*'tiny'"):
            api.refine("tinny", db=url)


def refine_and_ask(url: str, workers: int, connection: Connection) -> None:
    """What a child process does: refine, and wait for an answer after every candidate."""

    def progress(step: RefinementProgress) -> None:
        connection.send(step.done)
        connection.recv()

    api.refine("tiny", top=1000, db=url, workers=workers, progress=progress)


class TestInterruption:
    @pytest.mark.parametrize(("workers", "kills"), [(1, (2, 1, 3)), (2, (4,))])
    def test_a_killed_refinement_ends_as_an_uninterrupted_one(
        self, searched: Path, tmp_path: Path, workers: int, kills: tuple[int, ...]
    ) -> None:
        whole = str(shutil.copy(searched, tmp_path / "whole.db"))
        api.refine("tiny", top=1000, db=whole)
        expected = content(whole)
        url = str(shutil.copy(searched, tmp_path / "killed.db"))
        moments = random.Random(11)
        context = get_context("forkserver")
        context.set_forkserver_preload(["codesign_opt.api.simulating", "codesign_opt.studies.refinement"])
        done = 0
        for more in kills:
            connection, other = context.Pipe()
            child = context.Process(target=refine_and_ask, args=(url, workers, other))
            child.start()
            other.close()
            for answered in range(1, more + 1):
                assert connection.recv() == answered
                connection.send("go on")
            # It is simulating the next one now, storing it, or waits after that.
            time.sleep(moments.uniform(0, 0.02))
            child.kill()
            child.join()
            assert child.exitcode == -signal.SIGKILL
            stored = content(url)
            assert done + more <= len(stored) <= done + more + 1
            assert all(expected[key] == value for key, value in stored.items())
            done = len(stored)
        api.refine("tiny", top=1000, db=url)
        assert content(url) == expected

    def test_ctrl_c_keeps_what_is_done(self, url: str, calls: list[Any]) -> None:
        def interrupt(step: RefinementProgress) -> None:
            if step.done == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            api.refine("tiny", top=1000, db=url, progress=interrupt)
        assert len(records(url)) == len(calls) == 2
        study = api.refine("tiny", top=1000, db=url)
        assert len(calls) == len(study.stored_candidates)

    def test_a_study_deleted_meanwhile_is_an_error_and_leaves_nothing(self, url: str) -> None:
        def delete(step: RefinementProgress) -> None:
            assert step.done == 1
            assert api.delete_study("tiny", db=url)

        with pytest.raises(StorageError, match="a refined candidate is not in") as caught:
            api.refine("tiny", top=3, db=url, progress=delete)
        assert "deleted meanwhile" in caught.value.hint
        assert api.list_studies(db=url).rows == 0

    def test_two_at_once_store_everything_once(self, url: str) -> None:
        def refine_too(step: RefinementProgress) -> None:
            if step.done == 1:
                api.refine("tiny", top=1000, db=url)

        api.refine("tiny", top=1000, db=url, progress=refine_too)
        assert len(records(url)) == len(api.load_study("tiny", db=url).stored_candidates)

    def test_workers_change_nothing(self, searched: Path, tmp_path: Path) -> None:
        one, two = (str(shutil.copy(searched, tmp_path / f"{name}.db")) for name in ("one", "two"))
        api.refine("tiny", top=4, db=one, workers=1)
        api.refine("tiny", top=4, db=two, workers=2)
        assert content(one) == content(two)


class TestValues:
    def test_they_are_those_of_a_simulation_of_the_strategy(self, refined: Study) -> None:
        for candidate in refined.stored_candidates[:4]:
            strategy = strategy_of_words(candidate.strategy)
            alone = api.simulate_strategy(
                refined.specification.workload, candidate_system(refined, candidate), strategy
            )
            record = refined.refinements[candidate.id or 0]
            assert record.simulator_version == SIMULATOR_VERSION
            assert record.metrics["step_time"] == alone.result.seconds
            assert record.notes["schedule"] == alone.result.step.schedule
            assert record.notes["granularity"] == alone.result.step.options.granularity
            assert record.notes["contention"] == alone.contention

    def test_metrics_follow_from_the_simulated_time(self, refined: Study) -> None:
        assert any(
            refined.refinements[of.id or 0].metrics["step_time"] != pytest.approx(of.metrics["step_time"], rel=1e-6)
            for of in refined.stored_candidates
        )
        for candidate in refined.stored_candidates:
            estimate, simulated = candidate.metrics, refined.refinements[candidate.id or 0].metrics
            seconds = simulated["step_time"]
            batch, tokens = candidate.strategy["batch"], 64 * candidate.strategy["batch"]
            assert set(simulated) == set(estimate)
            assert seconds * simulated["sample_rate"] == pytest.approx(batch, rel=1e-12)
            assert seconds * simulated["token_rate"] == pytest.approx(tokens, rel=1e-12)
            assert seconds * simulated["mfu"] == pytest.approx(estimate["step_time"] * estimate["mfu"], rel=1e-12)
            assert seconds == pytest.approx(sum(simulated[f"{part}_time"] for part in PARTS), rel=1e-9)
            assert simulated["bubble_share"] * seconds == pytest.approx(simulated["bubble_time"], rel=1e-9)
            for name in ("system_price", "memory_tier1_used", "forward_time", "optimizer_time"):
                assert simulated[name] == pytest.approx(estimate[name], rel=1e-9)

    def test_the_parts_of_the_notes_are_those_of_the_metrics(self, refined: Study) -> None:
        for candidate in refined.stored_candidates:
            record = refined.refinements[candidate.id or 0]
            parts = dict(record.notes["parts"])
            assert parts.pop("total") == [candidate.metrics["step_time"], record.metrics["step_time"]]
            assert set(parts) == set(PARTS)
            for name, (before, after) in parts.items():
                assert before == pytest.approx(candidate.metrics[f"{name}_time"], rel=1e-12)
                assert after == record.metrics[f"{name}_time"]

    def test_notable_differences_have_causes_that_add_up(self, refined: Study) -> None:
        rows = refined.refined.to_dicts()
        assert any(row["because"] for row in rows)
        assert any(not row["because"] for row in rows)
        for row in rows:
            assert bool(row["because"]) == (abs(row["step_time_change"]) >= NOTABLE)
            if row["because"]:
                told = [text for text in row["because"].split(", ") if not text.startswith("of that")]
                shares = [float(re.fullmatch(r"[a-z ]+ ([+-]\d+\.\d)%", text)[1]) / 100 for text in told]  # type: ignore[index]
                assert sum(shares) == pytest.approx(row["step_time_change"], abs=0.0005 * len(told) + 0.005)

    def test_the_ranking_is_by_the_simulated_objective(self, refined: Study) -> None:
        table = refined.refined
        assert (np.diff(table["sample_rate_simulated"]) <= 0).all()
        better = (refined.candidates["sample_rate"][:, None] > table["sample_rate"]).sum(axis=0)
        assert table["estimated_place"].tolist() == (better + 1).tolist()
        assert (np.diff(table["estimated_place"]) < 0).any()


class TestBecause:
    @staticmethod
    def parts(total: float, **shares: float) -> list[dict[str, Any]]:
        rows = [{"part": name, "share": share, "estimate": 1.0} for name, share in shares.items()]
        return [*rows, {"part": "total", "share": total, "estimate": 2.0}]

    def test_parts_in_words_the_small_ones_together(self) -> None:
        rows = self.parts(0.1, bubble=0.08, pp_communication=0.012, forward=0.004, backward=0.004)
        assert because(rows, 0.0) == "bubble +8.0%, pp communication +1.2%, others +0.8%"

    def test_what_is_negligible_is_left_out(self) -> None:
        assert because(self.parts(-0.06, bubble=-0.058, forward=-0.002), 0.0) == "bubble -5.8%"

    def test_contention_is_part_of_the_others(self) -> None:
        assert because(self.parts(0.06, tp_communication=0.06), 0.05) == (
            "tp communication +6.0%, of that contention +2.5%"
        )
        assert because(self.parts(0.06, tp_communication=0.06), 0.009) == "tp communication +6.0%"

    @pytest.mark.parametrize(("total", "told"), [(0.0499, False), (0.05, True), (-0.0499, False), (-0.05, True)])
    def test_only_what_is_notable_is_explained(self, total: float, told: bool) -> None:
        assert bool(because(self.parts(total, bubble=total), 0.0)) == told


class TestFindingACandidate:
    def test_the_best_one_where_nothing_is_said(self, study: Study) -> None:
        found = find_candidate(study)
        assert found.metrics["sample_rate"] == study.candidates["sample_rate"].max()

    def test_by_trial_the_first_and_by_rank_within_the_best_trial(self, study: Study) -> None:
        best = find_candidate(study)
        assert (find_candidate(study, trial=1).trial, find_candidate(study, trial=1).rank) == (1, 0)
        assert find_candidate(study, trial=1, rank=1).rank == 1
        assert (find_candidate(study, rank=1).trial, find_candidate(study, rank=1).rank) == (best.trial, 1)
        assert find_candidate(study, trial=best.trial, rank=best.rank) == best

    def test_what_there_is_not_is_named_with_what_there_is(self, study: Study) -> None:
        with pytest.raises(InputError, match=r"trial 77 of study 'tiny' has no strategies \(.*0, 1, 2"):
            find_candidate(study, trial=77)
        with pytest.raises(InputError, match=r"trial 1 of study 'tiny' has no strategy of rank 99 \(ranks: 0, 1"):
            find_candidate(study, trial=1, rank=99)

    def test_its_machine_is_that_of_its_trial(self, study: Study) -> None:
        candidate = find_candidate(study, trial=2)
        point = next(row.point for row in study.evaluations if row.number == 2)
        system = candidate_system(study, candidate)
        assert system.memory_tier1.bandwidth == point["memory_tier1.bandwidth"]
        assert system.network_tiers[0].bandwidth == point["network_tiers.0.bandwidth"]


class TestOtherStudies:
    def test_capacities_that_fit_each_strategy_stay_theirs(self, tiny: Tiny, tmp_path: Path) -> None:
        free = {
            "memory_tier1.capacity": {"choices": ["5 MiB", "6 MiB", "8 MiB", "10 MiB", "32 MiB"]},
            "network_tiers.0.bandwidth": {"choices": ["20 GB/s", "200 GB/s"]},
        }
        price = {"processor": "20000 $", "memory_tier1": [["5 MiB", "1000 $"], ["32 MiB", "9000 $"]]}
        system = {"base": "h100-price-study", "free": free, "price": price}
        url = searched_at(tiny(system=system, strategies=SPACE, budget=2), tmp_path / "fitted.db")
        study = api.refine("tiny", top=1000, db=url)
        capacities = set()
        for candidate in study.stored_candidates:
            simulated = study.refinements[candidate.id or 0].metrics
            for name in ("memory_tier1_capacity", "system_price", "memory_tier1_free"):
                assert simulated[name] == candidate.metrics[name]
            capacities.add(simulated["memory_tier1_capacity"])
        assert len(capacities) > 1
        np.testing.assert_array_equal(study.refined["system_price_simulated"], study.refined["system_price"])

    def test_errata_are_reproduced_where_the_study_does(self, tiny: Tiny, tmp_path: Path) -> None:
        space = {**SPACE, "recompute": "full", "tp": 2, "pp": 2}
        specification = tiny(strategies=space, reproduce="all", budget=1, top_k=1)
        study = api.refine("tiny", top=1, db=searched_at(specification, tmp_path / "errata.db"))
        candidate = find_candidate(study)
        record = study.refinements[candidate.id or 0]
        simulate = partial(
            api.simulate_strategy,
            specification.workload,
            candidate_system(study, candidate),
            strategy_of_words(candidate.strategy),
        )
        assert record.metrics["step_time"] == simulate(reproduce="all").result.seconds
        assert record.metrics["step_time"] != simulate().result.seconds
        assert record.notes["parts"]["total"][0] == candidate.metrics["step_time"]

    def test_inference(self, tiny: Tiny, tmp_path: Path) -> None:
        specification = tiny(strategies={**SPACE, "recompute": "none", "training": False}, budget=2)
        study = api.refine("tiny", top=2, db=searched_at(specification, tmp_path / "inference.db"))
        for record in study.refinements.values():
            assert record.metrics["backward_time"] == 0
            assert record.metrics["step_time"] > 0

    def test_nothing_feasible(self, tiny: Tiny, tmp_path: Path) -> None:
        url = searched_at(tiny(constraints="step_time <= 1 ns", budget=2), tmp_path / "none.db")
        with pytest.raises(InfeasibleError, match="study 'tiny' has no feasible trial"):
            api.refine("tiny", db=url)
        with pytest.raises(InfeasibleError, match="study 'tiny' has no feasible trial"):
            find_candidate(api.load_study("tiny", db=url))


def searched_at(specification: StudySpecification, path: Path) -> str:
    """Address of a database with the finished study."""
    api.search(specification, db=str(path))
    return str(path)
