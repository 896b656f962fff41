"""Which revision of the tables a database holds."""

from __future__ import annotations

from sqlalchemy import Connection, column, inspect, select, table

# Not the default `alembic_version`, which Optuna and others use in databases that may be shared.
VERSION_TABLE = "codesign_alembic_version"

# The newest migration, written down so that opening a database of this revision need not load Alembic.
REVISION = "0001"


def has_tables(connection: Connection) -> bool:
    """Whether the database holds tables of this package, of whatever revision."""
    return inspect(connection).has_table(VERSION_TABLE)


def stored_revision(connection: Connection) -> str | None:
    """The revision of the tables; None before the first migration."""
    if not has_tables(connection):
        return None
    version: str | None = connection.scalar(select(column("version_num")).select_from(table(VERSION_TABLE)))
    return version
