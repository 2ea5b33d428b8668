"""baselines: what libraries take; records: the minute they were stored in

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

KEY = ("workload_key", "target_key", "clock", "threads", "library")


def upgrade() -> None:
    op.create_table(
        "baselines",
        sa.Column("workload_key", sa.String(length=16), nullable=False),
        sa.Column("target_key", sa.String(length=16), nullable=False),
        sa.Column("clock", sa.String(length=100), nullable=False),
        sa.Column("threads", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("library", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("seconds", sa.Float(53), nullable=False),
        sa.Column("measured", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["workload_key"], ["workloads.key"], name="fk_baselines_workload_key_workloads"
        ),
        sa.ForeignKeyConstraint(["target_key"], ["targets.key"], name="fk_baselines_target_key_targets"),
        sa.PrimaryKeyConstraint(*KEY, name="pk_baselines"),
    )
    # Not in batch mode: that would drop a table which others refer to.
    op.add_column("records", sa.Column("minute", sa.Integer(), nullable=True))
    op.create_index("ix_records_minute", "records", ["minute"])


def downgrade() -> None:
    op.drop_index("ix_records_minute", "records")
    op.drop_column("records", "minute")
    op.drop_table("baselines")
