"""A study that is stopped, however roughly, and continued ends with the trials of one that was left alone."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from codesign_opt import api
from codesign_opt.db import open_database
from codesign_opt.errors import CodesignError, StorageError
from codesign_opt.studies.canonical import specification_from_dict, specification_to_dict
from codesign_opt.studies.lease import LEASE_SECONDS
from codesign_opt.studies.specification import StudySpecification
from codesign_opt.studies.study import Study
from codesign_opt.studies.study_run import Progress

PRELOADED = ["codesign_opt.api.searching", "codesign_opt.studies.runner", "alembic.command", "moocore", "scipy.stats"]
"""What a search needs, so that a child process has it at once."""

KILLS = 10

Tiny = Callable[..., StudySpecification]


class Stop(Exception):
    """Ends a run from its progress callback."""


def content(study: Study) -> list[Any]:
    """Everything that a resumed study must have in common with an uninterrupted one."""
    return [*study.evaluations, *((candidate.trial, candidate) for candidate in study.stored_candidates)]


def stop_after(batches: int) -> Callable[[Progress], None]:
    seen = []

    def progress(_: Progress) -> None:
        seen.append(1)
        if len(seen) == batches:
            raise Stop

    return progress


def stored_trials(url: str, name: str = "tiny") -> int:
    with open_database(url) as database:
        record = database.find_study(name)
        return record.trials if record is not None else 0


def search_and_tell(specification: StudySpecification, url: str, teller: Connection, workers: int = 1) -> None:
    """What a child process does: search, and name its worker processes after every batch."""
    import multiprocessing

    def progress(_: Progress) -> None:
        teller.send([child.pid for child in multiprocessing.active_children()])

    api.search(specification, db=url, workers=workers, progress=progress)


def start(specification: StudySpecification, url: str, workers: int = 1) -> tuple[Any, Connection]:
    """A child process that searches, and the connection on which it tells of every batch."""
    # The server imports the package once; every child is a fork of it, and is there at once.
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    listener, teller = context.Pipe(duplex=False)
    child = context.Process(target=search_and_tell, args=(specification, url, teller, workers))
    child.start()
    teller.close()
    return child, listener


def test_ten_killed_studies_end_as_an_uninterrupted_one(tiny: Tiny, tmp_path: Path) -> None:
    moments = random.Random(7)
    specification = tiny(sampler="tpe", budget=24)
    whole = api.search(specification, db=str(tmp_path / "whole.db"))
    with open_database(str(tmp_path / "whole.db")) as database:
        batch_seconds = min(batch.seconds for batch in database.read_batches("tiny"))
    interrupted_at: list[int] = []
    while len(interrupted_at) < KILLS:
        url = str(tmp_path / f"{len(interrupted_at)}.db")
        child, listener = start(specification, url)
        for _ in range(moments.randrange(3)):
            listener.recv()
        time.sleep(moments.uniform(0, 0.6 * batch_seconds))
        child.kill()
        child.join()
        trials = stored_trials(url)
        if trials == 24:
            # It was much faster than the run that was measured, and done already.
            api.delete_study("tiny", db=url)
            continue
        assert child.exitcode == -signal.SIGKILL
        interrupted_at.append(trials)
        resumed = api.search(specification, db=url)
        assert resumed.finished == "budget"
        assert content(resumed) == content(whole)
    # 24 trials in batches of 8: every kill came before the end, and not all in the same batch.
    assert set(interrupted_at) <= {0, 8, 16}
    assert len(set(interrupted_at)) > 1


@pytest.mark.usefixtures("without_model")
@pytest.mark.parametrize("sampler", ["auto", "tpe", "nsga2", "random", "qmc"])
@pytest.mark.parametrize("batches", [1, 2])
def test_every_sampler_continues(tiny: Tiny, tmp_path: Path, sampler: str, batches: int) -> None:
    specification = tiny(sampler=sampler, budget=45)
    whole = api.search(specification, db=str(tmp_path / "whole.db"))
    states = {evaluation.state for evaluation in whole.evaluations}
    assert states == {"complete", "infeasible", "failed"}
    url = str(tmp_path / "stopped.db")
    with pytest.raises(Stop):
        api.search(specification, db=url, progress=stop_after(batches))
    assert 0 < stored_trials(url) < 45
    with pytest.raises(Stop):
        api.search(specification, db=url, progress=stop_after(1))
    assert content(api.search(specification, db=url)) == content(whole)


@pytest.mark.usefixtures("without_model")
def test_cmaes_continues(tiny: Tiny, tmp_path: Path) -> None:
    pytest.importorskip("cmaes")
    specification = tiny(sampler="cmaes", objectives="step_time", budget=45)
    whole = api.search(specification, db=str(tmp_path / "whole.db"))
    url = str(tmp_path / "stopped.db")
    for batches in (2, 1):
        with pytest.raises(Stop):
            api.search(specification, db=url, progress=stop_after(batches))
    assert content(api.search(specification, db=url)) == content(whole)


@pytest.mark.usefixtures("without_model")
@pytest.mark.parametrize("sampler", ["auto", "nsga2"])
def test_repeated_points_continue(tiny: Tiny, tmp_path: Path, sampler: str) -> None:
    free = {
        "memory_tier1.bandwidth": {"choices": ["100 GB/s", "500 GB/s", "1 TB/s", "2 TB/s"]},
        "network_tiers.0.bandwidth": {"choices": ["10 GB/s", "20 GB/s", "40 GB/s", "80 GB/s", "160 GB/s"]},
    }
    system = {"base": "h100-price-study", "free": free}
    specification = tiny(sampler=sampler, method="bilevel", system=system, budget=18)
    whole = api.search(specification, db=str(tmp_path / "whole.db"))
    assert any(evaluation.repeat_of is not None for evaluation in whole.evaluations)
    url = str(tmp_path / "stopped.db")
    with pytest.raises(Stop):
        api.search(specification, db=url, progress=stop_after(2))
    assert content(api.search(specification, db=url)) == content(whole)


@pytest.mark.usefixtures("without_model")
def test_the_stored_specification_continues_the_study(tiny: Tiny, tmp_path: Path) -> None:
    # JSON does not tell 8 from 8.0: the points of both must be the same.
    free = {
        "memory_tier1.bandwidth": {"low": "100 GB/s", "high": "1 TB/s"},
        "network_tiers.0.bandwidth": {"choices": ["10 GB/s", "100 GB/s"]},
        "network_tiers.0.size": {"choices": [8, 16]},
    }
    specification = tiny(system={"base": "h100-price-study", "free": free}, sampler="nsga2", budget=45)
    whole = api.search(specification, db=str(tmp_path / "whole.db"))
    assert {type(evaluation.point["network_tiers.0.size"]) for evaluation in whole.evaluations} == {int}
    url = str(tmp_path / "stopped.db")
    with pytest.raises(Stop):
        api.search(specification, db=url, progress=stop_after(1))
    stored = api.load_study("tiny", db=url).specification
    assert stored == specification_from_dict(json.loads(json.dumps(specification_to_dict(specification))))
    assert content(api.search(stored, db=url)) == content(whole)


@pytest.mark.usefixtures("without_model")
def test_ctrl_c_leaves_a_study_that_continues(tiny: Tiny, tmp_path: Path) -> None:
    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    url = str(tmp_path / "stopped.db")
    stopped = api.search(tiny(), db=url, progress=interrupt)
    assert stopped.finished == "interrupted"
    assert stopped.trials.rows == 16
    assert stopped.record.lease_owner is None
    whole = api.search(tiny(), db=str(tmp_path / "whole.db"))
    assert content(api.search(tiny(), db=url)) == content(whole)


def test_ctrl_c_before_anything_is_stored_is_ctrl_c(tiny: Tiny, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("codesign_opt.studies.runner.begin_study", interrupt)
    with pytest.raises(KeyboardInterrupt):
        api.search(tiny(), db=url)


@pytest.mark.usefixtures("without_model")
def test_a_bigger_budget_continues(tiny: Tiny, url: str) -> None:
    first = api.search(tiny(budget=20), db=url)
    assert [evaluation.number for evaluation in first.evaluations] == list(range(20))
    more = api.search(tiny(budget=30), db=url)
    assert content(more)[:20] == list(first.evaluations)
    assert [evaluation.number for evaluation in more.evaluations] == list(range(30))
    again = api.search(tiny(budget=30), db=url)
    assert again.finished == "budget"
    assert content(again) == content(more)


@pytest.mark.usefixtures("without_model")
def test_another_specification_is_refused_and_nothing_changes(tiny: Tiny, url: str) -> None:
    before = api.search(tiny(budget=16), db=url)
    changed = tiny(budget=32, seed=4, batch=16, constraints="step_time <= 1 s")
    with pytest.raises(StorageError, match="'tiny' with another specification is stored already") as caught:
        api.search(changed, db=url)
    lines = {line.strip() for line in caught.value.message.splitlines()[1:]}
    assert lines == {"batch: 8 → 16", "seed: 3 → 4", "constraints[0]: absent → 'step_time <= 1 s'"}
    after = api.load_study("tiny", db=url)
    assert (after.record, content(after)) == (before.record, content(before))


def test_a_missing_package_is_reported_before_anything_is_stored(
    tiny: Tiny, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CodesignError, match=r"needs the package 'torch' .*codesign-opt\[gp\]"):
        api.search(tiny(sampler="gp"), db=url)
    assert api.list_studies(db=url).rows == 0


def test_workers_change_nothing_and_a_dead_one_is_reported(tiny: Tiny, tmp_path: Path) -> None:
    import multiprocessing

    whole = api.search(tiny(), db=str(tmp_path / "whole.db"))
    url = str(tmp_path / "workers.db")
    batches = []

    def kill_a_worker(_: Progress) -> None:
        batches.append(1)
        if len(batches) == 2:
            multiprocessing.active_children()[0].kill()

    with pytest.raises(CodesignError, match=r"a worker process died.*use fewer workers"):
        api.search(tiny(), db=url, workers=2, progress=kill_a_worker)
    stopped = api.load_study("tiny", db=url)
    assert list(stopped.evaluations) == list(whole.evaluations[:24])
    assert stopped.record.lease_owner is None
    assert content(api.search(tiny(), db=url)) == content(whole)


def test_workers_end_with_a_killed_parent(tiny: Tiny, url: str) -> None:
    child, listener = start(tiny(budget=1000), url, workers=2)
    workers = listener.recv()
    assert len(workers) == 2
    with open_database(url) as database:
        record = database.find_study("tiny")
        assert record is not None
        assert record.lease_expires is not None
        assert (record.lease_expires - record.created).total_seconds() > LEASE_SECONDS - 1
    child.kill()
    child.join()
    deadline = time.monotonic() + 20
    while any(is_running(worker) for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that has ended may still be listed until its new parent asks for it.
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
