"""Migrations: from any earlier revision of the tables to the present one, in one transaction.

Alembic is imported inside the functions, because opening a database that is up to date does not need it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, text

from codesign_opt.db.engine import TIMEOUT_SECONDS, make_engine, reading, writing
from codesign_opt.db.failures import storage_errors
from codesign_opt.db.files import require_usable
from codesign_opt.db.schema import REVISION, has_tables, stored_revision
from codesign_opt.db.urls import describe, file_path, parse_url
from codesign_opt.errors import StorageError

if TYPE_CHECKING:
    from alembic.config import Config

SCRIPTS = Path(__file__).parent / "migrations"

# Any number does, as long as nobody else locks it in the same PostgreSQL database.
_ADVISORY_LOCK = 0x636F646573696776


def upgrade(url: str) -> tuple[str | None, str]:
    """Brings the tables at `url` to the present revision.

    Returns:
        The revisions before and after; equal when there was nothing to do.

    Raises:
        StorageError: There is no study database, it cannot be used, or it is newer than this version.
    """
    address = parse_url(url)
    path = file_path(address)
    with storage_errors(address):
        if path is not None:
            require_usable(path, create=False)
        # Rebuilding a table drops it, which with foreign keys enforced would delete all that refers to it.
        engine = make_engine(address, timeout_seconds=TIMEOUT_SECONDS, foreign_keys=False)
        try:
            with reading(engine) as connection:
                if not has_tables(connection):
                    raise _without_studies(engine)
            return _migrate(engine)
        finally:
            engine.dispose()


def require_current(engine: Engine, *, create: bool) -> None:
    """Creates the tables in an empty database, and refuses one of another revision.

    Raises:
        StorageError: The tables are older or newer than this version, or absent and not to be created.
    """
    with reading(engine) as connection:
        present, revision = has_tables(connection), stored_revision(connection)
    if not present:
        if not create:
            raise _without_studies(engine)
        _migrate(engine)
    elif revision != REVISION:
        if not _is_known(revision):
            raise _too_new(engine, revision)
        raise StorageError(
            f"database {describe(engine.url)} has the older schema {revision}; this version needs {REVISION}",
            "make a backup, then run: codesign-opt db upgrade",
        )


def _migrate(engine: Engine) -> tuple[str | None, str]:
    from alembic import command

    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
        before = stored_revision(connection)
        if not _is_known(before):
            raise _too_new(engine, before)
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        _require_references(connection)
        return before, str(stored_revision(connection))


def _is_known(revision: str | None) -> bool:
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    return revision is None or revision in {script.revision for script in scripts}


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    # A percent sign would start an interpolation.
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    return config


def _require_references(connection: Connection) -> None:
    if connection.dialect.name == "sqlite" and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
        raise StorageError(
            f"database {describe(connection.engine.url)} holds rows that refer to missing ones; left as it was",
            "restore a backup",
        )


def _without_studies(engine: Engine) -> StorageError:
    return StorageError(
        f"database {describe(engine.url)} holds no study tables",
        "check the address, or run a search, which creates them",
    )


def _too_new(engine: Engine, revision: str | None) -> StorageError:
    return StorageError(
        f"database {describe(engine.url)} has the schema {revision}, newer than the {REVISION} of this version",
        "install a newer codesign-opt",
    )
