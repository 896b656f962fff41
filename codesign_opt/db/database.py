"""A database of studies: opened, asked, closed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType

from sqlalchemy import Connection, Engine

from codesign_opt.db import batches, files, leases, refinements, studies
from codesign_opt.db.engine import TIMEOUT_SECONDS, make_engine, reading, writing
from codesign_opt.db.failures import storage_errors
from codesign_opt.db.migration import require_current
from codesign_opt.db.records import BatchRecord, CandidateRecord, EvaluationRecord, RefinementRecord, StudyRecord
from codesign_opt.db.urls import describe, file_path, parse_url
from codesign_opt.errors import StorageError


def open_database(url: str, *, create: bool = True, timeout_seconds: float = TIMEOUT_SECONDS) -> Database:
    """Opens the database at `url`, and creates it or its tables where there are none.

    Args:
        url: A file path, `sqlite:///path`, `sqlite:///:memory:` or `postgresql://user:password@host/database`.
        create: Whether to create what does not exist.
        timeout_seconds: How long to wait for another writer.

    Raises:
        StorageError: The address is malformed, or what is there cannot be used; nothing was changed.
        MissingExtraError: PostgreSQL without psycopg.
    """
    address = parse_url(url)
    path = file_path(address)
    with storage_errors(address):
        if path is not None:
            files.require_usable(path, create=create)
        engine = make_engine(address, timeout_seconds=timeout_seconds)
        try:
            require_current(engine, create=create)
        except BaseException:
            engine.dispose()
            raise
    return Database(engine)


class Database:
    """An open database; a context manager that closes it.

    Every method is one transaction, and raises StorageError when the database cannot be used any more: locked by
    another process, full, vanished, unreachable. A method that raises has written nothing.

    Attributes:
        engine: The SQLAlchemy engine, for queries of one's own.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._path = file_path(engine.url)
        self._identity = self._path and files.identity(self._path)

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Database({describe(self.engine.url)!r})"

    def close(self) -> None:
        """Closes all connections."""
        self.engine.dispose()

    def create_study(self, record: StudyRecord) -> None:
        """Adds a study without batches.

        Raises:
            StorageError: The name exists, is blank, longer than 255 characters or not printable.
            ValueError: The record has counters other than 0, or holds what cannot be stored.
        """
        with self._writing() as connection:
            studies.create(connection, record)

    def find_study(self, name: str) -> StudyRecord | None:
        """The study of that name, or None."""
        with self._reading() as connection:
            return studies.find(connection, name)

    def list_studies(self) -> list[StudyRecord]:
        """All studies, oldest first."""
        with self._reading() as connection:
            return studies.list_all(connection)

    def delete_study(self, name: str) -> bool:
        """Deletes a study and all that belongs to it; whether there was one."""
        with self._writing() as connection:
            return studies.remove(connection, name)

    def acquire_lease(self, name: str, owner: str, seconds: float) -> datetime:
        """Makes `owner` the only writer of a study for `seconds`; returns when that ends.

        An owner that holds the lease already has it renewed. An expired lease is taken over.

        Raises:
            StorageError: Another owner holds the lease; the message names it and when the lease ends.
        """
        with self._writing() as connection:
            return leases.acquire(connection, name, owner, seconds)

    def renew_lease(self, name: str, owner: str, seconds: float) -> datetime:
        """Prolongs a lease to `seconds` from now; returns when it ends.

        Raises:
            StorageError: `owner` does not hold the lease any more.
        """
        with self._writing() as connection:
            return leases.renew(connection, name, owner, seconds)

    def release_lease(self, name: str, owner: str) -> bool:
        """Gives a lease back; whether `owner` still held it."""
        with self._writing() as connection:
            return leases.release(connection, name, owner)

    def write_batch(
        self, study_name: str, batch: BatchRecord, evaluations: Sequence[EvaluationRecord], *, owner: str
    ) -> None:
        """Writes a batch, its evaluations and their candidates, and advances the study's counters: all or nothing.

        Raises:
            StorageError: `owner` does not hold the lease, or the batch is not the next one of the study.
            ValueError: The evaluations are not the trials the batch names, or hold what cannot be stored.
        """
        with self._writing() as connection:
            batches.write(connection, study_name, batch, evaluations, owner=owner)

    def read_batches(self, study_name: str) -> list[BatchRecord]:
        """The batches of a study in order."""
        with self._reading() as connection:
            return batches.read_batches(connection, study_name)

    def read_evaluations(self, study_name: str) -> list[EvaluationRecord]:
        """The evaluations of a study in order of trial, without their candidates."""
        with self._reading() as connection:
            return batches.read_evaluations(connection, study_name)

    def read_candidates(
        self, study_name: str, *, trials: Iterable[int] | None = None, on_front: bool | None = None
    ) -> list[CandidateRecord]:
        """The candidates of a study in order of trial and rank.

        Args:
            study_name: Name of the study.
            trials: Only those of these trial numbers.
            on_front: Only those on, or only those off, the front of their evaluation.
        """
        with self._reading() as connection:
            return batches.read_candidates(connection, study_name, trials=trials, on_front=on_front)

    def write_refinements(self, records: Iterable[RefinementRecord]) -> None:
        """Adds refinements; what the same simulator version said of the same candidate before is kept.

        Raises:
            StorageError: A candidate does not exist, or not any more.
        """
        with self._writing() as connection:
            refinements.write(connection, records)

    def read_refinements(self, study_name: str) -> list[RefinementRecord]:
        """The refinements of a study in order of trial, rank and time."""
        with self._reading() as connection:
            return refinements.read(connection, study_name)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with storage_errors(self.engine.url):
            self._require_same_file()
            with reading(self.engine) as connection:
                yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with storage_errors(self.engine.url):
            self._require_same_file()
            with writing(self.engine) as connection:
                yield connection

    def _require_same_file(self) -> None:
        # An open file can be written after it was deleted, and everything written is lost on close.
        if self._path is not None and files.identity(self._path) != self._identity:
            raise StorageError(
                f"database {self._path} was deleted or replaced while in use", "restore the file, then resume"
            )
