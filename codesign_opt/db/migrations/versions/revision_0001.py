"""The first tables: studies, batches, evaluations, candidates and refinements."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_MOMENT = sa.String(32).with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Creates the tables."""
    _create_studies()
    _create_batches()
    _create_evaluations()
    _create_candidates()
    _create_refinements()


def _create_studies() -> None:
    op.create_table(
        "codesign_studies",
        sa.Column("id", _ID, nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("specification", sa.Text(), nullable=False),
        sa.Column("specification_hash", sa.Text(), nullable=False),
        sa.Column("versions", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("created", _MOMENT, nullable=False),
        sa.Column("batches", sa.Integer(), nullable=False),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("parent", sa.String(255)),
        sa.Column("lease_owner", sa.Text()),
        sa.Column("lease_expires", _MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_codesign_studies"),
        sa.UniqueConstraint("name", name="uq_codesign_studies_name"),
    )


def _create_batches() -> None:
    op.create_table(
        "codesign_batches",
        sa.Column("id", _ID, nullable=False),
        sa.Column("study_id", _ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("first_trial", sa.Integer(), nullable=False),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.Column("sampler", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("finished", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_codesign_batches"),
        _reference("codesign_batches", "study_id", "codesign_studies"),
        sa.UniqueConstraint("study_id", "number", name="uq_codesign_batches_study_id_number"),
    )


def _create_evaluations() -> None:
    op.create_table(
        "codesign_evaluations",
        sa.Column("id", _ID, nullable=False),
        sa.Column("study_id", _ID, nullable=False),
        sa.Column("batch_id", _ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("point", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("values", sa.Text(), nullable=False),
        sa.Column("constraints", sa.Text(), nullable=False),
        sa.Column("repeat_of", sa.Integer()),
        sa.PrimaryKeyConstraint("id", name="pk_codesign_evaluations"),
        _reference("codesign_evaluations", "study_id", "codesign_studies"),
        _reference("codesign_evaluations", "batch_id", "codesign_batches"),
        sa.UniqueConstraint("study_id", "number", name="uq_codesign_evaluations_study_id_number"),
        sa.CheckConstraint("state IN ('complete', 'infeasible', 'failed')", name="ck_codesign_evaluations_state"),
    )
    op.create_index("ix_codesign_evaluations_batch_id", "codesign_evaluations", ["batch_id"])


def _create_candidates() -> None:
    op.create_table(
        "codesign_candidates",
        sa.Column("id", _ID, nullable=False),
        sa.Column("study_id", _ID, nullable=False),
        sa.Column("evaluation_id", _ID, nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("on_front", sa.Boolean(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("metrics", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_codesign_candidates"),
        _reference("codesign_candidates", "study_id", "codesign_studies"),
        _reference("codesign_candidates", "evaluation_id", "codesign_evaluations"),
        sa.UniqueConstraint("evaluation_id", "rank", name="uq_codesign_candidates_evaluation_id_rank"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_codesign_candidates_study_id", "codesign_candidates", ["study_id"])


def _create_refinements() -> None:
    op.create_table(
        "codesign_refinements",
        sa.Column("id", _ID, nullable=False),
        sa.Column("candidate_id", _ID, nullable=False),
        sa.Column("simulator_version", sa.String(255), nullable=False),
        sa.Column("metrics", sa.Text(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("created", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_codesign_refinements"),
        _reference("codesign_refinements", "candidate_id", "codesign_candidates"),
        sa.UniqueConstraint(
            "candidate_id", "simulator_version", name="uq_codesign_refinements_candidate_id_simulator_version"
        ),
    )


def _reference(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{target}.id"], name=f"fk_{table}_{column}", ondelete="CASCADE")
