"""Databases to test against: an SQLite file always, a private PostgreSQL server where one can be started."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from codesign_opt.db import BatchRecord, CandidateRecord, EvaluationRecord, StudyRecord, open_database

OWNER = "host-1:4711"
PASSWORD = "secret-of-the-test"
MOMENT = datetime(2026, 3, 29, 1, 30, 0, 250_000, tzinfo=UTC)


@dataclass(frozen=True)
class Server:
    """A running PostgreSQL server."""

    port: int

    def url(self, database: str, *, password: str = PASSWORD) -> str:
        """The address of a database, as a user would type it."""
        return f"postgresql://codesign:{password}@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Runs a statement outside any transaction."""
        psycopg = pytest.importorskip("psycopg")
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A private server with password authentication, for all tests of the session."""
    pytest.importorskip("psycopg")
    programs = _postgresql_programs()
    account = _unprivileged_account()
    directory = Path(tempfile.mkdtemp(prefix="codesign-postgresql-"))
    try:
        if account:
            shutil.chown(directory, account["user"], account["group"])
        with _running_server(programs, directory, account) as server:
            yield server
    finally:
        shutil.rmtree(directory, ignore_errors=True)


_database_numbers = count()


@pytest.fixture
def postgresql_url(postgresql: Server) -> Iterator[str]:
    """An empty PostgreSQL database."""
    name = f"test_{next(_database_numbers)}"
    postgresql.execute(f"CREATE DATABASE {name}")
    yield postgresql.url(name)
    postgresql.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'studies.db'}"
    address: str = request.getfixturevalue("postgresql_url")
    return address


@pytest.fixture
def study() -> Callable[..., StudyRecord]:
    """Makes a study record; keyword arguments replace its fields."""

    def make(name: str = "s", **fields: Any) -> StudyRecord:
        defaults: dict[str, Any] = {
            "name": name,
            "specification": '{"processors": 512}',
            "specification_hash": "9f2c",
            "versions": {"codesign_opt": "1.0", "python": "3.11"},
            "seed": 7,
            "created": MOMENT,
        }
        return StudyRecord(**defaults | fields)

    return make


@pytest.fixture
def batch() -> Callable[..., tuple[BatchRecord, list[EvaluationRecord]]]:
    """Makes a batch record and its evaluations, two candidates each."""

    def make(
        number: int = 0, first_trial: int = 0, trials: int = 3, **fields: Any
    ) -> tuple[BatchRecord, list[EvaluationRecord]]:
        record = BatchRecord(
            number=number, first_trial=first_trial, trials=trials, sampler="nsga2", seconds=0.5, finished=MOMENT
        )
        return record, [_evaluation(first_trial + position, **fields) for position in range(trials)]

    return make


@pytest.fixture
def held_study(url: str, study: Callable[..., StudyRecord]) -> str:
    """The address of a database with a study "s" whose lease OWNER holds."""
    with open_database(url) as database:
        database.create_study(study())
        database.acquire_lease("s", OWNER, 3600)
    return url


@pytest.fixture
def unprivileged() -> Callable[[], AbstractContextManager[None]]:
    """A context in which permission bits count, also when the tests run as root."""

    @contextmanager
    def drop() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)

    return drop


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that an unprivileged process may reach and write to."""
    directory = Path(tempfile.mkdtemp(prefix="codesign-files-"))
    directory.chmod(0o777)
    yield directory
    directory.chmod(0o777)
    shutil.rmtree(directory)


def _evaluation(number: int, **fields: Any) -> EvaluationRecord:
    defaults: dict[str, Any] = {
        "number": number,
        "key": f"memory_tier1.capacity={number}",
        "point": {"memory_tier1.capacity": 8.0e10 + number},
        "state": "complete",
        "values": {"step_time": 1.5 + number, "price": None},
        "constraints": {"memory_tier1_used <= 70 GiB": -1.0},
        "candidates": tuple(
            CandidateRecord(rank=rank, on_front=rank == 0, strategy={"tp": 8, "pp": rank}, metrics={"step_time": 1.5})
            for rank in range(2)
        ),
    }
    return EvaluationRecord(**defaults | fields)


def _postgresql_programs() -> Path:
    found = shutil.which("initdb") or max(Path("/usr/lib/postgresql").glob("*/bin/initdb"), default=None)
    if found is None:
        pytest.skip("PostgreSQL is not installed: no initdb")
    return Path(found).resolve().parent


def _unprivileged_account() -> dict[str, Any]:
    """Arguments with which `subprocess` gives up root, as which PostgreSQL refuses to run."""
    if os.geteuid() != 0:
        return {}
    try:
        group = pwd.getpwnam("postgres").pw_gid
    except KeyError:
        pytest.skip("PostgreSQL does not run as root, and there is no account named postgres")
    return {"user": "postgres", "group": group, "extra_groups": []}


@contextmanager
def _running_server(programs: Path, directory: Path, account: dict[str, Any]) -> Iterator[Server]:
    def run(program: str, *arguments: str) -> None:
        _run([str(programs / program), *arguments], directory, account)

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    password_file, data = directory / "password", str(directory / "data")
    password_file.write_text(PASSWORD)
    password_file.chmod(0o644)
    run(
        "initdb",
        "-D",
        data,
        "-U",
        "codesign",
        "-A",
        "scram-sha-256",
        f"--pwfile={password_file}",
        "-E",
        "UTF8",
        "--no-sync",
    )
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={directory} -c fsync=off"
    run("pg_ctl", "-D", data, "-w", "-l", str(directory / "log"), "-o", options, "start")
    try:
        yield Server(port)
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")


def _run(command: Sequence[str], directory: Path, account: dict[str, Any]) -> None:
    environment = {**os.environ, "LC_ALL": "C"}
    subprocess.run(
        command, cwd=directory, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=60, **account
    )
