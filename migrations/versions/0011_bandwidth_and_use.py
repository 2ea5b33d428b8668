"""bandwidths: what cores read from memory; boards: kind and place; board_days: use by day

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "bandwidths",
        sa.Column("target_key", sa.String(length=16), nullable=False),
        sa.Column("threads", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("clock", sa.String(length=100), nullable=False),
        sa.Column("gbs", sa.Float(53), nullable=False),
        sa.ForeignKeyConstraint(["target_key"], ["targets.key"], name="fk_bandwidths_target_key_targets"),
        sa.PrimaryKeyConstraint("target_key", "threads", "clock", name="pk_bandwidths"),
    )
    op.create_table(
        "board_days",
        sa.Column("board", sa.String(length=100), nullable=False),
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("leases", sa.Integer(), nullable=False),
        sa.Column("leased_s", sa.Float(53), nullable=False),
        sa.Column("timed_s", sa.Float(53), nullable=False),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["board"], ["boards.id"], name="fk_board_days_board_boards"),
        sa.PrimaryKeyConstraint("board", "day", name="pk_board_days"),
    )
    # Not in batch mode: that would drop a table which others refer to.
    op.add_column("boards", sa.Column("kind", sa.String(length=100), nullable=False, server_default=""))
    op.add_column("boards", sa.Column("place", sa.String(length=300), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("boards", "place")
    op.drop_column("boards", "kind")
    op.drop_table("board_days")
    op.drop_table("bandwidths")
