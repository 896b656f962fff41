"""The queries of docs/database.md work."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from codesign_opt.db import BatchRecord, EvaluationRecord, RefinementRecord, StudyRecord, open_database

DOCUMENT = Path(__file__).parents[2] / "docs" / "database.md"


def test_every_query_finds_something(
    url: str,
    study: Callable[..., StudyRecord],
    batch: Callable[..., tuple[BatchRecord, list[EvaluationRecord]]],
) -> None:
    record, evaluations = batch()
    evaluations[2] = replace(evaluations[2], state="infeasible", constraints={"memory_tier1_used <= 70 GiB": 1e9})
    queries = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert len(queries) == 5
    with open_database(url) as database:
        database.create_study(study("my-study"))
        database.acquire_lease("my-study", "me", 60)
        database.write_batch("my-study", record, evaluations, owner="me")
        database.write_refinements(
            RefinementRecord(
                candidate_id=candidate.id or 0,
                simulator_version="1",
                metrics={"step_time": 1.75},
                notes={},
                created=record.finished,
            )
            for candidate in database.read_candidates("my-study")
        )
        server = database.engine.dialect.name == "postgresql"
        with database.engine.connect() as connection:
            results = [connection.exec_driver_sql(query).all() for query in queries if ("::json" in query) == server]
    if server:
        assert results == [[(0, 1.5, 8.0e10), (1, 2.5, 8.0e10 + 1)]]
    else:
        progress, fastest, excluded, fronts = results
        assert progress == [("my-study", 3, 1, 0.0, "me")]
        assert fastest == [(0, 1.5, 8.0e10 / 2**30), (1, 2.5, (8.0e10 + 1) / 2**30)]
        assert excluded == [("memory_tier1_used <= 70 GiB", 1, 1e9)]
        assert fronts == [(trial, 0, 8, 0, 1.5, 1.75) for trial in range(3)]
