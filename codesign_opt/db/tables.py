"""The tables of a study database.

The migrations, not this module, create them; a test keeps the two equal. Names carry the prefix `codesign_`
because Optuna, which may share the database, has a table `studies` of its own.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

NAME_LENGTH = 255


class Moment(TypeDecorator[datetime]):
    """An aware datetime: a timestamp with time zone in PostgreSQL, ISO text in UTC in SQLite.

    The text has a fixed width, so that it sorts and compares as time does.
    """

    impl = String(32)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[datetime] | TypeEngine[str]:
        """The column type of the database."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(DateTime(timezone=True))
        return dialect.type_descriptor(String(32))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | str | None:
        """What is stored for a datetime."""
        if value is None:
            return None
        moment = value.astimezone(UTC)
        return moment if dialect.name == "postgresql" else moment.isoformat(timespec="microseconds")

    def process_result_value(self, value: datetime | str | None, dialect: Dialect) -> datetime | None:
        """The datetime for what is stored."""
        if value is None:
            return None
        return (datetime.fromisoformat(value) if isinstance(value, str) else value).astimezone(UTC)


# SQLite numbers rows by itself only in a column declared exactly INTEGER.
_ID = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

studies = Table(
    "codesign_studies",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("name", String(NAME_LENGTH), nullable=False),
    Column("specification", Text, nullable=False),
    Column("specification_hash", Text, nullable=False),
    Column("versions", Text, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("created", Moment, nullable=False),
    Column("batches", Integer, nullable=False),
    Column("trials", Integer, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("parent", String(NAME_LENGTH)),
    Column("lease_owner", Text),
    Column("lease_expires", Moment),
    UniqueConstraint("name"),
)

batches = Table(
    "codesign_batches",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("study_id", _ID, ForeignKey(studies.c.id, ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("first_trial", Integer, nullable=False),
    Column("trials", Integer, nullable=False),
    Column("sampler", Text, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("finished", Moment, nullable=False),
    UniqueConstraint("study_id", "number"),
)

evaluations = Table(
    "codesign_evaluations",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("study_id", _ID, ForeignKey(studies.c.id, ondelete="CASCADE"), nullable=False),
    Column("batch_id", _ID, ForeignKey(batches.c.id, ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("key", Text, nullable=False),
    Column("point", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("values", Text, nullable=False),
    Column("constraints", Text, nullable=False),
    Column("repeat_of", Integer),
    UniqueConstraint("study_id", "number"),
    CheckConstraint("state IN ('complete', 'infeasible', 'failed')", name="state"),
    Index(None, "batch_id"),
)

candidates = Table(
    "codesign_candidates",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("study_id", _ID, ForeignKey(studies.c.id, ondelete="CASCADE"), nullable=False),
    Column("evaluation_id", _ID, ForeignKey(evaluations.c.id, ondelete="CASCADE"), nullable=False),
    Column("rank", Integer, nullable=False),
    Column("on_front", Boolean, nullable=False),
    Column("strategy", Text, nullable=False),
    Column("metrics", Text, nullable=False),
    UniqueConstraint("evaluation_id", "rank"),
    Index(None, "study_id"),
    # A refinement that arrives after its study was deleted must not meet a new candidate under the old id.
    sqlite_autoincrement=True,
)

refinements = Table(
    "codesign_refinements",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("candidate_id", _ID, ForeignKey(candidates.c.id, ondelete="CASCADE"), nullable=False),
    Column("simulator_version", String(NAME_LENGTH), nullable=False),
    Column("metrics", Text, nullable=False),
    Column("notes", Text, nullable=False),
    Column("created", Moment, nullable=False),
    UniqueConstraint("candidate_id", "simulator_version"),
)
