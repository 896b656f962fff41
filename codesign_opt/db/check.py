"""Is a database sound?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, func, select

from codesign_opt.db.engine import TIMEOUT_SECONDS, make_engine, reading
from codesign_opt.db.failures import storage_errors
from codesign_opt.db.files import require_usable
from codesign_opt.db.schema import REVISION, has_tables, stored_revision
from codesign_opt.db.tables import batches, evaluations, metadata, studies
from codesign_opt.db.urls import file_path, parse_url


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterMismatch:
    """A study whose counters differ from its rows.

    Attributes:
        study: Name of the study.
        counter: "batches" or "trials".
        counted: What the study's counter says.
        found: How many rows there are.
    """

    study: str
    counter: str
    counted: int
    found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What a check found.

    Attributes:
        revision: Revision of the tables; None where there are none.
        expected: Revision this version works with.
        damage: What SQLite's own checks of the file and of references found; empty for PostgreSQL.
        rows: Table to number of rows; empty unless the revision is the expected one.
        mismatches: Studies with inconsistent counters; empty unless the revision is the expected one.
    """

    revision: str | None
    expected: str
    damage: tuple[str, ...]
    rows: Mapping[str, int]
    mismatches: tuple[CounterMismatch, ...]

    @property
    def ok(self) -> bool:
        """Whether the database can be used as it is."""
        return self.revision == self.expected and not self.damage and not self.mismatches


def check(url: str) -> CheckReport:
    """Examines the database at `url` without changing it.

    Raises:
        StorageError: There is none, or it cannot be read at all.
    """
    address = parse_url(url)
    path = file_path(address)
    with storage_errors(address):
        if path is not None:
            require_usable(path, create=False)
        engine = make_engine(address, timeout_seconds=TIMEOUT_SECONDS)
        try:
            return _report(engine)
        finally:
            engine.dispose()


def _report(engine: Engine) -> CheckReport:
    with reading(engine) as connection:
        revision = stored_revision(connection) if has_tables(connection) else None
        current = revision == REVISION
        return CheckReport(
            revision=revision,
            expected=REVISION,
            damage=tuple(_damage(connection)),
            rows=_rows(connection) if current else {},
            mismatches=tuple(_mismatches(connection)) if current else (),
        )


def _damage(connection: Connection) -> list[str]:
    if connection.dialect.name != "sqlite":
        return []
    pages = [text for (text,) in connection.exec_driver_sql("PRAGMA integrity_check") if text != "ok"]
    orphans = [
        f"row {row} of {table} refers to a missing row of {target}"
        for table, row, target, _ in connection.exec_driver_sql("PRAGMA foreign_key_check")
    ]
    return pages + orphans


def _rows(connection: Connection) -> dict[str, int]:
    return {
        table.name: connection.scalar(select(func.count()).select_from(table)) or 0 for table in metadata.sorted_tables
    }


def _mismatches(connection: Connection) -> list[CounterMismatch]:
    found = []
    for counter, table in ((studies.c.batches, batches), (studies.c.trials, evaluations)):
        rows = select(func.count()).where(table.c.study_id == studies.c.id).scalar_subquery()
        query = select(studies.c.name, counter, rows).where(counter != rows).order_by(studies.c.name)
        for study, counted, there in connection.execute(query):
            found.append(CounterMismatch(study=study, counter=counter.name, counted=counted, found=there))
    return found
