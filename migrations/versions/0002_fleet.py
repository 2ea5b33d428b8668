"""fleet: boards, leases, history; priority and tags of jobs

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# SQLite counts rows only in a column that is exactly INTEGER.
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    # Not in batch mode: that would drop a table which others refer to. SQLite alters columns itself.
    op.add_column("jobs", sa.Column("priority", sa.Integer(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("tags", sa.JSON(), server_default="[]", nullable=False))
    _remake_peaks("clock")
    op.create_table(
        "boards",
        sa.Column("id", sa.String(length=100), nullable=False),
        sa.Column("target_key", sa.String(length=16), nullable=False),
        sa.Column("clock", sa.String(length=100), nullable=False),
        sa.Column("threads", sa.Integer(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("health", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("reference_s", sa.Float(precision=53), nullable=True),
        sa.Column("reference_artifact", sa.String(length=100), nullable=False),
        sa.Column("last_check", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("checked", sa.DateTime(timezone=True), nullable=True),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.Column("busy_s", sa.Float(precision=53), nullable=False),
        sa.Column("timed_s", sa.Float(precision=53), nullable=False),
        sa.Column("leases", sa.Integer(), nullable=False),
        sa.Column("faults", sa.Integer(), nullable=False),
        sa.Column("enlisted", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["target_key"], ["targets.key"], name=op.f("fk_boards_target_key_targets")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_boards")),
    )
    op.create_table(
        "leases",
        sa.Column("token", ROW_ID, nullable=False),
        sa.Column("board", sa.String(length=100), nullable=False),
        sa.Column("holder", sa.String(length=200), nullable=False),
        sa.Column("purpose", sa.String(length=16), nullable=False),
        sa.Column("job", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("started", sa.Float(precision=53), nullable=False),
        sa.Column("expires", sa.Float(precision=53), nullable=False),
        sa.Column("ended", sa.Float(precision=53), nullable=True),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.Column("busy_s", sa.Float(precision=53), nullable=False),
        sa.Column("timed_s", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(["board"], ["boards.id"], name=op.f("fk_leases_board_boards")),
        sa.PrimaryKeyConstraint("token", name=op.f("pk_leases")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_leases_active",
        "leases",
        ["board"],
        unique=True,
        sqlite_where=sa.text("state = 'active'"),
        postgresql_where=sa.text("state = 'active'"),
    )
    op.create_index(op.f("ix_leases_board_ended"), "leases", ["board", "ended"])
    op.create_table(
        "board_history",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("board", sa.String(length=100), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["board"], ["boards.id"], name=op.f("fk_board_history_board_boards")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_board_history")),
    )
    op.create_index(op.f("ix_board_history_board_id"), "board_history", ["board", "id"])
    op.create_index(op.f("ix_board_history_at"), "board_history", ["at"])


def downgrade() -> None:
    _remake_peaks()
    op.drop_table("board_history")
    op.drop_table("leases")
    op.drop_table("boards")
    op.drop_column("jobs", "tags")
    op.drop_column("jobs", "priority")


def _remake_peaks(*more_of_key: str) -> None:
    """Peaks are measured again when they are wanted, so none is kept whose clock nobody knows."""
    op.drop_table("peaks")
    op.create_table(
        "peaks",
        sa.Column("target_key", sa.String(length=16), nullable=False),
        sa.Column("threads", sa.Integer(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.String(length=100), nullable=False) for name in more_of_key),
        sa.Column("gflops", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(["target_key"], ["targets.key"], name=op.f("fk_peaks_target_key_targets")),
        sa.PrimaryKeyConstraint("target_key", "threads", *more_of_key, name=op.f("pk_peaks")),
    )
