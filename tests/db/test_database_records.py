"""What is written is read back identical; what cannot be stored is refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from codesign_opt.db import (
    BatchRecord,
    CandidateRecord,
    EvaluationRecord,
    RefinementRecord,
    StudyRecord,
    open_database,
)
from codesign_opt.db.documents import decode, encode

ROUND_TRIP = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink through a database takes minutes
)

finite = st.floats(allow_nan=False, allow_infinity=False)
moments = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.timezones() | st.just(UTC))
text = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
documents = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | finite | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    ),
    max_size=4,
)
metrics = st.dictionaries(st.text(), finite, max_size=4)
candidates = st.lists(
    st.builds(CandidateRecord, rank=st.just(0), on_front=st.booleans(), strategy=documents, metrics=metrics), max_size=3
).map(lambda drawn: tuple(replace(candidate, rank=rank) for rank, candidate in enumerate(drawn)))
evaluations = st.lists(
    st.builds(
        EvaluationRecord,
        number=st.just(0),
        key=text,
        point=documents,
        state=st.sampled_from(["complete", "infeasible", "failed"]),
        reason=text,
        values=st.dictionaries(st.text(), st.none() | finite, max_size=4),
        constraints=metrics,
        repeat_of=st.none() | st.integers(0, 2**31 - 1),
        candidates=candidates,
    ),
    min_size=1,
    max_size=4,
).map(lambda drawn: [replace(evaluation, number=number) for number, evaluation in enumerate(drawn)])


@st.composite
def studies(draw: st.DrawFn) -> StudyRecord:
    printable = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"])
    # Drawn names repeat, and names are unique.
    name = draw(st.text(printable, max_size=200)) + str(uuid4())
    return StudyRecord(
        name=name,
        specification=draw(text),
        specification_hash=draw(text),
        versions=draw(documents),
        seed=draw(st.integers(0, 2**63 - 1)),
        created=draw(moments),
        parent=draw(st.none() | text.filter(lambda drawn: len(drawn) <= 255)),
    )


@ROUND_TRIP
@given(
    record=studies(), written=evaluations, sampler=text, seconds=st.floats(0, 1e9), finished=moments, notes=documents
)
def test_round_trip(
    url: str,
    record: StudyRecord,
    written: list[EvaluationRecord],
    sampler: str,
    seconds: float,
    finished: datetime,
    notes: dict[str, Any],
) -> None:
    batch = BatchRecord(
        number=0, first_trial=0, trials=len(written), sampler=sampler, seconds=seconds, finished=finished
    )
    with open_database(url) as database:
        database.create_study(record)
        assert database.find_study(record.name) == record
        database.acquire_lease(record.name, "me", 60)
        database.write_batch(record.name, batch, written, owner="me")
        assert database.read_batches(record.name) == [batch]
        assert database.read_evaluations(record.name) == [replace(each, candidates=()) for each in written]
        found = database.read_candidates(record.name)
        assert found == [candidate for each in written for candidate in each.candidates]
        refinements = [
            RefinementRecord(
                candidate_id=candidate.id or 0, simulator_version="1", metrics={"x": 0.1}, notes=notes, created=finished
            )
            for candidate in found
        ]
        database.write_refinements(refinements)
        assert database.read_refinements(record.name) == refinements


@given(documents)
def test_documents_are_ascii_and_come_back_identical(document: dict[str, Any]) -> None:
    written = encode(document, "x")
    assert written.isascii()
    assert "\0" not in written
    assert repr(decode(written)) == repr(document)


def test_any_mapping_is_a_document() -> None:
    assert encode(MappingProxyType({"a": MappingProxyType({"b": 1})}), "x") == '{"a":{"b":1}}'


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"a": float("nan")}, "point['a'] is nan; only finite numbers are stored"),
        ({"a": {"b": [1.0, -float("inf")]}}, "point['a']['b'][1] is -inf; only finite numbers are stored"),
        ({"a": {1, 2}}, "point['a'] is a set, which JSON cannot hold: {1, 2}"),
        ({(1, 2): 3}, "point: keys must be str, int, float, bool or None, not tuple"),
    ],
)
def test_what_json_cannot_hold_is_named(document: dict[Any, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        encode(document, "point")


def test_moments_need_a_time_zone(
    study: Callable[..., StudyRecord], batch: Callable[..., tuple[BatchRecord, list[EvaluationRecord]]]
) -> None:
    naive = datetime(2026, 1, 1)
    for make in (
        lambda: study(created=naive),
        lambda: study(lease_expires=naive),
        lambda: replace(batch()[0], finished=naive),
        lambda: RefinementRecord(candidate_id=1, simulator_version="1", metrics={}, notes={}, created=naive),
    ):
        with pytest.raises(ValueError, match="has no time zone"):
            make()


def test_moments_are_kept_in_utc(study: Callable[..., StudyRecord]) -> None:
    # The hour that a clock shows twice: equal to no moment of another zone, if it were kept as it is.
    twice = datetime(2026, 11, 1, 1, 30, tzinfo=ZoneInfo("America/New_York"))
    for fold, hour in ((0, 5), (1, 6)):
        assert study(created=twice.replace(fold=fold)).created == datetime(2026, 11, 1, hour, 30, tzinfo=UTC)


def test_states_are_three() -> None:
    with pytest.raises(ValueError, match="state of trial 4 is 'running'"):
        EvaluationRecord(number=4, key="", point={}, state="running")  # type: ignore[arg-type]
